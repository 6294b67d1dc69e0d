"""What to take away next: objects that are no longer wanted, or a whole set. Pure.

The order is the author's delete order; within it instances go before their kinds, then the rest, the services of SAP
BTP when the rest is gone, and a namespace when nothing of the set is in it any more. The next wave waits until the one
before is gone.

An object is deleted only while it is ours: what carries another owner's label, or none, or has another uid than the one
that was written last, was taken over or replaced by another client, and is orphaned. What a cache does not show is
looked up before it is forgotten, because a cache may be older than the object, unless it is to stay. A definition stays
as long as others have instances: with it, those would be deleted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model import order
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import NAMESPACE, is_definition
from stellwerk.apply.set.model.inventory import (
    EntryStatus,
    Inventory,
    InventoryEntry,
    ObjectIdentity,
    Phase,
)
from stellwerk.apply.set.plan.actions import Action, LookUp, Remove, RemoveFinalizer
from stellwerk.apply.set.plan.plan_input import IN_USE_SECONDS, UNSERVED, UNSERVED_SECONDS, LiveObject, PlanInput
from stellwerk.apply.set.plan.stage import Stage, Unready, deletion_wait, grouped
from stellwerk.kube.types.identifiers import Resource

_SERVICES = "services.cloud.sap.com"


def of_set(inventory: Inventory, state: PlanInput) -> Stage:
    """What can be taken away now of a set that goes whole."""
    return _next(inventory, inventory.entries, state, whole=True)


def of_unused_set(inventory: Inventory, state: PlanInput) -> Stage:
    """What can be taken away now of a set that goes whole, and only while no others use the kinds that it brings.

    Instances that come between the check of a set and its deletion keep all of it, not only their definition: without
    their controller they could not go any more.
    """
    used = [Unready(entry.ref, state.in_use[entry.identity]) for entry in inventory if entry.identity in state.in_use]
    if not used or inventory.stays_on_delete:
        return of_set(inventory, state)
    return Stage(inventory, waits=tuple(used), again_at=state.clock + IN_USE_SECONDS)


def of_part(inventory: Inventory, part: Sequence[InventoryEntry], state: PlanInput) -> Stage:
    """What can be taken away now of a part of a set that goes whole."""
    return _next(inventory, part, state, whole=True)


def of_unwanted(inventory: Inventory, state: PlanInput) -> Stage:
    """What can be taken away now of what the manifest no longer has."""
    return _next(inventory, [entry for entry in inventory if not entry.is_wanted], state, whole=False)


def _next(inventory: Inventory, leaving: Sequence[InventoryEntry], state: PlanInput, *, whole: bool) -> Stage:
    if not leaving:
        return Stage(inventory, done=True)
    first = min(entry.delete_order for entry in leaving)
    wave = [entry for entry in leaving if entry.delete_order == first]
    walk = _PruneWalk(inventory, state, whole=whole)
    for entry in _instances(wave, inventory, state) or _users_of_services(wave) or wave:
        walk.plan_entry(entry)
    return walk.stage()


def _instances(wave: Sequence[InventoryEntry], inventory: Inventory, state: PlanInput) -> list[InventoryEntry]:
    """Instances of kinds that the set brings: they need their controllers to go."""
    types = inventory.managed_types
    kinds = {gvk for gvk in {entry.gvk for entry in wave} if state.is_instance(gvk, types)}
    return [entry for entry in wave if entry.gvk in kinds]


def _users_of_services(wave: Sequence[InventoryEntry]) -> list[InventoryEntry]:
    """All but instances and bindings of SAP BTP, whose credentials others need to clean up behind them: the tenants of
    a CAPApplication are deprovisioned by Jobs that log in with the Secret of a binding."""
    return [entry for entry in wave if entry.gvk.group != _SERVICES]


def _orphans(entry: InventoryEntry, *, whole: bool) -> bool:
    return entry.delete.orphans_on_delete if whole else entry.delete.orphans_on_apply


class _PruneWalk:
    """Collects what becomes of the entries of a wave."""

    def __init__(self, inventory: Inventory, state: PlanInput, *, whole: bool) -> None:
        self._inventory = inventory
        self._state = state
        self._whole = whole
        self._namespaces = {entry.key.namespace for entry in inventory}
        self._actions: list[Action] = []
        self._changes: dict[ObjectIdentity, InventoryEntry | None] = {}
        self._waits: list[Unready] = []
        self._again_at = math.inf

    def plan_entry(self, entry: InventoryEntry) -> None:
        """Decide about one entry."""
        seen = self._state.seen.get(entry.identity)
        if seen is None:
            self._drop_from_inventory(entry)
        elif self._is_orphaned(entry, seen.live):
            self._orphan(entry, seen)
        elif entry.identity in self._state.in_use:
            self._wait(entry, self._state.in_use[entry.identity], look_again_after=IN_USE_SECONDS)
        elif self._namespace_in_use(entry):
            self._wait(entry, "other objects of the set are in it")
        else:
            self._delete(entry, seen)

    def _wait(self, entry: InventoryEntry, why: str, *, look_again_after: float = math.inf) -> None:
        self._waits.append(Unready(entry.ref, why))
        self._again_at = min(self._again_at, self._state.clock + look_again_after)

    def _namespace_in_use(self, entry: InventoryEntry) -> bool:
        return (entry.gvk.group, entry.gvk.kind) == NAMESPACE and entry.key.name in self._namespaces

    def stage(self) -> Stage:
        """What came of it."""
        inventory = self._inventory.changed(self._changes)
        groups = grouped(self._actions, key=lambda action: order.delete_priority(action.address.resource.gvk))
        again = len(inventory) < len(self._inventory)  # who has left may have been waited for
        again_at = self._again_at if self._again_at < math.inf else None
        return Stage(inventory, groups=groups, waits=tuple(self._waits), again=again, again_at=again_at)

    def _drop_from_inventory(self, entry: InventoryEntry) -> None:
        """Gone, or only hidden. What has done its work was seen to be gone when that was saved. What is to stay is not
        looked up, because that needs the right to delete it; only of a definition would our finalizer have to go."""
        resource = self._state.resources.get(entry.identity)
        is_gone = entry.phase is Phase.COMPLETED or entry.identity in self._state.absent
        stays = _orphans(entry, whole=self._whole) and not is_definition(entry.gvk)
        if is_gone or stays or resource is None or not _fits(entry, resource):
            self._changes[entry.identity] = None
        elif not resource.plural:  # its APIService is wanted, and nothing can be asked before it answers
            self._wait(entry, UNSERVED, look_again_after=UNSERVED_SECONDS)
        else:
            self._actions.append(LookUp(Address(resource, entry.key), is_unwritten=not entry.uid))
            self._wait(entry, "is being looked for")

    def _is_orphaned(self, entry: InventoryEntry, live: Live) -> bool:
        return not self._state.proves(entry, live) or _orphans(entry, whole=self._whole)

    def _orphan(self, entry: InventoryEntry, seen: LiveObject) -> None:
        """The object stays; only our finalizer must not."""
        if self._state.proves(entry, seen.live) and self._state.is_held(entry.gvk, seen.live):
            self._release(seen)
            self._wait(entry, "is being released")
        else:
            self._changes[entry.identity] = None

    def _delete(self, entry: InventoryEntry, seen: LiveObject) -> None:
        self._changes[entry.identity] = entry.now(Phase.DELETING, EntryStatus.TERMINATING)
        metadata = seen.live.metadata
        if not metadata.is_terminating:
            why = "the set is deleted" if self._whole else "it is no longer wanted"
            self._actions.append(Remove(seen.address, metadata.uid, metadata.resource_version, why))
        elif self._state.is_held(entry.gvk, seen.live):
            self._release(seen)
        self._wait(entry, deletion_wait(metadata.finalizers))

    def _release(self, seen: LiveObject) -> None:
        metadata = seen.live.metadata
        self._actions.append(
            RemoveFinalizer(seen.address, metadata.uid, metadata.resource_version, metadata.finalizers)
        )


def _fits(entry: InventoryEntry, resource: Resource) -> bool:
    """Whether the scope of the kind is still what it was. If not, the object is gone, and a path made from its key
    would be that of another."""
    return resource.namespaced == bool(entry.key.namespace)
