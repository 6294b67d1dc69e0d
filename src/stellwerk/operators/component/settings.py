"""The settings of the Component operator: flags, read once at start.

The original's flags keep its names and defaults. Ours are off or compatible by default, with one exception: the
Events about each object of a first rollout are not sent. Where a default depends on the tenancy, the word is `auto`:
what a platform allows its own teams is not what it should allow tenants.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from stellwerk.kube.types.identifiers import SYSTEM_NAMESPACES
from stellwerk.lazy_imports import lazy_imports
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import Setting, SettingsTable

with lazy_imports(__name__):
    from stellwerk.render.sources import egress as egress_rules


class Mode(StrEnum):
    """Whether Components may act with the operator's own rights."""

    COMPATIBLE = "compatible"
    STRICT = "strict"


class DependentEvents(StrEnum):
    """Which Events are sent about dependent objects."""

    ALL = "all"
    """Every write and every failure, as the original does."""
    CHANGES = "changes"
    """What becomes of objects after their first rollout: updates, removals, objects made again, and failures. Not the
    creation of all objects of a new Component, nor their end with it: one Event on the Component reports that."""
    NONE = "none"


class DriftPolicy(StrEnum):
    """What is done about an object that another client has changed, before its reapply interval is over."""

    REPORT = "Report"
    """Report it; the next reapply restores it, as with the original."""
    REPAIR = "Repair"
    """Put it back at once."""


class Permission(StrEnum):
    """A switch whose default depends on the tenancy."""

    AUTO = "auto"
    """Allowed, unless tenancy is strict."""
    ALLOW = "true"
    REFUSE = "false"

    def given(self, mode: Mode) -> bool:
        """Whether it is allowed."""
        return mode is not Mode.STRICT if self is Permission.AUTO else self is Permission.ALLOW


AUTO = ("auto",)
"""System namespaces are refused as targets where tenancy is strict, else none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force."""

    default_service_account: str = ""
    """Name of the ServiceAccount, in the Component's namespace, of those that name none."""
    max_concurrent_reconciles: int = 5
    events_address: str = ""
    tenancy: Mode = Mode.COMPATIBLE
    no_cross_namespace_refs: bool = False
    refused_target_namespaces: tuple[str, ...] = AUTO
    reclaim_managers: tuple[str, ...] = ("kubectl", "helm")
    dependent_events: DependentEvents = DependentEvents.CHANGES
    drift_policy: DriftPolicy = DriftPolicy.REPORT
    http_repository_interval: timedelta = timedelta(seconds=30)
    egress_allow_hosts: tuple[str, ...] = ()
    egress_allow_ports: tuple[int, ...] = ()
    egress_allow_networks: tuple[parsers.Network, ...] = ()
    egress_refuse_networks: tuple[parsers.Network, ...] = ()
    egress_allow_http: Permission = Permission.AUTO
    egress_allow_private: Permission = Permission.AUTO
    max_remote_clusters: int = 2_000
    max_remote_clusters_per_namespace: int = 500
    max_remote_objects_mib: int = 128
    artifact_cache_dir: str = ""
    artifact_cache_mib: int = 512

    @property
    def excluded_namespaces(self) -> tuple[str, ...]:
        """Those of the operator's own cluster that are no target; another cluster is its owner's business."""
        if self.refused_target_namespaces == AUTO:
            return SYSTEM_NAMESPACES if self.tenancy is Mode.STRICT else ()
        return self.refused_target_namespaces

    @property
    def egress(self) -> egress_rules.EgressRules:
        """What may be called for a URL of a Component."""
        return egress_rules.EgressRules(
            http=self.egress_allow_http.given(self.tenancy),
            private=self.egress_allow_private.given(self.tenancy),
            hosts=self.egress_allow_hosts,
            ports=self.egress_allow_ports,
            networks=self.egress_allow_networks,
            refused=self.egress_refuse_networks,
        )

    @property
    def flux_egress(self) -> egress_rules.EgressRules:
        """What may be called for an artifact of flux: its controller is in the cluster and serves plain HTTP."""
        return replace(egress_rules.IN_CLUSTER, networks=self.egress_allow_networks)


# ---- how each kind of value is read


def _folder(text: str) -> str:
    if text and (not text.startswith("/") or "\0" in text):
        raise ValueError("expected the absolute path of a folder such as /var/cache/stellwerk")
    return text


def _address(text: str) -> str:
    parts = urlsplit(text)
    if text and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("expected a URL such as http://notification-controller.flux-system.svc/")
    return text


def _namespaces(text: str) -> tuple[str, ...]:
    if text == "none":
        return ()
    return tuple(parsers.name(word) for word in parsers.words(text))


_HOST = r"(\*\.)?[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?"


