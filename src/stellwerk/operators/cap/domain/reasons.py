"""The reasons that a Domain or ClusterDomain shows. The words are the original's."""

from __future__ import annotations

from enum import StrEnum


class DomainReason(StrEnum):
    """The reasons of the condition Ready."""

    Processing = "Processing"
    Ready = "Ready"
    ProcessingError = "ProcessingError"
    DuplicateDomainHost = "DuplicateDomainHost"
    Deleting = "Deleting"
    DeletionBlocked = "DeletionBlocked"


class DomainEvent(StrEnum):
    """The reasons of Events beyond the conditions."""

    MissingIngressGatewayInfo = "MissingIngressGatewayInfo"
    CertificateNotReady = "CertificateNotReady"
    SubdomainAlreadyInUse = "SubdomainAlreadyInUse"
    SubdomainInvalid = "SubdomainInvalid"
    """Not of the original, which fails for all tenants."""
