"""The settings of the CAP Operator: environment variables of the original operator, each with a flag."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from stellwerk.apply.objects import name_validation
from stellwerk.delivery.limited_grants import Limits
from stellwerk.kube.types import duration
from stellwerk.operators.cap.domain import ingress
from stellwerk.operators.cap.domain.plan import CertManager, DnsManager, DomainSettings
from stellwerk.operators.cap.variables import (
    ALLOWED_ROUTE_HEADERS,
    NO_NAMESPACE,
    POD_NAMESPACE,
    WATCH_NAMESPACES,
    switch,
    variable,
)
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import OutOfRange, Setting, SettingsTable

MOST_WORKERS = 100
_LEAST_ROLLOUT_DELAY = timedelta(seconds=30)
_HOST = re.compile(r"[a-z0-9*.-]{1,253}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force."""

    cert_manager: CertManager = CertManager.GARDENER
    dns_manager: DnsManager = DnsManager.GARDENER
    dns_target: str = ""
    ingress_namespaces: tuple[str, ...] = ingress.NAMESPACES
    certificate_issuers: tuple[str, ...] = ()
    max_concurrent_reconciles_cap_application: int = 1
    max_concurrent_reconciles_cap_application_version: int = 3
    max_concurrent_reconciles_cap_tenant: int = 10
    max_concurrent_reconciles_cap_tenant_operation: int = 10
    max_concurrent_reconciles_domain: int = 1
    max_concurrent_reconciles_cluster_domain: int = 1
    max_tenant_version_history: int = 10
    detailed_operational_metrics: bool = False
    prometheus_address: str = ""
    unrestricted_metric_queries: bool = False
    metrics_eval_interval: timedelta = timedelta(minutes=10)
    prom_acquire_client_retry_delay: timedelta = timedelta(hours=1)
    rollout_delay: timedelta = timedelta(hours=1)
    client_qps: str = ""
    client_burst: str = ""
    allowed_route_headers: tuple[str, ...] = ()
    pod_namespace: str = ""
    watch_namespaces: tuple[str, ...] = ()

    @property
    def limits(self) -> Limits | None:
        """The namespaces to which the controllers are limited; None for all."""
        if not self.watch_namespaces:
            return None
        ingress_namespaces = [each for each in self.ingress_namespaces if name_validation.is_namespace(each)]
        return Limits(watched=self.watch_namespaces, ingress=ingress_namespaces)

    def of_domains(self, namespace: str) -> DomainSettings:
        """Those of the controllers of domains. `namespace`: the operator's own."""
        return DomainSettings(
            namespace=namespace,
            cert_manager=self.cert_manager,
            dns_manager=self.dns_manager,
            dns_target=self.dns_target,
            ingress_namespaces=self.ingress_namespaces,
            certificate_issuers=self.certificate_issuers,
        )


# ---- how each kind of value is read


def _dns_target(text: str) -> str:
    target = text.strip().lower()
    if target and not _HOST.fullmatch(target):
        raise ValueError("expected a host name such as lb.example.com")
    return target


def _namespaces(text: str) -> tuple[str, ...]:
    # What is no name is the name of no namespace: a mistake must not allow all of them.
    if not (found := tuple(dict.fromkeys(re.findall(r"[^\s,]+", text)))):
        raise ValueError("expected names of namespaces")
    return found


def _issuers(text: str) -> tuple[str, ...]:
    if not (found := tuple(dict.fromkeys(re.findall(r"[^\s,]+", text)))):
        raise ValueError("expected issuers such as ClusterIssuer/letsencrypt")
    return found


def _rollout_delay(text: str) -> timedelta:
    return max(duration.parse(text), _LEAST_ROLLOUT_DELAY)


def _number_of_workers(text: str) -> int:
    try:
        return parsers.number(1, MOST_WORKERS)(text)
    except ValueError as error:
        if re.fullmatch(r"0*[1-9][0-9]{2,}", text):
            raise OutOfRange(str(error), nearest=MOST_WORKERS) from None
        raise


def _workers(kind: str, title: str) -> Setting[int]:
    help = f"How many {title} are reconciled at once, up to {MOST_WORKERS}."
    return variable(f"max_concurrent_reconciles_{kind}", help, _number_of_workers)


def _time(field: str, help: str, read: Callable[[str], timedelta] = parsers.positive_duration) -> Setting[timedelta]:
    return variable(field, help, read, duration.format)


TABLE = SettingsTable(
    Settings(),
    (
        variable("cert_manager", "What issues certificates: gardener or cert-manager.io.", parsers.one_of(CertManager)),
        variable(
            "dns_manager",
            "What keeps DNS records: gardener, or kubernetes, where external-dns reads the Gateways.",
            parsers.one_of(DnsManager),
        ),
        variable(
            "dns_target", "DNS target of domains that set none; without one, that of the load balancer.", _dns_target
        ),
        replace(
            variable(
                "ingress_namespaces",
                "Namespaces in which pods of ingress gateways count, and certificates are written, separated by commas "
                "or blanks. `*`: all but those of the system. A text without a name allows none.",
                _namespaces,
                ",".join,
            ),
            of_unreadable=NO_NAMESPACE,
        ),
        variable(
            "certificate_issuers",
            "Issuers of cert-manager that a Domain may name besides the ClusterIssuer cluster-ca, separated by commas "
            "or blanks, such as `ClusterIssuer/letsencrypt`, or `Kind.group/name`. `*`: all.",
            _issuers,
            ",".join,
        ),
        _workers("cap_application", "CAPApplications"),
        _workers("cap_application_version", "CAPApplicationVersions"),
        _workers("cap_tenant", "CAPTenants"),
        _workers("cap_tenant_operation", "CAPTenantOperations"),
        _workers("domain", "Domains"),
        _workers("cluster_domain", "ClusterDomains"),
        variable("max_tenant_version_history", "How many former versions a CAPTenant shows.", parsers.number(1, 1_000)),
        switch(
            "detailed_operational_metrics", "true: metrics of tenants and versions, with a series for each of them."
        ),
        variable("prometheus_address", "Address of Prometheus for the monitoring of versions.", str),
        switch(
            "unrestricted_metric_queries",
            "true: `deletionRules.expression` of a version is asked as it is, about the metrics of all namespaces.",
        ),
        _time("metrics_eval_interval", "Pause between two looks at versions that may be deleted."),
        _time(
            "prom_acquire_client_retry_delay",
            "How long Prometheus is not asked after no connection to it came about; versions with rules stay.",
        ),
        _time(
            "rollout_delay",
            "How long after a change of a binding Secret Deployments get the new credentials; at least 30s.",
            _rollout_delay,
        ),
        variable("client_qps", "Accepted for compatibility: the API server's own limits apply.", str),
        variable("client_burst", "Accepted for compatibility: the API server's own limits apply.", str),
        ALLOWED_ROUTE_HEADERS,
        POD_NAMESPACE,
        WATCH_NAMESPACES,
    ),
    about="""\
A value comes from its flag, else from its environment variable, else it is the default. A variable that cannot be read
has no effect and is logged. Durations are written as in Go: `90s`, `5m`, `1h30m`.""",
)
