"""The certificate of our own webhooks: kept in a Secret, shared by replicas, and replaced without a refused call.

Replicas need no leader for it: the first one creates the Secret, the others read it, and every change
names the version it changes. The API server trusts the caBundle of our webhook configurations. So the order
of a replacement matters, and each step waits for the one before to be visible everywhere:

    a new authority joins the Secret  ->  both authorities stand in every caBundle  ->  (settled)  ->  a new leaf

The old authority stays in the bundle with the new one until a later replacement; a replica that still presents the
old leaf is trusted all the time. Where the process is, is not remembered but read off the Secret: `next_step` is pure.

Everything is replaced after 60% of its life, well before the two thirds at which others begin to warn, and where it is
not valid yet, because the clock of its maker was ahead. A Secret that a user has deleted is written again from memory,
because API servers would not trust a new authority at once. One with a new name begins with the authority of the former
Secret: while replicas with either Secret run, they would otherwise replace each other's caBundle all the time.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Secret
from stellwerk.kube.client import conditional, patch
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.conditional import NotAsSeen
from stellwerk.kube.client.patch import JsonPatch, MergePatch
from stellwerk.kube.types.errors import ApiError, Forbidden, Invalid
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured, View, dig, unstructured
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import KeyPair, Wish
from stellwerk.runtime.clock import Clock, SystemClock, happens_within
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.metrics import Metrics

RENEW_AT = 0.6
"""The part of its life after which a certificate is replaced."""
_AUTHORITIES_KEPT = 3
_RETRY_SECONDS = 2.0
_TRIES = 5

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Holding:
    """What the Secret holds. `authorities` are PEM, the newest first; `authority_key` is the newest one's."""

    authorities: tuple[bytes, ...]
    authority_key: bytes
    leaf: KeyPair

    @property
    def newest(self) -> KeyPair:
        """The authority that signs new leaves."""
        return KeyPair(self.authorities[0] if self.authorities else b"", self.authority_key)

    @property
    def bundle(self) -> bytes:
        """What callers must trust."""
        return b"".join(self.authorities)

    def __repr__(self) -> str:
        return f"Holding({len(self.authorities)} authorities, {self.leaf!r})"


class CertificateStep(Enum):
    """What has to be made next."""

    NOTHING = "nothing"
    LEAF = "a new leaf, by the newest authority"
    AUTHORITY = "a new authority next to the old; the leaf stays"
    EVERYTHING = "a new authority and a new leaf: there is nothing that could be kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How certificates are made, and how long a new authority must have been known before it is used."""

    names: Sequence[str]
    authority_lifetime: timedelta = timedelta(days=3650)
    leaf_lifetime: timedelta = timedelta(days=365)
    settle_seconds: float = 60.0
    """How long an API server may take to see a changed webhook configuration; seconds are the rule."""


def next_step(
    holding: Holding | None, profile: Profile, *, now: datetime, trusted_seconds: float | None
) -> CertificateStep:
    """What has to be made next (pure).

    `trusted_seconds`: for how long every caBundle is known to hold the whole bundle, by a clock that never jumps.
    """
    if holding is None or not _signs(holding.authorities, now):
        return CertificateStep.EVERYTHING
    can_sign = certs.key_fits(holding.newest)
    if not _is_usable(holding, profile, now):
        return CertificateStep.LEAF if can_sign else CertificateStep.EVERYTHING
    newest, leaf = certs.facts(holding.newest), certs.facts(holding.leaf)
    if not can_sign or not _has_begun(newest, now) or newest.used_life(now) >= RENEW_AT:
        return CertificateStep.AUTHORITY
    by_newest = certs.chain_holds(holding.leaf.certificate, holding.authorities[0])
    if by_newest:
        is_due = not _has_begun(leaf, now) or leaf.used_life(now) >= RENEW_AT
        return CertificateStep.LEAF if is_due else CertificateStep.NOTHING
    settled = trusted_seconds is not None and trusted_seconds >= profile.settle_seconds
    return CertificateStep.LEAF if settled else CertificateStep.NOTHING


def made(step: CertificateStep, holding: Holding | None, profile: Profile, now: datetime) -> Holding:
    """The holding after the step. Takes milliseconds: keys are elliptic."""
    match step:
        case CertificateStep.EVERYTHING:
            authority = certs.new_authority(_authority_wish(profile, now))
            return Holding((authority.certificate,), authority.key, certs.issue(authority, _leaf_wish(profile, now)))
        case CertificateStep.AUTHORITY if holding is not None:
            authority = certs.new_authority(_authority_wish(profile, now))
            kept = (authority.certificate, *(old for old in holding.authorities if _signs((old,), now)))
            return replace(holding, authorities=kept[:_AUTHORITIES_KEPT], authority_key=authority.key)
        case CertificateStep.LEAF if holding is not None:
            return replace(holding, leaf=certs.issue(holding.newest, _leaf_wish(profile, now)))
        case _:
            assert holding is not None, "nothing to do with nothing"
            return holding


