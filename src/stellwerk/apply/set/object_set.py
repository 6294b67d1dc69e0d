"""One pass: stage after stage, until nothing is left that could be written now.

A stage is decided from what is seen, carried out, and its answers are added to what is seen; so a set whose objects are
ready at once is through in one pass, and nothing is read to find that out. What takes its time arrives as a change of a
cache, and the caller passes again.

Before an object is touched for the first time, and before one that has done its work is deleted, the inventory has to
be saved. The caller may save it on the way; where it does not, or cannot, the pass ends there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias, TypeVar

from stellwerk.api.core import Namespace
from stellwerk.apply.errors import Obstacle, WriteFailure
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.checks.adoption import Owned, existing
from stellwerk.apply.set.checks.crd_usage import CrdUsage
from stellwerk.apply.set.executor import ActionResult, Executor, conflict
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import NAMESPACE, DesiredObject, is_definition
from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, ObjectIdentity
from stellwerk.apply.set.model.owner import Owner, Ownership
from stellwerk.apply.set.model.policy import MissingNamespacesPolicy, Policies
from stellwerk.apply.set.observed_state import ObservedSet
from stellwerk.apply.set.observed_state import ObservedState as ObservedState
from stellwerk.apply.set.plan import inventory_update, plan_apply, plan_delete_hooks, plan_prune
from stellwerk.apply.set.plan.actions import Action, LookUp, Remove, RemoveFinalizer, Update
from stellwerk.apply.set.plan.plan_delete_hooks import DeleteHookPlan
from stellwerk.apply.set.plan.plan_input import ApplyOptions, LiveObject, PlanInput, Proof
from stellwerk.apply.set.plan.plan_object import drifted, reapply_at
from stellwerk.apply.set.plan.stage import Stage, Throttled, Unready
from stellwerk.kube import threads
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.kube.types.object_meta import kubernetes_time

_STAGES_PER_OBJECT = 10
"""More than any way through a set takes: a wave of its own, created, purged, completed."""
_LEARNED_AT_ONCE = 250
"""Answers that are added to what is seen before the event loop gets its turn."""
_SURPRISES = 4
"""How often in one pass an object may be otherwise than it was just seen."""

T = TypeVar("T")

Save: TypeAlias = Callable[[Inventory], Awaitable[bool]]
"""Saves the inventory in the middle of a pass; False where the pass has to end for that."""


async def ends_the_pass(_: Inventory) -> bool:
    """A `Save` that leaves it to the caller."""
    return False


@dataclass(frozen=True, slots=True)
class SetProgress:
    """How far a pass has come."""

    inventory: Inventory
    done: bool = False
    must_be_saved: bool = False
    """The inventory has to be saved before the next pass."""
    waits: tuple[Unready, ...] = ()
    throttled: tuple[Throttled, ...] = ()
    """Objects that others change again and again, which wait for their turn."""
    failures: tuple[WriteFailure, ...] = ()
    carried: tuple[ActionResult, ...] = ()
    """What was written, in order."""
    found: Mapping[Address, Live] = field(default_factory=dict)
    """Objects that were not as caches showed them, as they are: read in this pass, and not written since."""
    again_at: float | None = None
    """When to pass again though nothing changes, on the clock's seconds."""
    drifted: Mapping[Address, Update] = field(default_factory=dict)
    """What others have changed and we have left as it is until it is due."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSet:
    """Passes over one set, with one client."""

    client: Client
    owner: Ownership
    policies: Policies = field(default_factory=Policies)
    options: ApplyOptions = field(default_factory=ApplyOptions)
    memory: ObservedState
    namespace_exists: Callable[[str], bool | None]
    """Whether a cache knows a namespace; None where there is no such cache."""
    owned: Owned | None = None
    """Looks up an object of any owner in the caches; None where there are no caches."""
    now: datetime
    clock: float
    proof: Proof | None = None
    """The identity of `client`, if it is not the one that applied the set."""
    witness: Client | None = None
    """Sees whether an object exists that was perhaps never written, if `client` may not ask for it."""
    is_large: bool = False
    """Whether planning would block the event loop for too long, and runs in a thread."""

    async def plan(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, which is pure."""
        return await threads.run(work) if self.is_large else work()

    async def apply(
        self,
        wanted: Sequence[DesiredObject],
        inventory: Inventory,
        seen: Mapping[ObjectIdentity, LiveObject],
        resources: Mapping[ObjectIdentity, Resource],
        *,
        announces: bool = False,
        save: Save = ends_the_pass,
    ) -> SetProgress:
        """Bring the set towards what is wanted, as far as it goes now.

        `seen` are the set's objects as caches show them; `resources` are the served kinds of the inventory.
        With `announces` the inventory is saved before the first write, if one is needed, though it is no other one.
        Raises `InvalidSet` before anything is written, and ApiError where the cluster cannot be asked. An object that
        turns out to belong to another owner later is a failure.
        """
        newcomers = () if self.owner.takes_all else inventory_update.newcomers(wanted, inventory)
        found = await existing(self.client, newcomers, self.namespace_exists, self.owned) if newcomers else {}
        registered = await self.plan(lambda: inventory_update.register(wanted, inventory, found, self.owner))
        if registered.must_be_saved:
            if not await save(registered.inventory):
                return SetProgress(registered.inventory, must_be_saved=True)
            announces = False
        makes_namespaces = self.policies.missing_namespaces is MissingNamespacesPolicy.CREATE
        pass_ = _Pass(self, seen, resources, wanted if makes_namespaces else ())
        await pass_.namespaces.make_missing(self.namespace_exists)
        progress = await pass_.run(
            registered.inventory,
            partial(plan_apply.next_stage, wanted),
            announce=save if announces else None,
        )
        if not progress.done or self.options.repairs_drift:
            return progress
        state = pass_.state()
        changed = await self.plan(lambda: drifted(wanted, state))
        if not changed:
            return progress
        again_at = await self.plan(lambda: reapply_at(changed, wanted, progress.inventory, state))
        return replace(progress, drifted=changed, again_at=again_at)

    def next_stage(
        self,
        decide: Callable[[Inventory, PlanInput], Stage],
        inventory: Inventory,
        seen: Mapping[ObjectIdentity, LiveObject],
        resources: Mapping[ObjectIdentity, Resource],
    ) -> Stage:
        """What a pass would do first. Nothing is written."""
        return decide(inventory, _Pass(self, seen, resources).state())

    async def delete(
        self,
        inventory: Inventory,
        seen: Mapping[ObjectIdentity, LiveObject],
        resources: Mapping[ObjectIdentity, Resource],
        hooks: DeleteHookPlan | None = None,
        *,
        once: bool = False,
        only_unused: bool = False,
    ) -> SetProgress:
        """Delete the whole set, as far as possible now. `CrdUsage.obstacle` decides whether it may be deleted.

        With `once` the pass ends after the first stage that deletes something. With `only_unused` it is asked again
        right before something is deleted whether others use the kinds of the set, and then nothing goes.
        """
        assert not ((once or only_unused) and hooks), "delete hooks have stages of their own"
        whole = plan_prune.of_unused_set if only_unused else plan_prune.of_set
        decide = whole if hooks is None else partial(plan_delete_hooks.next_stage, hooks)
        return await _Pass(self, seen, resources).run(inventory, decide, once=once, only_unused=only_unused)


