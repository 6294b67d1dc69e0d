"""The report of a pass on a Component, as the status shows it, and what a status shows as a reason and as an Event."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.reasons import FACTS, Cause, Reason
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY, RECONCILING, STALLED
from stellwerk.runtime.reconciler import Severity


class PassReport(SetReport):
    """What a pass reports. A Timeout may be Pending."""

    facts: ClassVar = FACTS


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
