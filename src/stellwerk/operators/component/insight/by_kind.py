"""What the operator knows about Components: how a user acts on one, what belongs to it, and who explains it."""

from __future__ import annotations

from stellwerk.delivery import forced_deletion
from stellwerk.delivery.insight import KindInsight, Reconcilable, Suspendable
from stellwerk.delivery.sets.inventory_kinship import InventoryKinship
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.component.api import FINALIZER, OWNER_ID, SUSPEND_REASON_ANNOTATION, Component
from stellwerk.operators.component.errors import ComponentFailed
from stellwerk.operators.component.insight.why import diagnostician
from stellwerk.operators.component.sources import sources
from stellwerk.runtime.insight.related_objects import Fact

with lazy_imports(__name__):
    from stellwerk.operators.component.insight import preview


def _source(component: Unstructured) -> tuple[Resource, ObjectKey] | None:
    """The Flux object that a Component takes its manifests from; None where the source is something else."""
    source = sources.of_flux(lenient.convert(component.body, Component))
    return (source[0].resource, source[1]) if source is not None else None


def _suspended(why: str) -> JsonObject:
    return {"metadata": {"annotations": {SUSPEND_REASON_ANNOTATION: why or None}}, "spec": {"suspend": True}}


def _resumed() -> JsonObject:
    return {"metadata": {"annotations": {SUSPEND_REASON_ANNOTATION: None}}, "spec": {"suspend": False}}


def _facts(component: Component) -> list[Fact]:
    status = component.status
    return [
        ("Source", _origin(component)),
        ("Path", component.spec.path),
        ("Revision", status.last_applied_revision or status.last_attempted_revision),
        ("Digest", status.last_applied_digest or status.last_attempted_digest),
    ]


def _origin(component: Component) -> str:
    try:
        source = sources.named(component)
    except ComponentFailed:
        return ""
    if source.repository is not None:
        return source.repository.url
    return f"{source.kind.removeprefix('flux')[:1].upper()}{source.kind.removeprefix('flux')[1:]} {source.key}"


KINSHIP = InventoryKinship(Component, OWNER_ID, lambda component: component.spec.kube_config is not None, _facts)
RECONCILE = Reconcilable(defers_drift=True, source=_source)
SUSPEND = Suspendable(suspend=_suspended, resume=_resumed)
UNSTICK = forced_deletion.without(
    FINALIZER, consequence="its objects stay where they are, and no operator manages them any more"
)

INSIGHT = {
    "Component": KindInsight(
        diagnostician=diagnostician,
        kinship=KINSHIP,
        reconcile=RECONCILE,
        suspend=SUSPEND,
        unstick=UNSTICK,
        finalizers=(FINALIZER,),
        previewer=lambda: preview.previewer,
    )
}
