"""What belongs to an object with an inventory, and to which one an object belongs, for a person who follows the lines.

Down: the inventory. Up: the owner's id that every object of the set carries in clear. It begins with the uid of the
cluster of the owner, so that an object in another cluster is not taken for one of an owner next to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

from stellwerk.api.core import Namespace
from stellwerk.delivery.sets.inventory_status import InventoryStatus
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Fact, ManagingObject, Member

_PARTS_OF_AN_ID = 3


class _WithInventory(Protocol):
    resource: ClassVar[Resource]

    @property
    def status(self) -> InventoryStatus: ...


O_ = TypeVar("O_", bound=_WithInventory)


@dataclass(frozen=True, slots=True)
class InventoryKinship(Generic[O_]):
    """Reads inventories and owner's ids. `owner_key`: the annotation with the id."""

    kind: type[O_]
    owner_key: str
    is_elsewhere: Callable[[O_], bool] | None = None
    """Whether the objects are in another cluster; None: they never are."""
    source: Callable[[O_], Iterable[Fact]] = lambda _: ()
    """Where the content comes from."""

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """The objects of the inventory, in the order in which they are applied."""
        owner = lenient.convert(subject.body, self.kind)
        elsewhere = self.is_elsewhere is not None and self.is_elsewhere(owner)
        items = sorted(owner.status.inventory, key=lambda item: item.apply_order)
        return [Member(item.ref, item.phase, not item.is_settled, elsewhere) for item in items]

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """The owner whose id the object carries."""
        parts = obj.metadata.annotations.get(self.owner_key, "").split("/")
        if len(parts) != _PARTS_OF_AN_ID or not all(parts):
            return None
        cluster, namespace, name = parts
        home = await reader.find(Namespace.resource, "kube-system", "") if self.is_elsewhere is not None else None
        elsewhere = home is not None and home.metadata.uid != cluster
        return ManagingObject(ObjectRef(self.kind.resource.gvk, ObjectKey(namespace, name)), elsewhere)

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """The source, and when the object and the whole set were last applied."""
        owner, ref = lenient.convert(subject.body, self.kind), obj.ref
        wanted, status = (ref.gvk.group, ref.gvk.kind, ref.key), owner.status
        item = next((each for each in status.inventory if (each.group, each.kind, each.key) == wanted), None)
        facts = [
            *self.source(owner),
            ("Release", str(status.revision) if status.revision else ""),
            ("Applied", rfc3339(item.last_applied_at if item else None)),
            ("Ready since", rfc3339(status.last_applied_at)),
            ("Phase", item.phase if item else "not in the inventory"),
        ]
        return [(label, text) for label, text in facts if text]
