"""Istio's traffic kinds (networking.istio.io/v1), as far as operators read and write them.

The order of the fields is that of Istio's protobuf messages: hashes of these objects are computed over JSON in that
order.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record

GROUP = "networking.istio.io"
VERSION = "v1"


# ---- Gateway


class GatewayPort(Record, frozen=True, kw_only=True):
    """The port that a server of a gateway listens on."""

    number: int = 0
    protocol: str = ""
    name: str = ""


class GatewayTls(Record, frozen=True, kw_only=True):
    """How a server of a gateway terminates TLS.

    `mode` is SIMPLE, MUTUAL, OPTIONAL_MUTUAL and others. `credential_name` is a Secret in the namespace of the ingress
    gateway.
    """

    mode: str = ""
    credential_name: str = ""


class GatewayServer(Record, frozen=True, kw_only=True):
    """One server of a gateway. A host is `<namespace>/<host>`, where the namespace may be `.` or `*`."""

    port: GatewayPort = GatewayPort()
    hosts: tuple[str, ...] = ()
    tls: GatewayTls | None = None


class GatewaySpec(Record, frozen=True, kw_only=True):
    """Which pods are the ingress gateway, and what they serve."""

    servers: tuple[GatewayServer, ...] = ()
    selector: dict[str, str] = msgspec.field(default_factory=dict)


class Gateway(Kind, frozen=True, kw_only=True):
    """Servers of an ingress gateway."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "Gateway", "gateways", namespaced=True)

    spec: GatewaySpec = msgspec.field(default_factory=GatewaySpec)


# ---- VirtualService


class StringMatch(Record, frozen=True, kw_only=True):
    """Exactly one of these. `regex` is RE2 and must match the whole value."""

    exact: str = ""
    prefix: str = ""
    regex: str = ""


class HttpMatch(Record, frozen=True, kw_only=True):
    """A request that all of these hold for."""

    uri: StringMatch | None = None
    headers: dict[str, StringMatch] = msgspec.field(default_factory=dict)


class PortSelector(Record, frozen=True, kw_only=True):
    """A port of a Service."""

    number: int = 0


class RouteDestination(Record, frozen=True, kw_only=True):
    """The Service that a request is sent to."""

    host: str = ""
    port: PortSelector | None = None


class HeaderOperations(Record, frozen=True, kw_only=True):
    """Changes of headers: replaced, appended, removed."""

    set: dict[str, str] = msgspec.field(default_factory=dict)
    add: dict[str, str] = msgspec.field(default_factory=dict)


class RouteHeaders(Record, frozen=True, kw_only=True):
    """Changes of the headers of a request and of its response."""

    request: HeaderOperations | None = None
    response: HeaderOperations | None = None


class HttpRouteDestination(Record, frozen=True, kw_only=True):
    """A destination with its share of the requests."""

    destination: RouteDestination = RouteDestination()
    weight: int = 0
    headers: RouteHeaders | None = None


class HttpRoute(Record, frozen=True, kw_only=True):
    """Where requests go that any of the matches holds for; without a match, all of them. `name` is for logs."""

    name: str = ""
    match: tuple[HttpMatch, ...] = ()
    route: tuple[HttpRouteDestination, ...] = ()
    headers: RouteHeaders | None = None


class VirtualServiceSpec(Record, frozen=True, kw_only=True):
    """Hosts, the gateways that serve them, and routes. The first route that matches is taken."""

    hosts: tuple[str, ...] = ()
    gateways: tuple[str, ...] = ()
    http: tuple[HttpRoute, ...] = ()


class VirtualService(Kind, frozen=True, kw_only=True):
    """Routes of requests to Services."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "VirtualService", "virtualservices", namespaced=True)

    spec: VirtualServiceSpec = VirtualServiceSpec()


# ---- DestinationRule


class DestinationRule(Kind, frozen=True, kw_only=True):
    """Rules for the connections to a Service."""

    resource: ClassVar[Resource] = Resource(GROUP, VERSION, "DestinationRule", "destinationrules", namespaced=True)
