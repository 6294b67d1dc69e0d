"""What the domain controllers watch, and which domains a change wakes.

Nothing is polled. The objects of all domains are watched by their owner's label; of Secrets only the metadata is held.
The pods of an ingress gateway, and its load balancer, are watched for the selectors and namespaces that domains name,
from when the first one needs them until none names them. The kinds of Istio, Gardener and cert-manager may be absent:
their watches wait for the definition, and the domains report what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from stellwerk.api.core import Namespace, Pod, Secret, Service
from stellwerk.api.discovery import EndpointSlice
from stellwerk.api.gardener import DnsEntry
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, Unstructured, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import hosts, ingress, naming, resources, rights
from stellwerk.operators.cap.domain.errors import DomainProblem, IngressProblem
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.pace import Pace, Paces
from stellwerk.operators.cap.domain.plan import (
    CERTIFICATES,
    DnsManager,
    DomainSettings,
    DomainSnapshot,
    is_kept_by_label,
)
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.queue import Priority
from stellwerk.runtime.process.manager import Manager

T = TypeVar("T", bound=HasMetadata)

MOST_INGRESS_WATCHES = 100
"""Selectors of ingress gateways, and namespaces of load balancers, that are watched. A cluster has a handful."""
MOST_OF_NAMESPACE = 5
"""Selectors that the Domains of one namespace may name once half of `MOST_INGRESS_WATCHES` is taken, so that its users
leave room for others.
"""
PATIENCE_SECONDS = 30.0
"""How long a pass waits for the first list of a new watch."""

_BY_HOST = "host"
_BELOW = "below"
"""Index of domains: each parent of their host."""
_GRANTED = "granted"
_BY_OWNER = "owner"
_BY_CREDENTIAL = "credential"
BY_DOMAIN = "domain"
"""Index of applications: the owner id of each domain that they refer to."""


@dataclass(slots=True)
class DomainCaches:
    """The informers of the domain controllers."""

    manager: Manager
    settings: DomainSettings
    domains: Informer[Domain]
    cluster_domains: Informer[ClusterDomain]
    applications: Informer[CAPApplication]
    namespaces: Informer[PartialObjectMetadata]
    children: Mapping[Resource, Informer[Live]]
    paces: Paces
    controllers: list[Controller[Any, Any]] = field(default_factory=list)
    """Those of Domains and of ClusterDomains, as soon as there are any."""
    _pods: dict[str, Informer[PartialObjectMetadata]] = field(default_factory=dict)
    _services: dict[str, tuple[Informer[Service], Informer[EndpointSlice]]] = field(default_factory=dict)

    # ---- what a pass reads

    @contextmanager
    def passing(self, domain: AnyDomain) -> Iterator[Pace]:
        """A pass over a domain, and its pace. Entries that change meanwhile wake the domain after the pause."""
        owner = naming.owner_hash(domain)
        entries = self.children.get(DnsEntry.resource)
        pace = self.paces.of(owner)
        try:
            with pace.passing(len(entries.store.by(_BY_OWNER, owner)) if entries is not None else 0):
                yield pace
        finally:
            if pace.was_changed:
                self.wake((domain,), pace.pause_seconds())

    async def snapshot(self, domain: AnyDomain, pace: Pace) -> DomainSnapshot:
        """A domain and its neighbours. Raises DomainProblem where the applications cannot be watched."""
        if self.applications.parked is not None:
            raise DomainProblem(f"CAPApplications cannot be watched: {self.applications.parked.why}")
        granted = hosts.grants(self.namespaces.store.by(_GRANTED, ""))
        return DomainSnapshot(
            domain=domain,
            claims=hosts.claims(domain, self._overlapping(domain), granted),
            refusal=hosts.problem_of_host(domain, granted),
            references=tuple(
                application
                for application in self.applications.store.by(BY_DOMAIN, naming.owner_id(domain))
                if naming.serves(domain, application.metadata.namespace)
            ),
            hidden=tuple(key for key in self.applications.hidden if domain.metadata.namespace in ("", key.namespace)),
            live=await self._live(domain, pace),
        )

    def namesakes(self, domain: AnyDomain, ingress_namespace: str) -> tuple[AnyDomain, ...]:
        """Other domains whose Secret has the same name, in the same namespace of an ingress gateway."""
        others = self._with_credential(domain)
        return tuple(other for other in others if ingress_namespace in self._ingress_namespaces(other))

    def _by(self, index: str, value: str) -> Sequence[AnyDomain]:
        return (*self.domains.store.by(index, value), *self.cluster_domains.store.by(index, value))

    def _overlapping(self, domain: AnyDomain) -> Sequence[AnyDomain]:
        """The other domains with an equal host, and those of other namespaces with a parent of it or a child."""
        host = domain.spec.domain
        equal = self._others(domain, _BY_HOST, host)
        parents = [each for parent in hosts.parents(host) for each in self._by(_BY_HOST, parent)]
        apart = [
            each
            for each in (*parents, *self._by(_BELOW, host))
            if hosts.namespace_of(each) != hosts.namespace_of(domain)
        ]
        return (*equal, *apart)

    def _others(self, domain: AnyDomain, index: str, value: str) -> Sequence[AnyDomain]:
        return [other for other in self._by(index, value) if other.metadata.uid != domain.metadata.uid]

    def _with_credential(self, domain: AnyDomain) -> Sequence[AnyDomain]:
        """Other domains whose Secret has the same name."""
        return self._others(domain, _BY_CREDENTIAL, resources.credential_base(domain, self.settings.namespace))

    def _ingress_namespaces(self, domain: AnyDomain) -> set[str]:
        """Where the pods of a domain's ingress gateway are, as far as they are watched already."""
        informer = self._pods.get(ingress.selector_text(domain))
        return {pod.metadata.namespace for pod in informer.store.all()} if informer is not None else set()

    def check_complete(self) -> None:
        """Raise DomainProblem where objects that only their label assigns to a domain may exist unseen."""
        for resource, informer in self.children.items():
            parked = informer.parked
            if parked is not None and not parked.is_not_served and is_kept_by_label(resource):
                raise DomainProblem(f"{resource.plural} of the domain cannot be watched: {parked.why}")

    async def _live(self, domain: AnyDomain, pace: Pace) -> Mapping[Address, Live]:
        """The objects with the domain's owner label."""
        value = naming.owner_hash(domain)
        found = [(resource, informer.store.by(_BY_OWNER, value)) for resource, informer in self.children.items()]
        return await pace.compute(
            sum(len(objects) for _, objects in found),
            lambda: {Address(resource, obj.key): obj for resource, objects in found for obj in objects},
        )

    def unserved(self) -> Mapping[Resource, str]:
        """The kinds of objects that cannot be watched, each with the reason."""
        return {
            resource: informer.parked.why for resource, informer in self.children.items() if informer.parked is not None
        }

    async def pods(self, domain: AnyDomain) -> Sequence[PartialObjectMetadata]:
        """The pods that a domain selects, in all namespaces.

        Raises DomainProblem where it selects none, and IngressProblem where they cannot be watched.
        """
        selector = ingress.selector(domain)
        informer = self._pods.get(selector)
        if informer is None:
            self._check_room(len(self._pods))
            self._check_share(domain)
            informer = self._pods[selector] = self.manager.informer(
                metadata_of(Pod), labels=selector, places=self.settings.ingress_namespaces
            )
            informer.on_change(lambda delta: self._on_pod(selector, delta))
        await _settled(informer)
        return informer.store.all()

    async def load_balancers(self, namespace: str) -> tuple[Sequence[Service], Sequence[EndpointSlice]]:
        """The Services of a namespace and their endpoints. Raises IngressProblem where they cannot be watched."""
        if namespace not in self._services:
            self._check_room(len(self._services))
            services = self.manager.informer(Service, namespace=namespace)
            slices = self.manager.informer(EndpointSlice, namespace=namespace)
            services.on_change(lambda _: self._wake_users_of_load_balancers())
            slices.on_change(lambda _: self._wake_users_of_load_balancers())
            self._services[namespace] = (services, slices)
        services, slices = self._services[namespace]
        await _settled(services)
        await _settled(slices)
        return services.store.all(), slices.store.all()

    def _check_room(self, count: int) -> None:
        if count >= MOST_INGRESS_WATCHES:
            raise IngressProblem(
                f"domains name more than {MOST_INGRESS_WATCHES} different ingress gateways: use one that others use"
            )

    def _check_share(self, domain: AnyDomain) -> None:
        """Raise IngressProblem where a namespace has its share. After a restart a Ready domain keeps its watch."""
        namespace = domain.metadata.namespace
        if len(self._pods) < MOST_INGRESS_WATCHES // 2 or ingress.grace_left(domain, 0.0):
            return
        watched = {
            ingress.selector_text(each) for each in self.domains.store.all() if each.metadata.namespace == namespace
        }
        if namespace and len(watched & self._pods.keys()) >= MOST_OF_NAMESPACE:
            raise IngressProblem(
                f"Domains of namespace {namespace} name more than {MOST_OF_NAMESPACE} different ingress gateways: use "
                "one that others use"
            )

    def _release_unused(self, former: AnyDomain) -> None:
        """End the watches that no domain needs any more, after one has stopped using its own.

        Domains that found no room before are looked at again: those of the same namespace, which has room for another
        one, and all where a watch has ended.
        """
        unused = self._pods.keys() - {ingress.selector_text(each) for each in self.all_domains()}
        for selector in unused:
            self.manager.release(self._pods.pop(selector))
        places = {pod.metadata.namespace for pods in self._pods.values() for pod in pods.store.all()}
        for namespace in self._services.keys() - places:
            services, slices = self._services.pop(namespace)
            self.manager.release(services)
            self.manager.release(slices)
        namespace = former.metadata.namespace
        self.wake(
            each
            for each in self.all_domains()
            if (unused or each.metadata.namespace == namespace) and ingress.selector_text(each) not in self._pods
        )

    # ---- who is woken

    def wake(self, domains: Iterable[AnyDomain], after_seconds: float = 0.0) -> None:
        """Have these domains looked at."""
        for domain in domains:
            for controller in self.controllers:
                if controller.primary.view.resource == domain.resource:
                    controller.queue.add_after(domain.key, after_seconds, Priority.CHANGE)

    def all_domains(self) -> Iterable[AnyDomain]:
        """All domains of both kinds."""
        return (*self.domains.store.all(), *self.cluster_domains.store.all())

    def on_child(self, delta: Delta[Live]) -> None:
        """An object of a domain has changed. Of a domain with many DNS entries, their changes are gathered."""
        sides = [side for side in (delta.old, delta.new) if side is not None]
        is_entry = isinstance(delta.latest, Unstructured) and delta.latest.gvk == DnsEntry.resource.gvk
        for value in {side.metadata.labels.get(names.OWNER_HASH_LABEL, "") for side in sides}:
            seconds = self.paces.wait_seconds(value) if is_entry else 0.0
            if seconds is not None:
                self.wake(self._by(_BY_OWNER, value), seconds)

    def on_application(self, delta: Delta[CAPApplication]) -> None:
        """An application has other domains, or other subdomains."""
        old, new = delta.old, delta.new
        if old is not None and new is not None and _relevant(old) == _relevant(new):
            return
        sides = [side for side in (old, new) if side is not None]
        named = {name for side in sides for name in naming.referenced_by(side)}
        self.wake(domain for domain in self.all_domains() if naming.owner_id(domain) in named)

    def on_domain(self, delta: Delta[Domain] | Delta[ClusterDomain]) -> None:
        """The other domains whose host overlaps, or overlapped, may come further or no longer; and those with the same
        Secret.
        """
        old, new = delta.old, delta.new
        if new is None:
            self.paces.forget(naming.owner_hash(delta.latest))
        if old is None or new is None or old.spec.ingress_selector != new.spec.ingress_selector:
            self.wake(self._with_credential(delta.latest))
            if old is not None:  # a new domain needs no less than before
                self._release_unused(old)
        if old is not None and new is not None and _claim(old) == _claim(new):
            return
        for side in (old, new):
            if side is not None:
                self.wake(self._overlapping(side))

    def on_namespace(self, delta: Delta[PartialObjectMetadata]) -> None:
        """A namespace has been granted other suffixes, which count for the domains of all."""
        sides = [hosts.grants([side]) if side is not None else {} for side in (delta.old, delta.new)]
        if sides[0] != sides[1]:
            self.wake(self.all_domains())

    def _on_pod(self, selector: str, delta: Delta[PartialObjectMetadata]) -> None:
        """Pods of an ingress gateway came or went. What else changes of a pod concerns no domain."""
        if delta.old is None or delta.new is None:
            self.wake(domain for domain in self.all_domains() if ingress.selector_text(domain) == selector)

    def _wake_users_of_load_balancers(self) -> None:
        if not self.settings.dns_target:
            self.wake(domain for domain in self.all_domains() if not domain.spec.dns_target)


