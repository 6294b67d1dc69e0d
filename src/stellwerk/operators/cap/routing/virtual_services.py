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

from stellwerk.api.istio import (
    HttpMatch,
    HttpRoute,
    HttpRouteDestination,
    RouteHeaders,
    StringMatch,
    VirtualServiceSpec,
)
from stellwerk.kube.types.model import plain_json
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, ServiceExposure
from stellwerk.operators.cap.names import go_json, sha256
from stellwerk.operators.cap.routing import headers as route_headers
from stellwerk.operators.cap.routing import targets
from stellwerk.operators.cap.routing.targets import RouterVersion, ServedDomain

COOKIE = "CAPOP_CAV"
_WEIGHT = 100
_LOGOUT = "logout|logoff"
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def of_tenant(
    subdomain: str,
    domains: Sequence[ServedDomain],
    current: RouterVersion,
    headers: RouteHeaders | None = None,
    *,
    previous: Sequence[RouterVersion] | None = None,
) -> VirtualServiceSpec:
    """The spec of a tenant's VirtualService, with `headers` of annotations (`headers.of_annotations`).

    `previous` asks for version affinity: the previous versions that still exist and have a router, the oldest first.
    """
    if previous is not None:
        return _spec(subdomain, domains, _affine(current, previous, headers))
    target = HttpRouteDestination(destination=current.destination, weight=_WEIGHT, headers=headers)
    return _spec(subdomain, domains, (HttpRoute(match=(_prefix("/"),), route=(target,)),))


def of_exposure(
    version: CAPApplicationVersion,
    exposure: ServiceExposure,
    domains: Sequence[ServedDomain],
    headers: RouteHeaders | None,
) -> VirtualServiceSpec:
    """The spec of the VirtualService of a subdomain under which services are exposed."""
    routes = []
    for route in exposure.routes:
        destination = targets.destination(version, route.workload_name, route.port)
        target = HttpRouteDestination(destination=destination, headers=headers)
        routes.append(HttpRoute(match=(_prefix(route.path or "/"),), route=(target,)))
    return _spec(exposure.sub_domain, domains, tuple(routes))


def spec_hash(spec: VirtualServiceSpec) -> str:
    """The value of the hash annotation: of JSON in the order of Istio's protobuf messages."""
    return sha256(go_json(plain_json(spec)))


def _spec(subdomain: str, domains: Sequence[ServedDomain], routes: tuple[HttpRoute, ...]) -> VirtualServiceSpec:
    return VirtualServiceSpec(
        hosts=tuple(f"{subdomain}.{domain.host}" for domain in domains),
        gateways=tuple(domain.gateway for domain in domains),
        http=routes,
    )


def _prefix(path: str) -> HttpMatch:
    return HttpMatch(uri=StringMatch(prefix=path))


def _affine(
    current: RouterVersion, previous: Sequence[RouterVersion], headers: RouteHeaders | None
) -> tuple[HttpRoute, ...]:
    versions = (*previous, current)
    cookie = f"{COOKIE}={current.name};Path=/;HttpOnly;Secure"
    default = HttpRoute(
        route=(_weighted(current),), headers=route_headers.with_response(headers, add={"Set-Cookie": cookie})
    )
    return (
        *(_logout(version, headers) for version in versions),
        *(_sticky(version, headers) for version in versions),
        default,
    )


def _logout(version: RouterVersion, headers: RouteHeaders | None) -> HttpRoute:
    words = _quoted(version.logout_endpoint) if version.logout_endpoint else _LOGOUT
    expired = f"{COOKIE}={version.name};Path=/;HttpOnly;Secure;Max-Age=0"
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
    return StringMatch(regex=rf"(^|.*; ){COOKIE}={_quoted(version.name)}($|; .*)")


def _weighted(version: RouterVersion) -> HttpRouteDestination:
    return HttpRouteDestination(destination=version.destination, weight=_WEIGHT)


def _quoted(text: str) -> str:
    """The text as a regular expression of RE2 that matches it alone."""
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)
