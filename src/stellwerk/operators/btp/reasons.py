"""Every reason that a BtpOperator's condition can carry, and the status that shows it.

What users read about each reason is in `help/reasons.md`. The words are those of the original operator, because alerts
and scripts compare them; a word that is not in the table cannot be written.

The chart reasons are written only while the module comes from a chart (`ModuleSource` is `chart`).
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

import msgspec

from stellwerk.kube.types.model import JsonObject, Unreadable, to_json_object
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.btp import api
from stellwerk.operators.btp.api import BtpOperatorStatus, State
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, YOURS, ReasonFacts
from stellwerk.runtime.reconciler import Severity


class Reason(StrEnum):
    """Why a BtpOperator is in its state."""

    ReconcileSucceeded = "ReconcileSucceeded"
    UpdateCheckSucceeded = "UpdateCheckSucceeded"
    UpdateDone = "UpdateDone"
    Initialized = "Initialized"
    Processing = "Processing"
    UpdateCheck = "UpdateCheck"
    Updated = "Updated"
    CredentialsNamespaceChanged = "CredentialsNamespaceChanged"
    ClusterIdChanged = "ClusterIdChanged"
    HardDeleting = "HardDeleting"
    SoftDeleting = "SoftDeleting"
    ServiceInstancesAndBindingsNotCleaned = "ServiceInstancesAndBindingsNotCleaned"
    OlderCRExists = "OlderCRExists"
    WrongNamespaceOrName = "WrongNamespaceOrName"
    MissingSecret = "MissingSecret"
    InvalidSecret = "InvalidSecret"
    ProvisioningFailed = "ProvisioningFailed"
    ReconcileFailed = "ReconcileFailed"
    ResourceRemovalFailed = "ResourceRemovalFailed"
    DeletionOfOrphanedResourcesFailed = "DeletionOfOrphanedResourcesFailed"
    AnnotatingSecretFailed = "AnnotatingSecretFailed"
    GettingDefaultCredentialsSecretFailed = "GettingDefaultCredentialsSecretFailed"
    GettingSapBtpServiceOperatorConfigMapFailed = "GettingSapBtpServiceOperatorConfigMapFailed"
    GettingSapBtpServiceOperatorClusterIdSecretFailed = "GettingSapBtpServiceOperatorClusterIdSecretFailed"
    GettingConfigMapFailed = "GettingConfigMapFailed"
    StoringChartDetailsFailed = "StoringChartDetailsFailed"
    ChartPathEmpty = "ChartPathEmpty"
    PreparingInstallInfoFailed = "PreparingInstallInfoFailed"
    ChartInstallFailed = "ChartInstallFailed"
    ConsistencyCheckFailed = "ConsistencyCheckFailed"
    InconsistentChart = "InconsistentChart"


TURNS = {
    State.Ready: NO_USER,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Warning: YOURS,
    State.Error: "The operator tries again: on every change, after 30 seconds, and later every 5 minutes.",
}
"""Who has to act next, in one sentence."""

FACTS: dict[Reason, ReasonFacts[State]] = {
    Reason.ReconcileSucceeded: ReasonFacts(State.Ready, "Module provisioning succeeded"),
    Reason.UpdateCheckSucceeded: ReasonFacts(State.Ready, "Update not required"),
    Reason.UpdateDone: ReasonFacts(State.Ready, "Updated"),
    Reason.Initialized: ReasonFacts(State.Processing, "Initialized"),
    Reason.Processing: ReasonFacts(State.Processing, "After deprovisioning"),
    Reason.UpdateCheck: ReasonFacts(State.Processing, "Checking for updates"),
    Reason.Updated: ReasonFacts(State.Processing, "CR has been updated"),
    Reason.CredentialsNamespaceChanged: ReasonFacts(State.Processing),
    Reason.ClusterIdChanged: ReasonFacts(State.Processing),
    Reason.HardDeleting: ReasonFacts(State.Deleting, "BtpOperator is to be deleted"),
    Reason.SoftDeleting: ReasonFacts(State.Deleting, "Being soft deleted", asks_user=True),
    Reason.ServiceInstancesAndBindingsNotCleaned: ReasonFacts(State.Warning, asks_user=True),
    Reason.OlderCRExists: ReasonFacts(State.Warning, asks_user=True),
    Reason.WrongNamespaceOrName: ReasonFacts(
        State.Warning,
        "Your resource must be in the kyma-system namespace. The resource's name must be btpoperator.",
        asks_user=True,
    ),
    Reason.MissingSecret: ReasonFacts(
        State.Warning, "sap-btp-manager Secret in kyma-system namespace not found", asks_user=True
    ),
    Reason.InvalidSecret: ReasonFacts(State.Error, only_user_can_fix=True, asks_user=True),
    Reason.ProvisioningFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.ReconcileFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.ResourceRemovalFailed: ReasonFacts(State.Error, "Unable to remove installed resources", asks_user=True),
    Reason.DeletionOfOrphanedResourcesFailed: ReasonFacts(
        State.Error, "Deletion of orphaned resources failed", asks_user=True
    ),
    Reason.AnnotatingSecretFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.GettingDefaultCredentialsSecretFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.GettingSapBtpServiceOperatorConfigMapFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.GettingSapBtpServiceOperatorClusterIdSecretFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.GettingConfigMapFailed: ReasonFacts(State.Error, "Getting config map failed", asks_user=True),
    Reason.StoringChartDetailsFailed: ReasonFacts(State.Error, "Failure of storing chart details", asks_user=True),
    Reason.ChartPathEmpty: ReasonFacts(State.Error, "No chart path available for processing", asks_user=True),
    Reason.PreparingInstallInfoFailed: ReasonFacts(State.Error, "Error while preparing InstallInfo", asks_user=True),
    Reason.ChartInstallFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.ConsistencyCheckFailed: ReasonFacts(State.Error, asks_user=True),
    Reason.InconsistentChart: ReasonFacts(State.Error),
}


def severity_of(reason: Reason) -> Severity:
    """The type of the Event about a reason: Warning exactly where the user has to act."""
    return Severity.WARNING if FACTS[reason].asks_user else Severity.NORMAL


def is_stalled(reason: Reason) -> bool:
    """Whether the CR shows `Stalled`: it is in `Warning` or `Error`, and the user has to act."""
    facts = FACTS[reason]
    return facts.state in (State.Warning, State.Error) and facts.asks_user


def status_for(
    previous: BtpOperatorStatus | None, reason: Reason, message: str, generation: int, now: datetime
) -> BtpOperatorStatus:
    """The status that shows a reason. `message` may be empty where the reason has a text of its own.

    The original has the condition `Ready` alone. It stays the first one, and the only one unless `is_stalled`: then a
    condition `Stalled` repeats it, because kstatus takes `Ready` `False` for progress.

    `lastTransitionTime` moves only when the condition turns true or false. Raises `ValueError` for a reason that has
    no text of its own and was given none: the API server would refuse such a condition.
    """
    facts = FACTS[reason]
    text = message or facts.message
    if not text:
        raise ValueError(f"{reason} needs a message")
    condition = Condition(
        type=api.READY,
        status="True" if facts.state is State.Ready else "False",
        reason=reason.value,
        message=text,
        observed_generation=generation,
    )
    shown = [condition]
    if is_stalled(reason):
        shown.append(msgspec.structs.replace(condition, type=api.STALLED, status="True"))
    former = previous.conditions if previous else ()
    return BtpOperatorStatus(
        state=facts.state,
        conditions=tuple(_set(former, one, now) for one in shown),
        observed_generation=generation,
        last_handled_reconcile_at=previous.last_handled_reconcile_at if previous else "",
    )


def _set(former: tuple[Condition, ...], condition: Condition, now: datetime) -> Condition:
    same_type = tuple(old for old in former if old.type == condition.type)[:1]
    return conditions.set_condition(same_type, condition, now)[0]


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a BtpOperator that cannot be decoded. Equal for an equal cause.

    The API server requires a lastTransitionTime; when the object became unreadable is not known, so it is the time of
    its creation.
    """
    since = obj.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    message = f"object cannot be read: {obj.why}; correct the field"
    said = status_for(None, Reason.ReconcileFailed, message, obj.metadata.generation, since)
    return {
        "state": said.state.value,
        "conditions": [to_json_object(each) for each in said.conditions],
        "observedGeneration": said.observed_generation,
    }