@dataclass(frozen=True, slots=True)
class Registration:
    """An object of the cluster that names our webhooks, and the path of its caBundle."""

    view: View[Unstructured]
    name: str

    @classmethod
    def validating(cls, name: str) -> Registration:
        """A ValidatingWebhookConfiguration, with all its webhooks."""
        return cls(unstructured(ValidatingWebhookConfiguration.resource), name)

    @classmethod
    def mutating(cls, name: str) -> Registration:
        """A MutatingWebhookConfiguration, with all its webhooks."""
        return cls(unstructured(MutatingWebhookConfiguration.resource), name)

    @classmethod
    def conversion(cls, name: str) -> Registration:
        """A CustomResourceDefinition whose conversion webhook is ours."""
        return cls(unstructured(CustomResourceDefinition.resource), name)


def trust(body: JsonObject, bundle: bytes) -> list[JsonObject]:
    """The patch operations that make a registration trust this bundle; none where it does (pure)."""
    text = base64.b64encode(bundle).decode()
    webhooks = body.get("webhooks")
    places: list[tuple[str | int, ...]] = [("spec", "conversion", "webhook", "clientConfig")]
    configs = [dig(body, "spec", "conversion", "webhook", "clientConfig")]
    if isinstance(webhooks, list):
        places = [("webhooks", index, "clientConfig") for index in range(len(webhooks))]
        configs = [dig(webhook, "clientConfig") for webhook in webhooks]
    return [
        patch.add((*place, "caBundle"), text)
        for place, config in zip(places, configs, strict=True)
        if isinstance(config, dict) and config.get("caBundle") != text
    ]


