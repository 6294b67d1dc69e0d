"""The subscription server of a local system, whose token issuer and registry are programs of this machine.

No setting of the server leads its calls to this machine: the local system starts another program, which has one flag
more. So neither a variable nor a value of the chart can do so in a cluster.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from stellwerk.delivery.operator_spec import Launch
from stellwerk.operators.cap.subscription import process, settings
from stellwerk.operators.cap.subscription.settings import ServerSettings
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.settings.table import Setting, SettingsTable

if TYPE_CHECKING:
    from aiohttp.abc import ResolveResult

LOOPBACK = "127.0.0.0/8"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings(ServerSettings):
    """The settings of the server, and where it finds every issuer and registry."""

    loopback_port: int = 0


TABLE = SettingsTable(
    LocalSettings(host="127.0.0.1"),
    (
        *settings.TABLE.rows,
        Setting(
            field="loopback_port",
            read=parsers.number(1, 65_535),
            help="The port of this machine at which every issuer and registry is found.",
        ),
    ),
)


class LoopbackResolver:
    """Finds every name at one port of this machine, where a local system has its token issuer and its registry."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The one address that there is."""
        return [
            {
                "hostname": host,
                "host": "127.0.0.1",
                "port": self._port,
                "family": socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST,
            }
        ]

    async def close(self) -> None:
        """Nothing is kept."""


def launch(base: ProcessSettings, own: LocalSettings, environment: Mapping[str, str]) -> Launch:
    """Prepare the process. Raises CannotStart."""
    allowed = replace(own, allowed_networks=(*own.allowed_networks, LOOPBACK))
    return process.launch(base, allowed, environment, resolver=LoopbackResolver(own.loopback_port))
