"""The settings of the webhooks: environment variables of the original's program, each with a flag."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.delivery.limited_grants import Limits
from stellwerk.operators.cap.variables import ALLOWED_ROUTE_HEADERS, POD_NAMESPACE, WATCH_NAMESPACES, switch, variable
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import SettingsTable

SERVICE = "cap-operator-webhook"
_MOST = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force."""

    webhook_port: int = 8443
    webhook_host: str = ""
    webhook_service: str = SERVICE
    pod_namespace: str = ""
    watch_namespaces: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits | None:
        """The namespaces to which the webhooks are limited; None for all."""
        return Limits(watched=self.watch_namespaces) if self.watch_namespaces else None

    tls_enabled: bool = False
    tls_cert: str = ""
    tls_key: str = ""
    derived_tenant_jobs: bool = False
    allowed_route_headers: tuple[str, ...] = ()


TABLE = SettingsTable(
    Settings(),
    (
        variable("webhook_port", "The port of the webhooks.", parsers.number(1, _MOST)),
        variable("webhook_host", "The address that they are served at; without one, every address of the pod.", str),
        variable(
            "webhook_service",
            "The Service in front of them. The certificate that the program creates is for its name.",
            parsers.name,
        ),
        POD_NAMESPACE,
        WATCH_NAMESPACES,
        switch(
            "tls_enabled",
            "true: the certificate of `TLS_CERT` and `TLS_KEY` is served. Otherwise the program creates and renews "
            "one, in the Secret with the name of the Service and `-tls` after it. API servers call webhooks by HTTPS "
            "only.",
        ),
        variable("tls_cert", "The file with the certificate, as PEM. A change is noticed within seconds.", str),
        variable("tls_key", "The file with its key.", str),
        switch(
            "derived_tenant_jobs",
            "true: a CAPApplicationVersion needs no workload of type TenantOperation, as in the first releases.",
        ),
        ALLOWED_ROUTE_HEADERS,
    ),
    about="""\
A value comes from its flag, else from its environment variable, else it is the default. A variable that cannot be read
has no effect and is logged.""",
)
