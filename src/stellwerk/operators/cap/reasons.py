"""The reasons of the conditions and Events of the CAP Operator. The original publishes all of them."""

from __future__ import annotations

from enum import StrEnum


class OperationReason(StrEnum):
    """Of the condition Ready of a CAPTenantOperation, and of its Events."""

    StepInitiated = "StepInitiated"
    StepProcessing = "StepProcessing"
    StepCompleted = "StepCompleted"
    StepFailed = "StepFailed"
    StepProcessingError = "StepProcessingError"
    RecoveredPanic = "RecoveredPanic"
    Superseded = "Superseded"
    """Ours, of the condition of this type."""
    InvalidReference = "InvalidReference"
    """On Events only."""


class TenantReason(StrEnum):
    """Of the condition Ready of a CAPTenant, and of its Events."""

    ProcessingStarted = "ProcessingStarted"
    ProvisioningOperationCreated = "ProvisioningOperationCreated"
    ProvisioningCompleted = "ProvisioningCompleted"
    ProvisioningFailed = "ProvisioningFailed"
    UpgradeOperationCreated = "UpgradeOperationCreated"
    UpgradeCompleted = "UpgradeCompleted"
    UpgradeFailed = "UpgradeFailed"
    DeprovisioningOperationCreated = "DeprovisioningOperationCreated"
    DeprovisioningCompleted = "DeprovisioningCompleted"
    DeprovisioningFailed = "DeprovisioningFailed"
    TenantNetworkingModified = "TenantNetworkingModified"
    VirtualServiceModificationFailed = "VirtualServiceModificationFailed"
    """On Events and on Stalled."""
    RecoveredPanic = "RecoveredPanic"
    InvalidReference = "InvalidReference"
    """On Events and on Stalled."""
    DuplicateTenant = "DuplicateTenant"
    """Ours."""


class ApplicationReason(StrEnum):
    """Of the conditions of a CAPApplication, and of its Events."""

    MissingProviderSubaccountId = "MissingProviderSubaccountId"
    ApplicationProcessing = "ApplicationProcessing"
    ResourceDefinitionChanged = "ResourceDefinitionChanged"
    ProcessingSecrets = "ProcessingSecrets"
    ProcessingSecretsError = "ProcessingSecretsError"
    ProcessingDomainReferences = "ProcessingDomainReferences"
    WaitingForReadyCAPApplicationVersion = "WaitingForReadyCAPApplicationVersion"
    ProviderTenantProcessing = "ProviderTenantProcessing"
    ProviderTenantError = "ProviderTenantError"
    VersionExists = "VersionExists"
    NewCAVTriggeredTenantUpgrade = "NewCAVTriggeredTenantUpgrade"
    DeleteTriggered = "DeleteTriggered"
    TenantsExist = "TenantsExist"
    LatestVersionReady = "LatestVersionReady"
    LatestVersionNotReady = "LatestVersionNotReady"
    AllTenantsReady = "AllTenantsReady"
    NotAllTenantsReady = "NotAllTenantsReady"
    RecoveredPanic = "RecoveredPanic"
    ServiceVirtualServiceModificationFailed = "ServiceVirtualServiceModificationFailed"
    """The original reports it by Events of the version only."""
    SecretsAvailable = "SecretsAvailable"
    SecretBeingDeleted = "SecretBeingDeleted"
    TenantChangeRefused = "TenantChangeRefused"
    SpecTooLarge = "SpecTooLarge"
    UpgradePaused = "UpgradePaused"
    Proved = "Proved"
    IdentityUnproved = "IdentityUnproved"
    IdentityShared = "IdentityShared"
    CallbacksDelivered = "CallbacksDelivered"
    CallbackGivenUp = "CallbackGivenUp"
    """These ten are ours. The subscription server writes the last five, of IdentityProved and CallbacksDelivered."""
    MissingSecrets = "MissingSecrets"
    MissingDomainReferences = "MissingDomainReferences"
    ProviderTenantCreated = "ProviderTenantCreated"
    AutoVersionUpdate = "AutoVersionUpdate"
    """These four on Events only."""


class VersionReason(StrEnum):
    """Of the condition Ready of a CAPApplicationVersion, and of its Events."""

    ReadyForProcessing = "ReadyForProcessing"
    WaitingForSecrets = "WaitingForSecrets"
    ErrorInContentDeploymentJob = "ErrorInContentDeploymentJob"
    ErrorInServiceDeployment = "ErrorInServiceDeployment"
    ErrorInAppRouterDeployment = "ErrorInAppRouterDeployment"
    ErrorInServerDeployment = "ErrorInServerDeployment"
    ErrorInServerService = "ErrorInServerService"
    ErrorInJobWorkerDeployment = "ErrorInJobWorkerDeployment"
    ErrorInNetworkPolicy = "ErrorInNetworkPolicy"
    WaitingForWorkloads = "WaitingForWorkloads"
    ErrorInWorkloadStatus = "ErrorInWorkloadStatus"
    WaitingForServiceDNSEntries = "WaitingForServiceDNSEntries"
    WorkloadsReady = "WorkloadsReady"
    DeleteTriggered = "DeleteTriggered"
    RecoveredPanic = "RecoveredPanic"
    InvalidReference = "InvalidReference"
    """Ours as a reason of the condition; the original reports it nowhere."""
    Superseded = "Superseded"
    """Ours, of the condition of this type."""
    ReadyForDeletion = "ReadyForDeletion"
    ServiceNetworkingModified = "ServiceNetworkingModified"
    ServiceVirtualServiceModificationFailed = "ServiceVirtualServiceModificationFailed"
    CredentialsRolledOut = "CredentialsRolledOut"
    """These four on Events only; the last one is ours."""


class DomainReason(StrEnum):
    """Of the condition Ready of a Domain or ClusterDomain."""

    Processing = "Processing"
    Ready = "Ready"
    ProcessingError = "ProcessingError"
    DuplicateDomainHost = "DuplicateDomainHost"
    Deleting = "Deleting"
    DeletionBlocked = "DeletionBlocked"