class _Pass:
    """The loop over the stages of one pass."""

    def __init__(
        self,
        object_set: ObjectSet,
        seen: Mapping[ObjectIdentity, LiveObject],
        resources: Mapping[ObjectIdentity, Resource],
        needs_namespaces: Sequence[DesiredObject] = (),
    ) -> None:
        self.namespaces = _Namespaces(object_set.client, object_set.owner.prefix, needs_namespaces)
        self._object_set = object_set
        self._sight = ObservedSet(seen, resources, object_set.memory, now=object_set.now, clock=object_set.clock)
        self._resources = resources
        self._in_use: dict[ObjectIdentity, str] = {}
        self._asked: set[ObjectIdentity] = set()
        self._carried: list[ActionResult] = []
        self._found: dict[Address, Live] = {}
        self._surprises: dict[Address, int] = {}
        self._carrier = Executor(
            client=object_set.client,
            owner=object_set.owner,
            reclaims=object_set.options.reclaims,
            clock=object_set.clock,
            writes_as=object_set.proof.identity if object_set.proof is not None else "",
            witness=object_set.witness,
        )

    def state(self) -> PlanInput:
        """The set as it looks now."""
        object_set = self._object_set
        return PlanInput(
            owner=object_set.owner,
            policies=object_set.policies,
            options=object_set.options,
            seen=self._sight.seen,
            resources=self._resources,
            absent=self._sight.absent,
            in_use=self._in_use,
            confirmations=object_set.memory.confirmations,
            checked=object_set.memory.checked,
            proof=object_set.proof,
            now=object_set.now,
            clock=object_set.clock,
        )

    async def run(
        self,
        inventory: Inventory,
        decide: Callable[[Inventory, PlanInput], Stage],
        *,
        announce: Save | None = None,
        once: bool = False,
        only_unused: bool = False,
    ) -> SetProgress:
        """Stage after stage. Raises ApiError where the cluster cannot be asked."""
        for _ in range(_STAGES_PER_OBJECT * (len(inventory) + 1)):
            stage = await self._object_set.plan(partial(decide, inventory, self.state()))
            if await self._asks_for_usage(inventory, stage.actions, of_all=only_unused):
                continue
            if announce is not None and stage.groups:
                if not await announce(inventory):
                    return SetProgress(inventory, must_be_saved=True)
                announce = None
            self._sight.note_checked(stage.checked)
            self._sight.forget(inventory, stage.inventory)
            inventory = stage.inventory
            if stage.refused or stage.must_be_saved or stage.done or not (stage.groups or stage.again):
                return self._progress(inventory, stage, [_refused(each) for each in stage.refused])
            inventory, failures = await self._carry_out(inventory, stage)
            if failures or (once and self._carried):
                return self._progress(inventory, stage, failures)
        raise AssertionError("a object_set that never comes to rest")

    def _progress(self, inventory: Inventory, stage: Stage, failures: Iterable[WriteFailure]) -> SetProgress:
        return SetProgress(
            inventory,
            done=stage.done,
            must_be_saved=stage.must_be_saved,
            waits=stage.waits,
            throttled=stage.throttled,
            failures=tuple(failures),
            carried=tuple(self._carried),
            found=self._found,
            again_at=stage.again_at,
        )

    async def _asks_for_usage(self, inventory: Inventory, actions: Collection[Action], *, of_all: bool) -> bool:
        """Find out, once in a pass, whether definitions that are about to go are in use; with `of_all` those of later
        waves too. Whether anything was asked: then the stage has to be decided again."""
        going = {
            ObjectIdentity.of(action.address.ref) for action in actions if isinstance(action, Remove | RemoveFinalizer)
        }
        owner = self._object_set.owner
        if not isinstance(owner, Owner):
            return False  # a set without an inventory: its operator decides about definitions
        unasked = [
            entry
            for entry in (inventory if going else ())
            if (of_all or entry.identity in going) and is_definition(entry.gvk) and entry.identity not in self._asked
        ]
        if not unasked:
            return False
        usage = CrdUsage(self._object_set.client, owner, self._object_set.now)
        self._in_use |= await usage.in_use(unasked)
        self._asked |= {entry.identity for entry in unasked}
        return True

    async def _carry_out(self, inventory: Inventory, stage: Stage) -> tuple[Inventory, list[WriteFailure]]:
        for group in stage.groups:
            self._sight.begin(group)
            results = await together(group, self._carrier.carry_out)
            carried = [result for result in results if isinstance(result, ActionResult)]
            inventory = await self._learn(inventory, carried)
            failures = [result for result in results if isinstance(result, WriteFailure)]
            failures += [failure for each in carried if (failure := self._fight(each)) is not None]
            if failures:
                return inventory, await self.namespaces.mend(failures)
        return inventory, []

    async def _learn(self, inventory: Inventory, carried: Iterable[ActionResult]) -> Inventory:
        known = inventory.by_identity()
        changes: dict[ObjectIdentity, InventoryEntry | None] = {}
        for number, each in enumerate(carried, start=1):
            if number % _LEARNED_AT_ONCE == 0:
                await asyncio.sleep(0)
            identity = ObjectIdentity.of(each.address.ref)
            self._sight.learn(identity, each)
            if each.done and not isinstance(each.action, LookUp):
                self._carried.append(each)
            if each.done or each.live is None:
                self._found.pop(each.address, None)
            else:
                self._found[each.address] = each.live
            if each.confirmation is not None:
                uid, now = each.confirmation.uid, kubernetes_time(self._object_set.now)
                changes[identity] = replace(known[identity], uid=uid, last_applied_at=now)
        return inventory.changed(changes)

    def _fight(self, each: ActionResult) -> WriteFailure | None:
        """An object that is never as we just saw it is left for the next pass."""
        if each.done:
            return None
        times = self._surprises[each.address] = self._surprises.get(each.address, 0) + 1
        if times <= _SURPRISES:
            return None
        return conflict(each.address.ref, "apply", "it keeps being changed by others while it is written")


