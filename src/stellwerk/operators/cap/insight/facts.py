"""The state that each reason belongs to. What users read about each reason is in `help/`."""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.operators.cap.kinds.application import ApplicationState
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.tenant import OperationState, TenantState
from stellwerk.operators.cap.kinds.version import VersionState
from stellwerk.operators.cap.reasons import (
    ApplicationReason,
    DomainReason,
    OperationReason,
    TenantReason,
    VersionReason,
)
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, ReasonFacts

_RETRIED = "The operator tries again: on every change, and by itself later and later."
_CONSISTENT = "The application needs nothing. Its tenants and its newest version may need a user: see stellwerk why."

APPLICATION: Mapping[ApplicationReason, ReasonFacts[ApplicationState]] = {
    ApplicationReason.ApplicationProcessing: ReasonFacts(ApplicationState.PROCESSING),
    ApplicationReason.ResourceDefinitionChanged: ReasonFacts(ApplicationState.PROCESSING),
    ApplicationReason.MissingProviderSubaccountId: ReasonFacts(ApplicationState.ERROR, only_user_can_fix=True),
    ApplicationReason.ProcessingSecrets: ReasonFacts(ApplicationState.PROCESSING, only_user_can_fix=True),
    ApplicationReason.ProcessingSecretsError: ReasonFacts(ApplicationState.ERROR),
    ApplicationReason.ProcessingDomainReferences: ReasonFacts(ApplicationState.PROCESSING),
    ApplicationReason.WaitingForReadyCAPApplicationVersion: ReasonFacts(ApplicationState.PROCESSING),
    ApplicationReason.ProviderTenantProcessing: ReasonFacts(ApplicationState.PROCESSING),
    ApplicationReason.ProviderTenantError: ReasonFacts(ApplicationState.ERROR, only_user_can_fix=True),
    ApplicationReason.ServiceVirtualServiceModificationFailed: ReasonFacts(ApplicationState.ERROR),
    ApplicationReason.VersionExists: ReasonFacts(ApplicationState.CONSISTENT),
    ApplicationReason.NewCAVTriggeredTenantUpgrade: ReasonFacts(ApplicationState.PROCESSING),
    ApplicationReason.DeleteTriggered: ReasonFacts(ApplicationState.DELETING),
    ApplicationReason.TenantsExist: ReasonFacts(ApplicationState.DELETING, only_user_can_fix=True),
    ApplicationReason.LatestVersionReady: ReasonFacts(ApplicationState.CONSISTENT),
    ApplicationReason.LatestVersionNotReady: ReasonFacts(ApplicationState.CONSISTENT),
    ApplicationReason.AllTenantsReady: ReasonFacts(ApplicationState.CONSISTENT),
    ApplicationReason.NotAllTenantsReady: ReasonFacts(ApplicationState.CONSISTENT),
    ApplicationReason.SecretsAvailable: ReasonFacts(ApplicationState.CONSISTENT),
    ApplicationReason.SecretBeingDeleted: ReasonFacts(ApplicationState.CONSISTENT, only_user_can_fix=True),
    ApplicationReason.TenantChangeRefused: ReasonFacts(ApplicationState.ERROR, only_user_can_fix=True),
    ApplicationReason.SpecTooLarge: ReasonFacts(ApplicationState.ERROR, only_user_can_fix=True),
    ApplicationReason.UpgradePaused: ReasonFacts(ApplicationState.CONSISTENT, only_user_can_fix=True),
    ApplicationReason.IdentityUnproved: ReasonFacts(ApplicationState.CONSISTENT, only_user_can_fix=True),
    ApplicationReason.IdentityShared: ReasonFacts(ApplicationState.CONSISTENT, only_user_can_fix=True),
    ApplicationReason.CallbackGivenUp: ReasonFacts(ApplicationState.CONSISTENT, only_user_can_fix=True),
    ApplicationReason.RecoveredPanic: ReasonFacts(ApplicationState.ERROR),
}
APPLICATION_TURNS = {
    ApplicationState.CONSISTENT: _CONSISTENT,
    ApplicationState.PROCESSING: ITSELF,
    ApplicationState.DELETING: ITSELF,
    ApplicationState.ERROR: _RETRIED,
}

