"""The reasons of the conditions and Events of the CAP Operator. The original publishes all of them.

Each of a condition has the state that it belongs to. What users read about it is in `help/`.
"""

from __future__ import annotations

from stellwerk.operators.cap.kinds.application import ApplicationState
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.tenant import OperationState, TenantState
from stellwerk.operators.cap.kinds.version import VersionState
from stellwerk.runtime.insight.reason_catalog import NO_USER, ReasonFacts, TabledReason, only_user


class OperationReason(TabledReason):
    """Of the condition Ready of a CAPTenantOperation, and of its Events."""

    StepInitiated = "StepInitiated", ReasonFacts(OperationState.PROCESSING)
    StepProcessing = "StepProcessing", ReasonFacts(OperationState.PROCESSING)
    StepCompleted = "StepCompleted", ReasonFacts(OperationState.COMPLETED)
    StepFailed = "StepFailed", only_user(OperationState.FAILED)
    StepProcessingError = "StepProcessingError", ReasonFacts(OperationState.PROCESSING)
    RecoveredPanic = "RecoveredPanic", ReasonFacts(OperationState.PROCESSING)
    Superseded = "Superseded", ReasonFacts(OperationState.FAILED, turn=NO_USER)
    """Ours, of the condition of this type."""
    InvalidReference = "InvalidReference"
    """On Events only."""


class TenantReason(TabledReason):
    """Of the condition Ready of a CAPTenant, and of its Events.

    Those with the state Ready that ask for a user leave the state as it is: a tenant that is in use stays so, and does
    not count as failed in a wave.
    """

    ProcessingStarted = "ProcessingStarted", ReasonFacts(TenantState.UNKNOWN)
    ProvisioningOperationCreated = "ProvisioningOperationCreated", ReasonFacts(TenantState.PROVISIONING)
    ProvisioningCompleted = "ProvisioningCompleted", ReasonFacts(TenantState.READY)
    ProvisioningFailed = "ProvisioningFailed", only_user(TenantState.PROVISIONING_ERROR)
    UpgradeOperationCreated = "UpgradeOperationCreated", ReasonFacts(TenantState.UPGRADING)
    UpgradeCompleted = "UpgradeCompleted", ReasonFacts(TenantState.READY)
    UpgradeFailed = "UpgradeFailed", only_user(TenantState.UPGRADE_ERROR)
    DeprovisioningOperationCreated = "DeprovisioningOperationCreated", ReasonFacts(TenantState.DELETING)
    DeprovisioningCompleted = "DeprovisioningCompleted", ReasonFacts(TenantState.DELETING)
    DeprovisioningFailed = "DeprovisioningFailed", only_user(TenantState.DELETING)
    TenantNetworkingModified = "TenantNetworkingModified", ReasonFacts(TenantState.READY)
    VirtualServiceModificationFailed = "VirtualServiceModificationFailed", only_user(TenantState.READY)
    """On Events and on Stalled."""
    InvalidReference = "InvalidReference", only_user(TenantState.READY)
    """On Events and on Stalled."""
    RecoveredPanic = "RecoveredPanic", ReasonFacts(TenantState.UNKNOWN)
    DuplicateTenant = "DuplicateTenant", only_user(TenantState.PROVISIONING_ERROR)
    """Ours."""


