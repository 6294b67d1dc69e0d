"""Every reason that a CAPOperator can show. What users read about each is in `help/reasons.md`.

As with a Component there are two vocabularies: the condition `Ready` has the original's words, which name how far a
pass came; `Reconciling` or `Stalled` carry the cause, a word of ours.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, ReasonFacts


class Reason(StrEnum):
    """Why a CAPOperator is in its state: the reason of its condition Ready."""

    FirstSeen = "FirstSeen"
    Restarting = "Restarting"
    Processing = "Processing"
    Ready = "Ready"
    Error = "Error"
    Timeout = "Timeout"
    DeletionBlocked = "DeletionBlocked"
    DeletionProcessing = "DeletionProcessing"


class Cause(StrEnum):
    """What is missing or wrong: the reason of Reconciling or Stalled."""

    ObjectsNotReady = "ObjectsNotReady"
    AnotherCapOperator = "AnotherCapOperator"
    ClusterDomainUnknown = "ClusterDomainUnknown"
    InvalidSpec = "InvalidSpec"
    ImageUnknown = "ImageUnknown"
    RenderingFailed = "RenderingFailed"
    InvalidObjects = "InvalidObjects"
    InvalidInventory = "InvalidInventory"
    ApplyFailed = "ApplyFailed"
    CapObjectsExist = "CapObjectsExist"
    ForeignFinalizers = "ForeignFinalizers"
    ObjectUnreadable = "ObjectUnreadable"
    UnexpectedError = "UnexpectedError"


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

FACTS: dict[Reason | Cause, ReasonFacts[State]] = {
    Reason.FirstSeen: ReasonFacts(State.Pending, "First seen"),
    Reason.Restarting: ReasonFacts(
        State.Processing, "Restarting processing: the spec, the chart or the surroundings have changed"
    ),
    Reason.Processing: ReasonFacts(State.Processing, "Waiting for dependent resources to become ready"),
    Reason.Ready: ReasonFacts(State.Ready, "Dependent resources successfully reconciled"),
    Reason.Error: ReasonFacts(State.Error),
    Reason.Timeout: ReasonFacts(
        State.Error, "Timed out waiting for dependent resources to become ready", only_user_can_fix=True
    ),
    Reason.DeletionBlocked: ReasonFacts(State.DeletionPending, only_user_can_fix=True),
    Reason.DeletionProcessing: ReasonFacts(State.Deleting, "Deleting dependent resources"),
    Cause.ObjectsNotReady: ReasonFacts(State.Processing),
    Cause.AnotherCapOperator: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.ClusterDomainUnknown: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidSpec: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.ImageUnknown: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.RenderingFailed: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidObjects: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidInventory: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.ApplyFailed: ReasonFacts(State.Error),
    Cause.CapObjectsExist: ReasonFacts(State.DeletionPending, only_user_can_fix=True),
    Cause.ForeignFinalizers: ReasonFacts(State.DeletionPending, only_user_can_fix=True),
    Cause.ObjectUnreadable: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.UnexpectedError: ReasonFacts(State.Error),
}


class PassReport(SetReport):
    """What a pass reports."""

    facts: ClassVar = FACTS
