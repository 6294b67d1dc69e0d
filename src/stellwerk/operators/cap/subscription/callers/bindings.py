"""What callers of each application have to show: read from its binding Secrets, and kept without anything secret.

Of namespaces with applications, the metadata of Secrets is watched. The values of those that an application names for
its registries are read when they change, and forgotten: only names of issuers, clients and scopes are kept.

What is known of all applications is brought up to date before a request is looked at, whichever application it is for:
otherwise its answer would take longer for an application that exists. A request waits for that a moment only, because
one namespace may have many applications: what is read counts at once, and namespaces take turns.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import count
from typing import TypeVar

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata
from stellwerk.operators.cap.kinds.application import CAPApplication, ServiceInfo
from stellwerk.operators.cap.subscription import registries
from stellwerk.operators.cap.subscription.callers import client_certificates, tokens
from stellwerk.operators.cap.subscription.callers.client_certificates import CertificateRules
from stellwerk.operators.cap.subscription.callers.tokens import TokenRules
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.render.sources.single_flight import Flights
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.clock import Clock

WAIT_SECONDS = 2.0
"""How long a request waits for what has just changed."""
_AGAIN_SECONDS = 5.0

R = TypeVar("R")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """What callers have to show for one application; None where it cannot be called by that protocol."""

    token: TokenRules | None = None
    certificate: CertificateRules | None = None
    issuers: frozenset[str] = frozenset()
    """The hosts of token issuers that the credentials name, within the UAA domain."""
    timeouts: Mapping[Protocol, timedelta] = field(default_factory=dict)
    """How long a registry waits for the end of what it has asked for."""
    registry_urls: Mapping[Protocol, str] = field(default_factory=dict)
    """Where the end is reported to."""


@dataclass(frozen=True, slots=True)
class RegistryFacts:
    """What is read of the credentials of a registry."""

    texts: JsonObject
    timeout: timedelta


@dataclass(slots=True, eq=False)
class Bindings:
    """What is known of the bindings of all applications."""

    services: ServiceReader
    clock: Clock
    applications: Informer[CAPApplication]
    secrets: Callable[[str], Informer[PartialObjectMetadata]]
    """The metadata of the Secrets of a namespace; watched from the first call until they are released."""
    release: Callable[[Informer[PartialObjectMetadata]], None]
    _trust: dict[ObjectKey, Trust] = field(default_factory=dict)
    _stale: set[ObjectKey] = field(default_factory=set)
    _reading: set[ObjectKey] = field(default_factory=set)
    _failed: set[ObjectKey] = field(default_factory=set)
    _watched: dict[str, Informer[PartialObjectMetadata]] = field(default_factory=dict)
    uaa_domains: frozenset[str] = field(default=frozenset(), init=False)
    """The UAA domains of all applications."""
    issuers: frozenset[str] = field(default=frozenset(), init=False)
    """The hosts of token issuers that the credentials of all applications name."""
    _flights: Flights[str, None] = field(default_factory=lambda: Flights(lambda: RuntimeError("the server ends")))

    def __post_init__(self) -> None:
        self.applications.on_change(self._on_application)

    def of(self, application: CAPApplication) -> Trust:
        """What callers have to show for an application."""
        return self._trust.get(application.key, Trust())

    def are_known(self, application: CAPApplication, protocol: Protocol) -> bool:
        """Whether what callers have to show is known from its Secrets as they are now, so that a refusal is certain."""
        is_current = not any(application.key in keys for keys in (self._stale, self._reading, self._failed))
        return are_decisive(application, protocol, self.of(application) if is_current else Trust())

    @property
    def are_current(self) -> bool:
        """Whether the Secrets of all applications have been read as they are now: otherwise, what no application names
        may be in those that have not been."""
        return not (self._stale or self._reading or self._failed)

    async def up_to_date(self) -> None:
        """Read what has changed; return after two seconds at most."""
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                for _ in range(2):  # one under way may have begun before the last change
                    if self._stale or self._reading:
                        await self._joined()
        except TimeoutError:
            count = len(self._stale | self._reading)
            _log.warning("the binding Secrets of %d applications are still being read", count)

    async def run(self) -> None:
        """Read all from the start on, and again what could not be read, until cancelled; then end the reads under way.

        It waits for a read as long as that takes, so that requests which give up do not end it.
        """
        try:
            await self.applications.wait_synced()
            for _ in range(2):  # one under way may have begun before the cache was full
                await self._joined()
            while True:
                await self.clock.sleep(_AGAIN_SECONDS)
                self._stale |= self._failed
                self._failed.clear()
                if self._stale:
                    await self._joined()
        finally:
            await self._flights.close()

    async def _joined(self) -> None:
        await self._flights.join("refresh", self._refresh, name="refresh of bindings")

    async def _refresh(self) -> None:
        # A refresh that was cancelled may not have ended yet: what it was to read is read here.
        self._reading, self._stale = self._stale | self._reading, set()
        for key in in_turns(self._reading):
            application = self.applications.store.get(key)
            try:
                if application is None:
                    self._trust.pop(key, None)
                else:
                    self._take(key, await self._read(application))
                self._failed.discard(key)
            except ApiError as error:
                _log.warning("the binding Secrets of CAPApplication %s cannot be read: %s", key, error)
                self._failed.add(key)
            except BaseException:
                self._stale |= self._reading  # cancelled: the next request begins again
                raise
            self._reading.discard(key)
        # Those that no application names any more go.
        rules = (trust.token for trust in self._trust.values())
        self.uaa_domains = frozenset(each.uaa_domain for each in rules if each is not None)
        self.issuers = frozenset[str]().union(*(trust.issuers for trust in self._trust.values()))

    def _take(self, key: ObjectKey, trust: Trust) -> None:
        self._trust[key] = trust
        if trust.token is not None and trust.token.uaa_domain not in self.uaa_domains:
            self.uaa_domains |= {trust.token.uaa_domain}
        if not trust.issuers <= self.issuers:
            self.issuers |= trust.issuers

    async def _read(self, application: CAPApplication) -> Trust:
        found = {
            protocol: facts
            for protocol in Protocol
            if (service := registries.service_of(application, protocol)) is not None
            and (facts := await self.read(application, service, partial(_facts, protocol))) is not None
        }
        xsuaa = registries.xsuaa_of(application)
        uaa = await self.read(application, xsuaa, registries.texts_for_callers) if xsuaa is not None else None
        return trust_of(found, uaa)

    async def read(
        self, application: CAPApplication, service: ServiceInfo, take: Callable[[JsonObject], R]
    ) -> R | None:
        """What `take` returns for a service as workloads see it; None where its Secret is absent or has no usable
        credentials. Raises ApiError."""
        try:
            return await self.services.read(service, application.metadata.namespace, take)
        except ValueError as error:
            _log.warning("service %s of CAPApplication %s: %s", service.name, application.key, error)
            return None

    def _on_application(self, delta: Delta[CAPApplication]) -> None:
        old, new, namespace = delta.old, delta.new, delta.key.namespace
        if new is not None and namespace not in self._watched:
            self._watched[namespace] = self.secrets(namespace)
            self._watched[namespace].on_change(self._on_secret)
        # Namespaces come and go without bound: without applications, their Secrets are not watched.
        used = (each.metadata.namespace for each in self.applications.store.all())
        if new is None and namespace in self._watched and namespace not in used:
            self.release(self._watched.pop(namespace))
        if old is None or new is None or old.spec != new.spec or old.metadata.annotations != new.metadata.annotations:
            self._stale.add(delta.key)

    def _on_secret(self, delta: Delta[PartialObjectMetadata]) -> None:
        key = delta.key
        for application in self.applications.store.all():
            if application.metadata.namespace == key.namespace and key.name in _secrets_of(application):
                self._stale.add(application.key)


def _facts(protocol: Protocol, entry: JsonObject) -> RegistryFacts:
    timeout = registries.callback_timeout(protocol, registries.credentials_in(entry))
    return RegistryFacts(registries.texts_for_callers(entry), timeout)


def trust_of(registry: Mapping[Protocol, RegistryFacts], xsuaa: JsonObject | None) -> Trust:
    """What callers have to show, by what is read of the credentials of an application (pure)."""
    texts = {protocol: facts.texts for protocol, facts in registry.items()}
    saas, sms = texts.get(Protocol.SAAS), texts.get(Protocol.SMS)
    token, issuers = None, frozenset[str]()
    if saas is not None and xsuaa is not None and (domain := tokens.domain_of(saas.get("uaadomain"))):
        token = TokenRules(
            uaa_domain=domain,
            client_id=registries.text(saas, "clientid"),
            app_name=registries.text(xsuaa, "xsappname"),
        )
        named = (tokens.issuer_of(f"{registries.text(each, 'url')}/token_keys", (domain,)) for each in (saas, xsuaa))
        issuers = frozenset(filter(None, named))
    certificate = None
    if sms is not None:
        certificate = CertificateRules(
            registries.text(sms, "callback_certificate_issuer"), registries.text(sms, "callback_certificate_subject")
        )
    return Trust(
        token=token,
        certificate=certificate,
        issuers=issuers,
        timeouts={protocol: facts.timeout for protocol, facts in registry.items()},
        registry_urls={protocol: registries.registry_url(protocol, found) for protocol, found in texts.items()},
    )


def are_decisive(application: CAPApplication, protocol: Protocol, trust: Trust) -> bool:
    """Whether callers that do not fit are refused for certain: by rules, or because there is no such service (pure).

    Without rules although there is a service, its Secret is absent or cannot be read, for example while it is replaced.
    """
    if registries.service_of(application, protocol) is None:
        return True
    if protocol is Protocol.SMS:
        return trust.certificate is not None and client_certificates.are_readable(trust.certificate)
    return registries.xsuaa_of(application) is None or (trust.token is not None and bool(trust.token.app_name))


def in_turns(keys: Iterable[ObjectKey]) -> list[ObjectKey]:
    """The first of each namespace, then the second of each, and so on: a namespace with many delays no other (pure)."""
    turns: defaultdict[str, Iterator[int]] = defaultdict(count)
    return sorted(keys, key=lambda key: next(turns[key.namespace]))


def _secrets_of(application: CAPApplication) -> Iterable[str]:
    chosen = (
        *(registries.service_of(application, protocol) for protocol in Protocol),
        registries.xsuaa_of(application),
    )
    return [service.secret for service in chosen if service is not None]
