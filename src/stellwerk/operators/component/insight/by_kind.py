"""What the operator knows about Components: how a user acts on one, and who explains it."""

from __future__ import annotations

from stellwerk.delivery import forced_deletion
from stellwerk.delivery.insight import KindInsight, Reconcilable, Suspendable
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.component.api import FINALIZER, SUSPEND_REASON_ANNOTATION, Component
from stellwerk.operators.component.insight.related_objects import kinship
from stellwerk.operators.component.insight.why import diagnostician
from stellwerk.operators.component.sources import sources

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


RECONCILE = Reconcilable(defers_drift=True, source=_source)
SUSPEND = Suspendable(suspend=_suspended, resume=_resumed)
UNSTICK = forced_deletion.without(
    FINALIZER, consequence="its objects stay where they are, and no operator manages them any more"
)

INSIGHT = {
    "Component": KindInsight(
        diagnostician=diagnostician,
        kinship=kinship,
        reconcile=RECONCILE,
        suspend=SUSPEND,
        unstick=UNSTICK,
        finalizers=(FINALIZER,),
        previewer=lambda: preview.previewer,
    )
}
