"""One pass: stage after stage, until nothing is left that could be written now.

A stage is decided from what is seen, carried out, and its answers are added to what is seen; so a set whose objects are
ready at once is through in one pass, and nothing is read to find that out. What takes its time arrives as a change of a
cache, and the caller passes again.

Two moments cannot be crossed within a pass: before an object is touched for the first time, and before one that has
done its work is deleted, the inventory has to be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from stellwerk.apply.desired import Address
from stellwerk.apply.errors import Failure, Obstacle
from stellwerk.apply.plan import Confirmation, Live
from stellwerk.apply.rollout import departures, register, waves
from stellwerk.apply.rollout.actions import Action, LookUp, Release, Remove, Update
from stellwerk.apply.rollout.carry import Carried, Carrier
from stellwerk.apply.rollout.decide import drifted
from stellwerk.apply.rollout.existing import Owned, existing
from stellwerk.apply.rollout.inventory import Entry, Identity, Inventory
from stellwerk.apply.rollout.owner import Owner
from stellwerk.apply.rollout.policy import MissingNamespacesPolicy, Policies
from stellwerk.apply.rollout.prepare import NAMESPACE, Wanted, is_definition
from stellwerk.apply.rollout.scene import Habits, Scene, Seen
from stellwerk.apply.rollout.stage import Stage, Unready
from stellwerk.apply.rollout.usage import Usage
from stellwerk.apply.together import together
from stellwerk.kube.client import Client
from stellwerk.kube.errors import AlreadyExists, Conflict, Status
from stellwerk.kube.meta import kubernetes_time
from stellwerk.kube.model import JsonObject, PartialObjectMetadata, Unstructured, metadata_of
from stellwerk.kube.names import ObjectRef, Resource

_NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
_STAGES_PER_OBJECT = 10
"""More than any way through a set takes: a wave of its own, created, purged, completed."""
_SURPRISES = 4
"""How often in one pass an object may be otherwise than it was just seen."""


@dataclass(slots=True)
class Memory:
    """What a process remembers of a set from pass to pass. Losing it costs a few requests and nothing else."""

    confirmations: dict[Address, Confirmation] = field(default_factory=dict)
    removed: dict[Identity, str] = field(default_factory=dict)
    """Objects that we asked the server to delete, by uid: when a cache that has shown them shows them no more, they are
    gone."""

    def forget(self, identity: Identity, address: Address | None) -> None:
        """The object is no longer part of the set."""
        self.removed.pop(identity, None)
        if address is not None:
            self.confirmations.pop(address, None)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a pass has come."""

    inventory: Inventory
    done: bool = False
    must_be_saved: bool = False
    """The inventory has to be saved before the next pass."""
    waits: tuple[Unready, ...] = ()
    failures: tuple[Failure, ...] = ()
    carried: tuple[Carried, ...] = ()
    """What was written, in order."""
    again_at: float | None = None
    """When to pass again though nothing changes, on the clock's seconds."""
    drifted: Mapping[Address, Update] = field(default_factory=dict)
    """What others have changed and we have left as it is until it is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """Passes over one set, with one client."""

    client: Client
    owner: Owner
    policies: Policies = field(default_factory=Policies)
    habits: Habits = field(default_factory=Habits)
    memory: Memory
    namespace_exists: Callable[[str], bool | None]
    """Whether a cache knows a namespace; None where there is no such cache."""
    owned: Owned | None = None
    """Looks up an object of any owner in the caches; None where there are no caches."""
    now: datetime
    clock: float

    async def apply(
        self,
        wanted: Sequence[Wanted],
        inventory: Inventory,
        seen: Mapping[Identity, Seen],
        resources: Mapping[Identity, Resource],
    ) -> Progress:
        """Bring the set towards what is wanted, as far as it goes now.

        `seen` are the set's objects as caches show them; `resources` tells where the kinds of the inventory are served.
        Raises `InvalidSet` before anything is written, and ApiError where the cluster cannot be asked. An object that
        turns out to be somebody else's later is a failure.
        """
        newcomers = register.newcomers(wanted, inventory)
        found = await existing(self.client, newcomers, self.namespace_exists, self.owned) if newcomers else {}
        registered = register.register(wanted, inventory, found, self.owner)
        if registered.must_be_saved:
            return Progress(registered.inventory, must_be_saved=True)
        namespaces = _Namespaces(self, wanted)
        await namespaces.create_known_missing()
        pass_ = _Pass(self, dict(seen), resources, namespaces)
        progress = await pass_.run(
            registered.inventory, lambda inventory, scene: waves.next_stage(wanted, inventory, scene)
        )
        if not progress.done or self.habits.repairs_drift:
            return progress
        return replace(progress, drifted=drifted(wanted, pass_.scene()))

    async def delete(
        self, inventory: Inventory, seen: Mapping[Identity, Seen], resources: Mapping[Identity, Resource]
    ) -> Progress:
        """Take the whole set away, as far as it goes now. Whether it may go at all is `Usage.obstacle`'s to say."""
        return await _Pass(self, dict(seen), resources, _Namespaces(self, ())).run(inventory, departures.of_set)


