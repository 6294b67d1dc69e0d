"""One pass: stage after stage, until nothing is left that could be written now.

A stage is decided from what is seen, carried out, and its answers are added to what is seen; so a set whose objects are
ready at once is through in one pass, and nothing is read to find that out. What takes its time arrives as a change of a
cache, and the caller passes again.

Two moments cannot be crossed within a pass: before an object is touched for the first time, and before one that has
done its work is deleted, the inventory has to be saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime

import msgspec

from stellwerk.apply.desired import Address
from stellwerk.apply.errors import Failure, Obstacle
from stellwerk.apply.plan import Confirmation
from stellwerk.apply.rollout import departures, register, waves
from stellwerk.apply.rollout.actions import Create, LookUp, Remove, Update
from stellwerk.apply.rollout.carry import Carried, Carrier
from stellwerk.apply.rollout.inventory import Entry, Identity, Inventory
from stellwerk.apply.rollout.owner import Owner, Standing
from stellwerk.apply.rollout.policy import MissingNamespacesPolicy, Policies
from stellwerk.apply.rollout.prepare import NAMESPACE, Wanted
from stellwerk.apply.rollout.scene import Habits, Scene, Seen
from stellwerk.apply.rollout.stage import Stage, Unready
from stellwerk.apply.rollout.usage import Usage
from stellwerk.apply.together import together
from stellwerk.kube.client import Client
from stellwerk.kube.errors import AlreadyExists, ApiError, Conflict, Status
from stellwerk.kube.meta import kubernetes_time
from stellwerk.kube.model import JsonObject, PartialObjectMetadata, metadata_of
from stellwerk.kube.names import ObjectKey, Resource

_MAX_STAGES = 1_000
_LIST_FROM = 3
"""From how many newcomers in one place on these are found by a list instead of one by one."""
_LIST_LIMIT = 500
_NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)


@dataclass(frozen=True, slots=True)
class Removed:
    """An object that we deleted. `gone`: the server said so at once; otherwise it was to take a while."""

    uid: str
    gone: bool


@dataclass(slots=True)
class Memory:
    """What a process remembers of a set from pass to pass. Losing it costs a few requests and nothing else."""

    confirmations: dict[Address, Confirmation] = field(default_factory=dict)
    removed: dict[Identity, Removed] = field(default_factory=dict)
    """Objects that we asked the server to delete: caches may show them for a while as they were, and when a cache that
    has shown one shows it no more, it is gone."""


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
        Raises `InvalidSet` before anything is written, and ApiError where the cluster cannot be asked.
        """
        existing = await self._existing(register.newcomers(wanted, inventory))
        registered = register.register(wanted, inventory, existing, self.owner)
        if registered.must_be_saved:
            return Progress(registered.inventory, must_be_saved=True)
        await self._create_namespaces(wanted)
        pass_ = _Pass(self, dict(seen), resources, whole=False)
        progress = await pass_.run(
            registered.inventory, lambda inventory, scene: waves.next_stage(wanted, inventory, scene)
        )
        drifted = waves.drifted(wanted, pass_.scene()) if progress.done and not self.habits.repairs_drift else {}
        return replace(progress, drifted=drifted)

    async def delete(
        self, inventory: Inventory, seen: Mapping[Identity, Seen], resources: Mapping[Identity, Resource]
    ) -> Progress:
        """Take the whole set away, as far as it goes now. Whether it may go at all is `Usage.obstacle`'s to say."""
        return await _Pass(self, dict(seen), resources, whole=True).run(inventory, departures.of_set)

    # What exists before we touch it

    async def _existing(self, newcomers: Sequence[Wanted]) -> dict[Identity, Seen]:
        """The live objects of newcomers, whoever owns them."""
        places: dict[tuple[Resource, str], list[Wanted]] = {}
        for one in newcomers:
            if not one.address.key.namespace or self.namespace_exists(one.address.key.namespace) is not False:
                places.setdefault((one.address.resource, one.address.key.namespace), []).append(one)
        found = await together([*places.items()], lambda place: self._existing_in(*place[0], place[1]))
        return {identity: seen for part in found for identity, seen in part.items()}

    async def _existing_in(self, resource: Resource, namespace: str, objects: Sequence[Wanted]) -> dict[Identity, Seen]:
        if not await self._is_served(resource):
            return {}
        listed = await self._listed(resource, namespace) if len(objects) >= _LIST_FROM else None
        if listed is None:
            found = await together(objects, lambda one: self._find(one.address))
        else:
            found = [listed.get(one.address.key) for one in objects]
        return {
            one.identity: Seen(one.address, live) for one, live in zip(objects, found, strict=True) if live is not None
        }

    async def _is_served(self, resource: Resource) -> bool:
        """A kind that a definition of this very set will bring has no objects yet."""
        try:
            await self.client.mapper.resource(resource.gvk)
        except ApiError:
            return False
        return True

    async def _listed(self, resource: Resource, namespace: str) -> dict[ObjectKey, PartialObjectMetadata] | None:
        """All objects of a place, by one request; None where there are too many for one."""
        async with aclosing(self.client.pages(metadata_of(resource), namespace, limit=_LIST_LIMIT)) as pages:
            async for page in pages:
                return None if page.continue_token else {obj.key: obj for obj in page.items}
        return None

    async def _find(self, address: Address) -> PartialObjectMetadata | None:
        return await self.client.find(metadata_of(address.resource), address.key.name, address.key.namespace)

    # Namespaces that nobody made

    async def _create_namespaces(self, wanted: Sequence[Wanted]) -> None:
        """Make the namespaces that objects need and that are not objects themselves. They belong to nobody and stay."""
        if self.policies.missing_namespaces is not MissingNamespacesPolicy.CREATE:
            return
        own = {one.address.key.name for one in wanted if (one.identity.group, one.identity.kind) == NAMESPACE}
        used = {one.address.key.namespace for one in wanted if one.address.key.namespace} - own
        for name in sorted(used):
            if not self.namespace_exists(name):
                await self._create_namespace(name)

    async def _create_namespace(self, name: str) -> None:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        try:
            await self.client.create(metadata_of(_NAMESPACES), body, field_manager=self.owner.prefix)
        except AlreadyExists:
            return


