"""The addresses behind a server's name, so that one server counts once however it is written.

    https://API.example.com./x   https://api.example.com:443   https://10.1   https://[::ffff:10.0.0.1]

A name is resolved in a thread of its own. A name that cannot be resolved in time is used itself, in lower case and
without a trailing dot: calling it will fail, and that is all that is needed to know.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import IPv6Address, ip_address

from stellwerk.render.blocking_calls import beside
from stellwerk.render.errors import EgressRefused
from stellwerk.render.sources.egress import parsed, shown_url
from stellwerk.runtime.clock import Clock

LOOKUP_SECONDS = 2.0
LIFE_SECONDS = 60.0
_KEPT = 10_000
_MOST = 16
"""Addresses of one name that count."""

LookUp = Callable[[str, int], list[str]]
"""The addresses of a host. Blocks, and may raise OSError or ValueError."""


def resolved(host: str, port: int) -> list[str]:
    """The answer of the system's resolver."""
    return [str(address[0]) for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


@dataclass(slots=True)
class Addresses:
    """Resolves names, and remembers the answers for a minute."""

    clock: Clock
    look_up: LookUp = resolved
    _known: OrderedDict[tuple[str, int], tuple[float, frozenset[str]]] = field(default_factory=OrderedDict)

    async def of(self, url: str) -> frozenset[str]:
        """Each address of a URL's server, with the port. Never empty."""
        try:
            server = parsed(url)
        except EgressRefused:
            return frozenset({shown_url(url)})
        name = (server.host or "").lower().rstrip("."), server.port or 0
        until, found = self._known.get(name, (0.0, frozenset[str]()))
        if not found or until < self.clock.monotonic():
            found = frozenset(f"{address}:{name[1]}" for address in await self._found(*name))
            self._known[name] = (self.clock.monotonic() + LIFE_SECONDS, found)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
        return found

    async def _found(self, host: str, port: int) -> set[str]:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                found = await beside(lambda: self.look_up(host, port), name=f"resolve {host}"[:60])
        except (OSError, ValueError):  # TimeoutError and UnicodeError are such
            found = []
        return {_plain(address) for address in sorted(found)[:_MOST]} or {host}


def _plain(address: str) -> str:
    """An address in one spelling; an IPv4 address within IPv6 is the IPv4 address."""
    found = ip_address(address.partition("%")[0])
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)
