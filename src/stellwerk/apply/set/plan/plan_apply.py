"""What to write next so that a set becomes what is wanted, and what is waited for. Pure.

Objects go in waves by their apply order; a wave waits until everything in the one before is ready. Within a wave there
are three steps: what is plain; then APIServices, which need what they point to; then instances of kinds that the set
itself brings, which need their controllers. Within a step, kinds go in a fixed order, without waiting for readiness.

A hook of a chart that is a custom resource is the exception: it does not wait for resources of its own API group. Helm
waits for no custom resource before the hooks after an installation, and charts for operators count on it: an
application may become ready only with the version that a hook brings. Everything else in the wave is waited for.

`plan_object` decides what a single object needs. At the end of a wave what was only needed for it is purged. After the
last wave, and only when everything new is ready, what is no longer wanted goes.

A stage contains what can be written now. The caller writes it, adds the answers to what it knows, and asks again: there
is no state here but the inventory, and nothing is assumed about what was done before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from stellwerk.apply.errors import Obstacle
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.desired_set import API_SERVICE, DesiredObject
from stellwerk.apply.set.model.inventory import (
    EntryStatus,
    Inventory,
    InventoryEntry,
    ObjectIdentity,
    Phase,
)
from stellwerk.apply.set.plan import plan_prune
from stellwerk.apply.set.plan.actions import Action, LookUp, Remove
from stellwerk.apply.set.plan.plan_input import UNSERVED, UNSERVED_SECONDS, PlanInput
from stellwerk.apply.set.plan.plan_object import decide
from stellwerk.apply.set.plan.stage import Stage, Throttled, Unready, grouped
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import dig

_HOOK = "helm.sh/hook"
"""Helm's annotation, which the renderer leaves where it is."""


def next_stage(wanted: Sequence[DesiredObject], inventory: Inventory, state: PlanInput) -> Stage:
    """What can be done now. `inventory` has been registered with `wanted`."""
    steps = _Steps(wanted, inventory, state)
    stage = _written(steps, wanted, inventory, state)
    if stage is None:
        stage = plan_prune.of_unwanted(steps.inventory(), state)
    return replace(stage, checked=tuple(steps.checked)) if steps.checked else stage


def of_part(wanted: Sequence[DesiredObject], inventory: Inventory, state: PlanInput) -> Stage | None:
    """What can be done now for some objects of a set, all of which are purged; None where they have done their work."""
    return _written(_Steps(wanted, inventory, state), wanted, inventory, state)


def _written(steps: _Steps, wanted: Sequence[DesiredObject], inventory: Inventory, state: PlanInput) -> Stage | None:
    completing = _completions(inventory, state)
    if completing is not None:
        return completing
    for wave in _waves(wanted):
        stage = steps.through(wave)
        if stage is not None:
            return stage
    return None


# ---- completion: what was only needed for a while


def _completions(inventory: Inventory, state: PlanInput) -> Stage | None:
    """The stage in which purged objects go; None where none is on its way."""
    completing = [entry for entry in inventory if entry.phase in (Phase.SCHEDULED_FOR_COMPLETION, Phase.COMPLETING)]
    if not completing:
        return None
    actions: list[Action] = []
    changes: dict[ObjectIdentity, InventoryEntry | None] = {}
    waits: list[Unready] = []
    again_at: float | None = None
    for entry in completing:
        if _is_over(entry, state):
            changes[entry.identity] = replace(entry.now(Phase.COMPLETED, EntryStatus.NONE), uid="")
            continue
        changes[entry.identity] = entry.now(Phase.COMPLETING, EntryStatus.TERMINATING)
        if _is_unserved(entry, state):  # no watch shows when it is served again
            waits.append(Unready(entry.ref, UNSERVED))
            again_at = state.clock + UNSERVED_SECONDS
            continue
        waits.append(Unready(entry.ref, "has done its work and is being deleted"))
        if (action := _end(entry, state)) is not None:
            actions.append(action)
    groups = (tuple(actions),) if actions else ()
    return Stage(inventory.changed(changes), groups=groups, waits=tuple(waits), again=not waits, again_at=again_at)


def _is_over(entry: InventoryEntry, state: PlanInput) -> bool:
    """Whether an object that has done its work is gone, or is not ours to delete any more."""
    seen = state.seen.get(entry.identity)
    if seen is None:
        return entry.identity in state.absent or entry.identity not in state.resources
    return not state.proves(entry, seen.live)


def _is_unserved(entry: InventoryEntry, state: PlanInput) -> bool:
    """Whether an object is not seen, and cannot be looked up as long as its kind is not served."""
    return entry.identity not in state.seen and not state.resources[entry.identity].plural


def _end(entry: InventoryEntry, state: PlanInput) -> Remove | LookUp | None:
    """What it takes to end an object that has done its work; None where it is going."""
    seen = state.seen.get(entry.identity)
    if seen is None:
        return LookUp(Address(state.resources[entry.identity], entry.key))
    metadata = seen.live.metadata
    if metadata.is_terminating:
        return None
    return Remove(seen.address, metadata.uid, metadata.resource_version, "it has done its work")


# ---- waves


def _waves(wanted: Sequence[DesiredObject]) -> list[list[DesiredObject]]:
    ordered = sorted(wanted, key=lambda one: one.directive.apply_order)
    return [list(wave) for _, wave in groupby(ordered, key=lambda one: one.directive.apply_order)]


