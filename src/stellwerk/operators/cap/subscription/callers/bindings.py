"""What callers of each application have to show: read from its binding Secrets, and kept without anything secret.

Of namespaces with applications, the metadata of Secrets is watched. The values of those that an application names for
its registries are read when they change, and forgotten: only names of issuers, clients and scopes are kept.

One application is read at a time, and namespaces take turns: one namespace may have many applications, and change their
Secrets all the time. So a request waits only for what may concern it, and for a moment only: a token of an issuer that
is not known yet for bindings that have not been read, and a caller that is known for those of the applications that it
may mean. An application that a request waits for comes first within its namespace.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata
from stellwerk.operators.cap.kinds.application import CAPApplication, ServiceInfo
from stellwerk.operators.cap.subscription import registries
from stellwerk.operators.cap.subscription.callers import client_certificates, tokens
from stellwerk.operators.cap.subscription.callers.client_certificates import CertificateRules
from stellwerk.operators.cap.subscription.callers.keys import Origin
from stellwerk.operators.cap.subscription.callers.tokens import TokenRules
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.operators.cap.subscription.services import ServiceReader
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.clock import Clock

WAIT_SECONDS = 2.0
"""How long a request waits for what has just changed."""
_AGAIN_SECONDS = 5.0
_USUAL_READ_SECONDS = 0.02
_LONGEST_RETRY_SECONDS = 60.0
_BY_SECRET = "binding secret"  # noqa: S105  # an index
"""Index of applications: namespace and name."""

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
    versions: Mapping[Protocol, bytes] = field(default_factory=dict)
    """Of the credentials by which bindings get tokens: that of the registry, and for tokens also that of the XSUAA."""


@dataclass(frozen=True, slots=True)
class UaaFacts:
    """What is read of the credentials of an XSUAA."""

    texts: JsonObject
    version: bytes


@dataclass(frozen=True, slots=True)
class RegistryFacts:
    """What is read of the credentials of a registry."""

    texts: JsonObject
    timeout: timedelta
    version: bytes = b""


class Turns:
    """Keys that wait: the first of each namespace, then the second of each, and so on."""

    def __init__(self) -> None:
        self._namespaces: OrderedDict[str, OrderedDict[ObjectKey, None]] = OrderedDict()

    def put(self, key: ObjectKey) -> None:
        """Let it wait behind those of its namespace, unless it waits already."""
        self._namespaces.setdefault(key.namespace, OrderedDict())[key] = None

    def prefer(self, key: ObjectKey) -> None:
        """Let it come before the others of its namespace, if it waits."""
        if key in self:
            self._namespaces[key.namespace].move_to_end(key, last=False)

    def take(self, busy: Collection[str] = ()) -> ObjectKey | None:
        """The next one, which waits no longer; None if there is none outside of busy namespaces."""
        namespace = next((each for each in self._namespaces if each not in busy), None)
        if namespace is None:
            return None
        keys = self._namespaces.pop(namespace)
        key, _ = keys.popitem(last=False)
        if keys:
            self._namespaces[namespace] = keys
        return key

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._namespaces.get(key.namespace, ())

    def __iter__(self) -> Iterator[ObjectKey]:
        return (key for keys in self._namespaces.values() for key in keys)

    def __len__(self) -> int:
        return sum(map(len, self._namespaces.values()))


@dataclass(slots=True, eq=False)
class Bindings:
    """What is known of the bindings of all applications."""

    services: ServiceReader
    clock: Clock
    applications: Informer[CAPApplication]
    secrets: Callable[[str], Informer[PartialObjectMetadata]]
    """The metadata of the Secrets of a namespace; watched from the first call until they are released."""
    release: Callable[[Informer[PartialObjectMetadata]], None]
    on_read: Callable[[ObjectKey], None] = lambda _: None
    """Called when an application was read, or is gone."""
    _trust: dict[ObjectKey, Trust] = field(default_factory=dict)
    _stale: Turns = field(default_factory=Turns)
    _reading: ObjectKey | None = None
    _failed: set[ObjectKey] = field(default_factory=set)
    _first: set[ObjectKey] | None = None
    """Those of the start that have not been tried; None before they are known."""
    _watched: dict[str, Informer[PartialObjectMetadata]] = field(default_factory=dict)
    _domains: dict[str, Counter[str]] = field(default_factory=dict)
    _issuers: dict[str, Counter[str]] = field(default_factory=dict)
    _seconds_each: float = _USUAL_READ_SECONDS
    """How long the bindings of an application take to read."""
    _more: asyncio.Event = field(default_factory=asyncio.Event)
    _progress: asyncio.Event = field(default_factory=asyncio.Event)
    """Rings when an application has been read; each has an Event of its own."""

    def __post_init__(self) -> None:
        self.applications.store.add_index(_BY_SECRET, _secrets_of)
        self.applications.on_change(self._on_application)

    def of(self, application: CAPApplication) -> Trust:
        """What callers have to show for an application."""
        return self._trust.get(application.key, Trust())

    def are_known(self, application: CAPApplication, protocol: Protocol) -> bool:
        """Whether what callers have to show is known from its Secrets as they are now, so that a refusal is certain."""
        trust = Trust() if self._is_unread(application.key) or application.key in self._failed else self.of(application)
        return are_decisive(application, protocol, trust)

    @property
    def uaa_domains(self) -> Collection[str]:
        """The UAA domains of all applications."""
        return self._domains.keys()

    def origin(self, host: str) -> Origin:
        """Which namespaces have a binding that trusts an issuer: those that name it, else those with its domain."""
        if named := self._issuers.get(host):
            return Origin(named.keys(), is_named=True)
        around = (self._domains[domain] for domain in tokens.domains_around(host) if domain in self._domains)
        return Origin(next(around, Counter[str]()).keys())

    @property
    def is_reading(self) -> bool:
        """Whether something that has changed has not been read yet."""
        return bool(self._stale or self._reading)

    @property
    def are_current(self) -> bool:
        """Whether the Secrets of all applications have been read as they are now: otherwise, what no application names
        may be in those that have not been."""
        return not (self.is_reading or self._failed)

    @property
    def retry_seconds(self) -> float:
        """When it is likely that all have been read."""
        count = len(self._stale) + (self._reading is not None)
        return min(max(1.0, count * self._seconds_each), _LONGEST_RETRY_SECONDS)

    def unready(self) -> str | None:
        """Why no caller can be judged yet: bindings that no read was tried of since the start."""
        if self._first is None:
            return "the CAPApplications are not known yet"
        return f"the bindings of {len(self._first)} CAPApplications have not been read yet" if self._first else None

    async def all_read(self, is_enough: Callable[[], bool] = lambda: False) -> None:
        """Wait until everything that has changed has been read, or for what is enough; return after two seconds."""
        await self._until(lambda: not self.is_reading or is_enough())

    async def read_of(self, applications: Iterable[CAPApplication]) -> None:
        """Wait until these have been read as they are now; return after two seconds at most."""
        keys = [each.key for each in applications]
        for key in keys:
            self._stale.prefer(key)
        await self._until(lambda: not any(map(self._is_unread, keys)))

    async def _until(self, is_done: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while not is_done():
                    await self._progress.wait()
        except TimeoutError:
            _log.warning("the binding Secrets of %d applications are still being read", len(self._stale) + 1)

    async def run(self) -> None:
        """Read all from the start on, and again what could not be read, until cancelled."""
        await self.applications.wait_synced()
        if self._reading is not None:  # the last run has ended in it
            self._put(self._reading)
            self._reading = None
        if self._first is None:
            self._first = set(self._stale)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read_all(), name="reading of bindings")
            tasks.create_task(self._try_failed_again(), name="bindings that could not be read")

    async def _read_all(self) -> None:
        while True:
            while (taken := self._stale.take()) is None:
                self._more.clear()
                await self._more.wait()
            self._reading = taken
            await self._refresh(self._reading)
            if self._first is not None:
                self._first.discard(self._reading)
            self._reading = None
            progress, self._progress = self._progress, asyncio.Event()
            progress.set()
            await asyncio.sleep(0)  # an application without services asks the API server nothing

    async def _try_failed_again(self) -> None:
        while True:
            await self.clock.sleep(_AGAIN_SECONDS)
            for key in self._failed:
                self._put(key)
            self._failed.clear()

    async def _refresh(self, key: ObjectKey) -> None:
        application, began = self.applications.store.get(key), self.clock.monotonic()
        self._failed.discard(key)
        if application is None:
            self._take(key, None)
            return
        try:
            self._take(key, await self._read(application))
        except ApiError as error:
            _log.warning("the binding Secrets of CAPApplication %s cannot be read: %s", key, error)
            self._failed.add(key)
        self._seconds_each += (self.clock.monotonic() - began - self._seconds_each) / 8

    def _is_unread(self, key: ObjectKey) -> bool:
        return key == self._reading or key in self._stale

    def _put(self, key: ObjectKey) -> None:
        self._stale.put(key)
        self._more.set()

    def _take(self, key: ObjectKey, trust: Trust | None) -> None:
        for each, change in ((self._trust.pop(key, None), -1), (trust, 1)):
            if each is not None and each.token is not None:
                _count(self._domains, each.token.uaa_domain, key.namespace, change)
            for host in each.issuers if each is not None else ():
                _count(self._issuers, host, key.namespace, change)
        if trust is not None:
            self._trust[key] = trust
        self.on_read(key)

    async def _read(self, application: CAPApplication) -> Trust:
        found = {
            protocol: facts
            for protocol in Protocol
            if (service := registries.service_of(application, protocol)) is not None
            and (facts := await self.read(application, service, partial(_facts, protocol))) is not None
        }
        xsuaa = registries.xsuaa_of(application)
        uaa = await self.read(application, xsuaa, _uaa_facts) if xsuaa is not None else None
        versions = {
            protocol: facts.version + (uaa.version if uaa is not None and protocol is Protocol.SAAS else b"")
            for protocol, facts in found.items()
        }
        return replace(trust_of(found, uaa.texts if uaa is not None else None), versions=versions)

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
            self._put(delta.key)

    def _on_secret(self, delta: Delta[PartialObjectMetadata]) -> None:
        for application in self.applications.store.by(_BY_SECRET, str(delta.key)):
            self._put(application.key)


def _facts(protocol: Protocol, entry: JsonObject) -> RegistryFacts:
    timeout = registries.callback_timeout(protocol, registries.credentials_in(entry))
    return RegistryFacts(registries.texts_for_callers(entry), timeout, registries.version_of(entry))


def _uaa_facts(entry: JsonObject) -> UaaFacts:
    return UaaFacts(registries.texts_for_callers(entry), registries.version_of(entry))


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


def _secrets_of(application: CAPApplication) -> Collection[str]:
    chosen = (
        *(registries.service_of(application, protocol) for protocol in Protocol),
        registries.xsuaa_of(application),
    )
    namespace = application.metadata.namespace
    return {str(ObjectKey(namespace, service.secret)) for service in chosen if service is not None}


def _count(places: dict[str, Counter[str]], name: str, namespace: str, change: int) -> None:
    counted = places.setdefault(name, Counter())
    counted[namespace] += change
    if not counted[namespace]:
        del counted[namespace]
    if not counted:
        del places[name]