def _hosts(text: str) -> tuple[str, ...]:
    for host in parsers.words(text):
        if not re.fullmatch(_HOST, host):
            raise ValueError("expected host names or patterns such as *.example.com, separated by commas")
    return parsers.words(text)


def _ports(text: str) -> tuple[int, ...]:
    return tuple(map(parsers.number(1, 65_535), parsers.words(text)))


_positive = parsers.of_duration(
    "a duration of at least one second such as 30s", lambda value: value >= timedelta(seconds=1)
)

TABLE = SettingsTable(
    Settings(),
    (
        Setting(
            "default_service_account",
            parsers.name_or_none,
            "ServiceAccount, in the Component's namespace, that Components without serviceAccountName act as.",
        ),
        Setting(
            "max_concurrent_reconciles", parsers.number(1, 1_000), "How many Components are worked on at the same time."
        ),
        Setting(
            "events_address",
            _address,
            "Where Events of Components are posted to as well: flux's notification-controller.",
        ),
        Setting(
            "tenancy",
            parsers.one_of(Mode),
            "compatible: as the original. strict: every Component must act as a ServiceAccount.",
        ),
        Setting(
            "refused_target_namespaces",
            parsers.words_of(parsers.name.pattern, _namespaces),
            "Namespaces that spec.namespace must not name. auto: those of the system where tenancy is strict, "
            "else none. none: none.",
        ),
        Setting(
            "reclaim_managers",
            parsers.words,
            "Beginnings of the names of field managers whose fields SsaOverride takes over, separated by commas.",
        ),
        Setting(
            "dependent_events",
            parsers.one_of(DependentEvents),
            "Which Events are sent about dependent objects: all, changes (after their first rollout), none.",
        ),
        Setting(
            "drift_policy",
            parsers.one_of(DriftPolicy),
            "What is done about objects that another client changed: Report, or Repair at once.",
        ),
        Setting("http_repository_interval", _positive, "How often each httpRepository is looked at."),
        Setting(
            "egress_allow_hosts",
            parsers.words_of(_HOST, _hosts),
            "Hosts that an httpRepository, or where tenancy is strict a kubeconfig, may name, separated by "
            "commas. None named: any.",
        ),
        Setting(
            "egress_allow_ports",
            parsers.words_of("[0-9]{1,5}", _ports),
            "Ports that an httpRepository, or where tenancy is strict a kubeconfig, may name, separated by "
            "commas. None named: any.",
        ),
        Setting(
            "egress_allow_networks",
            parsers.networks,
            "Networks that an httpRepository, or where tenancy is strict a kubeconfig, may name although they are "
            "loopback, link-local or private.",
        ),
        Setting(
            "egress_refuse_networks",
            parsers.networks,
            "Networks that an httpRepository, or where tenancy is strict a kubeconfig, must not name although "
            "they are public or allowed, such as those of the cluster's pods and Services.",
        ),
        Setting(
            "egress_allow_http",
            parsers.one_of(Permission),
            "Whether an httpRepository may be called without TLS. auto: unless tenancy is strict.",
        ),
        Setting(
            "egress_allow_private",
            parsers.one_of(Permission),
            "Whether an httpRepository may be in a private network. auto: unless tenancy is strict; then it "
            "holds for kubeconfigs, too.",
        ),
        Setting(
            "max_remote_clusters",
            parsers.number(1, 1_000_000),
            "How many other clusters (different kubeconfigs) all Components together may have as their targets.",
        ),
        Setting(
            "max_remote_clusters_per_namespace",
            parsers.number(1, 1_000_000),
            "How many other clusters (different kubeconfigs) the Components of one namespace may have as their "
            "targets.",
        ),
        Setting(
            "max_remote_objects_mib",
            parsers.number(2, 1_000_000),
            "How much of the objects with the operator's label in all other clusters is held, as JSON. The "
            "clusters of one namespace may have half of it, and one cluster 64 MiB. One MiB is 1048576 bytes.",
        ),
        Setting(
            "artifact_cache_dir",
            _folder,
            "Folder in which artifacts of flux are kept across restarts; only ones whose digest can be verified.",
        ),
        Setting(
            "artifact_cache_mib",
            parsers.number(0, 1_000_000),
            "How much that folder may hold; what was not used for longest goes. One MiB is 1048576 bytes.",
        ),
        Setting(
            "no_cross_namespace_refs",
            bool,
            "Refuse sources and dependencies in other namespaces than the Component's.",
            is_switch=True,
        ),
    ),
    about="""\
All of them are flags of `stellwerk run component`. Durations are written as in Go: `90s`, `5m`, `1h30m`. Lists are
separated by commas. What Components set themselves is described in their CustomResourceDefinition
(`kubectl explain component.spec`).""",
)
"""The first three are the original's; Flux spells the last one like this."""