class _Pass:
    """The loop over the stages of one pass, and what it learns on the way."""

    def __init__(
        self,
        rollout: Rollout,
        seen: MutableMapping[Identity, Seen],
        resources: Mapping[Identity, Resource],
        *,
        whole: bool,
    ) -> None:
        self._rollout = rollout
        self._memory = rollout.memory
        self._seen = seen
        self._resources = resources
        self._whole = whole
        self._absent: set[Identity] = set()
        self._in_use: Mapping[Identity, str] = {}
        self._carried: list[Carried] = []
        self._surprises: dict[Address, int] = {}
        self._carrier = Carrier(
            client=rollout.client,
            field_manager=rollout.owner.prefix,
            reclaims=rollout.habits.reclaims,
            now=rollout.now,
            clock=rollout.clock,
        )
        self._correct()

    def _correct(self) -> None:
        """What we have deleted ourselves is known better than by a cache that lags behind."""
        for identity, removed in [*self._memory.removed.items()]:
            seen = self._seen.get(identity)
            if seen is None:
                self._absent.add(identity)
            elif seen.live.metadata.uid != removed.uid:
                del self._memory.removed[identity]
            elif removed.gone:
                del self._seen[identity]
                self._absent.add(identity)
            elif not seen.live.metadata.is_terminating:
                metadata = msgspec.structs.replace(seen.live.metadata, deletion_timestamp=self._rollout.now)
                self._seen[identity] = Seen(seen.address, PartialObjectMetadata(metadata=metadata))

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
        await self._ask_for_usage(inventory)
        for _ in range(_MAX_STAGES):
            stage = decide(inventory, self.scene())
            inventory = stage.inventory
            if stage.must_be_saved or stage.done or not (stage.groups or stage.again):
                return self._progress(inventory, stage)
            inventory, failures = await self._carry_out(inventory, stage)
            if failures:
                return replace(self._progress(inventory, stage), failures=tuple(failures))
        raise AssertionError("a rollout that never comes to rest")

    async def _carry_out(self, inventory: Inventory, stage: Stage) -> tuple[Inventory, list[Failure]]:
        for group in stage.groups:
            results = await together(group, self._carrier.carry_out)
            carried = [result for result in results if isinstance(result, Carried)]
            inventory = self._learn(inventory, carried)
            failures = [result for result in results if isinstance(result, Failure)]
            failures += [failure for each in carried if (failure := self._fight(each)) is not None]
            if failures:
                return inventory, failures
        return inventory, []

    def _progress(self, inventory: Inventory, stage: Stage) -> Progress:
        return Progress(
            inventory,
            done=stage.done,
            must_be_saved=stage.must_be_saved,
            waits=stage.waits,
            carried=tuple(self._carried),
            again_at=stage.again_at,
        )

    async def _ask_for_usage(self, inventory: Inventory) -> None:
        """Whether definitions that are about to go are in use: asked anew in every pass, while there are any."""
        leaving = [
            entry
            for entry in departures.definitions_leaving(inventory, whole=self._whole)
            if (seen := self._seen.get(entry.identity)) is not None
            and self._rollout.owner.standing(seen.live.metadata) is Standing.OURS
        ]
        if leaving:
            self._in_use = await Usage(self._rollout.client, self._rollout.owner).in_use(leaving)

    # Learning from answers

    def _learn(self, inventory: Inventory, carried: Iterable[Carried]) -> Inventory:
        known = inventory.by_identity()
        changes: dict[Identity, Entry | None] = {}
        for each in carried:
            identity = Identity.of(each.address.ref)
            self._see(identity, each)
            if each.done and isinstance(each.action, Create | Update):
                self._carried.append(each)
                self._confirm(each)
                changes[identity] = replace(known[identity], last_applied_at=kubernetes_time(self._rollout.now))
            elif each.done and not isinstance(each.action, LookUp):
                self._carried.append(each)
        return inventory.changed(changes)

    def _see(self, identity: Identity, each: Carried) -> None:
        if isinstance(each.action, Remove) and each.done:
            self._memory.removed[identity] = Removed(each.action.uid, gone=each.live is None)
        if each.live is None:
            self._seen.pop(identity, None)
            self._absent.add(identity)
            self._memory.confirmations.pop(each.address, None)
            return
        self._seen[identity] = Seen(each.address, each.live)
        self._absent.discard(identity)

    def _confirm(self, each: Carried) -> None:
        if each.confirmation is None:
            return
        before = self._memory.confirmations.get(each.address)
        restored_at = each.confirmation.restored_at or (before.restored_at if before is not None else None)
        self._memory.confirmations[each.address] = replace(each.confirmation, restored_at=restored_at)

    def _fight(self, each: Carried) -> Failure | None:
        """An object that is never as we just saw it is left for the next pass."""
        if each.done:
            return None
        times = self._surprises[each.address] = self._surprises.get(each.address, 0) + 1
        return changing(each.address) if times > _SURPRISES else None


_SURPRISES = 4


def changing(address: Address) -> Failure:
    """An object that others change faster than we can write it."""
    cause = "it keeps being changed by others while it is written"
    return Failure(address.ref, "apply", Obstacle.CHANGED, cause, "", Conflict(Status(message=cause, code=409)))
