"""The report of a pass on a Component, as the status shows it, and what a status shows as a reason and as an Event."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stellwerk.delivery.sets import pass_report
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.kube.types.model import JsonObject, Unreadable
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.reasons import FACTS, Cause, Reason
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY, RECONCILING, STALLED
from stellwerk.runtime.reconciler import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport(pass_report.PassReport[Reason, Cause]):
    """What a pass reports. A Timeout may be Pending."""

    facts: ClassVar = FACTS

    @property
    def is_paused(self) -> bool:
        """A suspension is the user's own decision."""
        return self.reason is Reason.Suspended


def report_unreadable(why: str) -> PassReport:
    """The report about a Component that cannot be read."""
    return PassReport(reason=Reason.Error, message=f"object cannot be read: {why}", cause=Cause.ObjectUnreadable)


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a Component that cannot be read. Equal for an equal cause."""
    return report_unreadable(obj.why).unreadable(obj)


def reason_of(status: ComponentStatus) -> Reason | Cause | None:
    """The most precise reason that a status shows; None before the first pass, and for a reason that is none of ours.

    A Component that waits for its objects longer than its timeout shows `Timeout`.
    """
    ready = conditions.find(status.conditions, READY)
    if ready is None:
        return None
    for type_ in (STALLED, RECONCILING):
        found = conditions.find(status.conditions, type_)
        if found is not None and found.reason in Cause.__members__:
            cause = Cause(found.reason)
            timed_out = ready.reason == Reason.Timeout and cause is Cause.ObjectsNotReady
            return Reason.Timeout if timed_out else cause
    return Reason(ready.reason) if ready.reason in Reason.__members__ else None


def severity_of(status: ComponentStatus) -> Severity:
    """The type of the Event about a status."""
    ready = conditions.find(status.conditions, READY)
    if ready is None or ready.reason not in Reason.__members__:
        return Severity.WARNING if status.state is State.Error else Severity.NORMAL
    precise = reason_of(status)
    cause = precise if isinstance(precise, Cause) else None
    return PassReport(reason=Reason(ready.reason), cause=cause, state=status.state).severity
