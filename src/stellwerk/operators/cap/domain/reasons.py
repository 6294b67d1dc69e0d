"""The reasons that a Domain or ClusterDomain shows. The words are the original's."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum

from stellwerk.kube.types.model import JsonObject, Unreadable
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.cap.api_domain import DomainState
from stellwerk.operators.cap.api_status import READY


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


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a domain that cannot be decoded. Equal for an equal cause.

    When it became unreadable is not known, so the time of its creation is given.
    """
    since = obj.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    ready: JsonObject = {
        "type": READY,
        "status": "False",
        "reason": DomainReason.ProcessingError.value,
        "message": f"object cannot be read: {obj.why}; correct the field",
        "lastTransitionTime": rfc3339(since),
        "observedGeneration": obj.metadata.generation,
    }
    return {
        "state": DomainState.ERROR.value,
        "conditions": [ready],
        "observedGeneration": obj.metadata.generation,
    }
