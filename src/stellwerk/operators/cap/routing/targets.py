"""What a version and its application offer to routes: the router, exposed services, hosts, stickiness. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stellwerk.api.istio import PortSelector, RouteDestination
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.hosts import LONGEST_NAME
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainKind, DomainRef
from stellwerk.operators.cap.kinds.domain import DomainState
from stellwerk.operators.cap.kinds.version import (
    CAPApplicationVersion,
    DeploymentDetails,
    DeploymentType,
    HttpCookie,
    StickinessHash,
    WorkloadPort,
)

FindDomain: TypeAlias = Callable[[str, DomainRef], AnyDomain | None]
"""Returns the domain of a reference in a namespace."""

DEFAULT_PORTS: Mapping[str, WorkloadPort] = {
    DeploymentType.ROUTER: WorkloadPort(name="router-svc-port", port=5000),
    DeploymentType.CAP: WorkloadPort(name="server-svc-port", port=4004, router_destination_name="srv-api"),
}
"""The ports of workloads that name none."""
ROUTER_COOKIE = HttpCookie(name="CAPOP_ROUTER_STICKY", path="/", ttl="0s")
"""A router keeps sessions in memory, so its clients stay on one pod also where nothing is configured."""

_LONGEST_SUBDOMAIN = 190
_HOST_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")


class Unroutable(ValueError):
    """Requests cannot be routed as asked: an annotation or a subdomain is unusable, or the object cannot be written."""


@dataclass(frozen=True, slots=True)
class ServedDomain:
    """A host and the gateway that serves it, as VirtualServices name it."""

    host: str
    gateway: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterVersion:
    """The router of a version."""

    name: str
    """Of the CAPApplicationVersion."""
    destination: RouteDestination
    logout_endpoint: str = ""
    """A part of the path at which users log out; empty for the usual words."""


def service_name(version: CAPApplicationVersion, workload: str) -> str:
    """The name of a workload's Service."""
    return f"{version.metadata.name}-{workload.lower()}-svc"


def service_host(version: CAPApplicationVersion, workload: str) -> str:
    """The host of a workload's Service, as Istio names it."""
    return f"{service_name(version, workload)}.{version.metadata.namespace}.svc.cluster.local"


def destination(version: CAPApplicationVersion, workload: str, port: int) -> RouteDestination:
    """A port of a workload's Service as the destination of a route."""
    return RouteDestination(host=service_host(version, workload), port=PortSelector(number=port))


def ports_of(deployment: DeploymentDetails) -> tuple[WorkloadPort, ...]:
    """The ports of a workload; empty where it names none and its type has no default."""
    default = DEFAULT_PORTS.get(deployment.type)
    return deployment.ports or ((default,) if default is not None else ())


def router_of(version: CAPApplicationVersion) -> RouterVersion | None:
    """The first router of a version, at its first port; None where it has no router."""
    for workload, deployment in version.spec.deployments:
        if deployment.type == DeploymentType.ROUTER:
            target = destination(version, workload.name, ports_of(deployment)[0].port)
            endpoint = version.metadata.annotations.get(names.LOGOUT_ENDPOINT_ANNOTATION, "")
            return RouterVersion(name=version.metadata.name, destination=target, logout_endpoint=endpoint)
    return None


def exposed_workloads(version: CAPApplicationVersion) -> frozenset[str]:
    """The names of the workloads whose pods the ingress gateway may reach."""
    routers = (each.name for each, details in version.spec.deployments if details.type == DeploymentType.ROUTER)
    exposures = version.spec.service_exposures
    return frozenset((*routers, *(route.workload_name for exposure in exposures for route in exposure.routes)))


def served_domains(application: CAPApplication, find: FindDomain, operator_namespace: str) -> tuple[ServedDomain, ...]:
    """The hosts of an application with their gateways: of Domains first, then of ClusterDomains, in their order.

    A domain without a gateway so far is left out.
    """
    references = application.spec.served_refs
    return tuple(
        ServedDomain(domain.spec.domain, gateway)
        for kind in (DomainKind.DOMAIN, DomainKind.CLUSTER_DOMAIN)
        for reference in references
        if reference.kind == kind
        and (domain := find(application.metadata.namespace, reference)) is not None
        and (gateway := naming.gateway_reference(domain, operator_namespace))
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


def problems_of_subdomain(subdomain: str, field: str, hosts: Iterable[str]) -> tuple[str, ...]:
    """Why nothing can be reached under a subdomain of these hosts; empty if something can. `field`: where it is."""
    try:
        check_subdomain(subdomain, field)
    except Unroutable as error:
        return (str(error),)
    too_long = next((host for host in hosts if len(f"{subdomain}.{host}") > LONGEST_NAME), "")
    if not too_long:
        return ()
    return (
        f"{field} has {len(subdomain)} characters, and below {too_long} a DNS name has more than the {LONGEST_NAME} "
        "that are possible: use a shorter one",
    )


def unready_domain(application: CAPApplication, find: FindDomain) -> str:
    """What keeps the domains of an application from being ready, for people; empty where all are."""
    namespace = application.metadata.namespace
    found = (unready(application, each, find(namespace, each)) for each in application.spec.served_refs)
    return next(filter(None, found), "")


def unready(application: CAPApplication, reference: DomainRef, domain: AnyDomain | None) -> str:
    """What keeps a domain of an application from being ready, for people; empty where it is."""
    if domain is None:
        missing = f"{reference.kind} {reference.name} of {application.ref} does not exist"
        if reference.kind != DomainKind.CLUSTER_DOMAIN:
            return missing
        namespace = application.metadata.namespace
        return f"{missing}, or does not serve namespace {namespace}. {how_to_serve(reference.name)}"
    is_ready = domain.status.state == DomainState.READY
    return "" if is_ready else f"{reference.kind} {reference.name} of {application.ref} is not Ready"


def how_to_serve(cluster_domain: str) -> str:
    """How an administrator has a ClusterDomain serve a namespace."""
    return (
        "An administrator names the namespaces that it serves, with commas between them: kubectl annotate "
        f"clusterdomain {cluster_domain} {names.SERVED_NAMESPACES_ANNOTATION}=NAMESPACES --overwrite"
    )


def consistent_hash(deployment: DeploymentDetails) -> StickinessHash | None:
    """What chooses the pod of a request, in the shape that Istio has, too; None: each may go to another one.

    Of several ways the first counts: header, cookie, parameter of the query, address of the client.
    """
    if deployment.stickiness is None:
        return StickinessHash(http_cookie=ROUTER_COOKIE) if deployment.type == DeploymentType.ROUTER else None
    asked = deployment.stickiness.hash or StickinessHash()
    if asked.http_header_name:
        return StickinessHash(http_header_name=asked.http_header_name)
    if asked.http_cookie is not None:
        return StickinessHash(http_cookie=asked.http_cookie)
    if asked.http_query_parameter_name:
        return StickinessHash(http_query_parameter_name=asked.http_query_parameter_name)
    return StickinessHash(use_source_ip=True) if asked.use_source_ip else None
