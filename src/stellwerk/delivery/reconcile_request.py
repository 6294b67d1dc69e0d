"""A request to look at an object now, and the answer that it was: spelled as flux does, so that its tools ask alike."""

from __future__ import annotations

from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta

REQUESTED_AT_ANNOTATION = "reconcile.fluxcd.io/requestedAt"
"""Its value may be anything that was not there before; a moment is usual."""


def request(moment: str) -> JsonObject:
    """Asks for a pass now. `moment` comes back in the status when it was acted on."""
    return {"metadata": {"annotations": {REQUESTED_AT_ANNOTATION: moment}}}


def asked(metadata: ObjectMeta) -> str:
    """The latest request, for `status.lastHandledReconcileAt`; empty where there was none."""
    return metadata.annotations.get(REQUESTED_AT_ANNOTATION, "")


def was_handled(live: Unstructured, moment: str) -> bool:
    """Whether a request was acted on."""
    return live.at("status", "lastHandledReconcileAt") == moment