def _is_hook_in(obj: DesiredObject, groups: Collection[str]) -> bool:
    """Whether an object is a hook of a chart and a custom resource of one of these API groups."""
    group = obj.address.resource.group
    is_custom = "." in group and not group.endswith(".k8s.io")
    return is_custom and group in groups and dig(obj.desired.body, "metadata", "annotations", _HOOK) is not None


class _Steps:
    """One walk through the waves; collects what becomes of the entries."""

    def __init__(self, wanted: Sequence[DesiredObject], inventory: Inventory, state: PlanInput) -> None:
        self._wanted = wanted
        self._inventory = inventory
        self._state = state
        self._entries = inventory.by_identity()
        self._changes: dict[ObjectIdentity, InventoryEntry | None] = {}
        self._last_order = max((obj.directive.apply_order for obj in wanted), default=0)
        self._reached: list[DesiredObject] = []
        self.checked: list[Address] = []
        """Objects that were due and are as wanted."""
        self._types = inventory.managed_types
        self._ranks: dict[GroupVersionKind, int] = {}

    def inventory(self) -> Inventory:
        """The inventory with what was found so far."""
        return self._inventory.changed(self._changes)

    def through(self, wave: Sequence[DesiredObject]) -> Stage | None:
        """The stage that this wave needs; None where the wave is done."""
        self._reached.extend(wave)
        for step in self._parts(wave):
            stage = self._step(step)
            if stage is not None:
                return self._with_hooks(stage)
        return self._purge(wave[0].directive.apply_order)

    def _with_hooks(self, stage: Stage) -> Stage:
        """The stage, with the hooks of later waves that only it would make wait for kinds of their own API group."""
        groups = {unready.ref.gvk.group for unready in stage.waits}
        if stage.groups or stage.refused or len(groups) != 1:
            return stage
        hooks = [one for one in self._wanted if one not in self._reached and _is_hook_in(one, groups)]
        further = self._step(hooks)
        if further is None:
            return replace(stage, inventory=self.inventory())
        again = min((at for at in (stage.again_at, further.again_at) if at is not None), default=None)
        return replace(further, waits=(*stage.waits, *further.waits), again_at=again)

    def _parts(self, wave: Sequence[DesiredObject]) -> Iterator[list[DesiredObject]]:
        """Plain objects, then APIServices, then instances of the set's own kinds."""
        parts: tuple[list[DesiredObject], list[DesiredObject], list[DesiredObject]] = ([], [], [])
        for one in wave:
            parts[self._rank(one.address.resource.gvk)].append(one)
        yield from (part for part in parts if part)

    def _rank(self, gvk: GroupVersionKind) -> int:
        known = self._ranks.get(gvk)
        if known is None:
            known = self._ranks[gvk] = self._rank_of(gvk)
        return known

    def _rank_of(self, gvk: GroupVersionKind) -> int:
        if (gvk.group, gvk.kind) == API_SERVICE:
            return 1
        return 2 if self._state.is_instance(gvk, self._types) else 0

    def _step(self, objects: Iterable[DesiredObject]) -> Stage | None:
        actions: list[Action] = []
        waits: list[Unready] = []
        refused: list[Unready] = []
        unreadable: list[Unready] = []
        throttled: list[Throttled] = []
        again_at: list[float] = []
        for obj in objects:
            entry = self._entries[obj.identity]
            if entry.phase is Phase.COMPLETED:
                continue
            decision = decide(obj, entry, self._state)
            if decision.entry is not entry:
                self._changes[obj.identity] = decision.entry
            if decision.is_checked:
                self.checked.append(obj.address)
            if not decision.waits:
                continue
            waiting = Unready(obj.desired.ref, decision.waits, decision.obstacle)
            (refused if decision.obstacle is Obstacle.OWNED else waits).append(waiting)
            if decision.obstacle is Obstacle.UNREADABLE:
                unreadable.append(waiting)
            if decision.action is not None:
                actions.append(decision.action)
            if decision.again_at is not None:
                again_at.append(decision.again_at)
            if decision.throttled is not None:
                throttled.append(decision.throttled)
        if refused:
            return Stage(self.inventory(), waits=(*refused, *waits), refused=tuple(refused))
        if not waits:
            return None
        if unreadable and not actions:  # what can be written comes first: it may be what corrects the status
            return Stage(self.inventory(), waits=tuple(waits), refused=tuple(unreadable))
        groups = grouped(actions, key=lambda action: self._state.options.apply_order(action.address.resource))
        again = min(again_at, default=None)
        return Stage(self.inventory(), groups, tuple(waits), tuple(throttled), again_at=again)

    def _purge(self, reached: int) -> Stage | None:
        """At the end of a wave, schedule what was needed until here."""
        changes: dict[ObjectIdentity, InventoryEntry | None] = {}
        for one in self._reached:
            purge = one.directive.purge_order
            if purge is None or not (purge <= reached or reached == self._last_order):
                continue
            entry = self._changes.get(one.identity) or self._entries[one.identity]
            if entry.phase is not Phase.COMPLETED:
                changes[one.identity] = entry.now(Phase.SCHEDULED_FOR_COMPLETION, EntryStatus.TERMINATING)
        if not changes:
            return None
        # Saved first: an object that is gone and not known to have done its work would be made again.
        return Stage(self.inventory().changed(changes), must_be_saved=True)
