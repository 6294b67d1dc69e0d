"""What prevents a domain from becoming Ready.

DomainProblem         only a change of an object helps: a template that fails, a kind that is missing
├── IngressProblem    the ingress gateway or the DNS target cannot be found
└── NotWritten        the API server refused an object, or changed it; tried again with back-off
"""

from __future__ import annotations

from stellwerk.operators.cap.reasons import DomainReason
from stellwerk.runtime.reconciler import ReconcileError, Retry


class DomainProblem(ReconcileError):
    """The objects of a domain cannot be as they should be. The message has the cause and the next step."""

    reason = DomainReason.ProcessingError
    retry = Retry.WHEN_CHANGED


class IngressProblem(DomainProblem):
    """The pods of the ingress gateway, or the DNS target, cannot be found."""


class NotWritten(DomainProblem):
    """The API server refused an object, or took it otherwise than it was written."""

    retry = Retry.BACKOFF
