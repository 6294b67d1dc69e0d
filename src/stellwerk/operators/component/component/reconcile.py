"""The reconciler of Components: runs passes, and reports what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from stellwerk.apply.errors import ApplyError
from stellwerk.delivery.watched_objects import NotListed, TooMuch, Unwatchable
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.api_status import READY, ComponentStatus, State
from stellwerk.operators.component.component import status_plan
from stellwerk.operators.component.component.component_pass import Answer, ComponentMemo, ComponentPass, Services
from stellwerk.operators.component.component.weights import NoRoom
from stellwerk.operators.component.errors import (
    ApplyFailed,
    ClusterTooLarge,
    ClusterUnreachable,
    ComponentFailed,
    EndedUnexpectedly,
    failure_of,
)
from stellwerk.operators.component.intervals import Intervals, spread
from stellwerk.operators.component.reasons import Cause, Reason
from stellwerk.operators.component.status_report import Saying
from stellwerk.render.errors import RenderError
from stellwerk.runtime import conditions
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

    async def reconcile(self, component: Component) -> Answer:
        """Bring one Component as far as it goes now. Raises ComponentFailed."""
        services, memo = self.services, self.memos.of(component.key)
        services.waiting.forget(component.key)
        try:
            with services.servers.passing(component.key), services.weights.passing(component.key):
                answer = await self._attempt(component, memo)
        except ClusterBusy as full:
            why = f"waiting for a turn at {full}, which keeps other components of this namespace waiting"
            return self._without_room(services.checkpoints.shown(component), memo, why, Cause.ServerBusy)
        except NoRoom:
            why = "waiting until other large components are applied: all at once would take too much memory"
            return self._without_room(services.checkpoints.shown(component), memo, why, Cause.LargeComponentsBusy)
        except ComponentFailed:
            memo.busy_since = None
            raise
        memo.busy_since = None
        return answer

    def explain(self, component: Component, failure: ReconcileError) -> ComponentStatus | None:
        """The status that reports a failure."""
        if not isinstance(failure, ComponentFailed):
            failure = EndedUnexpectedly(str(failure))
        now, memo = self.services.clock.now(), self.memos.of(component.key)
        last, memo.last = memo.last or ComponentPass(self.services, component, memo), None
        saying = failure.saying(deleting=component.metadata.is_terminating, timed_out=last.is_late(now))
        told = status_plan.with_report(component, last.draft, saying, now)
        self.services.reports.failed(failure)
        self.services.reports.passed(component, told)
        return told

    async def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        services = self.services
        for registry in (services.waiting, services.targets, services.servers, services.weights, services.deployer):
            registry.forget(key)
        services.reports.forget(key)

    async def _attempt(self, component: Component, memo: ComponentMemo) -> Answer:
        memo.last = pass_ = ComponentPass(self.services, component, memo)
        try:
            answer = await pass_.run()
        except ComponentFailed as failure:
            raise _timed(component, failure) from failure.__cause__
        except (RenderError, ApplyError, ApiError) as error:
            raise _timed(component, pass_.advised(failure_of(error), [error])) from error
        except NotListed as error:
            raise _timed(component, ClusterUnreachable(str(error))) from error
        except TooMuch as error:
            raise _timed(component, ClusterTooLarge(str(error))) from error
        except Unwatchable as error:
            raise _timed(component, ApplyFailed(str(error))) from error
        memo.last = None
        self.services.reports.passed(component, answer.status)
        return answer

    def _without_room(self, component: Component, memo: ComponentMemo, why: str, cause: Cause) -> Answer:
        """Wait until other Components have left a server, or are applied. A status that reports something stays."""
        now = self.services.clock.monotonic()
        memo.busy_since = now if memo.busy_since is None else memo.busy_since
        if now - memo.busy_since < SILENT_SECONDS:
            return Next.after(SILENT_SECONDS)
        deleting, status = component.metadata.is_terminating, component.status
        reports = status.state in _REPORTING[deleting] and status.observed_generation == component.metadata.generation
        ready = conditions.find(status.conditions, READY)
        if reports and ready is not None and ready.reason != Reason.FirstSeen:
            return Next.after(ROOM_SECONDS)
        saying = Saying(
            reason=Reason.DeletionRetrying if deleting else Reason.Retrying,
            message=why,
            cause=cause,
        )
        return Next.after(ROOM_SECONDS, status_plan.with_report(component, status, saying, self.services.clock.now()))


def _timed(component: Component, failure: ComponentFailed) -> ComponentFailed:
    """The failure with its delay: what may still come is looked for after the retry interval."""
    if failure.retriable and failure.retry_after_seconds is None:
        failure.retry_after_seconds = spread(_retry(component), component.metadata.uid)
    return failure


def _retry(component: Component) -> timedelta:
    try:
        return Intervals.of(component.spec).retry
    except ComponentFailed:
        return Intervals().retry
