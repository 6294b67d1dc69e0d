"""The settings of the BTP Manager: flags of the original operator, and the keys of its ConfigMap."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeVar

from stellwerk.kube.types import duration
from stellwerk.operators.btp import api
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import Setting, SettingsTable

V = TypeVar("V")


class CrSelection(StrEnum):
    """Which BtpOperator represents the module."""

    OLDEST = "oldest"
    """The one created first, in any namespace."""
    FIXED = "fixed"
    """`kyma-system/btpoperator` and no other."""


class ModuleSource(StrEnum):
    """Where the module's objects come from."""

    RESOURCES = "resources"
    """The manifests under ResourcesPath."""
    CHART = "chart"
    """The chart at ChartPath."""
    AUTO = "auto"
    """The chart, if ResourcesPath has no folder `apply`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The values in force. Paths are relative to the working directory."""

    chart_namespace: str = api.STANDARD_NAMESPACE
    chart_path: str = "./module-chart/chart"
    resources_path: str = "./module-resources"
    manager_resources_path: str = "./manager-resources"
    secret_name: str = api.REQUIRED_SECRET_NAME
    config_name: str = api.TUNABLES_NAME
    deployment_name: str = api.OPERAND_DEPLOYMENT_NAME
    processing_state_requeue_interval: timedelta = timedelta(minutes=5)
    ready_state_requeue_interval: timedelta = timedelta(minutes=15)
    ready_timeout: timedelta = timedelta(minutes=5)
    ready_check_interval: timedelta = timedelta(seconds=30)
    hard_delete_timeout: timedelta = timedelta(minutes=20)
    hard_delete_check_interval: timedelta = timedelta(seconds=10)
    delete_request_timeout: timedelta = timedelta(minutes=5)
    status_update_timeout: timedelta = timedelta(seconds=10)
    status_update_check_interval: timedelta = timedelta(milliseconds=500)
    ca_certificate_expiration: timedelta = timedelta(hours=87600)
    webhook_certificate_expiration: timedelta = timedelta(hours=8760)
    expiration_boundary: timedelta = timedelta(hours=-168)
    rsa_key_bits: int = 4096
    enable_limited_cache: bool = True
    probe_interval: timedelta = timedelta(hours=1)
    cr_selection: CrSelection = CrSelection.OLDEST
    module_source: ModuleSource = ModuleSource.RESOURCES
    image_pull_secrets: tuple[str, ...] = ()
    custom_ca_certs: str = ""
    credential_check_interval: timedelta = timedelta()

    @property
    def home_namespace(self) -> str:
        """The namespace whose BtpOperator may ask for what concerns all users: in any other, tenants may edit one.

        The module's own. With `fixed` it is the namespace of the only CR that leads: a BtpOperator that does not lead
        asks for nothing.
        """
        return api.STANDARD_NAMESPACE if self.cr_selection is CrSelection.FIXED else self.chart_namespace


# ---- how each kind of value is read


def _names(text: str) -> tuple[str, ...]:
    return tuple(parsers.name(word) for word in parsers.words(text))


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("expected a path")
    return text


_any_duration = parsers.of_duration("a duration such as 1h", lambda value: True)
"""Of settings that nothing reads: the original's value, whichever it is, must not stop the start."""
_at_least_a_minute = parsers.of_duration(
    "a duration of at least 1m, or 0", lambda value: value >= timedelta(minutes=1) or value == timedelta()
)
_boundary = parsers.of_duration(
    "0 or a negative duration such as -168h: how long before its end a certificate is renewed",
    lambda value: value <= timedelta(),
)
_boolean = parsers.Words({"true": True, "false": False})


def _setting(
    key: str, help: str, read: Callable[[str], V], write: Callable[[V], str] = str, *, has_flag: bool = True
) -> Setting[V]:
    field = re.sub(r"(?<!^)(?=[A-Z])", "_", key).lower()
    return Setting(field=field, key=key, read=read, write=write, help=help, has_flag=has_flag)


def _text(key: str, help: str, read: Callable[[str], str] = parsers.name) -> Setting[str]:
    return _setting(key, help, read)


def _time(
    key: str, help: str, read: Callable[[str], timedelta] = parsers.positive_duration, *, has_flag: bool = True
) -> Setting[timedelta]:
    return _setting(key, help, read, duration.format, has_flag=has_flag)


