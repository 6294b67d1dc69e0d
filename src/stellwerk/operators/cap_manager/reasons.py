"""Every reason that a CAPOperator can show. What users read about each is in `help/reasons.md`.

As with a Component there are two vocabularies: the condition `Ready` has the original's words, which name how far a
pass came; `Reconciling` or `Stalled` carry the cause, a word of ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, ReasonFacts, TabledReason, facts_of, only_user


class Reason(TabledReason):
    """Why a CAPOperator is in its state: the reason of its condition Ready."""

    FirstSeen = "FirstSeen", ReasonFacts(State.Pending, "First seen")
    Restarting = (
        "Restarting",
        ReasonFacts(State.Processing, "Restarting processing: the spec, the chart or the surroundings have changed"),
    )
    Processing = "Processing", ReasonFacts(State.Processing, "Waiting for dependent resources to become ready")
    Ready = "Ready", ReasonFacts(State.Ready, "Dependent resources successfully reconciled")
    Error = "Error", ReasonFacts(State.Error)
    Timeout = "Timeout", only_user(State.Error, "Timed out waiting for dependent resources to become ready")
    DeletionBlocked = "DeletionBlocked", only_user(State.DeletionPending)
    DeletionProcessing = "DeletionProcessing", ReasonFacts(State.Deleting, "Deleting dependent resources")


class Cause(TabledReason):
    """What is missing or wrong: the reason of Reconciling or Stalled."""

    ObjectsNotReady = "ObjectsNotReady", ReasonFacts(State.Processing)
    AnotherCapOperator = "AnotherCapOperator", only_user(State.Error)
    ClusterDomainUnknown = "ClusterDomainUnknown", only_user(State.Error)
    InvalidSpec = "InvalidSpec", only_user(State.Error)
    ImageUnknown = "ImageUnknown", only_user(State.Error)
    RenderingFailed = "RenderingFailed", only_user(State.Error)
    InvalidObjects = "InvalidObjects", only_user(State.Error)
    InvalidInventory = "InvalidInventory", only_user(State.Error)
    ApplyFailed = "ApplyFailed", ReasonFacts(State.Error)
    CapObjectsExist = "CapObjectsExist", only_user(State.DeletionPending)
    ForeignFinalizers = "ForeignFinalizers", only_user(State.DeletionPending)
    ObjectUnreadable = "ObjectUnreadable", only_user(State.Error)
    UnexpectedError = "UnexpectedError", ReasonFacts(State.Error)


class CapOperatorEvent(StrEnum):
    """The reasons of Events beyond the conditions."""

    IngressGatewayNotFound = "IngressGatewayNotFound"
    ChangedByOthers = "ChangedByOthers"


TURNS = {
    State.Ready: NO_USER,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Pending: "The manager goes on as soon as what is missing appears.",
    State.DeletionPending: "The manager goes on as soon as nothing needs the CAP Operator any more.",
    State.Error: "The manager tries again: on every change, and later and later without one.",
}
"""Who has to act next, in one sentence."""

FACTS: dict[Reason | Cause, ReasonFacts[State]] = {**facts_of(Reason), **facts_of(Cause)}


class PassReport(SetReport):
    """What a pass reports."""

    facts: ClassVar = FACTS
