"""The settings of the lifecycle manager: flags of the original operator, and a few variables.

A Deployment of the original starts ours with its arguments unchanged. What is ours is off by default.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum, StrEnum
from typing import TypeVar
from urllib.parse import urlsplit

from stellwerk.delivery.operator_spec import CannotStart
from stellwerk.kube.types import duration, text_forms
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_status import FORMER_VERSION
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.process_settings import PROCESS
from stellwerk.runtime.settings.table import Setting, SettingsTable, spelled

with lazy_imports(__name__):
    from stellwerk.render.sources import egress as egress_rules
    from stellwerk.runtime.process import leader

V = TypeVar("V")
_DAY = timedelta(days=1)

POLICY_FOLDER = "/etc/maintenance-policy"
"""Where pods have the policy of maintenance windows, as with the original."""


class CertificateManagement(StrEnum):
    """What issues the certificates of the watcher."""

    CERT_MANAGER = "cert-manager.io/v1"
    GARDENER = "cert.gardener.cloud/v1alpha1"


class ManifestLinks(StrEnum):
    """Which links to a raw manifest of a ModuleTemplate are followed."""

    NONE = "none"
    HTTP = "http"
    """http and https."""
    FILE = "file"
    """Also files of the operator's own container. For development."""


class ClientAuthority(StrEnum):
    """Who vouches for the certificates in reports of remote clusters."""

    GATEWAY = "gateway"
    """The authorities by which the Gateway verifies clients."""
    NONE = "none"
    """None, as with the original: each client that reaches the port may report for any runtime."""


