"""How the environment variables of the original's programs become settings; each has a flag as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

from stellwerk.apply.objects import name_validation
from stellwerk.delivery.operator_spec import CannotStart
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.process_settings import ProcessSettings, with_metrics_port
from stellwerk.runtime.settings.table import Setting, SettingsTable

V = TypeVar("V")

METRICS_PORT = 9090


def variable(field: str, help: str, read: Callable[[str], V], write: Callable[[V], str] = str) -> Setting[V]:
    """A setting whose variable is its field in upper case."""
    return Setting(field=field, read=read, write=write, help=help, environment=field.upper())


def switch(field: str, help: str) -> Setting[bool]:
    """A setting that is on for the word true only, as with the original."""
    return variable(field, help, lambda text: text == "true", lambda value: "true" if value else "false")


def _headers(text: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in parsers.words(text))


ALLOWED_ROUTE_HEADERS = variable(
    "allowed_route_headers",
    "Headers that annotations of applications may set although others take them as the word of the gateway, such as "
    "x-forwarded-host; with commas between them.",
    _headers,
    ",".join,
)
"""For the controller, which writes the routes, and the webhooks."""

NO_NAMESPACE = ("<none>",)
"""A list of namespaces that has none of a cluster: the name is no possible one."""


def _watched(text: str) -> tuple[str, ...]:
    found = parsers.words(text)
    if text and not found:
        raise ValueError("expected names of namespaces, with commas between them")
    return found


WATCH_NAMESPACES = replace(
    variable(
        "watch_namespaces",
        "The only namespaces whose objects are seen, with commas between them. The program then needs no right to "
        "Secrets of others. Empty: all namespaces.",
        _watched,
        ",".join,
    ),
    of_unreadable=NO_NAMESPACE,
)
"""For controller, server and webhooks, which need the same list."""


def check_watched(namespaces: Iterable[str]) -> None:
    """Raise CannotStart for what is no name of a namespace: a mistake must not widen what is watched, nor end it."""
    for name in namespaces:
        if not name_validation.is_namespace(name):
            raise CannotStart(
                f"WATCH_NAMESPACES: {name} is no name of a namespace",
                fix="name namespaces with commas between them, such as shop,books; leave it empty to watch all",
            )


POD_NAMESPACE = variable("pod_namespace", "The namespace of the program; without one, that of its pod.", parsers.name)


def process(*, leader_elect: bool = False) -> SettingsTable[ProcessSettings]:
    """The settings of every process, with the port of metrics that the original's programs have.

    `leader_elect`: the default of that flag. The original's controllers always hold a Lease, without a setting for it.
    """
    table = with_metrics_port("METRICS_PORT", METRICS_PORT)
    return replace(table, defaults=replace(table.defaults, leader_elect=leader_elect))
