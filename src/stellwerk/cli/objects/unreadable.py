"""Objects that exist and cannot be decoded: `get`, `status` and `why` show their metadata."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.kube.types.model import JsonObject, Unreadable, Unstructured, to_json_object
from stellwerk.kube.types.object_meta import ObjectMeta

REASON = "ObjectUnreadable"
NEXT_STEP = "correct the field that the message names with kubectl edit, or delete the object."


@dataclass(slots=True, frozen=True, eq=False)
class MetadataOnlyObject(Unstructured):
    """An object of which only the metadata can be read."""

    why: str

    @property
    def message(self) -> str:
        """The field and the cause."""
        return f"object cannot be read: {self.why}"


def unread(obj: Unreadable) -> MetadataOnlyObject:
    """An object that cannot be decoded, with the labels and times that could be read."""
    gvk, known = obj.resource.gvk, obj.metadata
    shown = ObjectMeta(
        name=known.name,
        namespace=known.namespace,
        uid=known.uid,
        resource_version=known.resource_version,
        creation_timestamp=known.creation_timestamp,
        labels=known.labels,
    )
    body: JsonObject = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": to_json_object(shown)}
    return MetadataOnlyObject(body, known, obj.why)
