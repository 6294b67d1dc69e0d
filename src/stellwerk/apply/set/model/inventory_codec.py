"""The inventory as it is kept: in the status of a custom resource, or in a store of a program's own (pure).

The words are the originals', so that either can go on where the other has stopped. A word that is unknown to us is
taken for one that has to be applied again, which is always safe, and never for one that may be deleted.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from enum import Enum
from typing import Annotated, TypeVar

from stellwerk.apply.set.model.inventory import EntryStatus, Inventory, InventoryEntry, ManagedType, Phase
from stellwerk.apply.set.model.policy import AdoptionPolicy, DeletePolicy, ReconcilePolicy, UpdatePolicy
from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import Record

E_ = TypeVar("E_", bound=Enum)


_ORDER: JsonObject = {"format": None}
"""The original's schema does not limit the width of these integers."""


class Item(Record, frozen=True, kw_only=True):
    """One dependent object."""

    group: Annotated[str, documented("API group; empty for the core group.", example="apps")]
    version: Annotated[str, documented("API version.", example="v1")]
    kind: Annotated[str, documented("Kind.", example="Deployment")]
    namespace: Annotated[str, documented("Namespace; absent for cluster-scoped kinds.")] = ""
    name: Annotated[str, documented("Name.")]
    uid: Annotated[
        str,
        documented(
            "Of the object as it was written last. One of another uid and without the owner's label was created "
            "by another client; it is never deleted."
        ),
    ] = ""
    adoption_policy: Annotated[str, documented("Adoption policy in force.", example="IfUnowned")]
    reconcile_policy: Annotated[str, documented("Reconcile policy in force.", example="OnObjectChange")]
    update_policy: Annotated[str, documented("Update policy in force.", example="SsaOverride")]
    delete_policy: Annotated[str, documented("Delete policy in force.", example="Delete")]
    apply_order: Annotated[int, documented("Wave in which it is applied; lower ones come first.", schema=_ORDER)]
    delete_order: Annotated[int, documented("Wave in which it is deleted; lower ones come first.", schema=_ORDER)]
    managed_types: Annotated[tuple[ManagedType, ...], documented("Kinds that it brings.")] = ()
    digest: Annotated[str, documented("Fingerprint of what is wanted; empty once it is no longer wanted.")]
    former_digest: Annotated[str, documented("Fingerprint of what was wanted last, once it is no longer wanted.")] = ""
    phase: Annotated[str, documented("Where it is on its way.", example="Ready")] = ""
    status: Annotated[
        str,
        documented(
            "InProgress, Current, Failed, Terminating, NotFound or Unknown, by the rules of kstatus.", example="Current"
        ),
    ] = ""
    last_applied_at: Annotated[datetime | None, documented("When it was last written.")] = None

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return ObjectKey(self.namespace, self.name)

    @property
    def ref(self) -> ObjectRef:
        """Kind, namespace and name."""
        return ObjectRef(GroupVersionKind(self.group, self.version, self.kind), self.key)

    @property
    def is_settled(self) -> bool:
        """Whether nothing has to happen any more."""
        return self.phase in _SETTLED


_USABLE = re.compile(
    r"[a-z0-9.-]{0,253}\n[a-z0-9-]{1,63}\n[A-Za-z0-9]{1,63}\n[a-z0-9-]{0,63}\n(?!\.{1,2}\n)[^/%\x00-\x1f\x7f]{1,253}\n"
    r"[!-~]{0,128}\n[!-~]{0,256}\n[!-~]{0,256}"
)
"""Group, version, kind, namespace, name, uid, digest and former digest, line by line."""
_MOST_TYPES = 64
_SHOWN = 60


