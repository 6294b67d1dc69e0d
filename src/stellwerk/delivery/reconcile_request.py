"""A request to look at an object now, and the answer that it was: spelled as flux does, so that its tools ask alike."""

from __future__ import annotations

from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta

REQUESTED_AT_ANNOTATION = "reconcile.fluxcd.io/requestedAt"
"""Its value may be anything that was not there before; a moment is usual."""
FORCE_AT_ANNOTATION = "reconcile.fluxcd.io/forceAt"
"""With the value of the request: what others have changed is put back now, and not at its reapply interval."""


def request(moment: str) -> JsonObject:
    """Asks for a pass now. `moment` comes back in the status when it was acted on."""
    return {"metadata": {"annotations": {REQUESTED_AT_ANNOTATION: moment}}}


def asked(metadata: ObjectMeta) -> str:
    """The latest request, for `status.lastHandledReconcileAt`; empty where there was none."""
    return metadata.annotations.get(REQUESTED_AT_ANNOTATION, "")


def forced(moment: str) -> JsonObject:
    """Asks for a pass now that puts back what others have changed."""
    return {"metadata": {"annotations": {REQUESTED_AT_ANNOTATION: moment, FORCE_AT_ANNOTATION: moment}}}


def force_asked(metadata: ObjectMeta) -> str:
    """The latest request, for `status.lastHandledForceAt`, where it is a forced one; else empty."""
    moment = asked(metadata)
    return moment if metadata.annotations.get(FORCE_AT_ANNOTATION) == moment else ""


def was_handled(live: Unstructured, moment: str) -> bool:
    """Whether a request was acted on."""
    return live.at("status", "lastHandledReconcileAt") == moment


def force_was_handled(live: Unstructured, moment: str) -> bool:
    """Whether a forced request was acted on to its end: all that others had changed is put back."""
    return was_handled(live, moment) and live.at("status", "lastHandledForceAt") == moment
