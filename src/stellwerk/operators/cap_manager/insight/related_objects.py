"""What belongs to a CAPOperator: its inventory. And to which one an object belongs: the owner's id on it."""

from __future__ import annotations

from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.cap_manager.api import OWNER_ID, CAPOperator
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Fact, ManagingObject, Member

_PARTS_OF_AN_ID = 3


class CapOperatorKinship:
    """Reads inventories and owner's ids."""

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """The objects of the inventory, in the order in which they are applied."""
        status = lenient.convert(subject.body, CAPOperator).status
        items = sorted(status.inventory, key=lambda item: item.apply_order)
        return [Member(item.ref, item.phase, not item.is_settled) for item in items]

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """The CAPOperator whose id the object carries."""
        parts = obj.metadata.annotations.get(OWNER_ID, "").split("/")
        if len(parts) != _PARTS_OF_AN_ID or not all(parts):
            return None
        return ManagingObject(ObjectRef(CAPOperator.resource.gvk, ObjectKey(parts[1], parts[2])))

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """When the object and the whole installation were last applied."""
        status = lenient.convert(subject.body, CAPOperator).status
        item = next((entry for entry in status.inventory if entry.ref == obj.ref), None)
        facts = [
            ("Release", str(status.revision) if status.revision else ""),
            ("Applied", rfc3339(item.last_applied_at if item else None)),
            ("Ready since", rfc3339(status.last_applied_at)),
            ("Phase", item.phase if item else "not in the inventory"),
        ]
        return [(label, text) for label, text in facts if text]


kinship = CapOperatorKinship()