class FipsMode(IntEnum):
    """What GODEBUG asks for, as the metric shows it."""

    OFF = 0
    ON = 1
    ONLY = 2


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a kind that no object is stored in any more."""

    kind: str
    version: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.version}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force."""

    kyma_skr_listener_bind_address: str = ":8082"
    pprof: bool = False
    pprof_bind_address: str = ":8084"
    pprof_server_timeout: timedelta = timedelta(seconds=90)
    leader_election_lease_duration: timedelta = timedelta(seconds=180)
    leader_election_renew_deadline: timedelta = timedelta(seconds=120)
    leader_election_retry_period: timedelta = timedelta(seconds=3)
    max_concurrent_kyma_reconciles: int = 1
    max_concurrent_manifest_reconciles: int = 1
    max_concurrent_watcher_reconciles: int = 1
    max_concurrent_mandatory_modules_reconciles: int = 1
    max_concurrent_mandatory_modules_deletion_reconciles: int = 1
    rate_limiter_burst: int = 2_000
    rate_limiter_frequency: int = 1_000
    failure_base_delay: timedelta = timedelta(seconds=5)
    failure_max_delay: timedelta = timedelta(seconds=30)
    cache_sync_timeout: timedelta = timedelta(minutes=60)
    k8s_client_qps: int = 1_000
    k8s_client_burst: int = 2_000
    k8s_skr_client_qps: int = 50
    k8s_skr_client_burst: int = 100
    log_level: int = 0
    sync_namespace: str = labels.SKR_NAMESPACE
    oci_registry_host: str = ""
    oci_registry_cred_secret: str = ""
    modules_repository_subpath: str = ""
    without_registry: bool = False
    raw_manifest_links: ManifestLinks = ManifestLinks.NONE
    module_signatures: tuple[str, ...] = ()
    layer_cache_dir: str = ""
    layer_cache_mib: int = 512
    egress_allow_networks: tuple[parsers.Network, ...] = ()
    skr_image_pull_secret: str = ""
    restricted_default_modules: tuple[str, ...] = ()
    enable_webhooks: bool = False
    min_maintenance_window_size: timedelta = timedelta(minutes=20)
    maintenance_policy_file: str = f"{POLICY_FOLDER}/policy.json"
    metrics_cleanup_interval: int = 15
    drop_crd_stored_version_map: tuple[StoredVersion, ...] = tuple(
        StoredVersion(kind, FORMER_VERSION) for kind in ("Manifest", "Watcher", "ModuleTemplate", "Kyma")
    )
    kyma_requeue_success_interval: timedelta = timedelta(minutes=5)
    kyma_requeue_error_interval: timedelta = timedelta(seconds=2)
    kyma_requeue_warning_interval: timedelta = timedelta(seconds=30)
    kyma_requeue_busy_interval: timedelta = timedelta(seconds=5)
    manifest_requeue_success_interval: timedelta = timedelta(minutes=5)
    manifest_requeue_error_interval: timedelta = timedelta(seconds=2)
    manifest_requeue_warning_interval: timedelta = timedelta(seconds=30)
    manifest_requeue_busy_interval: timedelta = timedelta(seconds=5)
    manifest_requeue_jitter_probability: float = 0.02
    manifest_requeue_jitter_percentage: float = 0.02
    mandatory_module_requeue_success_interval: timedelta = timedelta(seconds=30)
    mandatory_module_deletion_requeue_success_interval: timedelta = timedelta(seconds=30)
    watcher_requeue_success_interval: timedelta = timedelta(minutes=1)
    module_upgrade_rollout_max_delay: timedelta = timedelta(minutes=5)
    module_rollout_at_once: int = 0
    module_rollout_stop_share: float = 0.1
    module_rollout_patience: timedelta = timedelta(minutes=10)
    disable_watcher: bool = False
    istio_namespace: str = labels.ISTIO_NAMESPACE
    istio_gateway_name: str = "klm-watcher"
    istio_gateway_namespace: str = labels.KCP_NAMESPACE
    istio_gateway_secret_requeue_success_interval: timedelta = timedelta(minutes=5)
    istio_gateway_secret_requeue_error_interval: timedelta = timedelta(seconds=2)
    istio_gateway_server_cert_switch_grace_period: timedelta = 4 * _DAY
    istio_gateway_server_cert_expiry_window: timedelta = 14 * _DAY
    istio_gateway_cert_switch_before_expiration_time: timedelta = timedelta()
    cert_management: CertificateManagement = CertificateManagement.CERT_MANAGER
    self_signed_cert_duration: timedelta = 60 * _DAY
    self_signed_cert_renew_before: timedelta = 30 * _DAY
    self_signed_cert_renew_buffer: timedelta = _DAY
    self_signed_cert_key_size: int = 4096
    self_signed_cert_issuer_name: str = "klm-watcher-selfsigned"
    self_signed_cert_issuer_namespace: str = labels.ISTIO_NAMESPACE
    additional_dns_names: tuple[str, ...] = ()
    listener_port_overwrite: str = ""
    listener_client_authority: ClientAuthority = ClientAuthority.GATEWAY
    listener_tls_folder: str = ""
    listener_wakes_per_second: int = 2
    skr_watcher_image_name: str = "runtime-watcher"
    skr_watcher_image_registry: str = "europe-docker.pkg.dev/kyma-project/prod"
    skr_watcher_image_tag: str = ""
    skr_webhook_memory_limits: str = "200Mi"
    skr_webhook_cpu_limits: str = "0.1"
    enable_purge_finalizer: bool = False
    purge_finalizer_timeout: timedelta = timedelta(minutes=5)
    skip_finalizer_purging_for: tuple[str, ...] = ()
    enable_legacy_kyma_deletion: bool = False
    godebug: str = ""
    known_managers: tuple[str, ...] = ()
    frequency_limiter_ttl: int = 300
    managed_fields_analysis_label: str = ""

    def more_detailed(self, level: str) -> str:
        """The level of the logger: that of `log_level`, or `level` if that shows more."""
        own = {0: "warn", 1: "info", 2: "debug"}.get(self.log_level, str(self.log_level))
        return max(level, own, key=_detail)

    @property
    def egress(self) -> egress_rules.EgressRules:
        """What may be called for modules: an administrator names the registry, which may be in a private network."""
        return egress_rules.EgressRules(private=True, networks=self.egress_allow_networks)

    @property
    def terms(self) -> leader.Terms:
        """Those of the leader election."""
        return leader.Terms(
            lease_duration_seconds=self.leader_election_lease_duration.total_seconds(),
            renew_deadline_seconds=self.leader_election_renew_deadline.total_seconds(),
            retry_seconds=self.leader_election_retry_period.total_seconds(),
        )

    @property
    def watcher_image(self) -> str:
        """The image of the webhook in remote clusters."""
        return f"{self.skr_watcher_image_registry}/{self.skr_watcher_image_name}:{self.skr_watcher_image_tag}"

    @property
    def fips_mode(self) -> FipsMode:
        """What GODEBUG asks for; its last word counts, as with Go."""
        words = dict(word.partition("=")[::2] for word in self.godebug.split(","))
        return {"on": FipsMode.ON, "only": FipsMode.ONLY}.get(words.get("fips140", ""), FipsMode.OFF)


