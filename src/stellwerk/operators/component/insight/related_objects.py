"""What belongs to a Component, and which Component an object belongs to, for a person who follows the lines."""

from __future__ import annotations

from stellwerk.delivery.sets.inventory_kinship import InventoryKinship
from stellwerk.operators.component.api import OWNER_ID, Component
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.sources import sources
from stellwerk.runtime.insight.related_objects import Fact


def _origin(component: Component) -> list[Fact]:
    status = component.status
    return [
        ("Source", _source(component)),
        ("Path", component.spec.path),
        ("Revision", status.last_applied_revision or status.last_attempted_revision),
        ("Digest", status.last_applied_digest or status.last_attempted_digest),
    ]


def _source(component: Component) -> str:
    try:
        source = sources.named(component)
    except ComponentFailed:
        return ""
    if source.repository is not None:
        return source.repository.url
    return f"{source.kind.removeprefix('flux')[:1].upper()}{source.kind.removeprefix('flux')[1:]} {source.key}"


kinship = InventoryKinship(Component, OWNER_ID, lambda component: component.spec.kube_config is not None, _origin)
