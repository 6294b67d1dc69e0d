"""The certificates of the operand's webhooks: checked on every pass, renewed when `certificates.decide` requires it.

The values of the two Secrets are in memory as long as their versions stand, so a calm pass sends no request. New
certificates are handed to the apply of the module, which writes them before the webhook configurations that trust them:
the CA first, and what it has signed only once the CA is in its Secret. A certificate whose CA is nowhere would break
webhooks that work.

New certificates are kept until both Secrets hold them. Where the API server refuses one of the two, those of another
pass would be refused as well, or would replace the half that was written: each write wakes a pass, so keys would be
made without a pause.

Their keys are what a new module would wait for longest. So they are begun when the operator starts leading and finds no
certificates, and made while everything else is applied; and the keys of the next installation are made after this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stellwerk.api.core import Secret
from stellwerk.apply.objects.desired import Document
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.btp import api
from stellwerk.operators.btp.btpoperator import certificates
from stellwerk.operators.btp.btpoperator.certificates import RenewalDecision
from stellwerk.operators.btp.btpoperator.observe import Observer
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.key_pool import KeyStock


@dataclass(frozen=True, slots=True)
class OperandCertificates:
    """The CA that webhooks are trusted by, as PEM, and the two wanted Secrets."""

    authority: bytes
    documents: tuple[Document, ...]
    has_new_authority: bool = False
    """Whether the CA is not in its Secret yet."""
    renewed: str = ""
    """Why present ones were renewed, as a clause; empty where none were."""


@dataclass(frozen=True, slots=True)
class _Made:
    """Certificates that were made, and for which settings."""

    authority: certs.KeyPair
    webhook: certs.KeyPair
    settings: Settings


NO_CERTIFICATES = OperandCertificates(b"", ())


@dataclass(slots=True)
class Webhooks:
    """Settles the certificates. `regenerated` counts.

    As a worker of the manager it begins keys as soon as we lead, when the caches are full. The owner of `keys` closes
    them.
    """

    name = "webhook-keys"

    observer: Observer
    regenerated: Callable[[], None]
    keys: KeyStock
    _ends: dict[str, datetime] = field(default_factory=dict)
    _made: _Made | None = None
    """The certificates made last, until both Secrets were found to be good."""

    def ends(self) -> Mapping[str, datetime]:
        """When the certificates end that are there, by `ca` and `webhook`, as far as they were looked at."""
        names = zip(("ca", "webhook"), api.CERTIFICATE_SECRETS, strict=True)
        return {name: self._ends[name] for name, secret in names if name in self._ends and self._is_there(secret)}

    async def run(self) -> None:
        """Begin the keys of certificates that the caches do not know: they will be needed with the first CR."""
        if not all(map(self._is_there, api.CERTIFICATE_SECRETS)):
            self.keys.fill(self.observer.settings().rsa_key_bits)

    def stop(self) -> None:
        """There is nothing to stop."""

    async def are_due(self) -> bool:
        """Whether new ones will be made, which begins their keys. Raises ApiError."""
        decision, _, _ = await self._seen()
        if decision.secrets:
            self.keys.fill(self.observer.settings().rsa_key_bits)
        return bool(decision.secrets)

    async def settled(self) -> OperandCertificates:
        """The wanted certificates; new ones where the present ones are of no use. Raises ApiError."""
        settings = self.observer.settings()  # once: new keys take seconds, and the namespace may change meanwhile
        decision, present, webhook = await self._seen()
        pairs = {"ca": certificates.in_secret(present), "webhook": certificates.in_secret(webhook)}
        self._ends = {name: pair.ends for name, pair in pairs.items() if pair is not None and pair.ends is not None}
        renewed, authority = decision.why if present or webhook else "", present
        if decision.secrets:
            made = self._still_good(decision, present, settings) or await self._renewed(decision, present, settings)
            self._made, authority, webhook = made, made.authority, made.webhook
        else:
            self._made = None
        assert authority is not None, "a missing authority is renewed"
        assert webhook is not None, "a missing certificate is renewed"
        documents = certificates.documents_of(authority, webhook, settings.chart_namespace)
        return OperandCertificates(authority.certificate, documents, authority != present, renewed)

    def forget(self) -> None:
        """The module is gone: the next one gets certificates of its own."""
        self._made = None

    async def _seen(self) -> tuple[RenewalDecision, certs.KeyPair | None, certs.KeyPair | None]:
        """Which of the present certificates to renew, and these."""
        authority = certificates.authority_in(await self._read(api.CA_SECRET_NAME))
        webhook = certificates.webhook_in(await self._read(api.WEBHOOK_SECRET_NAME))
        now, settings = self.observer.clock.now(), self.observer.settings()
        return certificates.judged(authority, webhook, now=now, settings=settings), authority, webhook

    def _is_there(self, name: str) -> bool:
        return self.observer.caches.secrets.get(ObjectKey(self.observer.chart_namespace, name)) is not None

    async def _read(self, name: str) -> Secret | None:
        key = ObjectKey(self.observer.chart_namespace, name)
        return await self.observer.secrets.read(self.observer.caches.secrets.get(key))

    def _still_good(self, decision: RenewalDecision, present: certs.KeyPair | None, settings: Settings) -> _Made | None:
        """The certificates that were made before and are not both written, where they are what is needed now."""
        made = self._made
        if made is None or made.settings != settings:
            return None
        if api.CA_SECRET_NAME not in decision.secrets and made.authority != present:
            return None
        judged = certificates.judged(made.authority, made.webhook, now=self.observer.clock.now(), settings=settings)
        return None if judged.secrets else made

    async def _renewed(self, decision: RenewalDecision, present: certs.KeyPair | None, settings: Settings) -> _Made:
        """New ones. Signing with a key of 4096 bits takes long enough for a thread, too."""
        bits, authority = settings.rsa_key_bits, present
        if authority is None or api.CA_SECRET_NAME in decision.secrets:
            wish = self._wish("ca", settings.ca_certificate_expiration, settings)
            authority = await asyncio.to_thread(certs.new_authority, wish, await self.keys.take(bits))
        wish, key = self._wish("webhook", settings.webhook_certificate_expiration, settings), await self.keys.take(bits)
        made = _Made(authority, await asyncio.to_thread(certs.issue, authority, wish, key), settings)
        self.keys.fill(bits)
        self.regenerated()
        return made

    def _wish(self, what: str, lifetime: timedelta, settings: Settings) -> certs.Wish:
        return certs.Wish(
            common_name=f"{api.OPERAND_NAME}-{what}",
            names=certificates.service_names(settings.chart_namespace),
            lifetime=lifetime,
            now=self.observer.clock.now(),
            key_bits=settings.rsa_key_bits,
        )