class _Namespaces:
    """Namespaces that objects need and that are not objects themselves. They belong to nobody, and stay."""

    def __init__(self, rollout: Rollout, wanted: Sequence[Wanted]) -> None:
        self._rollout = rollout
        self._made: set[str] = set()
        self._missing: frozenset[str] = frozenset()
        if rollout.policies.missing_namespaces is MissingNamespacesPolicy.CREATE:
            own = {one.address.key.name for one in wanted if (one.identity.group, one.identity.kind) == NAMESPACE}
            self._missing = frozenset({one.address.key.namespace for one in wanted} - own - {""})

    async def create_known_missing(self) -> None:
        """Make those that a cache says are missing. Where there is no cache, the first object's refusal tells."""
        await together(
            [name for name in sorted(self._missing) if self._rollout.namespace_exists(name) is False], self._create
        )

    async def mend(self, failures: Sequence[Failure]) -> list[Failure]:
        """Make the namespaces that objects were refused for, each once. Returns what was something else."""
        lacking = {each.ref.key.namespace for each in failures if each.obstacle is Obstacle.NAMESPACE_MISSING}
        made = (lacking & self._missing) - self._made
        await together(sorted(made), self._create)
        return [
            each
            for each in failures
            if each.obstacle is not Obstacle.NAMESPACE_MISSING or each.ref.key.namespace not in made
        ]

    async def _create(self, name: str) -> None:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self._made.add(name)
        try:
            await self._rollout.client.create(metadata_of(_NAMESPACES), body, field_manager=self._rollout.owner.prefix)
        except AlreadyExists:
            return


