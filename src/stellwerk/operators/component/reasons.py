"""Every reason that a Component can show, and what a status shows as a reason and as an Event.

What users read about each is in `help/reasons.md`.

There are two vocabularies. The condition `Ready` speaks the original's eleven words, because alerts and scripts compare
them; they name how far a pass came, not what was wrong. What was wrong is the *cause*: a word of ours, carried by the
conditions `Reconciling` and `Stalled`, which the original does not have. `stellwerk explain` knows both.
"""

from __future__ import annotations

from typing import ClassVar

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.pass_report import SetReport
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import READY, RECONCILING, STALLED
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, ReasonFacts, TabledReason, facts_of, only_user
from stellwerk.runtime.reconciler import Severity

OBJECTS_NOT_WATCHED = "ObjectsNotWatched"
"""Of the Event about objects that are read one by one, because rights to list and watch are missing."""


CHART_WARNING = "ChartWarning"
"""Of the Event about what Helm passes over in silence in a chart."""


class Reason(TabledReason):
    """Why a Component is in its state: the reason of its condition Ready."""

    FirstSeen = "FirstSeen", ReasonFacts(State.Pending, "First seen")
    Retrying = "Retrying", ReasonFacts(State.Pending)
    Restarting = (
        "Restarting",
        ReasonFacts(
            State.Processing, "Restarting processing: the component, its source or its references have changed"
        ),
    )
    Processing = "Processing", ReasonFacts(State.Processing, "Waiting for dependent resources to become ready")
    Ready = "Ready", ReasonFacts(State.Ready, "Dependent resources successfully reconciled")
    Error = "Error", ReasonFacts(State.Error)
    Timeout = "Timeout", only_user(State.Error, "Timed out waiting for dependent resources to become ready")
    Suspended = "Suspended", only_user(State.Pending, "Reconciliation is suspended")
    DeletionRetrying = "DeletionRetrying", ReasonFacts(State.DeletionPending)
    DeletionBlocked = "DeletionBlocked", only_user(State.Deleting)
    DeletionProcessing = "DeletionProcessing", ReasonFacts(State.Deleting, "Deleting dependent resources")


class Cause(TabledReason):
    """What is missing or wrong: the reason of Reconciling or Stalled."""

    ObjectsNotReady = "ObjectsNotReady", ReasonFacts(State.Processing)
    SourceNotReady = "SourceNotReady", ReasonFacts(State.Pending)
    KindsUnknown = "KindsUnknown", ReasonFacts(State.Pending)
    SourceUnusable = "SourceUnusable", ReasonFacts(State.Error)
    WaitingForPin = "WaitingForPin", only_user(State.Pending)
    ReferenceNotFound = "ReferenceNotFound", only_user(State.Pending)
    DependencyNotReady = "DependencyNotReady", ReasonFacts(State.Pending)
    DependencyCycle = "DependencyCycle", only_user(State.Error)
    InvalidReadyExpression = "InvalidReadyExpression", only_user(State.Error)
    DependantsExist = "DependantsExist", only_user(State.DeletionPending)
    TypesInUse = "TypesInUse", only_user(State.Deleting)
    ForeignFinalizers = "ForeignFinalizers", only_user(State.Deleting)
    InvalidSpec = "InvalidSpec", only_user(State.Error)
    InvalidInventory = "InvalidInventory", only_user(State.Error)
    InputsTooLarge = "InputsTooLarge", only_user(State.Error)
    InvalidKubeConfig = "InvalidKubeConfig", only_user(State.Error)
    InvalidCredentials = "InvalidCredentials", only_user(State.Error)
    TargetClusterChanged = "TargetClusterChanged", only_user(State.Error)
    CrossNamespaceReference = "CrossNamespaceReference", only_user(State.Error)
    ServiceAccountRequired = "ServiceAccountRequired", only_user(State.Error)
    TargetNamespaceRefused = "TargetNamespaceRefused", only_user(State.Error)
    DeleteHooksNotSealed = "DeleteHooksNotSealed", only_user(State.Error)
    DeleteHooksMissing = "DeleteHooksMissing", only_user(State.Error)
    RenderingFailed = "RenderingFailed", only_user(State.Error)
    InvalidObjects = "InvalidObjects", only_user(State.Error)
    ApplyFailed = "ApplyFailed", ReasonFacts(State.Error)
    ClusterUnreachable = "ClusterUnreachable", ReasonFacts(State.Error)
    TargetClusterTooLarge = "TargetClusterTooLarge", ReasonFacts(State.Error)
    TooManyTargetClusters = "TooManyTargetClusters", ReasonFacts(State.Pending)
    LargeComponentsBusy = "LargeComponentsBusy", ReasonFacts(State.Pending)
    ServerBusy = "ServerBusy", ReasonFacts(State.Pending)
    ObjectUnreadable = "ObjectUnreadable", only_user(State.Error)
    UnexpectedError = "UnexpectedError", ReasonFacts(State.Error)


TURNS = {
    State.Ready: NO_USER,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Pending: "The operator goes on as soon as what is missing appears, and looks at least every retryInterval.",
    State.DeletionPending: "The operator goes on as soon as the Component is not needed any more.",
    State.Error: "The operator tries again: on every change, and later and later without one.",
}
"""Who has to act next, in one sentence."""

FACTS: dict[Reason | Cause, ReasonFacts[State]] = {**facts_of(Reason), **facts_of(Cause)}


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