TABLE = SettingsTable(
    Settings(),
    (
        _text(
            "ChartNamespace",
            "Namespace of the module and of the required Secret.",
            parsers.namespace,
        ),
        _text("ChartPath", "Folder of the chart; its Chart.yaml names the module's version, also of resources.", _path),
        _text("ResourcesPath", "Folder with `apply` and `delete`: the module's manifests.", _path),
        _text("ManagerResourcesPath", "Folder with `network-policies`.", _path),
        _text("SecretName", "The required Secret with the SAP Service Manager credentials."),
        _text("ConfigName", "The ConfigMap that overrides these flags."),
        _text("DeploymentName", "The operand's Deployment."),
        _time("ProcessingStateRequeueInterval", "Longest pause between two tries after a failure."),
        _time("ReadyStateRequeueInterval", "How often a ready module is looked at without a change."),
        _time("ReadyTimeout", "How long the module's resources may take to become ready.", parsers.duration_or_zero),
        _time("ReadyCheckInterval", "Accepted for compatibility: readiness is watched, not polled.", _any_duration),
        _time(
            "HardDeleteTimeout",
            "How long instances and bindings may take before finalizers are cut.",
            parsers.duration_or_zero,
        ),
        _time(
            "HardDeleteCheckInterval",
            "Accepted for compatibility: the end of instances is watched, not polled.",
            _any_duration,
        ),
        _time(
            "DeleteRequestTimeout",
            "How long one pass may ask for the deletion of instances and bindings, at most 2m; the next one goes on.",
        ),
        _time(
            "StatusUpdateTimeout",
            "Accepted for compatibility: status writes are tried again by the engine.",
            _any_duration,
        ),
        _time(
            "StatusUpdateCheckInterval",
            "Accepted for compatibility: status writes are tried again by the engine.",
            _any_duration,
        ),
        _time("CaCertificateExpiration", "Lifetime of the webhooks' certificate authority.", has_flag=False),
        _time("WebhookCertificateExpiration", "Lifetime of the webhooks' certificate.", has_flag=False),
        _time(
            "ExpirationBoundary",
            "How long before its end a certificate is renewed, as a negative duration. If it is not shorter than the "
            "lifetime of a certificate, that one is renewed in the last third of its lifetime.",
            _boundary,
            has_flag=False,
        ),
        _setting("RsaKeyBits", "Size of new RSA keys in bits.", parsers.number(2_048, 16_384), has_flag=False),
        _setting(
            "EnableLimitedCache",
            "Whether the operand caches only Secrets and ConfigMaps that are labelled for it.",
            _boolean,
            lambda value: str(value).lower(),
        ),
        _time(
            "ProbeInterval",
            "Pause between two probes of the token URL's certificate; 0: none.",
            parsers.duration_or_zero,
        ),
        _setting(
            "CrSelection",
            "Which BtpOperator represents the module: the oldest, or only kyma-system/btpoperator (fixed).",
            parsers.one_of(CrSelection),
        ),
        _setting(
            "ModuleSource",
            "Where the module's objects come from: resources, chart, or auto (chart if ResourcesPath has no `apply`).",
            parsers.one_of(ModuleSource),
        ),
        _setting(
            "ImagePullSecrets",
            "Secrets with which the operand's image is pulled, separated by commas.",
            parsers.words_of(parsers.name.pattern, _names),
            ",".join,
        ),
        _text(
            "CustomCaCerts",
            "ConfigMap or Secret in ChartNamespace with PEM files of authorities that the operand trusts, too.",
            parsers.name_or_none,
        ),
        _time(
            "CredentialCheckInterval",
            "Pause between two questions to the token server whether the credentials are good, at least 1m; 0: none.",
            _at_least_a_minute,
        ),
    ),
    about="""\
A value comes from the ConfigMap `kyma-system/sap-btp-manager`, else from its flag, else it is the default. A value in
the ConfigMap that cannot be read has no effect and is reported; a key that is removed gives flag or default back.
Durations are written as in Go: `90s`, `5m`, `1h30m`, `-168h`, `0`.""",
)
"""The last five are ours, the others the original operator's."""


def unusable_boundary(settings: Settings) -> str:
    """Why `ExpirationBoundary` does not count, and for which certificates; empty if it counts for both."""
    lifetimes = {
        "CaCertificateExpiration": settings.ca_certificate_expiration,
        "WebhookCertificateExpiration": settings.webhook_certificate_expiration,
    }
    reached = [name for name, lifetime in lifetimes.items() if settings.expiration_boundary <= -lifetime]
    if not reached:
        return ""
    whole = f"it is not shorter than {' and '.join(reached)}"
    return f"{whole}, so these certificates are renewed in the last third of their lifetime; set a shorter one"
