"""The inventory of a release as its store spells it, and as the rollout works with it (pure)."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import TypeVar

import msgspec

from stellwerk.apply.rollout.inventory import Entry, Inventory, ManagedType, Phase, Status
from stellwerk.apply.rollout.policy import AdoptionPolicy, DeletePolicy, ReconcilePolicy, UpdatePolicy
from stellwerk.kube.meta import Record, rfc3339
from stellwerk.kube.model import JsonObject, JsonValue
from stellwerk.kube.names import GroupVersionKind, ObjectKey

E_ = TypeVar("E_", bound=Enum)


class _Type(Record, frozen=True, kw_only=True):
    group: str = ""
    version: str = ""
    kind: str = ""


class _Item(Record, frozen=True, kw_only=True):
    group: str = ""
    version: str
    kind: str
    namespace: str = ""
    name: str
    adoption_policy: str = ""
    reconcile_policy: str = ""
    update_policy: str = ""
    delete_policy: str = ""
    apply_order: int = 0
    delete_order: int = 0
    managed_types: tuple[_Type, ...] = ()
    digest: str = ""
    phase: str = ""
    status: str = ""
    last_applied_at: datetime | None = None


def read(stored: JsonValue) -> Inventory:
    """The inventory that a store holds. Raises ValueError."""
    return Inventory(tuple(_entry(item) for item in msgspec.convert(stored or [], tuple[_Item, ...])))


def write(inventory: Inventory) -> list[JsonObject]:
    """The inventory as a store holds it."""
    return [_stored(entry) for entry in inventory]


def _entry(item: _Item) -> Entry:
    return Entry(
        gvk=GroupVersionKind(item.group, item.version, item.kind),
        key=ObjectKey(item.namespace, item.name),
        adoption=_word(item.adoption_policy, AdoptionPolicy.IF_UNOWNED),
        reconcile=_word(item.reconcile_policy, ReconcilePolicy.ON_OBJECT_CHANGE),
        update=_word(item.update_policy, UpdatePolicy.SSA_OVERRIDE),
        delete=_word(item.delete_policy, DeletePolicy.ORPHAN),
        apply_order=item.apply_order,
        delete_order=item.delete_order,
        managed_types=tuple(ManagedType(type_.group, type_.version, type_.kind) for type_ in item.managed_types),
        digest=item.digest,
        phase=_word(item.phase, Phase.SCHEDULED_FOR_APPLICATION if item.digest else Phase.SCHEDULED_FOR_DELETION),
        status=_word(item.status, Status.UNKNOWN),
        last_applied_at=item.last_applied_at,
    )


def _word(text: str, fallback: E_) -> E_:
    try:
        return type(fallback)(text)
    except ValueError:
        return fallback


def _stored(entry: Entry) -> JsonObject:
    stored: JsonObject = {
        "group": entry.gvk.group,
        "version": entry.gvk.version,
        "kind": entry.gvk.kind,
        "namespace": entry.key.namespace,
        "name": entry.key.name,
        "adoptionPolicy": entry.adoption.value,
        "reconcilePolicy": entry.reconcile.value,
        "updatePolicy": entry.update.value,
        "deletePolicy": entry.delete.value,
        "applyOrder": entry.apply_order,
        "deleteOrder": entry.delete_order,
        "managedTypes": [
            {"group": type_.group, "version": type_.version, "kind": type_.kind} for type_ in entry.managed_types
        ],
        "digest": entry.digest,
        "phase": entry.phase.value,
        "status": entry.status.value,
        "lastAppliedAt": rfc3339(entry.last_applied_at),
    }
    optional = ("namespace", "managedTypes", "phase", "status", "lastAppliedAt")
    return {key: value for key, value in stored.items() if value or key not in optional}
