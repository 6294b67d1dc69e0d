"""Every reason that a Component can show. What users read about each is in `help/reasons.md`.

There are two vocabularies. The condition `Ready` speaks the original's eleven words, because alerts and scripts compare
them; they name how far a pass came, not what was wrong. What was wrong is the *cause*: a word of ours, carried by the
conditions `Reconciling` and `Stalled`, which the original does not have. `stellwerk explain` knows both.
"""

from __future__ import annotations

from enum import StrEnum

from stellwerk.delivery.sets.inventory_status import State
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, ReasonFacts

OBJECTS_NOT_WATCHED = "ObjectsNotWatched"
"""Of the Event about objects that are read one by one, because rights to list and watch are missing."""


CHART_WARNING = "ChartWarning"
"""Of the Event about what Helm passes over in silence in a chart."""


class Reason(StrEnum):
    """Why a Component is in its state: the reason of its condition Ready."""

    FirstSeen = "FirstSeen"
    Retrying = "Retrying"
    Restarting = "Restarting"
    Processing = "Processing"
    Ready = "Ready"
    Error = "Error"
    Timeout = "Timeout"
    Suspended = "Suspended"
    DeletionRetrying = "DeletionRetrying"
    DeletionBlocked = "DeletionBlocked"
    DeletionProcessing = "DeletionProcessing"


class Cause(StrEnum):
    """What is missing or wrong: the reason of Reconciling or Stalled."""

    ObjectsNotReady = "ObjectsNotReady"
    SourceNotReady = "SourceNotReady"
    SourceUnusable = "SourceUnusable"
    KindsUnknown = "KindsUnknown"
    WaitingForPin = "WaitingForPin"
    ReferenceNotFound = "ReferenceNotFound"
    DependencyNotReady = "DependencyNotReady"
    DependencyCycle = "DependencyCycle"
    InvalidReadyExpression = "InvalidReadyExpression"
    DependantsExist = "DependantsExist"
    TypesInUse = "TypesInUse"
    ForeignFinalizers = "ForeignFinalizers"
    InvalidSpec = "InvalidSpec"
    InvalidInventory = "InvalidInventory"
    InputsTooLarge = "InputsTooLarge"
    InvalidKubeConfig = "InvalidKubeConfig"
    InvalidCredentials = "InvalidCredentials"
    TargetClusterChanged = "TargetClusterChanged"
    CrossNamespaceReference = "CrossNamespaceReference"
    ServiceAccountRequired = "ServiceAccountRequired"
    TargetNamespaceRefused = "TargetNamespaceRefused"
    DeleteHooksNotSealed = "DeleteHooksNotSealed"
    DeleteHooksMissing = "DeleteHooksMissing"
    RenderingFailed = "RenderingFailed"
    InvalidObjects = "InvalidObjects"
    ApplyFailed = "ApplyFailed"
    ClusterUnreachable = "ClusterUnreachable"
    ServerBusy = "ServerBusy"
    TargetClusterTooLarge = "TargetClusterTooLarge"
    TooManyTargetClusters = "TooManyTargetClusters"
    LargeComponentsBusy = "LargeComponentsBusy"
    ObjectUnreadable = "ObjectUnreadable"
    UnexpectedError = "UnexpectedError"


TURNS = {
    State.Ready: NO_USER,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Pending: "The operator goes on as soon as what is missing appears, and looks at least every retryInterval.",
    State.DeletionPending: "The operator goes on as soon as the Component is not needed any more.",
    State.Error: "The operator tries again: on every change, and later and later without one.",
}
"""Who has to act next, in one sentence."""

FACTS: dict[Reason | Cause, ReasonFacts[State]] = {
    Reason.FirstSeen: ReasonFacts(State.Pending, "First seen"),
    Reason.Retrying: ReasonFacts(State.Pending),
    Reason.Restarting: ReasonFacts(
        State.Processing, "Restarting processing: the component, its source or its references have changed"
    ),
    Reason.Processing: ReasonFacts(State.Processing, "Waiting for dependent resources to become ready"),
    Reason.Ready: ReasonFacts(State.Ready, "Dependent resources successfully reconciled"),
    Reason.Error: ReasonFacts(State.Error),
    Reason.Timeout: ReasonFacts(
        State.Error, "Timed out waiting for dependent resources to become ready", only_user_can_fix=True
    ),
    Reason.Suspended: ReasonFacts(State.Pending, "Reconciliation is suspended", only_user_can_fix=True),
    Reason.DeletionRetrying: ReasonFacts(State.DeletionPending),
    Reason.DeletionBlocked: ReasonFacts(State.Deleting, only_user_can_fix=True),
    Reason.DeletionProcessing: ReasonFacts(State.Deleting, "Deleting dependent resources"),
    Cause.ObjectsNotReady: ReasonFacts(State.Processing),
    Cause.SourceNotReady: ReasonFacts(State.Pending),
    Cause.KindsUnknown: ReasonFacts(State.Pending),
    Cause.SourceUnusable: ReasonFacts(State.Error),
    Cause.WaitingForPin: ReasonFacts(State.Pending, only_user_can_fix=True),
    Cause.ReferenceNotFound: ReasonFacts(State.Pending, only_user_can_fix=True),
    Cause.DependencyNotReady: ReasonFacts(State.Pending),
    Cause.DependencyCycle: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidReadyExpression: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.DependantsExist: ReasonFacts(State.DeletionPending, only_user_can_fix=True),
    Cause.TypesInUse: ReasonFacts(State.Deleting, only_user_can_fix=True),
    Cause.ForeignFinalizers: ReasonFacts(State.Deleting, only_user_can_fix=True),
    Cause.InvalidSpec: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidInventory: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InputsTooLarge: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidKubeConfig: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidCredentials: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.TargetClusterChanged: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.CrossNamespaceReference: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.ServiceAccountRequired: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.TargetNamespaceRefused: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.DeleteHooksNotSealed: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.DeleteHooksMissing: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.RenderingFailed: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.InvalidObjects: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.ApplyFailed: ReasonFacts(State.Error),
    Cause.ClusterUnreachable: ReasonFacts(State.Error),
    Cause.TargetClusterTooLarge: ReasonFacts(State.Error),
    Cause.TooManyTargetClusters: ReasonFacts(State.Pending),
    Cause.LargeComponentsBusy: ReasonFacts(State.Pending),
    Cause.ServerBusy: ReasonFacts(State.Pending),
    Cause.ObjectUnreadable: ReasonFacts(State.Error, only_user_can_fix=True),
    Cause.UnexpectedError: ReasonFacts(State.Error),
}
