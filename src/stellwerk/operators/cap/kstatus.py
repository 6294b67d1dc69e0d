"""Which of kstatus' two conditions an object shows besides `Ready` (pure): `Stalled`, `Reconciling` or neither.

`Ready` stays what the original makes of it: True also for an operation that has failed, for a tenant whose upgrade has,
and for an application whose upgrade is paused. kstatus, metrics and alerts read these two instead. The state decides,
and a few reasons and conditions besides. A pass that fails on an object that is Ready leaves state and `Ready` as they
were, so the failure itself is the cause.

`Reconciling` is for what may come by itself, such as objects that are created later: tools that wait go on waiting. An
upgrade that waits for its window has neither: nothing is wrong, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.cap.kinds.application import (
    ALL_TENANTS_READY,
    CALLBACKS_DELIVERED,
    IDENTITY_PROVED,
    SECRETS_AVAILABLE,
    ApplicationState,
    ApplicationStatus,
    CAPApplication,
    UpgradePhase,
)
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain, DomainState
from stellwerk.operators.cap.kinds.status import READY, SUPERSEDED, ReconciledStatus
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    OperationState,
    TenantState,
    TenantStatus,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionState
from stellwerk.operators.cap.reasons import ApplicationReason, DomainReason, TenantReason, VersionReason
from stellwerk.runtime import conditions
from stellwerk.runtime.conditions import RECONCILING, STALLED
from stellwerk.runtime.control.outcome import Unexpected
from stellwerk.runtime.reconciler import ReconcileError

NEITHER = ""
_DOMAIN: Mapping[str, str] = {
    DomainState.UNKNOWN: RECONCILING,
    DomainState.READY: NEITHER,
    DomainState.ERROR: STALLED,
    DomainState.PROCESSING: RECONCILING,
    DomainState.DELETING: RECONCILING,
}
BY_STATE: Mapping[type[Kind], Mapping[str, str]] = {
    CAPApplication: {
        ApplicationState.UNKNOWN: RECONCILING,
        ApplicationState.CONSISTENT: NEITHER,
        ApplicationState.PROCESSING: RECONCILING,
        ApplicationState.ERROR: STALLED,
        ApplicationState.DELETING: RECONCILING,
    },
    CAPApplicationVersion: {
        VersionState.UNKNOWN: RECONCILING,
        VersionState.READY: NEITHER,
        VersionState.ERROR: STALLED,
        VersionState.PROCESSING: RECONCILING,
        VersionState.DELETING: RECONCILING,
    },
    CAPTenant: {
        TenantState.UNKNOWN: RECONCILING,
        TenantState.READY: NEITHER,
        TenantState.PROVISIONING: RECONCILING,
        TenantState.UPGRADING: RECONCILING,
        TenantState.DELETING: RECONCILING,
        TenantState.PROVISIONING_ERROR: STALLED,
        TenantState.UPGRADE_ERROR: STALLED,
    },
    CAPTenantOperation: {
        OperationState.UNKNOWN: RECONCILING,
        OperationState.PROCESSING: RECONCILING,
        OperationState.COMPLETED: NEITHER,
        OperationState.FAILED: STALLED,
        OperationState.DELETING: RECONCILING,
    },
    Domain: _DOMAIN,
    ClusterDomain: _DOMAIN,
}
"""The condition of each state of each kind."""
BY_REASON: Mapping[str, str] = {
    TenantReason.DeprovisioningFailed: STALLED,
    DomainReason.DeletionBlocked: STALLED,
    VersionReason.InvalidReference: STALLED,
}
"""Reasons of `Ready` for which a user has to act in a state that does not show it: a deletion, or a version in use."""
_BY_PHASE: Mapping[str, tuple[str, ApplicationReason]] = {
    UpgradePhase.PAUSED: (STALLED, ApplicationReason.UpgradePaused),
    UpgradePhase.CANARY: (RECONCILING, ApplicationReason.NotAllTenantsReady),
    UpgradePhase.ROLLING: (RECONCILING, ApplicationReason.NotAllTenantsReady),
}
"""What an upgrade of tenants adds to an application for which the state has no condition, or only Reconciling."""


def cause_of(obj: Kind, status: ReconciledStatus, failure: ReconcileError | None = None) -> Condition | None:
    """The condition that an object shows with a status; None for neither. `failure`: what the pass failed with."""
    ready = conditions.find(status.conditions, READY)
    if ready is None:
        return None
    if conditions.is_true(status.conditions, SUPERSEDED) and not obj.metadata.is_terminating:
        return None  # a failure that is history: nothing waits for it
    own = (_of_failure(ready, failure), _of_state(obj, status, ready), _of_tenant_in_use(status, ready))
    causes = [each for each in own if each is not None]
    if isinstance(status, ApplicationStatus) and status.state != ApplicationState.DELETING:
        stalling = (CALLBACKS_DELIVERED, SECRETS_AVAILABLE)
        found = (_of_upgrade(status, ready), _of_identity(status), *(_of_finding(status, each) for each in stalling))
        causes += [each for each in found if each is not None]
    return min(causes, key=lambda each: each.type != STALLED, default=None)


def server_findings(obj: Kind) -> tuple[tuple[str, str, str, str], ...]:
    """What the subscription server has found out about an application: a change of it changes the condition."""
    if not isinstance(obj, CAPApplication):
        return ()
    types = (IDENTITY_PROVED, CALLBACKS_DELIVERED)
    found = [each for each in obj.status.conditions if each.type in types]
    return tuple((each.type, each.status, each.reason, each.message) for each in found)


def _of_state(obj: Kind, status: ReconciledStatus, ready: Condition) -> Condition | None:
    state: str = status.state  # type: ignore[attr-defined]  # every kind with a reconciler has one
    type_ = BY_STATE[type(obj)].get(state, NEITHER) or (NEITHER if ready.is_true else RECONCILING)
    if type_ == NEITHER or (type_ == RECONCILING and obj.metadata.is_terminating):
        type_ = BY_REASON.get(ready.reason, type_)
    return _true(ready, type_, ready.reason) if type_ else None


def _of_failure(ready: Condition, failure: ReconcileError | None) -> Condition | None:
    if failure is None or not ready.is_true:
        return None
    type_ = RECONCILING if isinstance(failure, Unexpected) else STALLED
    return _true(ready, type_, failure.event_reason or failure.reason or ready.reason, str(failure))


def _of_tenant_in_use(status: ReconciledStatus, ready: Condition) -> Condition | None:
    """What a tenant lacks that stays Ready: its decision shows it with the message of Ready, and no state has it."""
    shown = conditions.true_cause(status.conditions)
    if not isinstance(status, TenantStatus) or status.state != TenantState.READY or shown is None:
        return None
    is_decided = shown.reason in (TenantReason.ProcessingStarted, TenantReason.InvalidReference)
    return shown if is_decided and shown.message == ready.message else None


def _of_upgrade(status: ApplicationStatus, ready: Condition) -> Condition | None:
    found = _BY_PHASE.get(status.tenant_upgrade.phase) if status.tenant_upgrade is not None else None
    if found is None:
        return None
    far = conditions.find(status.conditions, ALL_TENANTS_READY)
    return _true(ready, *found, far.message if far is not None else "")


def _of_identity(status: ApplicationStatus) -> Condition | None:
    """An identity that is claimed twice needs a user; one that is not proved yet is tried again."""
    shown = conditions.find(status.conditions, IDENTITY_PROVED)
    if shown is None or shown.status != "False":
        return None
    return _true(shown, STALLED if shown.reason == ApplicationReason.IdentityShared else RECONCILING, shown.reason)


def _of_finding(status: ApplicationStatus, type_: str) -> Condition | None:
    """What only a user puts right: a result that no registry gets, or bindings whose Secrets are being deleted."""
    shown = conditions.find(status.conditions, type_)
    return _true(shown, STALLED, shown.reason) if shown is not None and shown.status == "False" else None


def _true(about: Condition, type_: str, reason: str, message: str = "") -> Condition:
    return msgspec.structs.replace(about, type=type_, status="True", reason=reason, message=message or about.message)
