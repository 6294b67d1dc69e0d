"""What a person may do to a Component, as patches (pure)."""

from __future__ import annotations

from stellwerk.kube.model import JsonObject, JsonValue, Unstructured
from stellwerk.kube.names import ObjectKey, Resource
from stellwerk.operators.component import sources
from stellwerk.operators.component.api import (
    FINALIZER,
    REQUESTED_AT_ANNOTATION,
    SUSPEND_REASON_ANNOTATION,
    Component,
)
from stellwerk.operators.component.sources import FLUX_KINDS


def request(moment: str) -> JsonObject:
    """Asks for a pass now. `moment` comes back in the status when it was acted on."""
    return {"metadata": {"annotations": {REQUESTED_AT_ANNOTATION: moment}}}


def was_handled(live: Unstructured, moment: str) -> bool:
    """Whether a request was acted on."""
    return live.at("status", "lastHandledReconcileAt") == moment


def source_of(component: Component) -> tuple[Resource, ObjectKey] | None:
    """The object of flux that a Component takes its manifests from; None where it is something else."""
    source = sources.named(component)
    if source.key is None or source.kind not in FLUX_KINDS:
        return None
    return FLUX_KINDS[source.kind].resource, source.key


def suspension(why: str) -> JsonObject:
    """Has the objects left alone, and says why."""
    return {"metadata": {"annotations": {SUSPEND_REASON_ANNOTATION: why or None}}, "spec": {"suspend": True}}


def resumption() -> JsonObject:
    """Ends a suspension."""
    return {"metadata": {"annotations": {SUSPEND_REASON_ANNOTATION: None}}, "spec": {"suspend": False}}


UNSTICK_CONSEQUENCE = "its objects stay where they are, and nobody looks after them any more"


def unstuck(component: Unstructured) -> JsonObject:
    """Lets a Component go that cannot be deleted in order."""
    kept: list[JsonValue] = [name for name in component.metadata.finalizers if name != FINALIZER]
    return {"metadata": {"finalizers": kept, "resourceVersion": component.metadata.resource_version}}
