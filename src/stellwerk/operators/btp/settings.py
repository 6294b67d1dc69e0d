"""What can be set about the BTP Manager, and where a value comes from: default, then flag, then the tunables ConfigMap.

One table says all of it: the ConfigMap key, the flag, how the text is read, what is accepted. Validation, flags and
the reference page (`flags.py`) are made from it.

A bad flag stops the start, because whoever typed it is there to correct it. A bad value in the ConfigMap does not stop
anything: the value that was in force stays, and the rejection is reported. A key or the whole ConfigMap that goes away
gives flag or default back.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from heapq import nsmallest
from typing import Generic, TypeAlias, TypeVar

from stellwerk.apply.objects import name_validation
from stellwerk.kube.types import duration
from stellwerk.operators.btp import api
from stellwerk.runtime.settings import parsers

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


Value: TypeAlias = str | bool | int | timedelta | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunable(Generic[V]):
    """One value that can be set. `read` raises `ValueError` saying what is expected."""

    key: str
    """In the ConfigMap."""
    read: Callable[[str], V]
    write: Callable[[V], str]
    help: str
    has_flag: bool = True

    @property
    def field(self) -> str:
        """In `Settings`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "_", self.key).lower()

    @property
    def flag(self) -> str:
        """On the command line, without dashes; empty where there is none."""
        return self.field.replace("_", "-") if self.has_flag else ""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A key of the tunables ConfigMap that has no effect. `value` is shortened and on one line."""

    key: str
    value: str
    why: str

    def __str__(self) -> str:
        return f"{self.key}: {self.value!r} has no effect: {self.why}"


@dataclass(frozen=True, slots=True)
class Effective:
    """The values in force, and what of the ConfigMap is not."""

    settings: Settings
    rejections: tuple[Rejection, ...] = ()


def with_tunables(base: Settings, previous: Settings, data: Mapping[str, str] | None) -> Effective:
    """The settings under a tunables ConfigMap.

    `base` is defaults and flags, `previous` what was in force until now, `data` the ConfigMap's data, None when there
    is no ConfigMap. A value that cannot be read leaves the previous one in force.
    """
    values: dict[str, object] = {}
    rejections: list[Rejection] = []
    texts = data or {}
    for tunable in ALL:
        if (text := texts.get(tunable.key)) is None:
            continue
        try:
            values[tunable.field] = tunable.read(_bounded(text))
        except ValueError as error:
            values[tunable.field] = getattr(previous, tunable.field)
            rejections.append(Rejection(tunable.key, _shown(text), str(error)))
    unknown = texts.keys() - TUNABLES.keys()
    named = nsmallest(MOST_UNKNOWN, unknown)
    rejections += [Rejection(_shown(key), _shown(texts[key]), "there is no such key") for key in named]
    rejections.sort(key=lambda rejection: rejection.key)
    if len(unknown) > MOST_UNKNOWN:
        more = len(unknown) - MOST_UNKNOWN
        rejections.append(Rejection(f"{more} more keys", "", "there are no such keys"))
    return Effective(replace(base, **values), tuple(rejections))  # type: ignore[arg-type]  # read() gave the field's type


MOST_UNKNOWN = 20
"""How many keys that do not exist are reported by name."""
LONGEST_VALUE = 4_096
_SHOWN_CHARACTERS = 60


def _bounded(text: str) -> str:
    """The text, if it can be a value at all: what reads it may take long for a text of megabytes."""
    if len(text) > LONGEST_VALUE:
        raise ValueError(f"expected at most {LONGEST_VALUE} characters, got {len(text)}")
    return text


def _shown(text: str) -> str:
    """Fit for a log: somebody may have put a whole file, or control characters, into the ConfigMap."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * _SHOWN_CHARACTERS]).split())
    return line if len(line) <= _SHOWN_CHARACTERS else f"{line[:_SHOWN_CHARACTERS]}..."


# ---- how each kind of value is read


def _namespace(text: str) -> str:
    if not name_validation.is_namespace(text):
        raise ValueError("expected the name of a namespace: at most 63 lower-case letters, digits and '-'")
    return text


def _names(text: str) -> tuple[str, ...]:
    return tuple(parsers.name(word) for word in parsers.words(text))


def _name_or_none(text: str) -> str:
    return parsers.name(text) if text.strip() else ""


def _path(text: str) -> str:
    if "\0" in text:
        raise ValueError("expected a path")
    return text


def _positive(text: str) -> timedelta:
    value = duration.parse(text)
    if value <= timedelta():
        raise ValueError("expected a duration above zero such as 90s or 5m")
    return value


def _not_negative(text: str) -> timedelta:
    value = duration.parse(text)
    if value < timedelta():
        raise ValueError("expected a duration such as 1h, or 0")
    return value


