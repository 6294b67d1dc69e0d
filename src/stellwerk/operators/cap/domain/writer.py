"""The only code that writes the objects of domains.

Objects in the domain's own namespace are controlled by it, so that the garbage collector deletes them with it.
Certificates and Secrets may be in the namespace of the ingress gateway; these are identified by the owner's label, and
deleted by the controller. Whether an object must be written is decided by the hash that it carries.

Fields that the original operator wrote become ours at the first change, so that what the domain no longer asks for goes
away. Labels and annotations of other clients stay.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import ControllerOwner, LabelOwner, Ownership, Standing
from stellwerk.apply.set.model.policy import AdoptionPolicy, Directive, UpdatePolicy
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.untracked_set import UntrackedSet
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Conflict, NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import metadata_of, owner_reference
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.plan import is_kept_by_label
from stellwerk.operators.cap.domain.resources import DomainResource
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer

_DIRECTIVE = Directive(adoption=AdoptionPolicy.NEVER, update=UpdatePolicy.SSA_OVERRIDE)
_ORIGINAL = Claims(lambda manager: manager == "controller")
"""The original writes under the name of its program."""


@dataclass(slots=True)
class Written:
    """What came of a pass over the objects of a domain."""

    is_changed: bool = False
    """Whether anything was written or deleted."""
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainWriter:
    """Applies and deletes the objects of domains."""

    client: Client
    clock: Clock
    informers: Mapping[Resource, Informer[Live]]

    async def apply(
        self,
        domain: AnyDomain,
        live: Mapping[Address, Live],
        resources: Collection[DomainResource],
        memory: ObservedState,
    ) -> Written:
        """Have these objects as they should be. Raises ApiError where the API server does not answer."""
        memory.keep_only([resource.address for resource in resources])
        written = Written()
        for kept_by_label in (True, False):
            owner = _owner(domain, kept_by_label=kept_by_label)
            # The set decides the same, but takes three times as long for each of a thousand DNS entries.
            part = [
                each
                for each in resources
                if is_kept_by_label(each.address.resource) is kept_by_label
                and not _is_written(owner, live.get(each.address), each.hash)
            ]
            if not part:
                continue
            hashes = {resource.address: resource.hash for resource in part}
            untracked = UntrackedSet(
                client=self.client,
                owner=owner,
                memory=memory,
                live={address: live[address] for address in hashes if address in live},
                now=self.clock.now(),
                clock=self.clock.monotonic(),
                reclaims=_ORIGINAL,
                directive=_DIRECTIVE,
                digest_of=lambda desired, hashes=hashes: hashes[desired.address],  # type: ignore[misc]
            )
            progress = await untracked.apply([resource.desired for resource in part])
            self._note(progress, written)
        return written

    async def delete(self, objects: Iterable[tuple[Address, Live]]) -> bool:
        """Delete these very objects, without their finalizer of ours. Returns whether there were any."""
        is_changed = False
        for address, live in objects:
            view, key = metadata_of(address.resource), address.key
            patch = finalizer.removing(live, names.DOMAIN_FINALIZER)
            is_changed = True
            try:
                if patch is not None:
                    await self.client.patch(view, key.name, key.namespace, patch, field_validation="Ignore")
                await self.client.delete(view, key.name, key.namespace, uid=live.metadata.uid)
            except NotFound:
                continue
            except Conflict:
                if await self.client.find(view, key.name, key.namespace) is not None:
                    raise
        return is_changed

    def _note(self, progress: SetProgress, written: Written) -> None:
        for result in progress.carried:
            written.is_changed = True
            if result.live is not None:
                informer = self.informers[result.address.resource]
                informer.expect(result.address.key, result.live.metadata.resource_version)
        for failure in progress.failures:
            if failure.obstacle is Obstacle.OUTAGE:
                raise failure.error
            written.problems.append(str(failure))
        for throttled in progress.throttled:
            managers = ", ".join(throttled.managers) or "another client"
            written.problems.append(f"{throttled.ref} is changed by {managers} again and again")


def _is_written(owner: Ownership, live: Live | None, hash: str) -> bool:
    """Whether a live object is ours and carries the hash of what is wanted."""
    if live is None or live.metadata.is_terminating:
        return False
    return owner.standing(live.metadata) is Standing.OURS and owner.digest_on(live.metadata) == hash


def _owner(domain: AnyDomain, *, kept_by_label: bool) -> Ownership:
    found = naming.owner_labels(domain)
    if kept_by_label:
        return LabelOwner(names.OPERATOR_NAME, found, takes_all=False, hash_key=names.RESOURCE_HASH_ANNOTATION)
    return ControllerOwner(names.OPERATOR_NAME, owner_reference(domain), found, names.RESOURCE_HASH_ANNOTATION)
