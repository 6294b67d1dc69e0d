"""An inventory that only lists its objects, as Kyma's `status.synced` does (pure).

Such a list does not record digests or policies. The owner's marks on each object decide whether it belongs to the set,
and the last answer of the API server decides whether it is as wanted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from stellwerk.apply.set.model.inventory import Inventory, InventoryEntry, Phase
from stellwerk.apply.set.model.policy import Directive
from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey
from stellwerk.kube.types.object_meta import Record


class InventoryReference(Record, frozen=True, kw_only=True):
    """One object of the list. All fields are always written, the namespace of a cluster-scoped object as empty text."""

    group: Annotated[str, documented("API group; empty for the core group.", example="apps")]
    version: Annotated[str, documented("API version.", example="v1")]
    kind: Annotated[str, documented("Kind.", example="Deployment")]
    name: Annotated[str, documented("Name.")]
    namespace: Annotated[str, documented("Namespace; empty for cluster-scoped kinds.")]


def read(references: Iterable[InventoryReference], directive: Directive) -> Inventory:
    """The inventory of the listed objects, each once, under the policies of `directive`.

    Entries without kind or name are ignored: nothing can be meant by them, and nothing may be deleted for them.
    """
    found: dict[tuple[str, str, ObjectKey], InventoryEntry] = {}
    for reference in references:
        key = ObjectKey(reference.namespace, reference.name)
        if not (reference.kind and reference.version and reference.name):
            continue
        found[reference.group, reference.kind, key] = InventoryEntry(
            gvk=GroupVersionKind(reference.group, reference.version, reference.kind),
            key=key,
            adoption=directive.adoption,
            update=directive.update,
            delete=directive.delete,
            phase=Phase.SCHEDULED_FOR_APPLICATION,
        )
    return Inventory(tuple(found.values()))


def write(inventory: Inventory) -> tuple[InventoryReference, ...]:
    """The list for an inventory, sorted, so that an unchanged set gives an unchanged list."""
    return tuple(
        InventoryReference(
            group=entry.gvk.group,
            version=entry.gvk.version,
            kind=entry.gvk.kind,
            name=entry.key.name,
            namespace=entry.key.namespace,
        )
        for entry in sorted(inventory, key=lambda entry: (entry.gvk, entry.key))
    )
