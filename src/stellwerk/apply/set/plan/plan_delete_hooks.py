"""How a set goes that wants something done then: before its first object goes, and after its last. Pure.

    before   the hooks of that moment run, wave by wave of their weights, and are gone again
    others   what the set consists of goes, as without hooks
    after    the hooks of that moment run and are gone
    keeper   the Secret with the hooks goes; from then on there are none, and what is left of the set follows

How far it has come is in the inventory, and nowhere else. A hook that has run is an entry with the digest of its moment
that is Completed, and stays one until the keeper is gone: so none runs twice, wherever the process dies. A hook that
fails holds the rest back, as with Helm; a user who does not want to wait for it sets that in the spec. That the keeper
goes is saved before it does, so that a deletion by another client differs from one that is due.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stellwerk.apply.set.model.delete_hooks import Moment
from stellwerk.apply.set.model.desired_set import NAMESPACE, DesiredObject
from stellwerk.apply.set.model.inventory import EntryStatus, Inventory, InventoryEntry, ObjectIdentity, Phase
from stellwerk.apply.set.plan import inventory_update, plan_apply, plan_prune
from stellwerk.apply.set.plan.plan_input import PlanInput
from stellwerk.apply.set.plan.stage import Stage, Unready
from stellwerk.kube.types.identifiers import ObjectKey


@dataclass(frozen=True, slots=True)
class DeleteHookPlan:
    """What is to be done when a set goes."""

    keeper: ObjectIdentity
    before: tuple[DesiredObject, ...] = ()
    after: tuple[DesiredObject, ...] = ()

    @property
    def hooks(self) -> tuple[DesiredObject, ...]:
        """All that may still be made."""
        return (*self.before, *self.after)


def is_over(inventory: Inventory, moment: Moment, hooks: int) -> bool:
    """Whether a moment with so many hooks has passed: then they need not even be known any more."""
    entries = [entry for entry in inventory if _is_of(entry, moment)]
    has_run = len(entries) == hooks and all(entry.phase is Phase.COMPLETED for entry in entries)
    return has_run or (moment is Moment.BEFORE and _has_begun(inventory, Moment.AFTER))


def next_stage(hooks: DeleteHookPlan, inventory: Inventory, state: PlanInput) -> Stage:
    """What can be done now."""
    if hooks.keeper not in inventory.by_identity():
        return plan_prune.of_set(inventory, state)
    if not _has_begun(inventory, Moment.AFTER):
        stage = _run(hooks.before, Moment.BEFORE, inventory, state)
        if stage is not None:
            return stage
        stage = plan_prune.of_part(inventory, _others(hooks, inventory), state)
        if not stage.done:
            return stage
    stage = _run(hooks.after, Moment.AFTER, inventory, state)
    if stage is not None:
        return stage
    keeper = inventory.by_identity()[hooks.keeper]
    if not keeper.phase.is_leaving:
        leaving = keeper.now(Phase.SCHEDULED_FOR_DELETION, EntryStatus.TERMINATING)
        return Stage(inventory.changed({hooks.keeper: leaving}), must_be_saved=True)
    return plan_prune.of_part(inventory, [keeper], state)


def _is_of(entry: InventoryEntry, moment: Moment) -> bool:
    return entry.digest.endswith(f"@{moment.value}")


def _has_begun(inventory: Inventory, moment: Moment) -> bool:
    return any(_is_of(entry, moment) for entry in inventory)


def _run(wanted: Sequence[DesiredObject], moment: Moment, inventory: Inventory, state: PlanInput) -> Stage | None:
    """The stage that the hooks of a moment need; None where they have run."""
    known = inventory.by_identity()
    if any(obj.identity not in known or not _is_of(known[obj.identity], moment) for obj in wanted):
        return _begun(wanted, moment, inventory, state)
    stage = plan_apply.of_part(wanted, inventory, state)
    if stage is None:
        return None
    return replace(stage, waits=tuple(Unready(wait.ref, f"{moment.value} hook: {wait.why}") for wait in stage.waits))


def _begun(wanted: Sequence[DesiredObject], moment: Moment, inventory: Inventory, state: PlanInput) -> Stage:
    """What a hook has left behind that also ran at another time goes first; after the others, nothing can be left."""
    if moment is Moment.BEFORE:
        hooks = {obj.identity for obj in wanted}
        former = [entry for entry in inventory if entry.identity in hooks and not _is_of(entry, moment)]
        stage = plan_prune.of_part(inventory, former, state)
        if not stage.done:
            return stage
    return Stage(inventory_update.joined(wanted, inventory), must_be_saved=True)


def _others(hooks: DeleteHookPlan, inventory: Inventory) -> list[InventoryEntry]:
    """What goes between the moments: all but the hooks, their keeper, and the namespaces that they need."""
    run = {entry.identity for entry in inventory if any(_is_of(entry, moment) for moment in Moment)}
    needed = {hooks.keeper} | run
    inhabited = {identity.key.namespace for identity in (*needed, *(hook.identity for hook in hooks.hooks))}
    needed |= {ObjectIdentity(*NAMESPACE, ObjectKey("", name)) for name in inhabited}
    return [entry for entry in inventory if entry.identity not in needed]
