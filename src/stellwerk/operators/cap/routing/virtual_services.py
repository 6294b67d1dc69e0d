"""Specs of VirtualServices: for a tenant, and for a subdomain under which services are exposed. Pure.

With version affinity, a client stays on the version where its session began: the default route sets a cookie with the
current version, and routes before it send requests with a cookie of an older version there, while that version exists.
At a logout the cookie is removed. The order of the routes is:

1. logout at each previous version, the oldest first, then at the current one
2. the cookie of each previous version, then of the current one
3. everything else to the current version
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import msgspec

from stellwerk.api.istio import (
    HttpMatch,
    HttpRoute,
    HttpRouteDestination,
    PortSelector,
    RouteDestination,
    RouteHeaders,
    StringMatch,
    VirtualServiceSpec,
)
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.names import go_json, sha256
from stellwerk.operators.cap.routing import headers as route_headers

COOKIE = "CAPOP_CAV"
_WEIGHT = 100
_LOGOUT = "logout|logoff"
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


@dataclass(frozen=True, slots=True)
class ServedDomain:
    """A host and the gateway that serves it, as VirtualServices name it."""

    host: str
    gateway: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedPort:
    """A port of a workload's Service."""

    version: str
    """The name of the CAPApplicationVersion."""
    workload: str
    namespace: str
    port: int

    @property
    def destination(self) -> RouteDestination:
        """As a destination of a route."""
        host = f"{self.version}-{self.workload.lower()}-svc.{self.namespace}.svc.cluster.local"
        return RouteDestination(host=host, port=PortSelector(number=self.port))


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterVersion:
    """The router of a version."""

    router: RoutedPort
    logout_endpoint: str = ""
    """A part of the path at which users log out; empty for the usual words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantRouting:
    """What the routes of a tenant depend on."""

    subdomain: str
    domains: Sequence[ServedDomain]
    """The Domains first, then the ClusterDomains."""
    current: RouterVersion
    headers: RouteHeaders | None = None
    """Of annotations (`headers.of_annotations`)."""
    affinity: bool = False
    previous: Sequence[RouterVersion] = ()
    """With affinity: the previous versions that still exist and have a router, the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExposedRoute:
    """A path under which a workload is exposed."""

    target: RoutedPort
    path: str = ""


def of_tenant(routing: TenantRouting) -> VirtualServiceSpec:
    """The spec of a tenant's VirtualService."""
    routes = _affine(routing) if routing.affinity else (_plain(routing),)
    return _spec(routing.subdomain, routing.domains, routes)


def of_exposure(
    subdomain: str, domains: Sequence[ServedDomain], routes: Sequence[ExposedRoute], headers: RouteHeaders | None
) -> VirtualServiceSpec:
    """The spec of the VirtualService of a subdomain under which services are exposed."""
    exposed = tuple(
        HttpRoute(
            match=(HttpMatch(uri=StringMatch(prefix=route.path or "/")),),
            route=(HttpRouteDestination(destination=route.target.destination, headers=headers),),
        )
        for route in routes
    )
    return _spec(subdomain, domains, exposed)


def body(spec: VirtualServiceSpec) -> JsonObject:
    """The spec as JSON, in the order of Istio's protobuf messages."""
    return cast("JsonObject", msgspec.json.decode(msgspec.json.encode(spec, order="deterministic")))


def spec_hash(spec: VirtualServiceSpec) -> str:
    """The value of the hash annotation."""
    return sha256(go_json(body(spec)))


def _spec(subdomain: str, domains: Sequence[ServedDomain], routes: tuple[HttpRoute, ...]) -> VirtualServiceSpec:
    return VirtualServiceSpec(
        hosts=tuple(f"{subdomain}.{domain.host}" for domain in domains),
        gateways=tuple(domain.gateway for domain in domains),
        http=routes,
    )


def _plain(routing: TenantRouting) -> HttpRoute:
    target = HttpRouteDestination(
        destination=routing.current.router.destination, weight=_WEIGHT, headers=routing.headers
    )
    return HttpRoute(match=(HttpMatch(uri=StringMatch(prefix="/")),), route=(target,))


def _affine(routing: TenantRouting) -> tuple[HttpRoute, ...]:
    versions = (*routing.previous, routing.current)
    cookie = f"{COOKIE}={routing.current.router.version};Path=/;HttpOnly;Secure"
    default = HttpRoute(
        route=(_weighted(routing.current),),
        headers=route_headers.with_response(routing.headers, add={"Set-Cookie": cookie}),
    )
    return (
        *(_logout(version, routing.headers) for version in versions),
        *(_sticky(version, routing.headers) for version in versions),
        default,
    )


def _logout(version: RouterVersion, headers: RouteHeaders | None) -> HttpRoute:
    words = _quoted(version.logout_endpoint) if version.logout_endpoint else _LOGOUT
    expired = f"{COOKIE}={version.router.version};Path=/;HttpOnly;Secure;Max-Age=0"
    match = HttpMatch(uri=StringMatch(regex=f"^|.*({words}).*"), headers={"Cookie": _cookie(version)})
    return HttpRoute(
        match=(match,),
        route=(_weighted(version),),
        headers=route_headers.with_response(headers, set={"Set-Cookie": expired}),
    )


def _sticky(version: RouterVersion, headers: RouteHeaders | None) -> HttpRoute:
    match = HttpMatch(headers={"Cookie": _cookie(version)})
    return HttpRoute(match=(match,), route=(_weighted(version),), headers=headers)


def _cookie(version: RouterVersion) -> StringMatch:
    return StringMatch(regex=rf"(^|.*; ){COOKIE}={_quoted(version.router.version)}($|; .*)")


def _weighted(version: RouterVersion) -> HttpRouteDestination:
    return HttpRouteDestination(destination=version.router.destination, weight=_WEIGHT)


def _quoted(text: str) -> str:
    """The text as a regular expression of RE2 that matches it alone."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)
