"""What a person may do to a Component, as patches."""

from __future__ import annotations

from stellwerk.delivery.reconcile_request import request as request
from stellwerk.delivery.reconcile_request import was_handled as was_handled
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.operators.component.api import (
    FINALIZER,
    SUSPEND_REASON_ANNOTATION,
    Component,
)
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.sources import FLUX_KINDS


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


async def unstick_obstacle(client: Client, component: Unstructured) -> tuple[str, str] | None:
    """Why force has no effect on this Component, and what helps instead: it always has one."""
    return None