def refuse_contradictions(settings: Settings) -> None:
    """Raise CannotStart for settings that the original does not start with either."""
    try:
        settings.terms  # noqa: B018  # it checks what it is made from
    except ValueError as error:
        raise CannotStart(
            str(error),
            fix="set --leader-election-lease-duration above --leader-election-renew-deadline, and that above "
            "--leader-election-retry-period",
        ) from None
    if settings.oci_registry_host and settings.oci_registry_cred_secret:
        raise CannotStart(
            "--oci-registry-host and --oci-registry-cred-secret are both set, and each names a registry",
            fix="keep --oci-registry-cred-secret if the registry asks for credentials, else --oci-registry-host",
        )
    if not (settings.oci_registry_host or settings.oci_registry_cred_secret or settings.without_registry):
        raise CannotStart(
            "no registry of modules is set",
            fix="set --oci-registry-host or --oci-registry-cred-secret, or --without-registry if all ModuleTemplates "
            "have their descriptor in them",
        )
    if not settings.disable_watcher:
        for flag, value in (
            ("--skr-watcher-image-tag", settings.skr_watcher_image_tag),
            ("--skr-watcher-image-registry", settings.skr_watcher_image_registry),
        ):
            if not value:
                raise CannotStart(
                    f"{flag} is empty, so that the image of the watcher is not known",
                    fix=f"set {flag}, or --disable-watcher to see changes in remote clusters only by looking there",
                )


def _detail(level: str) -> int:
    """How much a level of the logger shows."""
    words = ("panic", "error", "warn", "info", "debug")
    return words.index(level) if level in words else len(words) - 2 + int(level)


# ---- how each kind of value is read

_MODULE = re.compile(text_forms.MODULE_NAME.pattern.removesuffix("$") + r"\Z")
_QUANTITY = re.compile(text_forms.QUANTITY.pattern.removesuffix("$") + r"\Z")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_PATH = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/]*")
_PAIR = re.compile(r"([A-Za-z]+):(v[a-z0-9]+)")


def _host(text: str) -> str:
    parts = urlsplit(text if "://" in text else f"https://{text}")
    if text and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment):
        raise ValueError("expected a registry such as registry.example.com:5000, or with http:// or https://")
    return text


def _path(text: str) -> str:
    path = text.strip("/")
    if path and (not _PATH.fullmatch(path) or {"", ".", ".."} & {*path.split("/")}):
        raise ValueError("expected a path such as kyma/modules")
    return path


def _signatures(text: str) -> tuple[str, ...]:
    names = parsers.words(text)
    if not all(_LABEL_VALUE.fullmatch(name) for name in names):
        raise ValueError("expected names of signatures that can be values of a label, such as kyma,partner")
    return names


def _modules(text: str) -> tuple[str, ...]:
    if text and not all(word and _MODULE.match(word) for word in (word.strip() for word in text.split(","))):
        raise ValueError("expected names of modules with commas between them, such as keda,btp-operator")
    return parsers.words(text)