class ServingCertificates:
    """Keeps the certificate of this process's webhook server, together with the other replicas."""

    def __init__(
        self,
        client: Client,
        secret: ObjectKey,
        profile: Profile,
        *,
        former: ObjectKey | None = None,
        registrations: Sequence[Registration] = (),
        check_seconds: float = 30.0,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        """`former`: the Secret of an earlier name, with whose authority a new Secret begins."""
        self.context = certs.server_context()
        self._client = client
        self._secret = secret
        self._former = former
        self._profile = profile
        self._registrations = registrations
        self._check_seconds = check_seconds
        self._clock = clock or SystemClock()
        self._holding: Holding | None = None
        self._presented: KeyPair | None = None
        self._trusted: tuple[bytes, float] | None = None
        """The bundle that every caBundle holds, and since when by the monotonic clock."""
        self._doubted = asyncio.Event()
        if metrics is not None:
            metrics.certificate(str(secret), self._seconds_left)

    async def ensure(self) -> None:
        """Return when this process has a certificate that its callers trust. Waits while the API server fails."""
        while True:
            try:
                return await self.check()
            except ApiError as error:
                _log.warning("no serving certificate yet: %s", error)
            await self._clock.sleep(_RETRY_SECONDS)

    def doubt(self) -> None:
        """A registration may have changed: look at once. A client that replaces one removes its caBundle."""
        self._doubted.set()

    async def run(self) -> None:
        """Look again, every half minute and at each doubt, until cancelled."""
        while True:
            await happens_within(self._clock, self._check_seconds, self._doubted)
            self._doubted.clear()
            try:
                await self.check()
            except ApiError as error:
                _log.warning("serving certificates were not looked at: %s", error)

    async def check(self) -> None:
        """Look once: take over what others wrote, do the next step, make callers trust it. Raises ApiError."""
        failure: ApiError | None = None
        for _ in range(_TRIES):
            failure = await self._look()
            if failure is None:
                return
        raise Unsettled(f"the serving certificate {self._secret} is changed by others all the time") from failure

    async def _look(self) -> ApiError | None:
        """Returns a refusal if another replica was faster; then everything has to be read again."""
        # Read before the Secret: a process that freezes in between must not put an older bundle in a newer one's place.
        registered = [(one, await self._client.find(one.view, one.name)) for one in self._registrations]
        secret = await self._client.find(Secret, self._secret.name, self._secret.namespace)
        holding = _read(secret) if secret is not None else self._holding or await self._former_holding()
        now = self._clock.now()
        if holding is not None and any(
            found is not None and trust(found.body, holding.bundle) for _, found in registered
        ):
            self._trusted = None  # callers may have learned of the other bundle: they have to settle again
        step = next_step(holding, self._profile, now=now, trusted_seconds=self._trusted_seconds(holding))
        holding = await asyncio.to_thread(made, step, holding, self._profile, now)
        if step is not CertificateStep.NOTHING or secret is None:
            if isinstance(written := await self._write(secret, holding), NotAsSeen):
                return written.refusal
            _log.info("serving certificate %s: made %s", self._secret, step.value)
        for registration, found in registered:
            if found is not None and (refusal := await self._make_trust(registration, found, holding.bundle)):
                return refusal
        if self._trusted is None or self._trusted[0] != holding.bundle:
            self._trusted = (holding.bundle, self._clock.monotonic())
        self._present(holding)
        return None

    async def _former_holding(self) -> Holding | None:
        if self._former is None:
            return None
        try:
            secret = await self._client.find(Secret, self._former.name, self._former.namespace)
        except Forbidden:  # an installation without a former one need not grant the right
            return None
        return _read(secret) if secret is not None else None

    def _trusted_seconds(self, holding: Holding | None) -> float | None:
        if holding is None or self._trusted is None or self._trusted[0] != holding.bundle:
            return None
        return self._clock.monotonic() - self._trusted[1]

    async def _write(self, secret: Secret | None, holding: Holding) -> Secret | NotAsSeen:
        """Store it in place of what was read."""
        name, namespace = self._secret.name, self._secret.namespace
        data = _data(holding)
        if secret is None:
            metadata: JsonObject = {"name": name, "namespace": namespace}
            body: JsonObject = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
            return await conditional.create_if_absent(self._client, Secret, body)
        version: JsonObject = {"resourceVersion": secret.metadata.resource_version}
        renewed = MergePatch({"metadata": version, "data": data})
        return await conditional.patch_if_unchanged(self._client, Secret, name, namespace, renewed)

    async def _make_trust(self, registration: Registration, found: Unstructured, bundle: bytes) -> ApiError | None:
        """Returns a refusal if the registration is not as it was read."""
        changes = trust(found.body, bundle)
        if not changes:
            return None
        same = patch.test(("metadata", "resourceVersion"), found.metadata.resource_version)
        trusting = JsonPatch([same, *changes])
        try:
            written = await conditional.patch_if_unchanged(
                self._client, registration.view, registration.name, "", trusting
            )
        except Invalid as error:  # also the answer to a patch whose test did not hold
            return error
        return written.refusal if isinstance(written, NotAsSeen) else None

    def _present(self, holding: Holding) -> None:
        """Show this leaf from the next handshake on."""
        if holding != self._holding:
            logs.hide(holding.authority_key.decode(errors="replace"), holding.leaf.key.decode(errors="replace"))
        self._holding = holding
        if holding.leaf != self._presented:
            certs.load_into(self.context, holding.leaf)
            self._presented = holding.leaf

    def _seconds_left(self) -> float:
        ends = certs.facts(self._presented).ends if self._presented is not None else None
        return (ends - self._clock.now()).total_seconds() if ends is not None else 0.0


class Unsettled(ApiError):
    """Others change an object all the time; it is tried again later."""


def _is_usable(holding: Holding, profile: Profile, now: datetime) -> bool:
    """Whether callers who trust the bundle accept the leaf, now or when it begins, and it has all names."""
    facts = certs.facts(holding.leaf)
    trusted = any(
        _signs((authority,), now) and certs.chain_holds(holding.leaf.certificate, authority)
        for authority in holding.authorities
    )
    return facts.key_fits and trusted and _lives(facts, now) and set(profile.names) <= set(facts.names)


def _signs(authorities: Sequence[bytes], now: datetime) -> bool:
    """Whether the first is an authority that is not over."""
    facts = certs.facts(KeyPair(authorities[0] if authorities else b"", b""))
    return facts.is_authority and _lives(facts, now)


def _has_begun(facts: certs.Facts, now: datetime) -> bool:
    """Whether it is valid already. Otherwise the clock of its maker was ahead, and callers refuse it until then; or our
    own clock was set back, so its replacement takes the order that costs no caller its trust.

    The replica whose clock is ahead accepts what replaces it, so replicas do not replace certificates by turns, unless
    their clocks differ by more than `RENEW_AT` of a leaf's life.
    """
    return facts.begins is not None and facts.begins <= now


def _lives(facts: certs.Facts, now: datetime) -> bool:
    return facts.ends is not None and now < facts.ends


def _authority_wish(profile: Profile, now: datetime) -> Wish:
    # The time keeps two authorities of one name apart, for readers and for verifiers that look up issuers by name.
    name = f"stellwerk webhook authority {now:%Y-%m-%dT%H:%M:%S}"
    return Wish(common_name=name, names=profile.names, lifetime=profile.authority_lifetime, now=now)


def _leaf_wish(profile: Profile, now: datetime) -> Wish:
    return Wish(common_name=profile.names[0], names=profile.names, lifetime=profile.leaf_lifetime, now=now)


def _read(secret: Secret) -> Holding:
    """What the Secret holds; what is missing or no base64 is empty."""

    def value(key: str) -> bytes:
        try:
            return base64.b64decode(secret.data.get(key, ""), validate=True)
        except ValueError:  # binascii.Error is one; text that is not ASCII is another
            return b""

    return Holding(tuple(certs.split(value("ca.crt"))), value("ca.key"), KeyPair(value("tls.crt"), value("tls.key")))


def _data(holding: Holding) -> JsonObject:
    values = {
        "ca.crt": holding.bundle,
        "ca.key": holding.authority_key,
        "tls.crt": holding.leaf.certificate,
        "tls.key": holding.leaf.key,
    }
    return {key: base64.b64encode(value).decode() for key, value in values.items()}
