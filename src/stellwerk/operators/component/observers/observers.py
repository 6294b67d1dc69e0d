"""What a pass reports besides its status: Events on objects, metrics, and which objects are waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from stellwerk.apply.errors import Obstacle, WriteFailure
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.plan.actions import Create, Remove, RemoveFinalizer, Update
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.delivery.sets.set_reports import listed
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata, Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.component.api import (
    DISABLE_EVENTS_ANNOTATION,
    EVENT_REVISION_ANNOTATION,
    EVENT_TOKEN_ANNOTATION,
    Component,
)
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.reasons import CHART_WARNING, OBJECTS_NOT_WATCHED, severity_of
from stellwerk.operators.component.settings import DependentEvents
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY
from stellwerk.runtime.control.controller import EventSink
from stellwerk.runtime.process.manager import UNREADABLE
from stellwerk.runtime.reconciler import Next, Notice, Severity

_log = logging.getLogger(__name__)

REMARKED = "ApiServerWarning"
"""Reason of the Event about what an API server remarks."""
MOST_OBJECTS = 100
"""Of one Component; warnings about further objects are reported each time."""


class PassObserver:
    """What learns what became of Components. Whatever an observer does not need, it leaves as it is here."""

    __slots__ = ()

    def told(self, component: Component, status: ComponentStatus) -> None:
        """A pass has ended with this status."""

    def failed(self, error: Exception) -> None:
        """A pass has raised this error; the status is reported separately, by the method above."""

    def carried(self, component: Component, created: int, updated: int, deleted: int) -> None:
        """Objects were written."""

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""


# ---- what Events carry


def about(component: Component, status: ComponentStatus) -> dict[str, str]:
    """Revision and token of the status that an Event is about."""
    found = {EVENT_TOKEN_ANNOTATION: f"{component.metadata.uid}:{status.processing_digest}"}
    if status.last_attempted_revision:
        found[EVENT_REVISION_ANNOTATION] = status.last_attempted_revision
    return found


@dataclass(frozen=True, slots=True)
class AnnotatedSink(PassObserver):
    """A recorder that knows what each Component's Events are about.

    Readers such as flux's notification-controller want to know which revision an Event is about, and distinguish one
    processing cycle from another by a token. Both come from the status that a pass ended with, which is received here
    before the engine sends the Event about it.
    """

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

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self._latest.pop(key, None)


# ---- what API servers remark


@dataclass(slots=True)
class Remarks:
    """The remarks about the objects of one Component when they were written last: deprecated versions, dropped fields.

    A remark comes with each write of its object and never without one. It is reported when it appears: an object that
    is written again with the same remark is no news, one that no longer causes it is forgotten, and a calm Component
    costs nothing. After a restart nothing is known, and nothing is requested for that reason alone.
    """

    _known: dict[Address, tuple[str, ...]] = field(default_factory=dict)

    def news(self, carried: Iterable[ActionResult]) -> list[str]:
        """The remarks that were not there before, each with the object that it is about."""
        known = self._known
        written = [each for each in carried if isinstance(each.action, Create | Update)]
        last = {each.address: each.remarks for each in written if each.remarks or each.address in known}
        kept = {address: remarks for address, remarks in {**known, **last}.items() if remarks}
        self._known = dict([*kept.items()][-MOST_OBJECTS:])
        return [
            f"{address}: {remark}"
            for address, remarks in last.items()
            for remark in remarks
            if remark not in known.get(address, ())
        ]


# ---- what a pass reports


@dataclass(slots=True)
class Reported:
    """What was reported about one Component, so that it is reported once."""

    drift: frozenset[str] = frozenset()
    unreadable: frozenset[str] = frozenset()
    once: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """By the reason of the Event, its words."""
    remarks: Remarks = field(default_factory=Remarks)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Reports the results of passes. `reported` is what was reported about the same Component before."""

    recorder: EventSink
    dependent_events: DependentEvents
    watchers: tuple[PassObserver, ...] = ()
    on_throttled: Callable[[int], None] = lambda _: None
    """Called with the number of objects that others change again and again."""

    def passed(self, component: Component, status: ComponentStatus | None) -> None:
        """A pass has ended well."""
        for watcher in self.watchers:
            watcher.told(component, status or component.status)

    def failed(self, error: Exception) -> None:
        """A pass has failed."""
        for watcher in self.watchers:
            watcher.failed(error)

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        for watcher in self.watchers:
            watcher.forget(key)

    def unwatched(self, component: Component, reported: Reported, why: tuple[str, ...]) -> None:
        """Report, once, that objects are read one by one because rights to list and watch are missing."""
        message = f"objects are read one by one: {listed(why)}; grant list and watch to notice changes at once"
        self._once(component, reported, Notice(OBJECTS_NOT_WATCHED, message, Severity.WARNING, "Watch"), why)

    def chart_warns(self, component: Component, reported: Reported, words: tuple[str, ...], revision: str) -> None:
        """Report, once for each revision of the source, what Helm passes over in silence in the chart of a Component.

        The Event carries the revision that it is about, so that a reader knows when it is outdated.
        """
        notice = Notice(
            CHART_WARNING,
            f"the chart: {listed(words)}",
            Severity.WARNING,
            "Render",
            ((EVENT_REVISION_ANNOTATION, revision),),
        )
        self._once(component, reported, notice, (*words, revision) if words else ())

    def unreadable(self, component: Component, reported: Reported, objects: Sequence[Unreadable]) -> None:
        """Report objects of the Component that cannot be decoded, each once for each cause."""
        found = frozenset(str(obj) for obj in objects)
        news, reported.unreadable = sorted(found - reported.unreadable), found
        if news:
            fixes = " or ".join(sorted({obj.fix for obj in objects}))
            message = f"{listed(news)}; {fixes}, or delete the object"
            self.recorder.send(component, Notice(UNREADABLE, message, Severity.WARNING, "Read"))

    def hooks_skipped(self, component: Component, reported: Reported, secret: ObjectKey) -> None:
        """Report, once, that delete hooks cannot run because the namespace of their Secret is being deleted."""
        message = (
            f"delete hooks are skipped: namespace {secret.namespace}, which kept them in secret {secret.name}, is "
            "being deleted; delete the component before its namespace to have them run"
        )
        self._once(component, reported, Notice("DeleteHooksSkipped", message, Severity.WARNING, "Delete"), ("skipped",))

    def _once(self, component: Component, reported: Reported, notice: Notice, words: tuple[str, ...]) -> None:
        """Report something when it comes up, and again only after its words have changed."""
        if reported.once.get(notice.reason, ()) == words:
            return
        reported.once[notice.reason] = words
        if words:
            _log.warning("%s: %s", component.ref, notice.message)
            self.recorder.send(component, notice)

    def carried(self, component: Component, reported: Reported, progress: SetProgress) -> None:
        """Report each object that was written, or could not be."""
        self.on_throttled(len(progress.throttled))
        counts = {
            kind: sum(isinstance(result.action, kind) for result in progress.carried)
            for kind in (Create, Update, Remove)
        }
        for watcher in self.watchers:
            watcher.carried(component, counts[Create], counts[Update], counts[Remove])
        if news := reported.remarks.news(progress.carried):
            message = f"the API server warns: {listed(news)}"
            self.recorder.send(component, Notice(REMARKED, message, Severity.WARNING, "Apply"))
        if component.metadata.annotations.get(DISABLE_EVENTS_ANNOTATION) == "true":
            return
        for one in progress.carried:
            if (notice := self._notice(component, one)) is not None:
                self._send(component, one.address.ref, one.live, notice)
        for failure in progress.failures:
            if self.dependent_events is not DependentEvents.NONE:
                self._send(component, failure.ref, None, _failed(failure))

    def with_events(
        self, component: Component, reported: Reported, answer: Next[ComponentStatus], progress: SetProgress
    ) -> Next[ComponentStatus]:
        """The answer, with reports of everything that the pass did."""
        self.carried(component, reported, progress)
        return answer.with_events(*_new_drift(reported, progress))

    def _notice(self, component: Component, result: ActionResult) -> Notice | None:
        if self.dependent_events is DependentEvents.NONE or isinstance(result.action, RemoveFinalizer):
            return None
        if self.dependent_events is DependentEvents.CHANGES and _is_expected(component, result):
            return None
        match result.action:
            case Create():
                return Notice("Created", "Object successfully created")
            case Update():
                return Notice("Updated", "Object successfully updated")
            case _:
                return Notice("Deleted", "Object successfully deleted", action="Delete")

    def _send(self, component: Component, ref: ObjectRef, live: HasMetadata | None, notice: Notice) -> None:
        self.recorder.send(_Dependent.of(ref, live), notice, component.ref)


