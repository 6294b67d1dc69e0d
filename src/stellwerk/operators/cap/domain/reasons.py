"""The reasons that a Domain or ClusterDomain shows. The words are the original's."""

from __future__ import annotations

from enum import StrEnum

from stellwerk.kube.types.model import JsonObject, Unreadable
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.status import READY, UNREADABLE, unreadable_condition
from stellwerk.operators.cap.reasons import DomainReason
from stellwerk.runtime.conditions import STALLED


class DomainEvent(StrEnum):
    """The reasons of Events beyond the conditions."""

    MissingIngressGatewayInfo = "MissingIngressGatewayInfo"
    CertificateNotReady = "CertificateNotReady"
    SubdomainAlreadyInUse = "SubdomainAlreadyInUse"
    SubdomainInvalid = "SubdomainInvalid"
    """Not of the original, which fails for all tenants."""
    NetworkPolicyRefused = "NetworkPolicyRefused"
    """Not of the original, which fails for the applications of all namespaces."""


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report a domain that cannot be decoded. Equal for an equal cause."""
    return {
        "state": DomainState.ERROR.value,
        "conditions": [
            unreadable_condition(obj, READY, "False", DomainReason.ProcessingError.value),
            unreadable_condition(obj, STALLED, "True", UNREADABLE),
        ],
        "observedGeneration": obj.metadata.generation,
    }