def caches(manager: Manager, settings: DomainSettings) -> DomainCaches:
    """The watches that are open from the start, indexed and connected."""
    domains, cluster_domains = manager.informer(Domain, required=True), manager.informer(ClusterDomain, required=True)
    applications = manager.informer(CAPApplication, required=True)
    namespaces = manager.informer(metadata_of(Namespace), required=True)
    optional = [*CERTIFICATES, Gateway.resource]  # those of a former CERT_MANAGER have to go, too
    if settings.dns_manager is DnsManager.GARDENER:
        optional.append(DnsEntry.resource)
    places = {
        **dict.fromkeys(rights.IN_INGRESS_KINDS, settings.ingress_namespaces),
        **dict.fromkeys(rights.AT_HOME_KINDS, sorted({*manager.home.namespaces, settings.namespace})),
    }
    children = {
        resource: manager.informer(
            live_view(resource),
            labels=names.OWNER_HASH_LABEL,
            optional=resource in optional,
            places=places.get(resource, ()),
        )
        for resource in (*optional, Secret.resource, NetworkPolicy.resource)
    }
    found = DomainCaches(
        manager, settings, domains, cluster_domains, applications, namespaces, children, Paces(manager.clock)
    )
    namespaces.store.add_index(_GRANTED, lambda each: ("",) if hosts.grants([each]) else ())
    applications.store.add_index(BY_DOMAIN, naming.referenced_by)
    for informer in children.values():
        informer.store.add_index(_BY_OWNER, lambda each: (each.metadata.labels.get(names.OWNER_HASH_LABEL, ""),))
    _index(domains, settings)
    _index(cluster_domains, settings)
    return found


