"""The command line that every operator process has, under the names of controller-runtime and its logger.

The originals' Deployments pass these flags, so the operators take them all, whatever else each of them can be told.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields

import click

from stellwerk.runtime.settings import go_flags
from stellwerk.runtime.settings.flags import Parsed, chosen
from stellwerk.runtime.settings.settings import ProcessSettings

_HELP = {
    "metrics_bind_address": "Where /metrics is served; 0 switches it off.",
    "metrics_secure": "Serve /metrics by HTTPS, to those only whom the cluster lets get it. Off, as in the originals.",
    "metrics_cert_path": "The folder with tls.crt and tls.key for secure metrics; without one they sign their own.",
    "health_probe_bind_address": "Where /healthz and /readyz are served.",
    "leader_elect": "Act only while holding the Lease, so that several replicas may run.",
    "kubeconfig": "The kubeconfig to use; else $KUBECONFIG, ~/.kube/config, or the pod's own account.",
    "zap_log_level": "debug, info, error, panic, or a number above 0 for more detail.",
    "zap_encoder": "json or console.",
    "zap_devel": "Development logging: console, debug, stacks from warnings on.",
    "zap_stacktrace_level": "From which level on stacks are logged: info, error or panic.",
    "zap_time_encoding": "epoch, millis, nano, iso8601, rfc3339 or rfc3339nano.",
    "allow_unconfined_renderer": "Stay ready where the kernel offers no filter of system calls for the renderer.",
}
_LOG_LEVEL = re.compile(r"debug|info|warn|error|panic|[1-9][0-9]{0,2}")
_CHOICES = {
    "zap_encoder": ("json", "console"),
    "zap_stacktrace_level": ("info", "error", "panic"),
    "zap_time_encoding": ("epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"),
}


def options() -> list[click.Option]:
    """The options of the process."""
    return [_option(name, default) for name, default in _defaults().items()]


def from_flags(values: Mapping[str, object]) -> ProcessSettings:
    """The process settings that click's parameters ask for."""
    return chosen(ProcessSettings, values)


def normalised(arguments: Sequence[str], *, names: Collection[str], switches: Collection[str] = ()) -> list[str]:
    """Arguments as Go takes them (`-metrics-bind-address=x`, `--leader-elect=false`), for click.

    `names` and `switches`: the operator's own flags, without dashes.
    """
    defaults = _defaults()
    own_switches = {_flag(name) for name, default in defaults.items() if isinstance(default, bool)}
    own_names = {_flag(name) for name in defaults} - own_switches
    return go_flags.normalised(arguments, names=own_names | {*names}, switches=own_switches | {*switches})


def page() -> str:
    """The part of a reference page that is the same for all operators, as Markdown."""
    rows = [f"| `--{_flag(name)}` | {text} |" for name, text in _HELP.items()]
    return "\n".join([_PAGE_HEAD, *rows, ""])


def _defaults() -> dict[str, str | bool]:
    process = ProcessSettings()
    return {field.name: getattr(process, field.name) for field in fields(process) if field.name in _HELP}


def _option(name: str, default: str | bool) -> click.Option:
    flag, help = _flag(name), _HELP[name]
    if isinstance(default, bool):
        return click.Option([f"--{flag}/--no-{flag}"], default=default, show_default=True, help=help)
    if name in _CHOICES:
        return click.Option(
            [f"--{flag}"], type=click.Choice(_CHOICES[name]), default=default, show_default=True, help=help
        )
    kind = Parsed(_log_level) if name == "zap_log_level" else click.STRING
    return click.Option(
        [f"--{flag}"], type=kind, default=default, show_default=bool(default), metavar="TEXT", help=help
    )


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _log_level(text: str) -> str:
    if not _LOG_LEVEL.fullmatch(text):
        raise ValueError("expected debug, info, warn, error, panic, or a number above 0")
    return text


_PAGE_HEAD = """
## The process

| flag | meaning |
| --- | --- |"""
