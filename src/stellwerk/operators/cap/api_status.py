"""What the kinds of the CAP Operator share: their group, the fields of every status, and the printer columns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

from stellwerk.kube.schema.crd import AGE, PrinterColumn, documented
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record

GROUP = "sme.sap.com"
API_VERSION = "v1alpha1"
READY = "Ready"
"""The type of the condition that every kind with a status has."""


class ReconciledStatus(Record, frozen=True, kw_only=True):
    """The fields that every status has besides its state."""

    observed_generation: Annotated[int, documented("The metadata.generation that was last looked at.")] = 0
    conditions: Annotated[tuple[Condition, ...], documented("Observations; Ready comes first.")] = ()


class TimedStatus(ReconciledStatus, frozen=True, kw_only=True):
    """A status that also shows when the object was last found as it has to be."""

    last_full_reconciliation_time: Annotated[
        datetime | None, documented("When the object was last found complete.", example="2026-01-31T09:30:00Z")
    ] = None


def condition(obj: Kind, holds: bool, reason: str, message: str, *, type: str = READY) -> Condition:
    """A condition of an object, about its spec as it is now."""
    return Condition(
        type=type,
        status="True" if holds else "False",
        reason=reason,
        message=message,
        observed_generation=obj.metadata.generation,
    )


def columns(*facts: PrinterColumn) -> Sequence[PrinterColumn]:
    """The columns of `kubectl get` for a kind with the condition Ready. `facts` are those of this kind alone."""
    ready = f'.status.conditions[?(@.type=="{READY}")]'
    return (
        PrinterColumn(name="Ready", path=f"{ready}.status"),
        PrinterColumn(name="State", path=".status.state"),
        PrinterColumn(name="Reason", path=f"{ready}.reason"),
        *facts,
        AGE,
        PrinterColumn(name="Message", path=f"{ready}.message", priority=1),
    )