def _refused(refused: Unready) -> WriteFailure:
    if refused.obstacle is Obstacle.UNREADABLE:
        # Not `Undecodable`: the server answers, and the object is what its schema promises.
        fix = "its controller has to correct it"
        return conflict(refused.ref, "read the status of", refused.why, obstacle=Obstacle.UNREADABLE, fix=fix)
    fix = "remove it from one of the two, or set its adoption policy to Always"
    return conflict(refused.ref, "apply", refused.why, obstacle=Obstacle.OWNED, fix=fix)


class _Namespaces:
    """Makes the namespaces that objects need and that are not objects of the set, each once in a pass. They have no
    owner, and stay."""

    def __init__(self, client: Client, field_manager: str, wanted: Sequence[DesiredObject]) -> None:
        self._client = client
        self._field_manager = field_manager
        self._made: set[str] = set()
        own = {obj.address.key.name for obj in wanted if (obj.identity.group, obj.identity.kind) == NAMESPACE}
        self._needed = {obj.address.key.namespace for obj in wanted} - own - {""}

    async def make_missing(self, exists: Callable[[str], bool | None]) -> None:
        """Create those that a cache shows as missing. Where there is no cache, the first object's refusal shows it."""
        await together([name for name in sorted(self._needed) if exists(name) is False], self._make)

    async def mend(self, failures: Sequence[WriteFailure]) -> list[WriteFailure]:
        """Make the namespaces that objects were refused for. Returns what was something else."""
        lacking = {each.ref.key.namespace for each in failures if each.obstacle is Obstacle.NAMESPACE_MISSING}
        made = (lacking & self._needed) - self._made
        await together(sorted(made), self._make)
        return [
            each
            for each in failures
            if each.obstacle is not Obstacle.NAMESPACE_MISSING or each.ref.key.namespace not in made
        ]

    async def _make(self, name: str) -> None:
        body: JsonObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        self._made.add(name)
        await conditional.create_if_absent(
            self._client, metadata_of(Namespace), body, field_manager=self._field_manager, repeatable=True
        )
