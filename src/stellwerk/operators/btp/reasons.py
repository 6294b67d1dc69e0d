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


def _blocked(message: str = "") -> ReasonFacts[State]:
    return ReasonFacts(State.Warning, message, asks_user=True)


def _failed(message: str) -> ReasonFacts[State]:
    return ReasonFacts(State.Error, message, asks_user=True)


_FAILED = _failed("")
_REMOVAL_TURN = (
    "The operator tries again: when the BtpOperator is changed, when the last service instance and binding are gone, "
    "after 30 seconds, and later every 5 minutes."
)
"""Other changes do not end the pause of a removal (`FailedRemoval`)."""


class Reason(StrEnum):
    """Why a BtpOperator is in its state. One without facts is that of an error, whose message is the failure's own."""

    facts: ReasonFacts[State]

    def __new__(cls, word: str, facts: ReasonFacts[State] = _FAILED) -> Reason:
        reason = str.__new__(cls, word)
        reason._value_, reason.facts = word, facts
        return reason

    ReconcileSucceeded = "ReconcileSucceeded", ReasonFacts(State.Ready, "Module provisioning succeeded")
    UpdateCheckSucceeded = "UpdateCheckSucceeded", ReasonFacts(State.Ready, "Update not required")
    UpdateDone = "UpdateDone", ReasonFacts(State.Ready, "Updated")
    Initialized = "Initialized", ReasonFacts(State.Processing, "Initialized")
    Processing = "Processing", ReasonFacts(State.Processing, "After deprovisioning")
    UpdateCheck = "UpdateCheck", ReasonFacts(State.Processing, "Checking for updates")
    Updated = "Updated", ReasonFacts(State.Processing, "CR has been updated")
    CredentialsNamespaceChanged = "CredentialsNamespaceChanged", ReasonFacts(State.Processing)
    ClusterIdChanged = "ClusterIdChanged", ReasonFacts(State.Processing)
    HardDeleting = "HardDeleting", ReasonFacts(State.Deleting, "BtpOperator is to be deleted")
    SoftDeleting = "SoftDeleting", ReasonFacts(State.Deleting, "Being soft deleted", asks_user=True)
    ServiceInstancesAndBindingsNotCleaned = "ServiceInstancesAndBindingsNotCleaned", _blocked()
    OlderCRExists = "OlderCRExists", _blocked()
    WrongNamespaceOrName = (
        "WrongNamespaceOrName",
        _blocked("Your resource must be in the kyma-system namespace. The resource's name must be btpoperator."),
    )
    MissingSecret = "MissingSecret", _blocked("sap-btp-manager Secret in kyma-system namespace not found")
    InvalidSecret = "InvalidSecret", ReasonFacts(State.Error, only_user_can_fix=True, asks_user=True)
    ProvisioningFailed = "ProvisioningFailed"
    ReconcileFailed = "ReconcileFailed"
    ResourceRemovalFailed = (
        "ResourceRemovalFailed",
        ReasonFacts(State.Error, "Unable to remove installed resources", asks_user=True, turn=_REMOVAL_TURN),
    )
    DeletionOfOrphanedResourcesFailed = (
        "DeletionOfOrphanedResourcesFailed",
        _failed("Deletion of orphaned resources failed"),
    )
    AnnotatingSecretFailed = "AnnotatingSecretFailed"
    GettingDefaultCredentialsSecretFailed = "GettingDefaultCredentialsSecretFailed"
    GettingSapBtpServiceOperatorConfigMapFailed = "GettingSapBtpServiceOperatorConfigMapFailed"
    GettingSapBtpServiceOperatorClusterIdSecretFailed = "GettingSapBtpServiceOperatorClusterIdSecretFailed"
    GettingConfigMapFailed = "GettingConfigMapFailed", _failed("Getting config map failed")
    StoringChartDetailsFailed = "StoringChartDetailsFailed", _failed("Failure of storing chart details")
    ChartPathEmpty = "ChartPathEmpty", _failed("No chart path available for processing")
    PreparingInstallInfoFailed = "PreparingInstallInfoFailed", _failed("Error while preparing InstallInfo")
    ChartInstallFailed = "ChartInstallFailed"
    ConsistencyCheckFailed = "ConsistencyCheckFailed"
    InconsistentChart = "InconsistentChart", ReasonFacts(State.Error)


FACTS = {reason: reason.facts for reason in Reason}

TURNS = {
    State.Ready: NO_USER,
    State.Processing: ITSELF,
    State.Deleting: ITSELF,
    State.Warning: YOURS,
    State.Error: "The operator tries again: on every change, after 30 seconds, and later every 5 minutes.",
}
"""Who has to act next, in one sentence."""


def severity_of(reason: Reason) -> Severity:
    """The type of the Event about a reason: Warning exactly where the user has to act."""
    return Severity.WARNING if reason.facts.asks_user else Severity.NORMAL


def is_stalled(reason: Reason) -> bool:
    """Whether the CR shows `Stalled`: it is in `Warning` or `Error`, and the user has to act."""
    facts = reason.facts
    return facts.state in (State.Warning, State.Error) and facts.asks_user


def status_for(
    previous: BtpOperatorStatus | None, reason: Reason, message: str, generation: int, now: datetime
) -> BtpOperatorStatus:
    """The status that shows a reason. `message` may be empty where the reason has a text of its own.

    The original has the condition `Ready` alone. It stays the first one. Unless it is true, another one repeats it:
    `Stalled` if `is_stalled`, because kstatus takes `Ready` `False` for progress, else `Reconciling`.

    The `lastTransitionTime` of `Ready` moves only when the condition turns true or false, that of the other one with
    each reason. Raises `ValueError` for a reason that has
    no text of its own and was given none: the API server would refuse such a condition.
    """
    facts = reason.facts
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
    beside = conditions.STALLED if is_stalled(reason) else conditions.RECONCILING
    cause = msgspec.structs.replace(condition, type=beside, status="True") if not condition.is_true else None
    former = previous.conditions if previous else ()
    known = tuple(each for type_ in (api.READY, beside) if (each := conditions.find(former, type_)) is not None)
    shown = conditions.with_cause(conditions.set_condition(known, condition, now), cause, now)
    return BtpOperatorStatus(
        state=facts.state,
        conditions=shown,
        observed_generation=generation,
        last_handled_reconcile_at=previous.last_handled_reconcile_at if previous else "",
    )


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a BtpOperator that cannot be decoded. Equal for an equal cause.

    The API server requires a lastTransitionTime; when the object became unreadable is not known, so it is the time of
    its creation.
    """
    since = obj.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    message = f"object cannot be read: {obj.why}; {obj.fix}"
    return to_json_object(status_for(None, Reason.ReconcileFailed, message, obj.metadata.generation, since))
