"""What Events about a Component carry besides their text.

Readers such as flux's notification-controller want to know which revision an Event is about, and distinguish one
processing cycle from another by a token. Both come from the status that a pass ended with, which this module receives
before the engine sends the Event about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from stellwerk.delivery.sets.inventory_status import READY
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata
from stellwerk.operators.component.api import EVENT_REVISION_ANNOTATION, EVENT_TOKEN_ANNOTATION, Component
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.status_report import severity_of
from stellwerk.runtime import conditions
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.reconciler import Notice

FLUX_EVENT_PREFIX = "event.toolkit.fluxcd.io/"
"""What flux's users put on objects to have it in every notification about them."""


def about(component: Component, status: ComponentStatus) -> dict[str, str]:
    """Revision and token of the status that an Event is about."""
    found = {EVENT_TOKEN_ANNOTATION: f"{component.metadata.uid}:{status.processing_digest}"}
    if status.last_attempted_revision:
        found[EVENT_REVISION_ANNOTATION] = status.last_attempted_revision
    return found


@dataclass(frozen=True, slots=True)
class AnnotatedSink:
    """A recorder that knows what each Component's Events are about; a `reporting.Watcher`, too."""

    recorder: EventSink
    _latest: dict[ObjectKey, ComponentStatus] = field(default_factory=dict)

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        """Send an Event; one on a Component with revision and token, and as grave as its state."""
        if isinstance(obj, Component):
            notice = self._completed(obj, notice)
        self.recorder.send(obj, notice, related)

    def _completed(self, component: Component, notice: Notice) -> Notice:
        status = self._latest.get(component.key, component.status)
        ready = conditions.find(status.conditions, READY)
        is_verdict = ready is not None and ready.reason == notice.reason
        return replace(
            notice,
            severity=severity_of(status) if is_verdict else notice.severity,
            annotations=tuple(sorted({**about(component, status), **dict(notice.annotations)}.items())),
        )

    def told(self, component: Component, status: ComponentStatus) -> None:
        """A pass has ended with this status."""
        self._latest[component.key] = status

    def failed(self, error: Exception) -> None:
        """A pass has failed: the status shows why."""

    def carried(self, component: Component, created: int, updated: int, deleted: int) -> None:
        """Objects were written: others count them."""

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self._latest.pop(key, None)
