"""How a user acts on a CAPOperator."""

from __future__ import annotations

from stellwerk.delivery import reconcile_request
from stellwerk.delivery.insight import Reconcilable, Unstickable
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.operators.cap_manager.api import FINALIZER


def _forced(capoperator: Unstructured) -> JsonObject:
    """Removes our finalizer, so that the API server deletes the CAPOperator without its objects."""
    kept: list[JsonValue] = [name for name in capoperator.metadata.finalizers if name != FINALIZER]
    return {"metadata": {"finalizers": kept, "resourceVersion": capoperator.metadata.resource_version}}


async def _obstacle(client: Client, capoperator: Unstructured) -> tuple[str, str] | None:
    """None: force always has an effect."""
    return None


RECONCILE = Reconcilable(request=reconcile_request.request, was_handled=reconcile_request.was_handled)
UNSTICK = Unstickable(
    force=_forced,
    consequence="the CAP Operator stays as it is, and nothing manages it any more",
    obstacle=_obstacle,
)
