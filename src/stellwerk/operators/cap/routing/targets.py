"""What a version and its application offer to routes: the router, exposed services, hosts, stickiness. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from stellwerk.api.istio import ConsistentHash, StickyCookie, StickyCookieAttribute
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainKind, DomainRef
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.version import (
    CAPApplicationVersion,
    DeploymentDetails,
    DeploymentType,
    HttpCookie,
    ServiceExposure,
    StickinessHash,
    Workload,
    WorkloadPort,
)
from stellwerk.operators.cap.routing.headers import Unroutable
from stellwerk.operators.cap.routing.virtual_services import ExposedRoute, RoutedPort, RouterVersion, ServedDomain

FindDomain: TypeAlias = Callable[[str, DomainRef], AnyDomain | None]
"""Returns the domain of a reference in a namespace."""

DEFAULT_PORTS: Mapping[str, WorkloadPort] = {
    DeploymentType.ROUTER: WorkloadPort(name="router-svc-port", port=5000),
    DeploymentType.CAP: WorkloadPort(name="server-svc-port", port=4004, router_destination_name="srv-api"),
}
"""The ports of workloads that name none."""


_LONGEST_SUBDOMAIN = 190
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


def ports_of(deployment: DeploymentDetails) -> tuple[WorkloadPort, ...]:
    """The ports of a workload; empty where it names none and its type has no default."""
    default = DEFAULT_PORTS.get(deployment.type)
    return deployment.ports or ((default,) if default is not None else ())


def router_of(version: CAPApplicationVersion) -> RouterVersion | None:
    """The first router of a version, at its first port; None where it has no router."""
    for workload in version.spec.workloads:
        deployment = workload.deployment
        if deployment is not None and deployment.type == DeploymentType.ROUTER:
            port = ports_of(deployment)[0].port
            endpoint = version.metadata.annotations.get(names.LOGOUT_ENDPOINT_ANNOTATION, "")
            return RouterVersion(router=_port(version, workload.name, port), logout_endpoint=endpoint)
    return None


def routes_of(version: CAPApplicationVersion, exposure: ServiceExposure) -> tuple[ExposedRoute, ...]:
    """The routes of a subdomain under which a version exposes services, in the given order."""
    return tuple(
        ExposedRoute(target=_port(version, route.workload_name, route.port), path=route.path)
        for route in exposure.routes
    )


def is_exposed(version: CAPApplicationVersion, workload: Workload) -> bool:
    """Whether the ingress gateway may reach the pods of a workload."""
    if workload.deployment is not None and workload.deployment.type == DeploymentType.ROUTER:
        return True
    exposures = version.spec.service_exposures
    return any(route.workload_name == workload.name for exposure in exposures for route in exposure.routes)


def served_domains(application: CAPApplication, find: FindDomain, operator_namespace: str) -> tuple[ServedDomain, ...]:
    """The hosts of an application with their gateways: of Domains first, then of ClusterDomains, in their order.

    A domain without a gateway so far is left out.
    """
    references = application.spec.domain_refs
    ordered = [*_of_kind(references, DomainKind.DOMAIN), *_of_kind(references, DomainKind.CLUSTER_DOMAIN)]
    found = (find(application.metadata.namespace, reference) for reference in ordered)
    return tuple(
        ServedDomain(domain.spec.domain, gateway)
        for domain in found
        if domain is not None and (gateway := naming.gateway_reference(domain, operator_namespace))
    )


def check_subdomain(subdomain: str, owner: str) -> None:
    """Raise Unroutable unless the text can be the beginning of a host. `owner` names whose subdomain it is.

    A wildcard would take the requests of all other tenants.
    """
    labels = subdomain.split(".")
    if len(subdomain) > _LONGEST_SUBDOMAIN or not all(_HOST_LABEL.fullmatch(label) for label in labels):
        raise Unroutable(
            f"the subdomain {subdomain[:63]!r} of {owner} cannot be a part of a host: use letters, digits and '-'"
        )


def unready_domain(application: CAPApplication, find: FindDomain) -> str:
    """What keeps the domains of an application from being ready, for people; empty where all are."""
    namespace = application.metadata.namespace
    found = (unready(application, each, find(namespace, each)) for each in application.spec.domain_refs)
    return next(filter(None, found), "")


def unready(application: CAPApplication, reference: DomainRef, domain: AnyDomain | None) -> str:
    """What keeps a domain of an application from being ready, for people; empty where it is."""
    if domain is None:
        return f"{reference.kind} {reference.name} of {application.ref} does not exist"
    is_ready = domain.status.state == DomainState.READY
    return "" if is_ready else f"{reference.kind} {reference.name} of {application.ref} is not Ready"


def consistent_hash(asked: StickinessHash | None) -> ConsistentHash | None:
    """What a workload asks for, as Istio spells it; None where it asks for nothing."""
    if asked is None:
        return None
    return ConsistentHash(
        http_header_name=asked.http_header_name,
        http_cookie=_cookie(asked.http_cookie) if asked.http_cookie is not None else None,
        use_source_ip=bool(asked.use_source_ip),
        http_query_parameter_name=asked.http_query_parameter_name,
    )


def _of_kind(references: Iterable[DomainRef], kind: DomainKind) -> Iterable[DomainRef]:
    return (reference for reference in references if reference.kind == kind)


def _port(version: CAPApplicationVersion, workload: str, port: int) -> RoutedPort:
    metadata = version.metadata
    return RoutedPort(version=metadata.name, workload=workload, namespace=metadata.namespace, port=port)


def _cookie(cookie: HttpCookie) -> StickyCookie:
    attributes = tuple(StickyCookieAttribute(name=each.name, value=each.value) for each in cookie.attributes)
    return StickyCookie(name=cookie.name, path=cookie.path, ttl=cookie.ttl or "", attributes=attributes)
