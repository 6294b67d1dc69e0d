"""When the certificates of the operand's webhooks are renewed (pure).

The API server trusts the webhooks by the CA that their configurations name, and the operand serves the certificate in
a Secret. These must agree, and each can be lost, damaged, replaced or old. The table is read from top to bottom; the
first line that applies decides. In every case both configurations get the CA of the Secret, so a bundle that
a user edited never costs a new CA.

The original operator looks at private keys only for presence. A key that does not belong to its certificate would then
block the next renewal for good, so here it counts as a damaged pair.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from stellwerk.operators.btp import api

CA_CERTIFICATE_KEY, CA_PRIVATE_KEY_KEY = "ca.crt", "ca.key"
WEBHOOK_CERTIFICATE_KEY, WEBHOOK_PRIVATE_KEY_KEY = "tls.crt", "tls.key"

RENEWED_IN_LAST = 3
"""Certificates are renewed in the last third of their configured lifetime at the earliest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundaries:
    """How long before its end each certificate counts as expired; negative, as `ExpirationBoundary` is."""

    authority: timedelta
    webhook: timedelta

    @classmethod
    def of(cls, boundary: timedelta, *, authority_lifetime: timedelta, webhook_lifetime: timedelta) -> Boundaries:
        """From the settings.

        A lifetime that is not longer than the boundary would make every new certificate one that is about to expire:
        each pass would renew it, and the module would never be ready. What a present certificate itself lasts for does
        not matter: one that another client made for a few days is renewed within the boundary, as by the original.
        """
        return cls(
            authority=max(boundary, -authority_lifetime / RENEWED_IN_LAST),
            webhook=max(boundary, -webhook_lifetime / RENEWED_IN_LAST),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKeyPair:
    """A certificate and its private key, as they lie in a Secret."""

    has_certificate: bool = True
    """The field is there and not empty."""
    has_key: bool = True
    ends: datetime | None
    """notAfter; None where the certificate cannot be read."""
    key_fits: bool = True
    """The key can be read and is the certificate's."""


class Renewal(Enum):
    """What to renew."""

    NOTHING = "nothing"
    WEBHOOK = "webhook"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class RenewalDecision:
    """What to renew, and why, as a clause for an Event."""

    renewal: Renewal
    why: str = ""


def decide(
    authority: SecretKeyPair | None,
    webhook: SecretKeyPair | None,
    *,
    chain_holds: bool,
    now: datetime,
    boundaries: Boundaries,
) -> RenewalDecision:
    """Whether to renew certificates.

    None is an absent Secret. `chain_holds`: the webhook's certificate verifies against the CA, the CA is one,
    and the certificate is none.
    """
    if why := _flaw(authority, now, boundaries.authority):
        return RenewalDecision(Renewal.BOTH, f"{api.CA_SECRET_NAME} {why}")
    if why := _flaw(webhook, now, boundaries.webhook):
        return RenewalDecision(Renewal.WEBHOOK, f"{api.WEBHOOK_SECRET_NAME} {why}")
    if not chain_holds:
        return RenewalDecision(Renewal.BOTH, f"{api.WEBHOOK_SECRET_NAME} is not signed by {api.CA_SECRET_NAME}")
    return RenewalDecision(Renewal.NOTHING)


def _flaw(pair: SecretKeyPair | None, now: datetime, boundary: timedelta) -> str:
    """What makes a pair unusable; empty where nothing does."""
    if pair is None:
        return "is absent"
    if not pair.has_certificate or not pair.has_key:
        return "lacks its certificate or its key"
    if pair.ends is None:
        return "holds no readable certificate"
    if now - boundary > pair.ends:  # a certificate may end at any date that there is, so none is reckoned from it
        return "is about to expire" if now <= pair.ends else "is expired"
    return "" if pair.key_fits else "holds a key that is not its certificate's"


def service_names(namespace: str) -> tuple[str, ...]:
    """The names under which the API server calls the webhooks: the certificate's subject alternative names."""
    return (f"{api.WEBHOOK_SERVICE_NAME}.{namespace}.svc", f"{api.WEBHOOK_SERVICE_NAME}.{namespace}")