def complaint(items: Sequence[Item]) -> tuple[int, str] | None:
    """The first entry that no operator has written, by its place, and why; None where all can be worked with.

    A status may be edited. A name that is no segment of a path would lead a request elsewhere.
    """
    met: set[tuple[str, str, str, str]] = set()
    for place, item in enumerate(items):
        identity = (item.group, item.kind, item.namespace, item.name)
        if why := "it is there twice" if identity in met else _complaint(item):
            return place, why
        met.add(identity)
    return None


def _complaint(item: Item) -> str:
    identity = (item.group, item.version, item.kind, item.namespace, item.name)
    words = (*identity, item.uid, item.digest, item.former_digest)
    if len(item.managed_types) > _MOST_TYPES:
        return f"it brings more than {_MOST_TYPES} kinds"
    if _USABLE.fullmatch("\n".join(words)):
        return ""
    usable = ("", "v1", "A", "", "a", "", "", "")
    for place, (name, word) in enumerate(zip(_WORDS, words, strict=True)):
        if not _USABLE.fullmatch("\n".join((*usable[:place], word, *usable[place + 1 :]))):
            shown = f"{word[:_SHOWN]!r}{f' ({len(word)} characters)' if len(word) > _SHOWN else ''}"
            return f"its {name} cannot be {shown}"
    return "its fields hold line breaks"


_WORDS = ("group", "version", "kind", "namespace", "name", "uid", "digest", "formerDigest")
_SETTLED = frozenset(phase.value for phase in Phase if phase.is_settled)


def read(items: Sequence[Item]) -> Inventory:
    """The inventory as the rollout works with it."""
    return Inventory(tuple(_entry(item) for item in items))


def write(inventory: Inventory) -> tuple[Item, ...]:
    """The inventory as it is kept."""
    return tuple(_item(entry) for entry in inventory)


def summary(inventory: Inventory) -> str:
    """How far the objects are, in a few words."""
    if not len(inventory):
        return ""
    leaving = sum(entry.phase.is_leaving for entry in inventory)
    settled = sum(entry.phase.is_settled for entry in inventory)
    said = f"{settled} of {len(inventory) - leaving} ready"
    return f"{said}, {leaving} leaving" if leaving else said


def _entry(item: Item) -> InventoryEntry:
    return InventoryEntry(
        gvk=GroupVersionKind(item.group, item.version, item.kind),
        key=item.key,
        uid=item.uid,
        adoption=_word(item.adoption_policy, AdoptionPolicy.IF_UNOWNED),
        reconcile=_word(item.reconcile_policy, ReconcilePolicy.ON_OBJECT_CHANGE),
        update=_word(item.update_policy, UpdatePolicy.SSA_OVERRIDE),
        delete=_word(item.delete_policy, DeletePolicy.ORPHAN),
        apply_order=item.apply_order,
        delete_order=item.delete_order,
        managed_types=item.managed_types,
        digest=item.digest,
        former_digest=item.former_digest,
        phase=_word(item.phase, Phase.SCHEDULED_FOR_APPLICATION if item.digest else Phase.SCHEDULED_FOR_DELETION),
        status=_word(item.status, EntryStatus.UNKNOWN),
        last_applied_at=item.last_applied_at,
    )


def _item(entry: InventoryEntry) -> Item:
    return Item(
        group=entry.gvk.group,
        version=entry.gvk.version,
        kind=entry.gvk.kind,
        namespace=entry.key.namespace,
        name=entry.key.name,
        uid=entry.uid,
        adoption_policy=entry.adoption.value,
        reconcile_policy=entry.reconcile.value,
        update_policy=entry.update.value,
        delete_policy=entry.delete.value,
        apply_order=entry.apply_order,
        delete_order=entry.delete_order,
        managed_types=entry.managed_types,
        digest=entry.digest,
        former_digest=entry.former_digest,
        phase=entry.phase.value,
        status=entry.status.value,
        last_applied_at=entry.last_applied_at,
    )


def _word(text: str, fallback: E_) -> E_:
    try:
        return type(fallback)(text)
    except ValueError:
        return fallback
