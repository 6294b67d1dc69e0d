"""The certificates of the operand's webhooks: in which Secrets they are, and when they are renewed (pure).

The API server trusts the webhooks by the CA that their configurations name, and the operand serves the certificate in
a Secret. These must agree, and each can be lost, damaged, replaced or old. The table is read from top to bottom; the
first line that applies decides. In every case both configurations get the CA of the Secret, so a bundle that
a user edited never costs a new CA.

The original operator looks at private keys only for presence. A key that does not belong to its certificate would then
block the next renewal for good, so here it counts as a damaged pair.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache

from stellwerk.api.core import Secret
from stellwerk.apply.objects.desired import Document
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.btp import api
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.certificates import certs

CA_CERTIFICATE_KEY, CA_PRIVATE_KEY_KEY = "ca.crt", "ca.key"
WEBHOOK_CERTIFICATE_KEY, WEBHOOK_PRIVATE_KEY_KEY = "tls.crt", "tls.key"

RENEWED_IN_LAST = 3
"""If the boundary reaches the configured lifetime, certificates are renewed in the last third of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKeyPair:
    """A certificate and its private key, as they lie in a Secret."""

    is_complete: bool = True
    """Both fields are there and not empty."""
    ends: datetime | None
    """notAfter; None where the certificate cannot be read."""
    begins: datetime | None = None
    """notBefore; None where the certificate cannot be read."""
    key_fits: bool = True
    """The key can be read and is the certificate's."""


@dataclass(frozen=True, slots=True)
class RenewalDecision:
    """The Secrets whose certificates to renew, by name, and why, as a clause for an Event."""

    secrets: tuple[str, ...] = ()
    why: str = ""


def judged(
    authority: certs.KeyPair | None, webhook: certs.KeyPair | None, *, now: datetime, settings: Settings
) -> RenewalDecision:
    """Which of the present certificates to renew. None is an absent Secret."""
    holds = bool(authority and webhook and certs.chain_holds(webhook.certificate, authority.certificate, now))
    return decide(in_secret(authority), in_secret(webhook), chain_holds=holds, now=now, settings=settings)


@lru_cache(maxsize=4)
def in_secret(pair: certs.KeyPair | None) -> SecretKeyPair | None:
    """What decides about a pair."""
    if pair is None:
        return None
    facts = certs.facts(pair)
    is_complete = bool(pair.certificate and pair.key)
    return SecretKeyPair(is_complete=is_complete, begins=facts.begins, ends=facts.ends, key_fits=facts.key_fits)


def decide(
    authority: SecretKeyPair | None,
    webhook: SecretKeyPair | None,
    *,
    chain_holds: bool,
    now: datetime,
    settings: Settings,
) -> RenewalDecision:
    """Whether to renew certificates.

    `chain_holds`: the webhook's certificate verifies against the CA, both are valid at `now`, the CA is one, and the
    certificate is none.
    """
    boundary = boundary_of(settings.ca_certificate_expiration, settings)
    if why := _flaw(authority, now, boundary) or _too_early(authority, now):
        return RenewalDecision(api.CERTIFICATE_SECRETS, f"{api.CA_SECRET_NAME} {why}")
    if why := _flaw(webhook, now, boundary_of(settings.webhook_certificate_expiration, settings)):
        return RenewalDecision((api.WEBHOOK_SECRET_NAME,), f"{api.WEBHOOK_SECRET_NAME} {why}")
    if why := _too_early(webhook, now):
        return RenewalDecision(api.CERTIFICATE_SECRETS, f"{api.WEBHOOK_SECRET_NAME} {why}")
    if not chain_holds:
        why = f"{api.WEBHOOK_SECRET_NAME} is not signed by {api.CA_SECRET_NAME}"
        return RenewalDecision(api.CERTIFICATE_SECRETS, why)
    return RenewalDecision()


def boundary_of(lifetime: timedelta, settings: Settings) -> timedelta:
    """How long before its end a certificate counts as expired; negative, as `ExpirationBoundary` is.

    A lifetime that is not longer than the boundary would make every new certificate one that is about to expire:
    each pass would renew it, and the module would never be ready. What a present certificate itself lasts for does
    not matter: one that another client made for a few days is renewed within the boundary, as by the original.
    """
    boundary = settings.expiration_boundary
    return boundary if boundary > -lifetime else -lifetime / RENEWED_IN_LAST


def _flaw(pair: SecretKeyPair | None, now: datetime, boundary: timedelta) -> str:
    """What makes a pair unusable; empty where nothing does."""
    if pair is None:
        return "is absent"
    if not pair.is_complete:
        return "lacks its certificate or its key"
    if pair.ends is None:
        return "holds no readable certificate"
    if now - boundary > pair.ends:  # a certificate may end at any date that there is, so none is reckoned from it
        return "is about to expire" if now <= pair.ends else "is expired"
    return "" if pair.key_fits else "holds a key that is not its certificate's"


def _too_early(pair: SecretKeyPair | None, now: datetime) -> str:
    """From when on a pair is valid; empty where it has begun."""
    if pair is None or pair.begins is None or pair.begins <= now:
        return ""
    return f"is not valid before {rfc3339(pair.begins)}"


def service_names(namespace: str) -> tuple[str, ...]:
    """The names under which the API server calls the webhooks: the certificate's subject alternative names."""
    return (f"{api.WEBHOOK_SERVICE_NAME}.{namespace}.svc", f"{api.WEBHOOK_SERVICE_NAME}.{namespace}")


# ---- Secrets


def authority_in(secret: Secret | None) -> certs.KeyPair | None:
    """The authority's certificate and key in its Secret; None where there is no Secret."""
    return _pair_in(secret, CA_CERTIFICATE_KEY, CA_PRIVATE_KEY_KEY)


def webhook_in(secret: Secret | None) -> certs.KeyPair | None:
    """The webhooks' certificate and key in their Secret; None where there is no Secret."""
    return _pair_in(secret, WEBHOOK_CERTIFICATE_KEY, WEBHOOK_PRIVATE_KEY_KEY)


def _pair_in(secret: Secret | None, certificate: str, key: str) -> certs.KeyPair | None:
    return certs.KeyPair(_bytes(secret, certificate), _bytes(secret, key)) if secret is not None else None


def _bytes(secret: Secret, key: str) -> bytes:
    try:
        return base64.b64decode(secret.data.get(key, ""), validate=True)
    except ValueError:  # binascii.Error is one; text that is not ASCII is another
        return b""


def documents_of(authority: certs.KeyPair, webhook: certs.KeyPair, namespace: str) -> tuple[Document, ...]:
    """The two wanted Secrets, by the names that the operand and the original operator expect."""
    ca = {CA_CERTIFICATE_KEY: authority.certificate, CA_PRIVATE_KEY_KEY: authority.key}
    leaf = {WEBHOOK_CERTIFICATE_KEY: webhook.certificate, WEBHOOK_PRIVATE_KEY_KEY: webhook.key}
    return _secret(api.CA_SECRET_NAME, namespace, ca), _secret(api.WEBHOOK_SECRET_NAME, namespace, leaf)


def _secret(name: str, namespace: str, data: dict[str, bytes]) -> Document:
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": {api.MANAGED_BY_LABEL: api.OPERATOR_NAME}},
        "data": {key: base64.b64encode(value).decode() for key, value in data.items()},
    }
    return Document(body)