def _fraction(highest: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not 0 <= value <= highest:
            raise ValueError(f"expected a number from 0 to {highest:g}")
        return value

    return read


def _key_size(text: str) -> int:
    if text != "4096":
        raise ValueError("expected 4096, the only size of a key")
    return 4096


def _port(text: str) -> str:
    return str(parsers.number(1, 65_535)(text)) if text else ""


def _quantity(text: str) -> str:
    if not _QUANTITY.match(text):
        raise ValueError(f"the value {text_forms.QUANTITY.sentence}")
    return text


def _versions(text: str) -> tuple[StoredVersion, ...]:
    pairs = [_PAIR.fullmatch(word) for word in parsers.words(text)]
    if not all(pairs):
        raise ValueError(f"expected kinds and versions such as Kyma:{FORMER_VERSION},Manifest:{FORMER_VERSION}")
    return tuple(StoredVersion(pair[1], pair[2]) for pair in pairs if pair)


def _managers(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(";") if word.strip())


def _variable(
    name: str, field: str, read: Callable[[str], V], help: str, write: Callable[[V], str] = spelled
) -> Setting[V]:
    return Setting(field, read, help, write=write, environment=name, has_flag=False)


def _interval(field: str, what: str) -> Setting[timedelta]:
    return Setting(field, parsers.positive_duration, f"After which time {what} is looked at again.")


def _workers(field: str, what: str) -> Setting[int]:
    return Setting(field, parsers.number(1, 1_000), f"How many {what} are worked on at the same time.")


def _inert(field: str, read: Callable[[str], V], why: str) -> Setting[V]:
    return Setting(field, read, f"Accepted for compatibility: {why}.")


_number = parsers.number(1, 1_000_000)
_SERVERS_LIMIT = "the API server's own limits apply"
_OWN_PAUSES = "each object has a pause of its own after a failure, from --failure-base-delay to --failure-max-delay"
_WATCHED = "changes are seen by watches, on both sides, so nothing is looked at on a schedule"
_NOT_ANALYSED = "field managers are not analysed; see `kubectl get --show-managed-fields`"
_NO_PPROF = "there is no pprof server in Python"

PROCESS_TABLE = replace(PROCESS, defaults=replace(PROCESS.defaults, leader_elect=True, zap_log_level="warn"))
"""The settings of every process. As with the original, the leader election is on and warnings are logged by default."""

TABLE = SettingsTable(
    Settings(),
    (
        Setting("kyma_skr_listener_bind_address", str, "Where reports of remote clusters are received."),
        replace(_inert("pprof", bool, _NO_PPROF), is_switch=True),
        _inert("pprof_bind_address", str, _NO_PPROF),
        _inert("pprof_server_timeout", parsers.positive_duration, _NO_PPROF),
        Setting(
            "leader_election_lease_duration",
            parsers.positive_duration,
            "How long other replicas wait after the last renewal of the Lease.",
        ),
        Setting(
            "leader_election_renew_deadline",
            parsers.positive_duration,
            "How long the leader tries to renew the Lease before it stops.",
        ),
        Setting("leader_election_retry_period", parsers.positive_duration, "The pause between two renewals."),
        _workers("max_concurrent_kyma_reconciles", "Kymas"),
        _workers("max_concurrent_manifest_reconciles", "Manifests"),
        _workers("max_concurrent_watcher_reconciles", "Watchers"),
        _workers("max_concurrent_mandatory_modules_reconciles", "Kymas' mandatory modules"),
        _workers("max_concurrent_mandatory_modules_deletion_reconciles", "mandatory modules that are removed"),
        _inert("rate_limiter_burst", _number, _OWN_PAUSES),
        _inert("rate_limiter_frequency", _number, _OWN_PAUSES),
        Setting("failure_base_delay", parsers.positive_duration, "The first pause after a failure."),
        Setting("failure_max_delay", parsers.positive_duration, "The longest pause after a failure."),
        _inert("cache_sync_timeout", parsers.positive_duration, "the process is not ready until its caches are full"),
        _inert("k8s_client_qps", _number, _SERVERS_LIMIT),
        _inert("k8s_client_burst", _number, _SERVERS_LIMIT),
        _inert("k8s_skr_client_qps", _number, _SERVERS_LIMIT),
        _inert("k8s_skr_client_burst", _number, _SERVERS_LIMIT),
        Setting(
            "log_level",
            parsers.number(0, 100),
            "0: warnings, 1: info, 2: debug, 3 and more: further detail. Of it and `--zap-log-level`, the one "
            "that shows more counts.",
        ),
        Setting(
            "sync_namespace",
            parsers.namespace,
            "Namespace of the catalog, the webhook and default custom resources in remote clusters. The Kyma is always "
            "kyma-system/default.",
        ),
        Setting(
            "oci_registry_host",
            _host,
            "Registry of the modules, such as registry.example.com; with http:// for one without TLS.",
        ),
        Setting(
            "oci_registry_cred_secret",
            parsers.name_or_none,
            "Secret in kcp-system, of the type kubernetes.io/dockerconfigjson, with the registry and its credentials, "
            "in the place of the host.",
        ),
        Setting("modules_repository_subpath", _path, "Path in the registry below which the modules are."),
        Setting(
            "without_registry",
            bool,
            "Start without a registry: all ModuleTemplates have their descriptor in them.",
            is_switch=True,
        ),
        Setting(
            "raw_manifest_links",
            parsers.one_of(ManifestLinks),
            "Which links to a rawManifest of ModuleTemplates without a layer are followed: none, http, or file, which "
            "is http as well and for development only.",
        ),
        Setting(
            "module_signatures",
            _signatures,
            "Names of signatures: only components that have a valid one of them are installed. Its public key is in a "
            "Secret in kcp-system, under `key`, with the name in the label operator.kyma-project.io/signature.",
        ),
        Setting(
            "layer_cache_dir",
            str,
            "Folder in which layers stay that need no login, so that a restart does not read them from the registry "
            "again; empty: none.",
        ),
        Setting("layer_cache_mib", parsers.number(1, 1 << 20), "How much that folder may hold, in MiB."),
        Setting(
            "egress_allow_networks",
            parsers.networks,
            "Networks in which a registry, its server of tokens or a link may be, although they are loopback or "
            "link-local.",
        ),
        Setting(
            "skr_image_pull_secret",
            parsers.name_or_none,
            "Secret in kcp-system that is copied to remote clusters, for the images of modules.",
        ),
        Setting(
            "restricted_default_modules",
            _modules,
            "Modules that only Kymas get which the kymaSelector of their ModuleReleaseMeta matches.",
        ),
        replace(_inert("enable_webhooks", bool, "there are none"), is_switch=True),
        Setting(
            "maintenance_policy_file",
            str,
            "File with the policy of maintenance windows, read at the start. Without one, modules whose upgrade needs "
            "a downtime are not upgraded, unless their Kyma skips maintenance windows.",
        ),
        Setting(
            "min_maintenance_window_size",
            parsers.positive_duration,
            "How much of a maintenance window must be left for an upgrade to begin.",
        ),
        _inert("metrics_cleanup_interval", parsers.number(1, 100_000), "the series of an object end with it"),
        Setting(
            "drop_crd_stored_version_map",
            _versions,
            "Versions that are removed from the stored versions of their CustomResourceDefinition at the start.",
        ),
        _interval("kyma_requeue_success_interval", "a Kyma that is Ready"),
        _inert("kyma_requeue_error_interval", parsers.positive_duration, _OWN_PAUSES),
        _interval("kyma_requeue_warning_interval", "a Kyma with a Warning"),
        _interval("kyma_requeue_busy_interval", "a Kyma that is under way"),
        _inert("manifest_requeue_success_interval", parsers.positive_duration, _WATCHED),
        _inert("manifest_requeue_error_interval", parsers.positive_duration, _OWN_PAUSES),
        _inert("manifest_requeue_warning_interval", parsers.positive_duration, _WATCHED),
        _inert("manifest_requeue_busy_interval", parsers.positive_duration, _WATCHED),
        _inert("manifest_requeue_jitter_probability", _fraction(0.05), _WATCHED),
        _inert("manifest_requeue_jitter_percentage", _fraction(1), _WATCHED),
        _inert("mandatory_module_requeue_success_interval", parsers.positive_duration, _WATCHED),
        _inert("mandatory_module_deletion_requeue_success_interval", parsers.positive_duration, _WATCHED),
        _inert("watcher_requeue_success_interval", parsers.positive_duration, _WATCHED),
        Setting(
            "module_upgrade_rollout_max_delay",
            parsers.duration_or_zero,
            "Over which time the Kymas of a channel get a new version; 0: at once.",
        ),
        Setting(
            "module_rollout_at_once",
            parsers.number(0, 100_000),
            "How many clusters get a new version of a module at a time, those of Kymas with the canary label first; 0: "
            "as many as there are.",
        ),
        Setting(
            "module_rollout_stop_share",
            _fraction(1),
            "If a larger share of clusters has failed, no further one gets the version, until the rollout is resumed.",
        ),
        Setting(
            "module_rollout_patience",
            parsers.positive_duration,
            "A cluster has failed if it takes longer than this to get the version.",
        ),
        Setting(
            "disable_watcher",
            bool,
            "Neither receive reports of remote clusters, nor install anything there that sends some.",
            is_switch=True,
        ),
        Setting("istio_namespace", parsers.namespace, "Namespace of Istio and of the certificates of the watcher."),
        Setting("istio_gateway_name", parsers.name, "Gateway that reports of remote clusters come in by."),
        Setting("istio_gateway_namespace", parsers.namespace, "Its namespace."),
        _inert("istio_gateway_secret_requeue_success_interval", parsers.positive_duration, _WATCHED),
        _inert("istio_gateway_secret_requeue_error_interval", parsers.positive_duration, _OWN_PAUSES),
        Setting(
            "istio_gateway_server_cert_switch_grace_period",
            parsers.positive_duration,
            "How long remote clusters have a new authority before the Gateway shows a certificate of it.",
        ),
        Setting(
            "istio_gateway_server_cert_expiry_window",
            parsers.positive_duration,
            "In which time before its end the certificate of the Gateway is reported by a metric.",
        ),
        _inert(
            "istio_gateway_cert_switch_before_expiration_time",
            duration.parse,
            "use --istio-gateway-server-cert-switch-grace-period",
        ),
        Setting(
            "cert_management",
            parsers.one_of(CertificateManagement),
            "What issues certificates: cert-manager.io/v1 or cert.gardener.cloud/v1alpha1.",
        ),
        Setting("self_signed_cert_duration", parsers.positive_duration, "How long certificates are valid."),
        Setting(
            "self_signed_cert_renew_before", parsers.positive_duration, "How long before their end they are renewed."
        ),
        Setting(
            "self_signed_cert_renew_buffer",
            parsers.positive_duration,
            "How much later than that a certificate is reported by a metric.",
        ),
        Setting("self_signed_cert_key_size", _key_size, "The size of their keys; only 4096."),
        Setting("self_signed_cert_issuer_name", parsers.name, "Their issuer."),
        Setting("self_signed_cert_issuer_namespace", parsers.namespace, "The namespace of the issuer."),
        Setting("additional_dns_names", parsers.words, "Further DNS names in the certificate of each Kyma."),
        Setting(
            "listener_port_overwrite", _port, "Port of the Gateway for remote clusters, in the place of its own one."
        ),
        Setting(
            "listener_client_authority",
            parsers.one_of(ClientAuthority),
            "Who vouches for the certificates in reports of remote clusters: gateway, the authorities in the Secret of "
            "the Gateway, or none, as with the original: then each client that reaches the port may report for any "
            "runtime.",
        ),
        Setting(
            "listener_tls_folder",
            str,
            "Folder with tls.crt, tls.key and ca.crt: reports are received by TLS from clients that ca.crt vouches "
            "for, and headers about certificates do not count. The Gateway must pass TLS through.",
        ),
        Setting(
            "listener_wakes_per_second",
            parsers.number(0, 1_000),
            "How often in a second reports of one runtime have its Kyma looked at; further reports count together. 0: "
            "each one counts.",
        ),
        Setting("skr_watcher_image_name", str, "Name of the image of the watcher."),
        Setting("skr_watcher_image_registry", str, "Registry of that image."),
        Setting("skr_watcher_image_tag", str, "Tag of that image; required, unless the watcher is disabled."),
        Setting("skr_webhook_memory_limits", _quantity, "Limit of the watcher's memory."),
        Setting("skr_webhook_cpu_limits", _quantity, "Limit of the watcher's processor time."),
        Setting(
            "enable_purge_finalizer",
            bool,
            "Remove the finalizers of all custom resources in the cluster of a Kyma whose deletion takes too long, as "
            "the original did until 1.20. They lose what their finalizers protect.",
            is_switch=True,
        ),
        Setting("purge_finalizer_timeout", parsers.positive_duration, "How long the deletion of a Kyma may take then."),
        Setting(
            "skip_finalizer_purging_for",
            parsers.words,
            "Kinds whose finalizers stay, as PLURAL.GROUP, or `*.GROUP` for all of a group.",
        ),
        _variable(
            "ENABLE_LEGACY_KYMA_DELETION",
            "enable_legacy_kyma_deletion",
            lambda text: text == "true",
            "true: delete Kymas in the order of former releases.",
        ),
        _variable(
            "GODEBUG",
            "godebug",
            str,
            "Handed on to the watcher. A metric shows its word fips140; it has no other effect.",
        ),
        _variable(
            "KLM_EXPERIMENTAL_KNOWN_MANAGERS",
            "known_managers",
            _managers,
            f"Accepted for compatibility: {_NOT_ANALYSED}.",
            ";".join,
        ),
        _variable(
            "KLM_EXPERIMENTAL_FREQUENCY_LIMITER_TTL",
            "frequency_limiter_ttl",
            _number,
            f"Accepted for compatibility: {_NOT_ANALYSED}.",
        ),
        _variable(
            "KLM_EXPERIMENTAL_MANAGED_FIELDS_ANALYSIS_LABEL",
            "managed_fields_analysis_label",
            str,
            f"Accepted for compatibility: {_NOT_ANALYSED}.",
        ),
    ),
    about="""\
All of them are flags of `stellwerk run kyma`, or environment variables where a variable is given. Durations are written
as in Go: `90s`, `5m`, `1440h`. Lists are separated by commas.""",
)
"""Those of ours are `without_registry`, `raw_manifest_links`, `module_signatures`, `layer_cache_dir`,
`layer_cache_mib`, `egress_allow_networks`, `maintenance_policy_file`, `disable_watcher`, `enable_purge_finalizer`,
`listener_client_authority`, `listener_tls_folder`, `listener_wakes_per_second` and those that begin with
`module_rollout`."""
