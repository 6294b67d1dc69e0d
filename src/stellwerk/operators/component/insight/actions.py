"""How a user acts on a Component."""

from __future__ import annotations

from stellwerk.delivery import forced_deletion, reconcile_request
from stellwerk.delivery.insight import Reconcilable, Suspendable
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.component.api import FINALIZER, SUSPEND_REASON_ANNOTATION, Component
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.sources import FLUX_KINDS


def _source(component: Unstructured) -> tuple[Resource, ObjectKey] | None:
    """The Flux object that a Component takes its manifests from; None where the source is something else."""
    source = sources.named(lenient.convert(component.body, Component))
    if source.key is None or source.kind not in FLUX_KINDS:
        return None
    return FLUX_KINDS[source.kind].resource, source.key


def _suspended(why: str) -> JsonObject:
    return {"metadata": {"annotations": {SUSPEND_REASON_ANNOTATION: why or None}}, "spec": {"suspend": True}}


def _resumed() -> JsonObject:
    return {"metadata": {"annotations": {SUSPEND_REASON_ANNOTATION: None}}, "spec": {"suspend": False}}


RECONCILE = Reconcilable(request=reconcile_request.request, was_handled=reconcile_request.was_handled, source=_source)
SUSPEND = Suspendable(suspend=_suspended, resume=_resumed)
UNSTICK = forced_deletion.without(
    FINALIZER,
    consequence="its objects stay where they are, and no operator manages them any more",
)
