"""The inventory as the status spells it, and as the rollout works with it (pure).

What the original wrote is understood, also where a word is unknown to us: such an item is taken for one that has to be
applied again, which is always safe, and never for one that may be deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TypeVar

from stellwerk.apply.rollout import inventory as rollout
from stellwerk.apply.rollout.inventory import Entry, Inventory, Phase, Status
from stellwerk.apply.rollout.policy import AdoptionPolicy, DeletePolicy, ReconcilePolicy, UpdatePolicy
from stellwerk.kube.names import GroupVersionKind, ObjectKey
from stellwerk.operators.component.api_status import InventoryItem, ManagedType

E_ = TypeVar("E_", bound=Enum)


def read(items: Sequence[InventoryItem]) -> Inventory:
    """The inventory that a status holds."""
    return Inventory(tuple(_entry(item) for item in items))


def write(inventory: Inventory) -> tuple[InventoryItem, ...]:
    """The inventory as a status holds it."""
    return tuple(_item(entry) for entry in inventory)


def summary(inventory: Inventory) -> str:
    """How far the objects are, in a few words."""
    if not len(inventory):
        return ""
    leaving = sum(entry.phase.is_leaving for entry in inventory)
    settled = sum(entry.phase.is_settled for entry in inventory)
    said = f"{settled} of {len(inventory) - leaving} ready"
    return f"{said}, {leaving} leaving" if leaving else said


def _entry(item: InventoryItem) -> Entry:
    return Entry(
        gvk=GroupVersionKind(item.group, item.version, item.kind),
        key=ObjectKey(item.namespace, item.name),
        adoption=_word(item.adoption_policy, AdoptionPolicy.IF_UNOWNED),
        reconcile=_word(item.reconcile_policy, ReconcilePolicy.ON_OBJECT_CHANGE),
        update=_word(item.update_policy, UpdatePolicy.SSA_OVERRIDE),
        delete=_word(item.delete_policy, DeletePolicy.ORPHAN),
        apply_order=item.apply_order,
        delete_order=item.delete_order,
        managed_types=tuple(
            rollout.ManagedType(type_.group, type_.version, type_.kind) for type_ in item.managed_types
        ),
        digest=item.digest,
        phase=_word(item.phase, Phase.SCHEDULED_FOR_APPLICATION if item.digest else Phase.SCHEDULED_FOR_DELETION),
        status=_word(item.status, Status.UNKNOWN),
        last_applied_at=item.last_applied_at,
    )


def _item(entry: Entry) -> InventoryItem:
    return InventoryItem(
        group=entry.gvk.group,
        version=entry.gvk.version,
        kind=entry.gvk.kind,
        namespace=entry.key.namespace,
        name=entry.key.name,
        adoption_policy=entry.adoption.value,
        reconcile_policy=entry.reconcile.value,
        update_policy=entry.update.value,
        delete_policy=entry.delete.value,
        apply_order=entry.apply_order,
        delete_order=entry.delete_order,
        managed_types=tuple(
            ManagedType(group=type_.group, version=type_.version, kind=type_.kind) for type_ in entry.managed_types
        ),
        digest=entry.digest,
        phase=entry.phase.value,
        status=entry.status.value,
        last_applied_at=entry.last_applied_at,
    )


def _word(text: str, fallback: E_) -> E_:
    try:
        return type(fallback)(text)
    except ValueError:
        return fallback