def _new_drift(reported: Reported, progress: SetProgress) -> Iterator[Notice]:
    """Drift that is left until it is due is reported once."""
    found = frozenset(f"{address}: {update.why}" for address, update in progress.drifted.items())
    news, reported.drift = sorted(found - reported.drift), found
    if news:
        message = f"changed by others, and put back at the next reapply: {listed(news)}"
        yield Notice("DriftDetected", message, Severity.WARNING, "Compare")


@dataclass(frozen=True, slots=True)
class _Dependent:
    """An object that an Event is about, by name; its content is none of the recorder's business."""

    ref: ObjectRef
    metadata: ObjectMeta

    @classmethod
    def of(cls, ref: ObjectRef, live: HasMetadata | None) -> _Dependent:
        named = ObjectMeta(name=ref.key.name, namespace=ref.key.namespace)
        return cls(ref, live.metadata if live is not None else named)

    @property
    def key(self) -> ObjectKey:
        return self.ref.key


def _is_expected(component: Component, result: ActionResult) -> bool:
    """What one Event on the Component reports already."""
    if isinstance(result.action, Create):
        return not result.action.restores and component.status.applied_generation == 0
    return isinstance(result.action, Remove) and component.metadata.is_terminating


def _failed(failure: WriteFailure) -> Notice:
    verb = "deleting" if failure.verb == "delete" else "updating"
    if failure.obstacle is Obstacle.UNREADABLE:
        verb = "reading the status of"
    reason = "DeleteError" if failure.verb == "delete" else "UpdateError"
    return Notice(reason, f"Error {verb} object: {failure.cause}", Severity.WARNING)


def first_wait(component: Component, report: SetReport) -> Iterator[Notice]:
    """What is waited for, reported once: the state Processing was shown before, and no Event reported it."""
    ready = conditions.find(component.status.conditions, READY)
    if component.status.processing_since is None and ready is not None and ready.reason == report.reason.value:
        yield Notice(report.reason.value, report.text, report.severity)