_BROKEN = (
    VersionReason.ErrorInContentDeploymentJob,
    VersionReason.ErrorInServiceDeployment,
    VersionReason.ErrorInAppRouterDeployment,
    VersionReason.ErrorInServerDeployment,
    VersionReason.ErrorInJobWorkerDeployment,
    VersionReason.ErrorInServerService,
    VersionReason.ErrorInNetworkPolicy,
)
VERSION: Mapping[VersionReason, ReasonFacts[VersionState]] = {
    VersionReason.ReadyForProcessing: ReasonFacts(VersionState.PROCESSING),
    VersionReason.InvalidReference: ReasonFacts(VersionState.PROCESSING, only_user_can_fix=True),
    VersionReason.WaitingForSecrets: ReasonFacts(VersionState.PROCESSING, only_user_can_fix=True),
    **{reason: ReasonFacts(VersionState.ERROR) for reason in _BROKEN},
    VersionReason.WaitingForWorkloads: ReasonFacts(VersionState.PROCESSING),
    VersionReason.ErrorInWorkloadStatus: ReasonFacts(VersionState.ERROR, only_user_can_fix=True),
    VersionReason.WaitingForServiceDNSEntries: ReasonFacts(VersionState.PROCESSING),
    VersionReason.WorkloadsReady: ReasonFacts(VersionState.READY),
    VersionReason.DeleteTriggered: ReasonFacts(VersionState.DELETING),
    VersionReason.Superseded: ReasonFacts(VersionState.ERROR, turn=NO_USER),
    VersionReason.RecoveredPanic: ReasonFacts(VersionState.ERROR),
}
VERSION_TURNS = {
    VersionState.READY: NO_USER,
    VersionState.PROCESSING: ITSELF,
    VersionState.DELETING: ITSELF,
    VersionState.ERROR: _RETRIED,
}

TENANT: Mapping[TenantReason, ReasonFacts[TenantState]] = {
    TenantReason.ProcessingStarted: ReasonFacts(TenantState.UNKNOWN),
    TenantReason.ProvisioningOperationCreated: ReasonFacts(TenantState.PROVISIONING),
    TenantReason.ProvisioningCompleted: ReasonFacts(TenantState.READY),
    TenantReason.ProvisioningFailed: ReasonFacts(TenantState.PROVISIONING_ERROR, only_user_can_fix=True),
    TenantReason.UpgradeOperationCreated: ReasonFacts(TenantState.UPGRADING),
    TenantReason.UpgradeCompleted: ReasonFacts(TenantState.READY),
    TenantReason.UpgradeFailed: ReasonFacts(TenantState.UPGRADE_ERROR, only_user_can_fix=True),
    TenantReason.DeprovisioningOperationCreated: ReasonFacts(TenantState.DELETING),
    TenantReason.DeprovisioningCompleted: ReasonFacts(TenantState.DELETING),
    TenantReason.DeprovisioningFailed: ReasonFacts(TenantState.DELETING, only_user_can_fix=True),
    TenantReason.TenantNetworkingModified: ReasonFacts(TenantState.READY),
    TenantReason.VirtualServiceModificationFailed: ReasonFacts(TenantState.READY, only_user_can_fix=True),
    TenantReason.InvalidReference: ReasonFacts(TenantState.READY, only_user_can_fix=True),
    TenantReason.RecoveredPanic: ReasonFacts(TenantState.UNKNOWN),
    TenantReason.DuplicateTenant: ReasonFacts(TenantState.PROVISIONING_ERROR, only_user_can_fix=True),
}
"""Two reasons leave the state as it is: a tenant that is in use stays so, and does not count as failed in a wave."""

TENANT_TURNS = {
    TenantState.UNKNOWN: _RETRIED,
    TenantState.READY: NO_USER,
    TenantState.PROVISIONING: ITSELF,
    TenantState.UPGRADING: ITSELF,
    TenantState.DELETING: ITSELF,
    TenantState.PROVISIONING_ERROR: _RETRIED,
    TenantState.UPGRADE_ERROR: _RETRIED,
}

OPERATION: Mapping[OperationReason, ReasonFacts[OperationState]] = {
    OperationReason.StepInitiated: ReasonFacts(OperationState.PROCESSING),
    OperationReason.StepProcessing: ReasonFacts(OperationState.PROCESSING),
    OperationReason.StepCompleted: ReasonFacts(OperationState.COMPLETED),
    OperationReason.StepFailed: ReasonFacts(OperationState.FAILED, only_user_can_fix=True),
    OperationReason.StepProcessingError: ReasonFacts(OperationState.PROCESSING),
    OperationReason.RecoveredPanic: ReasonFacts(OperationState.PROCESSING),
    OperationReason.Superseded: ReasonFacts(OperationState.FAILED, turn=NO_USER),
}
OPERATION_TURNS = {
    OperationState.COMPLETED: NO_USER,
    OperationState.PROCESSING: _RETRIED,
    OperationState.FAILED: _RETRIED,
}

DOMAIN: Mapping[DomainReason, ReasonFacts[DomainState]] = {
    DomainReason.Processing: ReasonFacts(DomainState.PROCESSING),
    DomainReason.Ready: ReasonFacts(DomainState.READY),
    DomainReason.ProcessingError: ReasonFacts(DomainState.ERROR),
    DomainReason.DuplicateDomainHost: ReasonFacts(DomainState.ERROR, only_user_can_fix=True),
    DomainReason.Deleting: ReasonFacts(DomainState.DELETING),
    DomainReason.DeletionBlocked: ReasonFacts(DomainState.DELETING, only_user_can_fix=True),
}
DOMAIN_TURNS = {
    DomainState.READY: NO_USER,
    DomainState.PROCESSING: ITSELF,
    DomainState.DELETING: ITSELF,
    DomainState.ERROR: _RETRIED,
}
