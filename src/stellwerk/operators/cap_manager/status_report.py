"""The report of a pass on a CAPOperator, as the status shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stellwerk.delivery.sets import pass_report
from stellwerk.kube.types.model import JsonObject, Unreadable
from stellwerk.operators.cap_manager.reasons import FACTS, Cause, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class PassReport(pass_report.PassReport[Reason, Cause]):
    """What a pass reports."""

    facts: ClassVar = FACTS


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a CAPOperator that cannot be read. Equal for an equal cause."""
    message = f"object cannot be read: {obj.why}"
    return PassReport(reason=Reason.Error, message=message, cause=Cause.ObjectUnreadable).unreadable(obj)
