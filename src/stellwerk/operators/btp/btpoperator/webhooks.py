"""The certificates of the operand's webhooks: checked on every pass, renewed when `certificates.decide` requires it.

The values of the two Secrets are in memory as long as their versions stand, so a calm pass sends no request. New
certificates are handed to the apply of the module, which writes them before the webhook configurations that trust them.

Their keys are what a new module would wait for longest. So they are begun when the operator starts leading and finds no
certificates, and made while everything else is applied; and the keys of the next installation are made after this one.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache

from stellwerk.api.core import Secret
from stellwerk.apply.objects.desired import Document
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.btp import api
from stellwerk.operators.btp.btpoperator import certificates, resources
from stellwerk.operators.btp.btpoperator.certificates import (
    CA_CERTIFICATE_KEY,
    CA_PRIVATE_KEY_KEY,
    WEBHOOK_CERTIFICATE_KEY,
    WEBHOOK_PRIVATE_KEY_KEY,
    Boundaries,
    Renewal,
    RenewalDecision,
)
from stellwerk.operators.btp.btpoperator.observe import Observer
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.key_pool import KeyStock
from stellwerk.runtime.clock import Clock


@dataclass(frozen=True, slots=True)
class OperandCertificates:
    """The CA that webhooks are trusted by, as PEM, and the two wanted Secrets."""

    authority: bytes
    documents: tuple[Document, ...]
    renewed: str = ""
    """Why present ones were renewed, as a clause; empty where none were."""


NO_CERTIFICATES = OperandCertificates(b"", ())


@dataclass(slots=True)
class Webhooks:
    """Settles the certificates. `regenerated` counts."""

    observer: Observer
    settings: Callable[[], Settings]
    clock: Clock
    regenerated: Callable[[], None]
    keys: KeyStock
    _ends: dict[str, datetime] = field(default_factory=dict)

    def ends(self) -> Mapping[str, datetime]:
        """When the certificates end that are there, by `ca` and `webhook`, as far as they were looked at."""
        namespace, present = self.settings().chart_namespace, self.observer.caches.secrets
        return {
            name: self._ends[name]
            for name, secret in (("ca", api.CA_SECRET_NAME), ("webhook", api.WEBHOOK_SECRET_NAME))
            if name in self._ends and present.get(ObjectKey(namespace, secret)) is not None
        }

    def foresee(self) -> None:
        """Begin the keys of certificates that the caches do not know: they will be needed with the first CR."""
        present, namespace = self.observer.caches.secrets, self.settings().chart_namespace
        names = (api.CA_SECRET_NAME, api.WEBHOOK_SECRET_NAME)
        if any(present.get(ObjectKey(namespace, name)) is None for name in names):
            self.keys.fill(self.settings().rsa_key_bits)

    async def are_due(self) -> bool:
        """Whether new ones will be made, which begins their keys. Raises ApiError."""
        decision, _, _ = await self._seen()
        if decision.renewal is not Renewal.NOTHING:
            self.keys.fill(self.settings().rsa_key_bits)
        return decision.renewal is not Renewal.NOTHING

    async def settled(self) -> OperandCertificates:
        """The wanted certificates; new ones where the present ones are of no use. Raises ApiError."""
        namespace = self.settings().chart_namespace
        decision, authority, webhook = await self._seen()
        renewed = decision.why if authority or webhook else ""
        if decision.renewal is not Renewal.NOTHING:
            authority, webhook = await self._renewed(decision.renewal, authority)
        assert authority is not None, "a missing authority is renewed"
        assert webhook is not None, "a missing certificate is renewed"
        seen = {"ca": _facts(authority), "webhook": _facts(webhook)}
        self._ends = {name: facts.ends for name, facts in seen.items() if facts is not None and facts.ends is not None}
        return OperandCertificates(authority.certificate, documents_of(authority, webhook, namespace), renewed)

    async def _seen(self) -> tuple[RenewalDecision, certs.KeyPair | None, certs.KeyPair | None]:
        """The present certificates, and which of them to renew."""
        authority = authority_in(await self._read(api.CA_SECRET_NAME))
        webhook = webhook_in(await self._read(api.WEBHOOK_SECRET_NAME))
        decision = judged(authority, webhook, now=self.clock.now(), settings=self.settings())
        return decision, authority, webhook

    async def _read(self, name: str) -> Secret | None:
        key = ObjectKey(self.settings().chart_namespace, name)
        return await self.observer.secrets.read(self.observer.caches.secrets.get(key))

    async def _renewed(self, renewal: Renewal, authority: certs.KeyPair | None) -> tuple[certs.KeyPair, certs.KeyPair]:
        """New ones. Signing with a key of 4096 bits takes long enough for a thread, too."""
        settings = self.settings()
        bits = settings.rsa_key_bits
        if renewal is Renewal.BOTH or authority is None:
            wish, key = self._wish("ca", settings.ca_certificate_expiration), await self.keys.take(bits)
            authority = await asyncio.to_thread(certs.new_authority, wish, key)
        wish, key = self._wish("webhook", settings.webhook_certificate_expiration), await self.keys.take(bits)
        pair = authority, await asyncio.to_thread(certs.issue, authority, wish, key)
        self.keys.fill(bits)
        self.regenerated()
        return pair

    def _wish(self, what: str, lifetime: timedelta) -> certs.Wish:
        settings = self.settings()
        names = certificates.service_names(settings.chart_namespace)
        return certs.Wish(
            common_name=f"{api.OPERAND_NAME}-{what}",
            names=names,
            lifetime=lifetime,
            now=self.clock.now(),
            key_bits=settings.rsa_key_bits,
        )


class Foresight:
    """Starts to make keys as soon as we lead, when the caches are full. The stock's owner closes it."""

    name = "webhook-keys"

    def __init__(self, webhooks: Webhooks) -> None:
        self._webhooks = webhooks

    async def run(self) -> None:
        """Begin what will be needed."""
        self._webhooks.foresee()

    def stop(self) -> None:
        """There is nothing to stop."""


