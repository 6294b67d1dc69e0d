"""What a set consists of, and how far each of its objects is.

The inventory is the set's memory: it is in the status of the custom resource and is saved before an object is touched
for the first time, so that whatever a crash leaves behind is known to the next process. Everything else that matters is
seen in the cluster again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Annotated, NamedTuple

from stellwerk.apply.set.model.policy import AdoptionPolicy, DeletePolicy, ReconcilePolicy, UpdatePolicy
from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.object_meta import Record

APPLIED_ONCE = "__once__"
"""The digest of an object that is written once and then left alone."""

THEIR_SPELLING = re.compile(r"[0-9a-f]{64}(?:@.*)?")
"""Of a digest that one of the originals has made: it is longer than ours, and made from another representation."""


class Phase(Enum):
    """How far an object is. The words are the originals'."""

    SCHEDULED_FOR_APPLICATION = "ScheduledForApplication"
    CREATING = "Creating"
    UPDATING = "Updating"
    READY = "Ready"
    SCHEDULED_FOR_COMPLETION = "ScheduledForCompletion"
    COMPLETING = "Completing"
    COMPLETED = "Completed"
    SCHEDULED_FOR_DELETION = "ScheduledForDeletion"
    DELETING = "Deleting"

    @property
    def is_settled(self) -> bool:
        """Whether nothing has to happen any more."""
        return self in (Phase.READY, Phase.COMPLETED)

    @property
    def is_leaving(self) -> bool:
        """Whether the object is on its way out for good."""
        return self in (Phase.SCHEDULED_FOR_DELETION, Phase.DELETING)


class EntryStatus(Enum):
    """kstatus' word about an object, as the inventory shows it."""

    NONE = ""
    IN_PROGRESS = "InProgress"
    CURRENT = "Current"
    FAILED = "Failed"
    TERMINATING = "Terminating"
    NOT_FOUND = "NotFound"
    UNKNOWN = "Unknown"


class ObjectIdentity(NamedTuple):
    """What makes an object the same: the version of its kind does not."""

    group: str
    kind: str
    key: ObjectKey

    @classmethod
    def of(cls, ref: ObjectRef) -> ObjectIdentity:
        """The identity of an object."""
        return cls(ref.gvk.group, ref.gvk.kind, ref.key)


class ManagedType(Record, frozen=True):
    """A kind that an object of the inventory brings: a CustomResourceDefinition or an APIService."""

    group: Annotated[str, documented("API group.")]
    version: Annotated[str, documented("Version, or `*`.")]
    kind: Annotated[str, documented("Kind, or `*`.")]

    def matches(self, gvk: GroupVersionKind) -> bool:
        """Whether a kind is meant."""
        return self.group == gvk.group and self.version in ("*", gvk.version) and self.kind in ("*", gvk.kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryEntry:
    """One object of the set."""

    gvk: GroupVersionKind
    key: ObjectKey
    uid: str = ""
    """Of the object that we wrote last; empty where it is not known: we have not written it yet."""
    adoption: AdoptionPolicy = AdoptionPolicy.IF_UNOWNED
    reconcile: ReconcilePolicy = ReconcilePolicy.ON_OBJECT_CHANGE
    update: UpdatePolicy = UpdatePolicy.REPLACE
    delete: DeletePolicy = DeletePolicy.DELETE
    apply_order: int = 0
    delete_order: int = 0
    managed_types: tuple[ManagedType, ...] = ()
    digest: str = ""
    """Of what is wanted; empty where the object is no longer wanted."""
    former_digest: str = ""
    """Of what was wanted last, where the object is no longer wanted."""
    phase: Phase = Phase.SCHEDULED_FOR_APPLICATION
    status: EntryStatus = EntryStatus.NONE
    last_applied_at: datetime | None = None

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name, for messages."""
        return ObjectRef(self.gvk, self.key)

    @property
    def identity(self) -> ObjectIdentity:
        """What makes it the same object."""
        return ObjectIdentity(self.gvk.group, self.gvk.kind, self.key)

    @property
    def is_wanted(self) -> bool:
        """Whether the manifest still has it."""
        return bool(self.digest)

    def is_replaced_by(self, uid: str) -> bool:
        """Whether an object of this uid has taken the place of the one that we wrote."""
        return self.uid not in ("", uid)

    def now(self, phase: Phase, status: EntryStatus) -> InventoryEntry:
        """The entry further on; itself where it is there already."""
        if (self.phase, self.status) == (phase, status):
            return self
        return replace(self, phase=phase, status=status)


@dataclass(frozen=True, slots=True)
class Inventory:
    """The entries of a set, in the order in which they would be deleted. A value: a change is a new inventory."""

    entries: tuple[InventoryEntry, ...] = ()

    def __iter__(self) -> Iterator[InventoryEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def by_identity(self) -> dict[ObjectIdentity, InventoryEntry]:
        """The entries, to look up."""
        return {entry.identity: entry for entry in self.entries}

    def changed(self, changes: Mapping[ObjectIdentity, InventoryEntry | None]) -> Inventory:
        """The inventory with some entries as they are now; None takes one out."""
        if not changes:
            return self
        kept = (changes.get(entry.identity, entry) for entry in self.entries)
        return Inventory(tuple(entry for entry in kept if entry is not None))

    @property
    def stays_on_delete(self) -> bool:
        """Whether all objects stay when the set is deleted."""
        return all(entry.delete.orphans_on_delete for entry in self.entries)

    @property
    def managed_types(self) -> tuple[ManagedType, ...]:
        """All kinds that the set brings with it."""
        return tuple(dict.fromkeys(type_ for entry in self.entries for type_ in entry.managed_types))


def is_managed(gvk: GroupVersionKind, types: Iterable[ManagedType]) -> bool:
    """Whether a kind is one that the set brings with it."""
    return any(type_.matches(gvk) for type_ in types)
