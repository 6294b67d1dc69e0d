"""The addresses that a process of the local system serves, and whether it answers there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stellwerk.lazy_imports import lazy_imports
from stellwerk.local.host.ports import HOST

with lazy_imports(__name__):  # only a process that runs is asked
    from urllib import request

PROBES, METRICS = "--health-probe-bind-address", "--metrics-bind-address"
"""The flags of the ports that every process has."""
_ADDRESSES = {PROBES: "probes", METRICS: "metrics", "--kyma-skr-listener-bind-address": "reports"}
_SERVERS = {"--port": "requests", "--webhook-port": "webhooks"}
"""The flags of further ports, which are all served on loopback here, and what comes in there."""


def process_name(program: str) -> str:
    """The name of a program's process in the folder of the local system."""
    return f"operator-{program}"


@dataclass(frozen=True, slots=True)
class Served:
    """The addresses that a running operator serves, host and port each, by purpose."""

    addresses: Mapping[str, str]

    @property
    def is_ready(self) -> bool:
        """Whether its readiness probe succeeds now."""
        return "probes" in self.addresses and _answers(f"http://{self.addresses['probes']}/readyz")

    def metrics(self) -> str:
        """What it measures, as Prometheus reads it. Raises OSError."""
        return _read(f"http://{self.addresses['metrics']}/metrics").decode(errors="replace")


def served(arguments: Sequence[str]) -> Served | None:
    """The addresses that a process with these arguments serves; None where it is no operator."""
    flags = dict(word.split("=", 1) for word in arguments if "=" in word)
    found = {purpose: flags[flag] for flag, purpose in _ADDRESSES.items() if flag in flags}
    servers = {purpose: f"{HOST}:{flags[flag]}" for flag, purpose in _SERVERS.items() if flag in flags}
    return Served(servers | found) if found else None


def _read(url: str) -> bytes:
    """Raises OSError."""
    # Without this a proxy that the environment names would be asked for an address of this machine.
    direct = request.build_opener(request.ProxyHandler({}))
    with direct.open(url, timeout=2) as answer:
        return bytes(answer.read())


def _answers(url: str) -> bool:
    try:
        _read(url)
    except OSError:
        return False
    return True
