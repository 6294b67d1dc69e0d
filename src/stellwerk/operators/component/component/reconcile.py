"""The reconciler of Components: runs passes, and reports what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from stellwerk.apply.errors import ApplyError
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.watched_objects import NotListed, TooMuch, Unwatchable
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component import errors
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.component import status_plan
from stellwerk.operators.component.component.component_pass import Answer, ComponentMemo, ComponentPass, Services
from stellwerk.operators.component.component.weights import NoRoom
from stellwerk.operators.component.intervals import Intervals, spread
from stellwerk.operators.component.reasons import Cause, PassReport, Reason
from stellwerk.render.errors import RenderError
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.server_concurrency import ClusterBusy
from stellwerk.runtime.reconciler import Next, ReconcileError

ROOM_SECONDS = 60.0
"""When to look again for room at a busy server, if no Component that has left it wakes us."""

SILENT_SECONDS = 5.0
"""For how long a Component waits for a turn before its status reports it."""

_REPORTING = {
    False: (State.Pending, State.Processing, State.Error, State.Ready),
    True: (State.Deleting, State.DeletionPending, State.Error),
}
"""The states that report something about a Component, by whether it is being deleted."""


@dataclass(frozen=True, slots=True)
class ComponentReconciler:
    """Brings Components to what they ask for."""

    services: Services
    memos: Memos[ComponentMemo]

    def begin(self, component: Component) -> ReportedPass:
        """A pass over one Component."""
        memo = self.memos.of(component.key)
        return ReportedPass(
            component, ComponentPass(self.services.engine, memo.objects, component, self.services, memo)
        )

    async def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        services = self.services
        for registry in (
            services.waiting,
            services.missing_kinds,
            services.targets,
            services.servers,
            services.weights,
            services.deployer,
        ):
            registry.forget(key)
        services.reports.forget(key)


@dataclass(frozen=True, slots=True)
class ReportedPass:
    """A pass in its turn: it waits while servers are busy, and each of its failures becomes one that users can read.

    `component` is the object as the pass began with it.
    """

    component: Component
    work: ComponentPass

    async def run(self) -> Answer:
        """Bring the Component as far as it goes now. Raises ComponentFailed."""
        services, component, memo = self.work.services, self.component, self.work.memo
        services.waiting.forget(component.key)
        busy_since, memo.busy_since = memo.busy_since, None
        try:
            with services.servers.passing(component.key), services.weights.passing(component.key):
                return await self._attempt()
        except ClusterBusy as full:
            why = f"waiting for a turn at {full}, which keeps other components of this namespace waiting"
            return self._without_room(why, Cause.ServerBusy, busy_since)
        except NoRoom:
            why = "waiting until other large components are applied: all at once would take too much memory"
            return self._without_room(why, Cause.LargeComponentsBusy, busy_since)

    def report(self, failure: ReconcileError) -> ComponentStatus:
        """The status that reports a failure, on top of what the pass has come to."""
        if not isinstance(failure, errors.ComponentFailed):
            failure = errors.EndedUnexpectedly(str(failure))
        services, component = self.work.services, self.component
        now = services.engine.clock.now()
        report = failure.report(deleting=component.metadata.is_terminating, timed_out=self.work.is_late(now))
        told = status_plan.with_report(component, self.work.draft, report, now)
        services.reports.failed(failure)
        services.reports.passed(component, told)
        return told

    async def _attempt(self) -> Answer:
        component, missing_kinds = self.component, self.work.services.missing_kinds
        try:
            answer = await self.work.run()
        except errors.ComponentFailed as failure:
            raise timed(component, failure) from failure.__cause__
        except (RenderError, ApplyError, ApiError) as error:
            missing_kinds.note(component.key, error)
            raise timed(component, self.work.advised(errors.failure_of(error), [error])) from error
        except NotListed as error:
            raise timed(component, errors.ClusterUnreachable(str(error))) from error
        except TooMuch as error:
            raise timed(component, errors.ClusterTooLarge(str(error))) from error
        except Unwatchable as error:
            missing_kinds.note(component.key, error)
            raise timed(component, errors.ApplyFailed(str(error))) from error
        missing_kinds.forget(component.key)
        self.work.services.reports.passed(component, answer.status)
        return answer

    def _without_room(self, why: str, cause: Cause, since: float | None) -> Answer:
        """Wait until other Components have left a server, or are applied. A status that reports something stays."""
        component, memo, clock = self.work.component, self.work.memo, self.work.engine.clock
        now = clock.monotonic()
        memo.busy_since = now if since is None else since
        if now - memo.busy_since < SILENT_SECONDS:
            return Next.after(SILENT_SECONDS)
        deleting, status = component.metadata.is_terminating, component.status
        reports = status.state in _REPORTING[deleting] and status.observed_generation == component.metadata.generation
        ready = conditions.find(status.conditions, READY)
        if reports and ready is not None and ready.reason != Reason.FirstSeen:
            return Next.after(ROOM_SECONDS)
        reason = Reason.DeletionRetrying if deleting else Reason.Retrying
        report = PassReport(reason=reason, message=why, cause=cause)
        return Next.after(ROOM_SECONDS, status_plan.with_report(component, status, report, clock.now()))


def timed(component: Component, failure: errors.ComponentFailed) -> errors.ComponentFailed:
    """The failure with its delay: what may still come is looked for after the retry interval.

    A delay differs a little from Component to Component: all that wait for one Secret would else be tried at once.
    """
    delay = failure.retry_after_seconds
    if failure.retriable and delay is None:
        try:
            delay = Intervals.of(component.spec).retry.total_seconds()
        except errors.ComponentFailed:
            delay = Intervals().retry.total_seconds()
    if delay is not None:
        failure.retry_after_seconds = spread(timedelta(seconds=delay), component.metadata.uid)
    return failure
