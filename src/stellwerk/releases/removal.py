"""What becomes of the objects of a release when it is deleted (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from stellwerk.apply.set.model.desired_set import NAMESPACE
from stellwerk.apply.set.model.inventory import InventoryEntry, ObjectIdentity
from stellwerk.apply.set.plan.plan_input import LiveObject, PlanInput
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.releases.release import Release


@dataclass(frozen=True, slots=True)
class Departure:
    """What the deletion does with an object that exists."""

    ref: ObjectRef
    stays: str = ""
    """Why it stays; empty where it is deleted."""


def departures(release: Release, seen: Mapping[ObjectIdentity, LiveObject], now: datetime) -> list[Departure]:
    """What becomes of the objects of a release that exist. `seen` are those of any owner."""
    there = [entry for entry in release.inventory if entry.identity in seen]
    return [Departure(entry.ref, _obstacle(release, entry, seen, now)) for entry in there]


def without_own_namespace(release: Release, seen: Mapping[ObjectIdentity, LiveObject], now: datetime) -> Release:
    """The release without the Namespace that it is kept in, once that is being deleted.

    The Namespace waits until the ConfigMap of the release is gone, whose finalizer would wait for the Namespace. A
    Namespace that is being deleted cannot come back, so there is nothing more to do about it.
    """
    inventory = release.inventory
    ended: dict[ObjectIdentity, InventoryEntry | None] = {
        entry.identity: None
        for entry in inventory
        if (entry.gvk.group, entry.gvk.kind, entry.key.name) == (*NAMESPACE, release.key.namespace)
        and entry.identity in seen
        and not _obstacle(release, entry, seen, now)
        and seen[entry.identity].live.metadata.is_terminating
    }
    return replace(release, inventory=inventory.changed(ended))


def _obstacle(release: Release, entry: InventoryEntry, seen: Mapping[ObjectIdentity, LiveObject], now: datetime) -> str:
    if entry.delete.orphans_on_delete:
        return f"delete policy {entry.delete.value}"
    state = PlanInput(owner=release.owner, seen=seen, now=now, clock=0)
    return "" if state.proves(entry, seen[entry.identity].live) else "not ours any more"
