"""Wanted against the inventory: who is new, who has changed, who is to go. Pure.

Ownership is decided here, when an object is seen for the first time, and before anything is written. What an object may
ask for in what order is checked here, too: an instance that should go after its definition would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stellwerk.apply.errors import InvalidSet, Problem
from stellwerk.apply.set.model import order
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.desired_set import NAMESPACE, DesiredObject
from stellwerk.apply.set.model.inventory import (
    THEIR_SPELLING,
    EntryStatus,
    Inventory,
    InventoryEntry,
    ObjectIdentity,
    Phase,
    is_managed,
)
from stellwerk.apply.set.model.owner import Ownership, Standing
from stellwerk.apply.set.model.policy import AdoptionPolicy
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource


@dataclass(frozen=True, slots=True)
class Registered:
    """The inventory as it follows from what is wanted."""

    inventory: Inventory
    must_be_saved: bool
    """Whether objects came to it that a crash must not make us forget."""


def newcomers(wanted: Iterable[DesiredObject], inventory: Inventory) -> tuple[DesiredObject, ...]:
    """The wanted objects that the set did not have so far: those whose owner must be looked at."""
    known = inventory.by_identity()
    return tuple(obj for obj in wanted if obj.identity not in known)


def taken_over(wanted: Iterable[DesiredObject], inventory: Inventory) -> Inventory:
    """The inventory of an original that was done with just what is wanted: what has done its work is not set to work
    again. Nothing of it is there to be compared with, and its digest means the same."""
    digests = {obj.identity: obj.digest for obj in wanted}
    return inventory.changed(
        {
            entry.identity: replace(entry, digest=digests[entry.identity])
            for entry in inventory
            if entry.phase is Phase.COMPLETED
            and entry.identity in digests
            and THEIR_SPELLING.fullmatch(entry.digest) is not None
        }
    )


def register(
    wanted: Sequence[DesiredObject],
    inventory: Inventory,
    existing: Mapping[ObjectIdentity, LiveObject],
    owner: Ownership,
) -> Registered:
    """The inventory with what is wanted.

    `existing` are the live objects of the newcomers, of any owner. Raises `InvalidSet` where an object belongs to
    another owner, or where the requested order contradicts itself.
    """
    known = inventory.by_identity()
    problems = [
        Problem(str(obj.desired.ref), complaint)
        for obj in wanted
        if obj.identity not in known
        and obj.identity in existing
        and (complaint := refusal(obj, existing[obj.identity].live, owner))
    ]
    if problems:
        raise InvalidSet(problems)
    here = {obj.identity for obj in wanted}
    entries = [entry if entry.identity in here else _unwanted(entry) for entry in _entries(wanted, inventory)]
    if contradictions := [*_contradictions(entries)]:
        raise InvalidSet(contradictions)
    return Registered(_ordered(entries), must_be_saved=bool(here - known.keys()))


def joined(wanted: Sequence[DesiredObject], inventory: Inventory) -> Inventory:
    """The inventory with some objects more, to be saved before they are touched. Whose they are, if they exist, is
    looked at when they are met."""
    return _ordered(_entries(wanted, inventory))


def of_wanted(wanted: Sequence[DesiredObject]) -> Inventory:
    """The inventory of a set that keeps none, while it is applied: what is wanted."""
    return joined(wanted, Inventory())


def of_live(objects: Iterable[LiveObject], delete_order: Callable[[Resource], int]) -> Inventory:
    """The inventory of a set that keeps none, while it is deleted: what is there."""
    return Inventory(
        tuple(
            InventoryEntry(
                gvk=each.address.resource.gvk,
                key=each.address.key,
                uid=each.live.metadata.uid,
                delete_order=delete_order(each.address.resource),
                phase=Phase.SCHEDULED_FOR_DELETION,
                status=EntryStatus.TERMINATING,
            )
            for each in objects
        )
    )


def refusal(obj: DesiredObject, live: Live, owner: Ownership) -> str:
    """Why an object that exists must not become ours; empty where it may."""
    adoption, standing = obj.directive.adoption, owner.standing(live.metadata)
    if standing is Standing.UNOWNED and adoption is AdoptionPolicy.NEVER:
        return "found existing object without owner, and adoption policy Never forbids to take it"
    if standing is Standing.FOREIGN and adoption is not AdoptionPolicy.ALWAYS:
        return f"owner conflict; the object is owned by {owner.owner_named_on(live.metadata)}"
    return ""


def _entries(wanted: Sequence[DesiredObject], inventory: Inventory) -> list[InventoryEntry]:
    """The entries of what is wanted, and then all others as they are."""
    known = inventory.by_identity()
    fresh = [_refreshed(obj, known.pop(obj.identity, None)) for obj in wanted]
    return [*fresh, *known.values()]


def _ordered(entries: Iterable[InventoryEntry]) -> Inventory:
    return Inventory(tuple(sorted(entries, key=lambda entry: order.delete_priority(entry.gvk))))


def _refreshed(obj: DesiredObject, entry: InventoryEntry | None) -> InventoryEntry:
    asked = obj.directive
    fresh = replace(
        entry or InventoryEntry(gvk=obj.address.resource.gvk, key=obj.address.key, status=EntryStatus.IN_PROGRESS),
        gvk=obj.address.resource.gvk,
        adoption=asked.adoption,
        reconcile=asked.reconcile,
        update=asked.update,
        delete=asked.delete,
        apply_order=asked.apply_order,
        delete_order=asked.delete_order,
        managed_types=obj.managed_types,
    )
    if fresh.digest == obj.digest and not fresh.phase.is_leaving:
        return fresh
    return replace(
        fresh,
        digest=obj.digest,
        former_digest="",
        phase=Phase.SCHEDULED_FOR_APPLICATION,
        status=EntryStatus.IN_PROGRESS,
    )


def _unwanted(entry: InventoryEntry) -> InventoryEntry:
    if not entry.digest and entry.phase.is_leaving:
        return entry
    return replace(
        entry,
        digest="",
        former_digest=entry.digest or entry.former_digest,
        phase=Phase.SCHEDULED_FOR_DELETION,
        status=EntryStatus.TERMINATING,
    )


# ---- orders that contradict each other


def _contradictions(entries: Sequence[InventoryEntry]) -> Iterator[Problem]:
    definitions = [entry for entry in entries if entry.managed_types]
    namespaces = {entry.key.name: entry for entry in entries if (entry.gvk.group, entry.gvk.kind) == NAMESPACE}
    if not definitions and not namespaces:
        return
    held_by: dict[GroupVersionKind, list[InventoryEntry]] = {}
    for entry in entries:
        if entry.gvk not in held_by:
            held_by[entry.gvk] = [holder for holder in definitions if is_managed(entry.gvk, holder.managed_types)]
        namespace = namespaces.get(entry.key.namespace)
        for holder in (*held_by[entry.gvk], *([namespace] if namespace is not None else [])):
            if entry is not holder:
                yield from _conflicts(entry, holder)


def _conflicts(entry: InventoryEntry, holder: InventoryEntry) -> Iterator[Problem]:
    if holder.is_wanted and entry.is_wanted and entry.apply_order < holder.apply_order:
        yield Problem(
            str(entry.ref), f"its apply order {entry.apply_order} is before {holder.apply_order} of {holder.ref}"
        )
    if entry.delete_order > holder.delete_order:
        yield Problem(
            str(entry.ref), f"its delete order {entry.delete_order} is after {holder.delete_order} of {holder.ref}"
        )
    if entry.is_wanted and not holder.is_wanted and not holder.delete.orphans_on_apply:
        yield Problem(str(holder.ref), f"it is no longer wanted, but {entry.ref} is, which cannot exist without it")
