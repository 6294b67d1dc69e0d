"""Which applications have proved their identity: their binding has got a token from its issuer.

The names in credentials are no secrets, so any user of the cluster can create an application with the identity of
another one, and a Secret with the names of its binding. Only who has the client secret, or the certificate, gets a
token. So each version of a binding is tried once in the background, and again with growing pauses until it succeeds.

The `xsappname` of an XSUAA is proved in the same way: by its own binding, whose client is named after it. A token that
names this audience alone counts only then; otherwise it must name the client of the registry, which is proved.

The token comes from the server that the binding names, but only if that is an issuer of its `uaadomain`: otherwise a
binding could name a server that gives tokens to every client.

Proofs are kept in memory. They can be repeated at any time, and what a cluster stores could be written by users as
well. designs/cap-identity.md has the reasons.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.kinds.application import CAPApplication, ServiceInfo
from stellwerk.operators.cap.subscription import client_credentials, registries
from stellwerk.operators.cap.subscription.callers import tokens
from stellwerk.operators.cap.subscription.callers.bindings import WAIT_SECONDS, Bindings, Trust, Turns
from stellwerk.operators.cap.subscription.client_credentials import CredentialsRefused
from stellwerk.operators.cap.subscription.outgoing import NoAnswer, Outgoing
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.render.errors import EgressRefused
from stellwerk.render.sources.egress import parsed
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.supervision.tasks import background

MOST_AT_ONCE = 16
"""Namespaces with an attempt under way; each has one, so that an issuer that hangs occupies one place."""
CHECK_SECONDS = 5.0
ASKED_AGAIN_SECONDS = 10.0
"""The least pause between two attempts if requests wait for the proof."""
_PAUSES = Backoff(first_seconds=CHECK_SECONDS, limit_seconds=600.0)
_LEAST_LABELS_OF_CERTIFICATES = 4

_log = logging.getLogger(__name__)


class ProofState(Enum):
    """How an attempt to get a token has ended."""

    UNTRIED = "not tried yet"
    PROVED = "proved"
    REFUSED = "refused"
    UNANSWERED = "unanswered"
    UNPROVABLE = "unprovable"


@dataclass(slots=True)
class Proof:
    """What is known of one binding of an application."""

    service: ServiceInfo
    version: bytes = b""
    state: ProofState = ProofState.UNTRIED
    problem: str = ""
    attempts: int = 0
    tried: float = -math.inf
    due: float = -math.inf

    @property
    def is_judged(self) -> bool:
        """Whether its state may be shown: an issuer that did not answer once, as when both have just started, is asked
        a second time before."""
        return self.state is not ProofState.UNTRIED and (self.state is not ProofState.UNANSWERED or self.attempts > 1)


@dataclass(slots=True)
class _Known:
    uid: str
    proofs: dict[Protocol, Proof] = field(default_factory=dict)
    proved: dict[Protocol, Trust] = field(default_factory=dict)
    """What callers had to show when the last proof succeeded."""


@dataclass(slots=True, eq=False)
class Proofs:
    """The proofs of all applications."""

    bindings: Bindings
    outgoing: Outgoing
    clock: Clock
    applications: Informer[CAPApplication]
    on_change: Callable[[ObjectKey], None] = lambda _: None
    """Called when an attempt has ended, or an application is gone."""
    _known: dict[ObjectKey, _Known] = field(default_factory=dict)
    _turns: Turns = field(default_factory=Turns)
    _busy: dict[str, ObjectKey] = field(default_factory=dict)
    """The application of each namespace that is being tried."""
    _later: set[ObjectKey] = field(default_factory=set)
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    _progress: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.bindings.on_read = self._on_read

    def of(self, application: CAPApplication, protocol: Protocol) -> Proof | None:
        """The proof of the binding as it is now; None if there is no such binding that can be read."""
        known = self._known.get(application.key)
        if known is None or known.uid != application.metadata.uid:
            return None
        proof = known.proofs.get(protocol)
        return proof if proof and self.bindings.of(application).versions.get(protocol) == proof.version else None

    def proved(self, application: CAPApplication, protocol: Protocol) -> Trust | None:
        """What callers have to show for what is proved of the bindings as they are now; None if nothing is."""
        proof = self.of(application, protocol)
        is_proved = proof is not None and proof.state is ProofState.PROVED
        return self.last_proved(application, protocol) if is_proved else None

    def last_proved(self, application: CAPApplication, protocol: Protocol) -> Trust | None:
        """What callers had to show when a binding of this application got a token last; None if none ever did."""
        known = self._known.get(application.key)
        return known.proved.get(protocol) if known is not None and known.uid == application.metadata.uid else None

    @property
    def is_busy(self) -> bool:
        """Whether bindings are being read, or an attempt is under way or due."""
        return bool(self.bindings.is_reading or self._turns or self._busy)

    async def tried(self, applications: Iterable[CAPApplication]) -> None:
        """Wait until each of these was tried once; return after two seconds at most."""
        listed = [*applications]
        for each in listed:
            self._hasten(each)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while any(map(self._is_untried, listed)):
                    await self._progress.wait()
        except TimeoutError:
            _log.warning("the issuers of %d applications are still being asked for tokens", len(self._turns) + 1)

    async def run(self) -> None:
        """Try what is due until cancelled."""
        for interrupted in self._busy.values():  # the last run has ended in them
            self._turns.put(interrupted)
        self._busy.clear()
        async with background() as tasks:
            tasks.start(self._try_later(), "bindings that have got no token")
            while True:
                while len(self._busy) < MOST_AT_ONCE and (key := self._turns.take(self._busy)) is not None:
                    self._busy[key.namespace] = key
                    tasks.start(self._try(key), f"proof of {key}")
                self._more.clear()
                await self._more.wait()

    async def _try_later(self) -> None:
        while True:
            await self.clock.sleep(CHECK_SECONDS)
            for key in [*self._later]:
                known = self._known.get(key)
                if known is None or any(self._is_due(each) for each in known.proofs.values()):
                    self._later.discard(key)
                    self._put(key)

    async def _try(self, key: ObjectKey) -> None:
        application, known = self.applications.store.get(key), self._known.get(key)
        if application is not None and known is not None:
            for protocol, proof in known.proofs.items():
                if self._is_due(proof):
                    await self._prove(application, known, protocol, proof)
            if any(each.state is not ProofState.PROVED for each in known.proofs.values()):
                self._later.add(key)
        del self._busy[key.namespace]
        self._more.set()
        progress, self._progress = self._progress, asyncio.Event()
        progress.set()
        self.on_change(key)

    async def _prove(self, application: CAPApplication, known: _Known, protocol: Protocol, proof: Proof) -> None:
        proof.tried = self.clock.monotonic()
        trust = self.bindings.of(application)
        try:
            read = await self.bindings.read(application, proof.service, _credentials)
            xsuaa = registries.xsuaa_of(application) if protocol is Protocol.SAAS else None
            uaa = await self.bindings.read(application, xsuaa, _credentials) if xsuaa is not None else None
            version, credentials = read or (b"", {})
            uaa_version, uaa_credentials = uaa or (b"", {})
            if version + uaa_version != proof.version:
                return  # it has changed; the next version is tried when it has been read
            domain = tokens.domain_of(credentials.get("uaadomain")) or (trust.token.uaa_domain if trust.token else "")
            if not is_issuer(client_credentials.issuer_url(credentials), domain):
                proof.state, proof.problem = ProofState.UNPROVABLE, "its credentials name no issuer of their uaadomain"
            else:
                await client_credentials.token(self.outgoing, credentials)
                is_named = await self._is_app_name_proved(uaa_credentials, domain)
                known.proved[protocol] = _proved(trust, is_named)
                proof.state, proof.problem = ProofState.PROVED, ""
        except CredentialsRefused as error:
            proof.state, proof.problem = ProofState.REFUSED, f"its issuer refuses the credentials: {error}"
            known.proved.pop(protocol, None)
        except (NoAnswer, ApiError) as error:
            proof.state, proof.problem = ProofState.UNANSWERED, f"its issuer gives no token: {error}"
        proof.attempts += 1
        proof.due = self.clock.monotonic() + _PAUSES.delay_seconds(proof.attempts, 0.0)
        if proof.problem:
            _log.warning(
                "the binding of service %s of CAPApplication %s is not proved: %s",
                proof.service.name,
                application.key,
                proof.problem,
            )

    async def _is_app_name_proved(self, credentials: JsonObject, domain: str) -> bool:
        """Whether the client of an XSUAA is named after its xsappname, and gets a token. Raises NoAnswer."""
        client, app_name = (registries.text(credentials, name) for name in ("clientid", "xsappname"))
        if not app_name or not (client == f"sb-{app_name}" or client.endswith(f"|{app_name}")):
            return False
        if not is_issuer(client_credentials.issuer_url(credentials), domain):
            return False
        try:
            await client_credentials.token(self.outgoing, credentials)
        except CredentialsRefused as error:
            _log.warning("the issuer refuses the credentials of the xsuaa %s: %s", app_name, error)
            return False
        return True

    def _is_due(self, proof: Proof) -> bool:
        return proof.state is not ProofState.PROVED and self.clock.monotonic() >= proof.due

    def _is_untried(self, application: CAPApplication) -> bool:
        proofs = (self.of(application, protocol) for protocol in Protocol)
        return any(proof is not None and proof.state is ProofState.UNTRIED for proof in proofs)

    def _hasten(self, application: CAPApplication) -> None:
        """Try now what would be tried later: a request waits for it."""
        now = self.clock.monotonic()
        for proof in (self.of(application, protocol) for protocol in Protocol):
            is_missing = proof is not None and proof.state is not ProofState.PROVED
            if proof is not None and is_missing and proof.due > now >= proof.tried + ASKED_AGAIN_SECONDS:
                proof.due = now
                self._put(application.key)
        self._turns.prefer(application.key)

    def _put(self, key: ObjectKey) -> None:
        self._turns.put(key)
        self._more.set()

    def _on_read(self, key: ObjectKey) -> None:
        application = self.applications.store.get(key)
        if application is None:
            self._known.pop(key, None)
            self._later.discard(key)
            self.on_change(key)
            return
        known = self._known.get(key)
        if known is None or known.uid != application.metadata.uid:
            known = self._known[key] = _Known(application.metadata.uid)
        versions = self.bindings.of(application).versions
        for protocol in Protocol:
            service, version = registries.service_of(application, protocol), versions.get(protocol)
            if service is None or version is None:
                known.proofs.pop(protocol, None)
            elif protocol not in known.proofs or known.proofs[protocol].version != version:
                known.proofs[protocol] = Proof(service, version)
                self._put(key)
        self.on_change(key)


def _credentials(entry: JsonObject) -> tuple[bytes, JsonObject]:
    return registries.version_of(entry), registries.texts_for_proofs(entry)


def _proved(trust: Trust, is_app_name_proved: bool) -> Trust:
    if trust.token is None:
        return trust
    return replace(trust, token=replace(trust.token, counts_app_name=is_app_name_proved))


def is_issuer(url: str, domain: str) -> bool:
    """Whether the server of a URL is an issuer of a UAA domain: its host is the domain, directly below it, or in
    its form for certificates (pure).

    XSUAA has `SUBDOMAIN.authentication.LANDSCAPE` for secrets and `SUBDOMAIN.authentication.cert.LANDSCAPE` for
    certificates. Servers deeper in a domain may be those of users of the platform. Without a domain, as in a binding of
    the Subscription Management Service, the binding alone names its issuer.
    """
    try:
        found = parsed(url)
    except EgressRefused:
        return False
    host = (found.host or "").lower()
    is_usable = found.scheme == "https" and bool(host) and found.user is None
    return is_usable and (not domain or any(_is_below(host, each) for each in _domains(domain)))


def _domains(domain: str) -> Sequence[str]:
    first, _, rest = domain.partition(".")
    # With few labels, another owner could have what "cert" makes of it.
    certificates = [f"{first}.cert.{rest}"] if domain.count(".") + 1 >= _LEAST_LABELS_OF_CERTIFICATES else []
    return (domain, f"cert.{domain}", *certificates)


def _is_below(host: str, domain: str) -> bool:
    return host == domain or host.partition(".")[2] == domain
