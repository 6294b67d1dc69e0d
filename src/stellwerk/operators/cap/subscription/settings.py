"""The settings of the subscription server: environment variables of the original's server, each with a flag."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from ipaddress import ip_network

from stellwerk.apply.objects import name_validation
from stellwerk.delivery.limited_grants import Limits
from stellwerk.operators.cap.variables import POD_NAMESPACE, WATCH_NAMESPACES, switch, variable
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import Setting, SettingsTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """The values in force."""

    port: int = 4000
    host: str = ""
    tls_enabled: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    standard_status_codes: bool = False
    serve_unproved: bool = False
    client_requests_per_second: int = 500
    tenant_requests_per_second: int = 10
    gateway_namespace: str = "istio-system"
    gateway_labels: str = "istio=ingressgateway"
    gateway_networks: tuple[str, ...] = ()
    gateway_secret: str = ""
    gateway_by_address: bool = False
    sms_client_ca: str = ""
    allowed_networks: tuple[str, ...] = ()
    outgoing_ca: str = ""
    pod_namespace: str = ""
    watch_namespaces: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits | None:
        """The namespaces to which the server is limited; None for all."""
        if not self.watch_namespaces:
            return None
        gateways = (self.gateway_namespace,) if self.gateway_namespace and self.gateway_labels else ()
        return Limits(watched=self.watch_namespaces, ingress=gateways)


def _networks(text: str) -> tuple[str, ...]:
    try:
        return tuple(str(ip_network(each)) for each in parsers.words(text))
    except ValueError:
        raise ValueError("expected networks such as 10.0.0.0/8, with commas between them") from None


_OF_THE_MACHINE = tuple(map(ip_network, ("127.0.0.0/8", "169.254.0.0/16", "::1/128", "fe80::/10", "::ffff:0:0/96")))


def _private_networks(text: str) -> tuple[str, ...]:
    found = _networks(text)
    for network in map(ip_network, found):
        if any(network.version == each.version and network.overlaps(each) for each in _OF_THE_MACHINE):
            raise ValueError(
                f"{network} has addresses of the machine itself; name the networks of issuers and registries"
            )
    return found


def _labels(text: str) -> str:
    pairs = [each.partition("=") for each in parsers.words(text)]
    complaints = [*name_validation.complaints("v1", {"name": "pod", "labels": {key: value for key, _, value in pairs}})]
    if complaints or not all(equals for _, equals, _ in pairs):
        raise ValueError("expected labels such as istio=ingressgateway, with commas between them")
    return ",".join(f"{key}={value}" for key, _, value in pairs)


def _switch(field: str, help: str) -> Setting[bool]:
    return replace(switch(field, help), is_switch=True)


_port = parsers.number(1, 65_535)
_rate = parsers.number(0, 100_000)
_joined: Callable[[tuple[str, ...]], str] = ",".join

TABLE = SettingsTable(
    ServerSettings(),
    (
        variable("port", "Port of the registries' requests.", _port),
        Setting(
            field="host", read=str, help="The address that it is served at; without one, every address of the pod."
        ),
        _switch("tls_enabled", "Serve by HTTPS; without it the ingress gateway ends TLS."),
        variable("tls_cert", "File with the certificate, as PEM; loaded again when it changes.", str),
        variable("tls_key", "File with its key.", str),
        _switch(
            "standard_status_codes",
            "Answer 401 without valid credentials, and 403 with those of another application, instead of 406.",
        ),
        _switch(
            "serve_unproved",
            "Answer for an application whose binding has got no token from its issuer yet, if no other one claims its "
            "identity.",
        ),
        variable("client_requests_per_second", "Requests of one client; twice as many at once. 0: no limit.", _rate),
        variable(
            "tenant_requests_per_second", "Requests for one tenant; ten times as many at once. 0: no limit.", _rate
        ),
        variable("gateway_namespace", "Namespace of the ingress gateway's pods; empty: all.", str),
        variable(
            "gateway_labels",
            "Labels of these pods; client certificates, and the addresses of clients, are accepted from them alone.",
            _labels,
        ),
        variable(
            "gateway_networks", "Further networks from which client certificates are accepted.", _networks, _joined
        ),
        variable(
            "gateway_secret",
            "Secret in the namespace of the server whose value the VirtualService in front of it adds as header "
            "x-stellwerk-gateway. Without one, client certificates are refused, unless GATEWAY_BY_ADDRESS is true.",
            parsers.name,
        ),
        _switch(
            "gateway_by_address",
            "Without GATEWAY_SECRET, accept client certificates from every request through the gateway: each user who "
            "may create a VirtualService can then forge them.",
        ),
        variable(
            "sms_client_ca",
            "File with the authorities (PEM) of client certificates of the Subscription Management Service. Without "
            "it, its requests are refused.",
            str,
        ),
        variable(
            "allowed_networks",
            "Private networks with token issuers and registries that may be called; never loopback or link-local ones.",
            _private_networks,
            _joined,
        ),
        variable("outgoing_ca", "File with the authorities (PEM) of these, instead of the system's.", str),
        POD_NAMESPACE,
        WATCH_NAMESPACES,
    ),
    about="""\
A value comes from its flag, else from its environment variable, else it is the default. A variable that cannot be read
has no effect and is logged.""",
)