def wire(found: DomainCaches) -> None:
    """Connect the watches. Called when the controllers exist."""
    found.domains.on_change(found.on_domain)
    found.cluster_domains.on_change(found.on_domain)
    found.namespaces.on_change(found.on_namespace)
    found.applications.on_change(found.on_application)
    found.applications.on_unreadable(lambda key, _: found.wake(found.all_domains()))
    for informer in found.children.values():
        informer.on_change(found.on_child)
        informer.on_served(lambda: found.wake(found.all_domains()))


def _index(informer: Informer[Domain] | Informer[ClusterDomain], settings: DomainSettings) -> None:
    informer.store.add_index(_BY_CREDENTIAL, lambda each: (resources.credential_base(each, settings.namespace),))
    informer.store.add_index(_BY_HOST, lambda each: (each.spec.domain,))
    informer.store.add_index(_BELOW, lambda each: hosts.parents(each.spec.domain))
    informer.store.add_index(_BY_OWNER, lambda each: (naming.owner_hash(each),))


def _claim(domain: AnyDomain) -> tuple[str, ...]:
    """What decides which of overlapping hosts is served, as far as it changes."""
    return domain.spec.domain, domain.status.observed_domain, hosts.namespace_of(domain)


def _relevant(application: CAPApplication) -> tuple[object, ...]:
    return naming.referenced_by(application), application.status.observed_subdomains


async def _settled(informer: Informer[T]) -> None:
    """Return when its cache is full. Raises IngressProblem where it cannot be."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await informer.wait_settled()
    except TimeoutError:
        raise IngressProblem(f"{informer.name} is not listed by the API server yet") from None
    if informer.parked is not None:
        raise IngressProblem(f"{informer.name} cannot be watched: {informer.parked.why}")