def authority_in(secret: Secret | None) -> certs.KeyPair | None:
    """The authority's certificate and key in its Secret; None where there is no Secret."""
    return _pair_in(secret, CA_CERTIFICATE_KEY, CA_PRIVATE_KEY_KEY)


def webhook_in(secret: Secret | None) -> certs.KeyPair | None:
    """The webhooks' certificate and key in their Secret; None where there is no Secret."""
    return _pair_in(secret, WEBHOOK_CERTIFICATE_KEY, WEBHOOK_PRIVATE_KEY_KEY)


def _pair_in(secret: Secret | None, certificate: str, key: str) -> certs.KeyPair | None:
    return certs.KeyPair(_bytes(secret, certificate), _bytes(secret, key)) if secret is not None else None


def judged(
    authority: certs.KeyPair | None, webhook: certs.KeyPair | None, *, now: datetime, settings: Settings
) -> RenewalDecision:
    """Which of the present certificates to renew."""
    holds = bool(authority and webhook) and certs.chain_holds(
        webhook.certificate if webhook else b"", authority.certificate if authority else b""
    )
    boundaries = Boundaries.of(
        settings.expiration_boundary,
        authority_lifetime=settings.ca_certificate_expiration,
        webhook_lifetime=settings.webhook_certificate_expiration,
    )
    return certificates.decide(_facts(authority), _facts(webhook), chain_holds=holds, now=now, boundaries=boundaries)


def documents_of(authority: certs.KeyPair, webhook: certs.KeyPair, namespace: str) -> tuple[Document, ...]:
    """The two wanted Secrets."""
    return (
        _secret(api.CA_SECRET_NAME, namespace, CA_CERTIFICATE_KEY, CA_PRIVATE_KEY_KEY, authority),
        _secret(api.WEBHOOK_SECRET_NAME, namespace, WEBHOOK_CERTIFICATE_KEY, WEBHOOK_PRIVATE_KEY_KEY, webhook),
    )


@lru_cache(maxsize=4)
def _facts(pair: certs.KeyPair | None) -> certificates.SecretKeyPair | None:
    if pair is None:
        return None
    known = certs.facts(pair)
    return certificates.SecretKeyPair(
        has_certificate=bool(pair.certificate), has_key=bool(pair.key), ends=known.ends, key_fits=known.key_fits
    )


def _bytes(secret: Secret, key: str) -> bytes:
    try:
        return base64.b64decode(secret.data.get(key, ""), validate=True)
    except ValueError:  # binascii.Error is one; text that is not ASCII is another
        return b""


def _secret(name: str, namespace: str, certificate: str, key: str, pair: certs.KeyPair) -> Document:
    return resources.certificate_secret(name, namespace, {certificate: pair.certificate, key: pair.key})