class ApplicationReason(TabledReason):
    """Of the conditions of a CAPApplication, and of its Events."""

    ApplicationProcessing = "ApplicationProcessing", ReasonFacts(ApplicationState.PROCESSING)
    ResourceDefinitionChanged = "ResourceDefinitionChanged", ReasonFacts(ApplicationState.PROCESSING)
    MissingProviderSubaccountId = "MissingProviderSubaccountId", only_user(ApplicationState.ERROR)
    ProcessingSecrets = "ProcessingSecrets", only_user(ApplicationState.PROCESSING)
    ProcessingSecretsError = "ProcessingSecretsError", ReasonFacts(ApplicationState.ERROR)
    ProcessingDomainReferences = "ProcessingDomainReferences", ReasonFacts(ApplicationState.PROCESSING)
    WaitingForReadyCAPApplicationVersion = (
        "WaitingForReadyCAPApplicationVersion",
        ReasonFacts(ApplicationState.PROCESSING),
    )
    ProviderTenantProcessing = "ProviderTenantProcessing", ReasonFacts(ApplicationState.PROCESSING)
    ProviderTenantError = "ProviderTenantError", only_user(ApplicationState.ERROR)
    ServiceVirtualServiceModificationFailed = (
        "ServiceVirtualServiceModificationFailed",
        ReasonFacts(ApplicationState.ERROR),
    )
    """The original reports it by Events of the version only."""
    VersionExists = "VersionExists", ReasonFacts(ApplicationState.CONSISTENT)
    NewCAVTriggeredTenantUpgrade = "NewCAVTriggeredTenantUpgrade", ReasonFacts(ApplicationState.PROCESSING)
    DeleteTriggered = "DeleteTriggered", ReasonFacts(ApplicationState.DELETING)
    TenantsExist = "TenantsExist", only_user(ApplicationState.DELETING)
    LatestVersionReady = "LatestVersionReady", ReasonFacts(ApplicationState.CONSISTENT)
    LatestVersionNotReady = "LatestVersionNotReady", ReasonFacts(ApplicationState.CONSISTENT)
    AllTenantsReady = "AllTenantsReady", ReasonFacts(ApplicationState.CONSISTENT)
    NotAllTenantsReady = "NotAllTenantsReady", ReasonFacts(ApplicationState.CONSISTENT)
    SecretsAvailable = "SecretsAvailable", ReasonFacts(ApplicationState.CONSISTENT)
    SecretBeingDeleted = "SecretBeingDeleted", only_user(ApplicationState.CONSISTENT)
    TenantChangeRefused = "TenantChangeRefused", only_user(ApplicationState.ERROR)
    SpecTooLarge = "SpecTooLarge", only_user(ApplicationState.ERROR)
    UpgradePaused = "UpgradePaused", only_user(ApplicationState.CONSISTENT)
    IdentityUnproved = "IdentityUnproved", only_user(ApplicationState.CONSISTENT)
    IdentityShared = "IdentityShared", only_user(ApplicationState.CONSISTENT)
    CallbackGivenUp = "CallbackGivenUp", only_user(ApplicationState.CONSISTENT)
    """These eight are ours, and so are the next two. The subscription server writes the last three of them, and these
    two, of IdentityProved and CallbacksDelivered."""
    Proved = "Proved"
    CallbacksDelivered = "CallbacksDelivered"
    RecoveredPanic = "RecoveredPanic", ReasonFacts(ApplicationState.ERROR)
    MissingSecrets = "MissingSecrets"
    MissingDomainReferences = "MissingDomainReferences"
    ProviderTenantCreated = "ProviderTenantCreated"
    AutoVersionUpdate = "AutoVersionUpdate"
    """These four on Events only."""


class VersionReason(TabledReason):
    """Of the condition Ready of a CAPApplicationVersion, and of its Events."""

    ReadyForProcessing = "ReadyForProcessing", ReasonFacts(VersionState.PROCESSING)
    InvalidReference = "InvalidReference", only_user(VersionState.PROCESSING)
    """Ours as a reason of the condition; the original reports it nowhere."""
    WaitingForSecrets = "WaitingForSecrets", only_user(VersionState.PROCESSING)
    ErrorInContentDeploymentJob = "ErrorInContentDeploymentJob", ReasonFacts(VersionState.ERROR)
    ErrorInServiceDeployment = "ErrorInServiceDeployment", ReasonFacts(VersionState.ERROR)
    ErrorInAppRouterDeployment = "ErrorInAppRouterDeployment", ReasonFacts(VersionState.ERROR)
    ErrorInServerDeployment = "ErrorInServerDeployment", ReasonFacts(VersionState.ERROR)
    ErrorInJobWorkerDeployment = "ErrorInJobWorkerDeployment", ReasonFacts(VersionState.ERROR)
    ErrorInServerService = "ErrorInServerService", ReasonFacts(VersionState.ERROR)
    ErrorInNetworkPolicy = "ErrorInNetworkPolicy", ReasonFacts(VersionState.ERROR)
    WaitingForWorkloads = "WaitingForWorkloads", ReasonFacts(VersionState.PROCESSING)
    ErrorInWorkloadStatus = "ErrorInWorkloadStatus", only_user(VersionState.ERROR)
    WaitingForServiceDNSEntries = "WaitingForServiceDNSEntries", ReasonFacts(VersionState.PROCESSING)
    WorkloadsReady = "WorkloadsReady", ReasonFacts(VersionState.READY)
    DeleteTriggered = "DeleteTriggered", ReasonFacts(VersionState.DELETING)
    Superseded = "Superseded", ReasonFacts(VersionState.ERROR, turn=NO_USER)
    """Ours, of the condition of this type."""
    RecoveredPanic = "RecoveredPanic", ReasonFacts(VersionState.ERROR)
    ReadyForDeletion = "ReadyForDeletion"
    ServiceNetworkingModified = "ServiceNetworkingModified"
    ServiceVirtualServiceModificationFailed = "ServiceVirtualServiceModificationFailed"
    CredentialsRolledOut = "CredentialsRolledOut"
    """These four on Events only; the last one is ours."""


class DomainReason(TabledReason):
    """Of the condition Ready of a Domain or ClusterDomain."""

    Processing = "Processing", ReasonFacts(DomainState.PROCESSING)
    Ready = "Ready", ReasonFacts(DomainState.READY)
    ProcessingError = "ProcessingError", ReasonFacts(DomainState.ERROR)
    DuplicateDomainHost = "DuplicateDomainHost", only_user(DomainState.ERROR)
    Deleting = "Deleting", ReasonFacts(DomainState.DELETING)
    DeletionBlocked = "DeletionBlocked", only_user(DomainState.DELETING)
