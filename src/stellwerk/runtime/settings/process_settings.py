"""The settings that every operator process has, under the names of controller-runtime and its logger.

The originals' Deployments pass these flags, so every operator accepts all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import Setting, SettingsTable


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSettings:
    """The settings of the process, as opposed to those of its operator."""

    metrics_bind_address: str = ":8080"
    metrics_secure: bool = False
    metrics_cert_path: str = ""
    object_metrics_limit: int = 2_000
    health_probe_bind_address: str = ":8081"
    leader_elect: bool = False
    kubeconfig: str = ""
    zap_log_level: str = "info"
    zap_encoder: str = "json"
    zap_devel: bool = False
    zap_stacktrace_level: str = "error"
    zap_time_encoding: str = "epoch"
    allow_unconfined_renderer: bool = False
    cache_memory_mib: int = 0


_LOG_LEVEL = "debug|info|warn|error|panic|[1-9][0-9]{0,2}"


def _log_level(text: str) -> str:
    if not re.fullmatch(_LOG_LEVEL, text):
        raise ValueError("expected debug, info, warn, error, panic, or a number above 0")
    return text


def _text(field: str, help: str, choices: tuple[str, ...] = ()) -> Setting[str]:
    return Setting(field=field, read=str, help=help, choices=choices)


def _switch(field: str, help: str) -> Setting[bool]:
    return Setting(field, bool, help, is_switch=True)


PROCESS = SettingsTable(
    ProcessSettings(),
    (
        _text("metrics_bind_address", "Where /metrics is served; 0 switches it off."),
        _switch(
            "metrics_secure",
            "Serve /metrics by HTTPS, only to clients that the cluster lets read it. Off, as in the originals.",
        ),
        _text(
            "metrics_cert_path",
            "The folder with tls.crt and tls.key for secure metrics; without one they sign their own.",
        ),
        Setting(
            field="object_metrics_limit",
            read=parsers.number(0, 1_000_000),
            help="For how many objects metrics of their own are shown; 0: for none.",
        ),
        Setting(
            field="cache_memory_mib",
            read=parsers.number(0, 1_000_000),
            help="How many MiB of memory cached objects may take; 0: three tenths of the container's memory limit.",
        ),
        _text("health_probe_bind_address", "Where /healthz and /readyz are served."),
        _switch("leader_elect", "Act only while holding the Lease, so that several replicas may run."),
        _text("kubeconfig", "The kubeconfig to use; else $KUBECONFIG, ~/.kube/config, or the pod's own account."),
        Setting(
            field="zap_log_level",
            read=parsers.Formed(_LOG_LEVEL, _log_level),
            help="debug, info, warn, error, panic, or a number above 0 for more detail.",
        ),
        _text("zap_encoder", "json or console.", ("json", "console")),
        _switch("zap_devel", "Development logging: console, debug, stacks from warnings on."),
        _text(
            "zap_stacktrace_level",
            "From which level on stacks are logged: info, error or panic.",
            ("info", "error", "panic"),
        ),
        _text(
            "zap_time_encoding",
            "epoch, millis, nano, iso8601, rfc3339 or rfc3339nano.",
            ("epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"),
        ),
        _switch(
            "allow_unconfined_renderer",
            "Stay ready where the kernel offers no filter of system calls for the renderer.",
        ),
    ),
)
"""The flags of every operator process."""

_PORT = re.compile(r"[0-9]{1,5}")


def with_metrics_port(variable: str, port: int) -> SettingsTable[ProcessSettings]:
    """The settings of a process whose port of metrics an environment variable sets, too. Without both it is `port`."""

    def address(text: str) -> str:
        return f":{text}" if _PORT.fullmatch(text) and int(text) else text

    def named(row: Setting[Any]) -> Setting[Any]:
        if row.field != "metrics_bind_address":
            return row
        return replace(row, environment=variable, read=address, help=f"{row.help} A number is a port.")

    defaults = replace(PROCESS.defaults, metrics_bind_address=f":{port}")
    return SettingsTable(defaults, tuple(named(row) for row in PROCESS.rows))


def page(program: str, table: SettingsTable[Any], process: SettingsTable[ProcessSettings] = PROCESS) -> str:
    """The reference page of a program's settings, as Markdown. `program` is its title."""
    head = [f"# Settings of the {program}", "", table.about, ""]
    return "\n".join([*head, *table.page(), "", "## The process", "", *process.page(), ""])
