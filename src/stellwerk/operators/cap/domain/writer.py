"""The only code that writes the objects of domains.

Objects in the domain's own namespace are controlled by it, so that the garbage collector deletes them with it.
Certificates and Secrets may be in the namespace of the ingress gateway; these are identified by the owner's label, and
deleted by the controller. Whether an object must be written is decided by the hash that it carries.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import ControllerOwner, LabelOwner, Ownership
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.model import metadata_of, owner_reference
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.plan import SortedOut
from stellwerk.operators.cap.hashed_objects import HashedObjects, Written
from stellwerk.runtime.control import finalizer

_NAMESPACE_GOES = frozenset((Obstacle.NAMESPACE_TERMINATING, Obstacle.NAMESPACE_MISSING))


@dataclass(slots=True)
class DomainWritten(Written):
    """What came of writing the objects of a domain."""

    refused_policies: dict[str, str] = field(default_factory=dict[str, str])
    """By namespace, why its network policy cannot be as it should be. It costs the domain nothing."""


@dataclass(frozen=True, slots=True)
class DomainWriter:
    """Applies and deletes the objects of domains."""

    objects: HashedObjects

    async def apply(
        self,
        domain: AnyDomain,
        live: Mapping[Address, Live],
        wanted: SortedOut,
        memory: ObservedState,
    ) -> DomainWritten:
        """Have these objects as they should be. Raises ApiError where the API server does not answer."""
        written = DomainWritten()
        for kept_by_label, part in ((True, wanted.kept_by_label), (False, wanted.controlled)):
            owner = ownership_of(domain, kept_by_label=kept_by_label)
            await self.objects.apply(owner, part, live, memory, written)
        for policy in wanted.policies:  # each by itself: many namespaces share a ClusterDomain, and one may refuse it
            alone, owner = Written(), ownership_of(domain, kept_by_label=False)
            await self.objects.apply(owner, {policy.address: (policy.desired, policy.hash)}, live, memory, alone)
            written.is_changed |= alone.is_changed
            # The end of one that is not ours wakes no domain.
            unmet = alone.unmet or ([] if policy.address in live or alone.is_changed else alone.waits)
            if unmet and not alone.obstacles & _NAMESPACE_GOES:  # nothing is reached in a namespace that goes
                written.refused_policies[policy.address.key.namespace] = "; ".join(unmet)
        return written

    async def delete(self, objects: Collection[tuple[Address, Live]]) -> bool:
        """Delete these very objects, without their finalizer of ours. Returns whether there were any.

        Raises ApiError; Conflict also where another object has the name of one.
        """
        client = self.objects.client
        for address, live in objects:
            view, key = metadata_of(address.resource), address.key
            try:
                await finalizer.remove_from(client, view, live, names.DOMAIN_FINALIZER)
                await client.delete(view, key.name, key.namespace, uid=live.metadata.uid)
            except NotFound:
                continue
        return bool(objects)


def ownership_of(domain: AnyDomain, *, kept_by_label: bool) -> Ownership:
    """The domain as the owner of its objects: by an owner reference, or by its label alone."""
    found = naming.owner_labels(domain)
    if kept_by_label:
        return LabelOwner(names.OPERATOR_NAME, found, takes_all=False, hash_key=names.RESOURCE_HASH_ANNOTATION)
    return ControllerOwner(names.OPERATOR_NAME, owner_reference(domain), found, names.RESOURCE_HASH_ANNOTATION)