def _at_least_a_minute(text: str) -> timedelta:
    value = duration.parse(text)
    if value < timedelta(minutes=1) and value != timedelta():
        raise ValueError("expected a duration of at least 1m, or 0")
    return value


def _boundary(text: str) -> timedelta:
    value = duration.parse(text)
    if value > timedelta():
        raise ValueError(
            "expected 0 or a negative duration such as -168h: how long before its end a certificate is renewed"
        )
    return value


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.lower() == "true"


def _boolean_text(value: bool) -> str:
    return "true" if value else "false"


def _text(key: str, help: str, read: Callable[[str], str] = parsers.name) -> Tunable[str]:
    return Tunable(key=key, read=read, write=str, help=help)


def _time(
    key: str, help: str, read: Callable[[str], timedelta] = _positive, *, has_flag: bool = True
) -> Tunable[timedelta]:
    return Tunable(key=key, read=read, write=duration.format, help=help, has_flag=has_flag)


ALL: tuple[
    Tunable[str]
    | Tunable[timedelta]
    | Tunable[int]
    | Tunable[bool]
    | Tunable[CrSelection]
    | Tunable[ModuleSource]
    | Tunable[tuple[str, ...]],
    ...,
] = (
    _text("ChartNamespace", "Namespace of the module and of the required Secret.", _namespace),
    _text("ChartPath", "Folder of the chart; its Chart.yaml names the module's version, also of resources.", _path),
    _text("ResourcesPath", "Folder with `apply` and `delete`: the module's manifests.", _path),
    _text("ManagerResourcesPath", "Folder with `network-policies`.", _path),
    _text("SecretName", "The required Secret with the SAP Service Manager credentials."),
    _text("ConfigName", "The ConfigMap that overrides these flags."),
    _text("DeploymentName", "The operand's Deployment."),
    _time("ProcessingStateRequeueInterval", "Longest pause between two tries after a failure."),
    _time("ReadyStateRequeueInterval", "How often a ready module is looked at without a change."),
    _time("ReadyTimeout", "How long the module's resources may take to become ready."),
    _time("ReadyCheckInterval", "Accepted for compatibility: readiness is watched, not polled."),
    _time("HardDeleteTimeout", "How long instances and bindings may take before finalizers are cut.", _not_negative),
    _time("HardDeleteCheckInterval", "Accepted for compatibility: the end of instances is watched, not polled."),
    _time("DeleteRequestTimeout", "How long asking for the end of all instances or bindings may take."),
    _time("StatusUpdateTimeout", "Accepted for compatibility: status writes are tried again by the engine."),
    _time("StatusUpdateCheckInterval", "Accepted for compatibility: status writes are tried again by the engine."),
    _time("CaCertificateExpiration", "Lifetime of the webhooks' certificate authority.", has_flag=False),
    _time("WebhookCertificateExpiration", "Lifetime of the webhooks' certificate.", has_flag=False),
    _time(
        "ExpirationBoundary", "How long before its end a certificate is renewed, as a negative duration.", _boundary,
        has_flag=False,
    ),
    Tunable(
        key="RsaKeyBits", read=parsers.number(2_048, 16_384), write=str, help="Size of new RSA keys in bits.",
        has_flag=False,
    ),
    Tunable(
        key="EnableLimitedCache", read=_boolean, write=_boolean_text,
        help="Whether the operand caches only Secrets and ConfigMaps that are labelled for it.",
    ),
    _time("ProbeInterval", "Pause between two probes of the token URL's certificate; 0: none.", _not_negative),
    Tunable(
        key="CrSelection", read=parsers.one_of(CrSelection), write=str,
        help="Which BtpOperator represents the module: the oldest, or only kyma-system/btpoperator (fixed).",
    ),
    Tunable(
        key="ModuleSource", read=parsers.one_of(ModuleSource), write=str,
        help="Where the module's objects come from: resources, chart, or auto (chart if ResourcesPath has no `apply`).",
    ),
    Tunable(
        key="ImagePullSecrets", read=_names, write=",".join,
        help="Secrets with which the operand's image is pulled, separated by commas.",
    ),
    _text(
        "CustomCaCerts",
        "ConfigMap or Secret in ChartNamespace with PEM files of authorities that the operand trusts, too.",
        _name_or_none,
    ),
    _time(
        "CredentialCheckInterval",
        "Pause between two questions to the token server whether the credentials are good, at least 1m; 0: none.",
        _at_least_a_minute,
    ),
)  # fmt: skip
"""In the order in which people read them; the last five are ours, the others the original operator's."""

TUNABLES = {tunable.key: tunable for tunable in ALL}


def as_text(settings: Settings) -> dict[str, str]:
    """The values in force as the ConfigMap would spell them, by key."""
    return {tunable.key: tunable.write(getattr(settings, tunable.field)) for tunable in ALL}
