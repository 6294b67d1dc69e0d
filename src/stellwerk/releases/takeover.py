"""What of a release that `clm` applied last need not be done again (pure).

An object that was purged after its work cannot be compared, and `clm` computes its digest in another way. The other
objects of the release can be compared: if all of them are as wanted, the sources are the same as before, and the state
that `clm` recorded is right. Where anything differs this is a new content, and it is
done again, as for any change: a migration that runs twice is a smaller harm than one that never does.

What is meant for each revision (`on-object-or-component-change`, as upgrade hooks are) runs at each run, under `clm` as
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stellwerk.apply.fields.compare import compare
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import (
    APPLIED_ONCE,
    THEIR_SPELLING,
    Inventory,
    InventoryEntry,
    ObjectIdentity,
    Phase,
)
from stellwerk.apply.set.model.owner import Owner, unmarked
from stellwerk.apply.set.model.policy import ReconcilePolicy
from stellwerk.apply.set.plan.inventory_update import newcomers, taken_over
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.kube.types.model import Unstructured


def done(wanted: Sequence[DesiredObject], inventory: Inventory) -> tuple[DesiredObject, ...]:
    """The wanted objects that have done their work under `clm`, unless their content is another one now."""
    known = inventory.by_identity()
    return tuple(
        obj
        for obj in wanted
        if obj.directive.reconcile is ReconcilePolicy.ON_OBJECT_CHANGE and _is_done(known.get(obj.identity))
    )


def settled(
    wanted: Sequence[DesiredObject], inventory: Inventory, seen: Mapping[ObjectIdentity, LiveObject], owner: Owner
) -> Inventory:
    """The inventory to go on with. It is the same one where `clm`'s word about what is done does not hold."""
    if not _is_same_content(wanted, inventory, seen, owner):
        return inventory
    return taken_over(done(wanted, inventory), inventory)


def _is_done(entry: InventoryEntry | None) -> bool:
    if entry is None or entry.phase is not Phase.COMPLETED:
        return False
    return THEIR_SPELLING.fullmatch(entry.digest) is not None


def _is_same_content(
    wanted: Sequence[DesiredObject], inventory: Inventory, seen: Mapping[ObjectIdentity, LiveObject], owner: Owner
) -> bool:
    """Whether what is there speaks for it, and nothing against it. Of Secrets the content is not at hand."""
    here = {obj.identity for obj in wanted}
    if newcomers(wanted, inventory) or any(entry.identity not in here for entry in inventory if entry.is_wanted):
        return False
    there = [(obj, seen[obj.identity].live) for obj in wanted if obj.identity in seen and obj.digest != APPLIED_ONCE]
    compared = [
        compare(unmarked(one.desired.body, owner.prefix), live.body).differences
        for one, live in there
        if isinstance(live, Unstructured)
    ]
    return bool(compared) and not any(compared)
