"""The command line of the BTP Manager, and the reference page of all that can be set.

The flags of the original operator are taken as they are written in its deployments, Go's spelling included. Those about
the module are made from the table in `settings.py`; those about the process are here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields

import click

from stellwerk.operators.btp.settings import ALL, Settings, as_text
from stellwerk.runtime import go_flags
from stellwerk.runtime.settings import ProcessSettings


class _Parsed(click.ParamType[object]):
    """Reads a flag with the reader of its tunable."""

    name = "value"

    def __init__(self, read: Callable[[str], object]) -> None:
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """The flag's value. Fails with what is expected."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(f"{value!r}: {error}", param, ctx)


def options() -> list[click.Option]:
    """One click option for each tunable that has a flag."""
    return [
        click.Option(
            [f"--{tunable.flag}"],
            type=_Parsed(tunable.read),
            default=None,
            metavar="TEXT",
            help=f"{tunable.help} [default: {tunable.write(tunable.default) or 'none'}]",  # type: ignore[arg-type]
        )
        for tunable in ALL
        if tunable.flag
    ]


def from_flags(values: Mapping[str, object]) -> Settings:
    """The settings that click's parameters ask for; a parameter that is None or not ours is left out."""
    ours = {field.name for field in fields(Settings)}
    given = {name: value for name, value in values.items() if name in ours and value is not None}
    return Settings(**given)  # type: ignore[arg-type]  # click read them with the tunables' readers


_PROCESS_HELP = {
    "metrics_bind_address": "Where /metrics is served; 0 switches it off.",
    "health_probe_bind_address": "Where /healthz and /readyz are served.",
    "leader_elect": "Act only while holding the Lease, so that several replicas may run.",
    "kubeconfig": "The kubeconfig to use; else $KUBECONFIG, ~/.kube/config, or the pod's own account.",
    "zap_log_level": "debug, info, error, panic, or a number above 0 for more detail.",
    "zap_encoder": "json or console.",
    "zap_devel": "Development logging: console, debug, stacks from warnings on.",
    "zap_stacktrace_level": "From which level on stacks are logged: info, error or panic.",
    "zap_time_encoding": "epoch, millis, nano, iso8601, rfc3339 or rfc3339nano.",
}
_LOG_LEVEL = re.compile(r"debug|info|warn|error|panic|[1-9][0-9]{0,2}")
_CHOICES = {
    "zap_encoder": ("json", "console"),
    "zap_stacktrace_level": ("info", "error", "panic"),
    "zap_time_encoding": ("epoch", "millis", "nano", "iso8601", "rfc3339", "rfc3339nano"),
}


def _log_level(text: str) -> str:
    if not _LOG_LEVEL.fullmatch(text):
        raise ValueError("expected debug, info, warn, error, panic, or a number above 0")
    return text


def process_options() -> list[click.Option]:
    """The options of the process, under the names of the original operator."""
    return [_process_option(name, default) for name, default in _process_defaults().items()]


def _process_defaults() -> dict[str, str | bool]:
    process = ProcessSettings()
    return {field.name: getattr(process, field.name) for field in fields(process)}


def _process_option(name: str, default: str | bool) -> click.Option:
    flag, help = name.replace("_", "-"), _PROCESS_HELP[name]
    if isinstance(default, bool):
        return click.Option([f"--{flag}/--no-{flag}"], default=default, show_default=True, help=help)
    if name in _CHOICES:
        return click.Option(
            [f"--{flag}"], type=click.Choice(_CHOICES[name]), default=default, show_default=True, help=help
        )
    kind = _Parsed(_log_level) if name == "zap_log_level" else click.STRING
    return click.Option(
        [f"--{flag}"], type=kind, default=default, show_default=bool(default), metavar="TEXT", help=help
    )


def process_from_flags(values: Mapping[str, object]) -> ProcessSettings:
    """The process settings that click's parameters ask for."""
    given = {name: values[name] for name in _process_defaults() if values.get(name) is not None}
    return ProcessSettings(**given)  # type: ignore[arg-type]  # click read them


def normalised_arguments(arguments: list[str]) -> list[str]:
    """Arguments of the original operator's command line, `-chart-path=x` and `--leader-elect=false`, for click."""
    defaults = _process_defaults()
    switches = {name.replace("_", "-") for name, default in defaults.items() if isinstance(default, bool)}
    names = {name.replace("_", "-") for name in defaults} - switches | {tunable.flag for tunable in ALL if tunable.flag}
    return go_flags.normalised(arguments, names=names, switches=switches)


# ---- the reference page


def page() -> str:
    """The reference page of all tunables, as Markdown."""
    defaults = as_text(Settings())
    rows = [
        " | ".join(
            ("", _code(one.key), _code(one.flag and f"--{one.flag}"), _code(defaults[one.key]), one.help, "")
        ).strip()
        for one in ALL
    ]
    process = [f"| `--{name.replace('_', '-')}` | {text} |" for name, text in _PROCESS_HELP.items()]
    return "\n".join([_HEAD, *rows, _PROCESS_HEAD, *process, ""])


def _code(text: str) -> str:
    return f"`{text}`" if text else "none"


_HEAD = """# Settings of the BTP Manager

A value comes from the ConfigMap `kyma-system/sap-btp-manager`, else from its flag, else it is the default. A value in
the ConfigMap that cannot be read has no effect and is reported; a key that is removed gives flag or default back.
Durations are written as in Go: `90s`, `5m`, `1h30m`, `-168h`, `0`.

| key | flag | default | meaning |
| --- | --- | --- | --- |"""

_PROCESS_HEAD = """
## The process

| flag | meaning |
| --- | --- |"""
