"""What belongs to a Component, and which Component an object belongs to, for a person who follows the lines.

Down: the inventory. Up: the owner's id that every object carries in clear. It begins with the uid of the cluster in
which the Component is, so that an object in a target cluster is not taken for one of a Component next to it.
"""

from __future__ import annotations

from stellwerk.api.core import Namespace
from stellwerk.apply.set.model.inventory_codec import Item
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.component.api import OWNER_ID, Component
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.sources import sources
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.insight.related_objects import Fact, ManagingObject, Member

_PARTS_OF_AN_ID = 3


class ComponentKinship:
    """Reads inventories and owner's ids."""

    async def members(self, reader: ClusterReader, subject: Unstructured) -> list[Member]:
        """The objects of the inventory, in the order in which they are applied."""
        component = lenient.convert(subject.body, Component)
        is_elsewhere = component.spec.kube_config is not None
        items = sorted(component.status.inventory, key=lambda item: item.apply_order)
        return [Member(item.ref, item.phase, not item.is_settled, is_elsewhere) for item in items]

    async def manager(self, reader: ClusterReader, obj: Unstructured) -> ManagingObject | None:
        """The Component whose id the object carries."""
        parts = obj.metadata.annotations.get(OWNER_ID, "").split("/")
        if len(parts) != _PARTS_OF_AN_ID or not all(parts):
            return None
        cluster, namespace, name = parts
        home = await reader.find(Namespace.resource, "kube-system", "")
        is_elsewhere = home is not None and home.metadata.uid != cluster
        return ManagingObject(ObjectRef(Component.resource.gvk, ObjectKey(namespace, name)), is_elsewhere)

    def origin(self, subject: Unstructured, obj: Unstructured) -> list[Fact]:
        """Source, revision, and when the object and the whole Component were last applied."""
        component = lenient.convert(subject.body, Component)
        status = component.status
        item = next((entry for entry in status.inventory if _is(entry, obj.ref)), None)
        facts = [
            ("Source", _source(component)),
            ("Path", component.spec.path),
            ("Revision", status.last_applied_revision or status.last_attempted_revision),
            ("Digest", status.last_applied_digest or status.last_attempted_digest),
            ("Release", str(status.revision) if status.revision else ""),
            ("Applied", rfc3339(item.last_applied_at if item else None)),
            ("Ready since", rfc3339(status.last_applied_at)),
            ("Phase", item.phase if item else "not in the inventory"),
        ]
        return [(label, text) for label, text in facts if text]


kinship = ComponentKinship()


def _is(item: Item, ref: ObjectRef) -> bool:
    return (item.group, item.kind, item.key) == (ref.gvk.group, ref.gvk.kind, ref.key)


def _source(component: Component) -> str:
    try:
        source = sources.named(component)
    except ComponentFailed:
        return ""
    if source.repository is not None:
        return source.repository.url
    return f"{source.kind.removeprefix('flux')[:1].upper()}{source.kind.removeprefix('flux')[1:]} {source.key}"