class _Pass:
    """The loop over the stages of one pass, and what it learns on the way."""

    def __init__(
        self,
        rollout: Rollout,
        seen: MutableMapping[Identity, Seen],
        resources: Mapping[Identity, Resource],
        namespaces: _Namespaces,
    ) -> None:
        self._rollout = rollout
        self._memory = rollout.memory
        self._seen = seen
        self._resources = resources
        self._namespaces = namespaces
        self._absent = {identity for identity in rollout.memory.removed if identity not in seen}
        self._in_use: dict[Identity, str] = {}
        self._asked: set[Identity] = set()
        self._carried: list[Carried] = []
        self._surprises: dict[Address, int] = {}
        self._carrier = Carrier(
            client=rollout.client,
            field_manager=rollout.owner.prefix,
            reclaims=rollout.habits.reclaims,
            clock=rollout.clock,
        )

    def scene(self) -> Scene:
        """The set as it looks now."""
        rollout = self._rollout
        return Scene(
            owner=rollout.owner,
            policies=rollout.policies,
            habits=rollout.habits,
            seen=self._seen,
            resources=self._resources,
            absent=self._absent,
            in_use=self._in_use,
            confirmations=self._memory.confirmations,
            now=rollout.now,
            clock=rollout.clock,
        )

    async def run(self, inventory: Inventory, decide: Callable[[Inventory, Scene], Stage]) -> Progress:
        """Stage after stage. Raises ApiError where the cluster cannot be asked."""
        for _ in range(_STAGES_PER_OBJECT * (len(inventory) + 1)):
            stage = decide(inventory, self.scene())
            if await self._asks_for_usage(inventory, stage.actions):
                continue
            self._forget(inventory, stage.inventory)
            inventory = stage.inventory
            if stage.refused or stage.must_be_saved or stage.done or not (stage.groups or stage.again):
                return self._progress(inventory, stage, [foreign(each) for each in stage.refused])
            inventory, failures = await self._carry_out(inventory, stage)
            if failures:
                return self._progress(inventory, stage, failures)
        raise AssertionError("a rollout that never comes to rest")

    def _progress(self, inventory: Inventory, stage: Stage, failures: Iterable[Failure]) -> Progress:
        return Progress(
            inventory,
            done=stage.done,
            must_be_saved=stage.must_be_saved,
            waits=stage.waits,
            failures=tuple(failures),
            carried=tuple(self._carried),
            again_at=stage.again_at,
        )

    async def _asks_for_usage(self, inventory: Inventory, actions: Collection[Action]) -> bool:
        """Find out, once in a pass, whether definitions that are about to go are in use. Whether anything was asked:
        then the stage has to be decided anew."""
        going = {Identity.of(action.address.ref) for action in actions if isinstance(action, Remove | Release)}
        unasked = [
            entry
            for entry in (inventory if going else ())
            if entry.identity in going and is_definition(entry.gvk) and entry.identity not in self._asked
        ]
        if not unasked:
            return False
        self._in_use |= await Usage(self._rollout.client, self._rollout.owner).in_use(unasked)
        self._asked |= {entry.identity for entry in unasked}
        return True

    async def _carry_out(self, inventory: Inventory, stage: Stage) -> tuple[Inventory, list[Failure]]:
        for group in stage.groups:
            results = await together(group, self._carrier.carry_out)
            carried = [result for result in results if isinstance(result, Carried)]
            inventory = self._learn(inventory, carried)
            failures = [result for result in results if isinstance(result, Failure)]
            failures += [failure for each in carried if (failure := self._fight(each)) is not None]
            if failures:
                return inventory, await self._namespaces.mend(failures)
        return inventory, []

    # Learning from answers

    def _learn(self, inventory: Inventory, carried: Iterable[Carried]) -> Inventory:
        known = inventory.by_identity()
        changes: dict[Identity, Entry | None] = {}
        for each in carried:
            identity = Identity.of(each.address.ref)
            self._see(identity, each)
            if each.done and not isinstance(each.action, LookUp):
                self._carried.append(each)
            if each.confirmation is not None:
                self._confirm(each.address, each.confirmation)
                changes[identity] = replace(known[identity], last_applied_at=kubernetes_time(self._rollout.now))
        return inventory.changed(changes)

    def _see(self, identity: Identity, each: Carried) -> None:
        live = each.live
        if each.stays and isinstance(each.action, Remove):
            self._memory.removed[identity] = each.action.uid
            live = _terminating(self._seen[identity].live, self._rollout.now)
        if live is None:
            self._seen.pop(identity, None)
            if each.done:
                self._absent.add(identity)
                self._memory.removed.pop(identity, None)
            return
        self._seen[identity] = Seen(each.address, live)
        self._absent.discard(identity)
        if not live.metadata.is_terminating:
            self._memory.removed.pop(identity, None)

    def _confirm(self, address: Address, confirmation: Confirmation) -> None:
        """Remember it. When we last restored the object is not forgotten with what we then made of it."""
        before = self._memory.confirmations.get(address)
        restored_at = confirmation.restored_at or (before.restored_at if before is not None else None)
        self._memory.confirmations[address] = replace(confirmation, restored_at=restored_at)

    def _forget(self, before: Inventory, after: Inventory) -> None:
        """What has left the set: nothing that is remembered of it may be held against a successor."""
        if len(before) == len(after):
            return
        kept = {entry.identity for entry in after}
        for entry in before:
            if entry.identity not in kept:
                resource = self._resources.get(entry.identity)
                self._memory.forget(entry.identity, Address(resource, entry.key) if resource is not None else None)

    def _fight(self, each: Carried) -> Failure | None:
        """An object that is never as we just saw it is left for the next pass."""
        if each.done:
            return None
        times = self._surprises[each.address] = self._surprises.get(each.address, 0) + 1
        return changing(each.address.ref) if times > _SURPRISES else None


def _terminating(live: Live, now: datetime) -> Live:
    """An object as it looks when it is being deleted, and as far as it is known."""
    metadata = msgspec.structs.replace(live.metadata, deletion_timestamp=live.metadata.deletion_timestamp or now)
    if isinstance(live, Unstructured):
        return Unstructured(live.body, metadata)
    return PartialObjectMetadata(metadata=metadata)


def changing(ref: ObjectRef) -> Failure:
    """An object that others change faster than we can write it."""
    cause = "it keeps being changed by others while it is written"
    return Failure(ref, "apply", Obstacle.CHANGED, cause, "", Conflict(Status(message=cause, code=409)))


def foreign(refused: Unready) -> Failure:
    """An object that has become somebody else's."""
    fix = "remove it from one of the two, or set its adoption policy to Always"
    return Failure(
        refused.ref, "apply", Obstacle.OWNED, refused.why, fix, Conflict(Status(message=refused.why, code=409))
    )
