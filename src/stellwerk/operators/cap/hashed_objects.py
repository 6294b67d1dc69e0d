"""Objects that carry a hash of what they should be: written where the hash differs, and left alone where it does not.

Fields that the original operator wrote become ours at the first change, so that what is no longer asked for goes away.
Labels and annotations of other clients stay. What decides where requests go is compared by its fields as well, because
the hash is still there after another client has edited the object (`designs/rollout.md`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.apply.errors import Obstacle
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import ControllerOwner, Ownership, Standing
from stellwerk.apply.set.model.policy import AdoptionPolicy, Directive, UpdatePolicy
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.apply.set.plan.stage import Throttled
from stellwerk.apply.set.untracked_set import UntrackedSet
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonValue, Kind, Unstructured, metadata_of, owner_reference
from stellwerk.operators.cap import names
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock

_DIRECTIVE = Directive(adoption=AdoptionPolicy.NEVER, update=UpdatePolicy.SSA_OVERRIDE)
_COMPARED = (VirtualService.resource, Gateway.resource)
_AT_ONCE = 100
"""How many objects are planned before others have the event loop."""
ORIGINAL = Claims(lambda manager: manager == "controller")
"""The original writes under the name of its program."""
OBJECT_BYTES = 1 << 10
"""Of an object, as a measure of the work on it (`threads.run_if_large`)."""


@dataclass(slots=True)
class Written:
    """What came of writing objects."""

    is_changed: bool = False
    """Whether anything was written or deleted."""
    problems: list[str] = field(default_factory=list)
    """Why objects could not be written."""
    throttled: list[Throttled] = field(default_factory=list[Throttled])
    """Objects that others change again and again, which wait for their turn."""
    waits: list[str] = field(default_factory=list)
    """Objects that are being deleted, whose end is waited for; where something was written, those objects as well."""
    answers: list[Live] = field(default_factory=list[Live])
    """What was written, as the API server has answered."""
    obstacles: set[Obstacle] = field(default_factory=set[Obstacle])
    """What stood in the way of the objects that could not be written."""

    @property
    def is_taken(self) -> bool:
        """Whether an object belongs to another owner."""
        return Obstacle.OWNED in self.obstacles

    @property
    def unmet(self) -> list[str]:
        """Why objects are not as they should be, for whatever cause."""
        return [*self.problems, *map(described, self.throttled)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HashedObjects:
    """Writes objects with a hash. `informers` expect each write."""

    client: Client
    clock: Clock
    informers: Mapping[Resource, Informer[Live]]
    on_throttled: Callable[[int], None]
    """Called with the number of objects that others change again and again."""

    async def apply(
        self,
        owner: Ownership,
        wanted: Mapping[Address, tuple[Desired, str]],
        live: Mapping[Address, Live],
        memory: ObservedState,
        written: Written,
    ) -> None:
        """Have these objects, each with its hash, and note in `written` what came of it.

        Raises ApiError where the API server does not answer.
        """
        # The set decides the same, but takes three times as long for each of a thousand DNS entries.
        due = await threads.run_if_large(
            len(wanted) * OBJECT_BYTES,
            lambda: [each for each in wanted if not is_written(owner, live.get(each), *wanted[each])],
        )
        for begin in range(0, len(due), _AT_ONCE):
            batch = due[begin : begin + _AT_ONCE]
            progress = await UntrackedSet(
                client=self.client,
                owner=owner,
                memory=memory,
                live={each: _as_due(wanted[each][0], live[each]) for each in batch if each in live},
                now=self.clock.now(),
                clock=self.clock.monotonic(),
                reclaims=ORIGINAL,
                directive=_DIRECTIVE,
                digest_of=lambda desired: wanted[desired.address][1],
            ).apply([wanted[address][0] for address in batch])
            self._note(progress, written)

    async def delete(self, address: Address, live: Live) -> None:
        """Delete this very object. Raises Conflict where another object has its name."""
        key = address.key
        with contextlib.suppress(NotFound):
            await self.client.delete(metadata_of(address.resource), key.name, key.namespace, uid=live.metadata.uid)

    def _note(self, progress: SetProgress, written: Written) -> None:
        self.on_throttled(len(progress.throttled))
        for result in progress.carried:
            written.is_changed = True
            if result.live is not None:
                informer = self.informers[result.address.resource]
                informer.expect(result.address.key, result.live.metadata.resource_version)
                written.answers.append(result.live)
        for failure in progress.failures:
            if failure.obstacle is Obstacle.OUTAGE:
                raise failure.error
            written.obstacles.add(failure.obstacle)
            written.problems.append(str(failure))
        written.waits += map(str, progress.waits)
        written.throttled += progress.throttled


def described(throttled: Throttled) -> str:
    """An object that waits for its turn, and the clients that change it."""
    managers = ", ".join(throttled.managers) or "another client"
    return f"{throttled.ref} is changed by {managers} again and again"


def owner_of(obj: Kind) -> ControllerOwner:
    """An object as the owner of those that go with it."""
    return ControllerOwner(names.OPERATOR_NAME, owner_reference(obj), {}, names.RESOURCE_HASH_ANNOTATION)


def is_written(owner: Ownership, live: Live | None, desired: Desired, hash: str) -> bool:
    """Whether a live object is ours, carries the hash of what is wanted, and was not edited since."""
    if live is None or live.metadata.is_terminating:
        return False
    if owner.standing(live.metadata) is not Standing.OURS or owner.digest_on(live.metadata) != hash:
        return False
    return not is_edited(desired, live)


def is_edited(desired: Desired, live: Live) -> bool:
    """Whether another client has changed a field of the spec that is wanted. Other fields are its own.

    Only of Istio's kinds: their objects are stored as they are written, while defaults and other controllers change
    those of other kinds.
    """
    if desired.address.resource not in _COMPARED or not isinstance(live, Unstructured):
        return False
    return not _has(live.at("spec"), desired.body.get("spec"))


def _has(found: JsonValue, wanted: JsonValue) -> bool:
    """Whether a value has all fields of another one. A list is one field, as for server-side apply."""
    if not isinstance(wanted, dict):
        return found == wanted
    return isinstance(found, dict) and all(_has(found.get(name), value) for name, value in wanted.items())


def _as_due(desired: Desired, live: Live) -> Live:
    """An object as the set sees it: one that was edited has no hash, so that it is written."""
    if not isinstance(live, Unstructured) or not is_edited(desired, live):
        return live
    annotations = {**live.metadata.annotations}
    annotations.pop(names.RESOURCE_HASH_ANNOTATION, None)
    return Unstructured(live.body, msgspec.structs.replace(live.metadata, annotations=annotations))
