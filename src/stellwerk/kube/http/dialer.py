"""Makes connections to one server: looks up its name, goes through the proxy on the way, and shakes hands.

Nothing of a request has been sent before a connection is made, so that whatever goes wrong here is `NotConnected`: the
caller may send its request again safely.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import aiohappyeyeballs
from yarl import URL

from stellwerk.kube.http.connection import Connection
from stellwerk.kube.http.messages import (
    AddressRefused,
    BodyTooLarge,
    ConnectionBroken,
    NotConnected,
    RequestMessage,
    ServerCertificateInvalid,
    head,
)
from stellwerk.kube.http.sockets import ConnectionNotAllowed, OwnSocket
from stellwerk.kube.memory_budget import MemoryBudget

SocketFactory = Callable[[aiohappyeyeballs.AddrInfoType], OwnSocket]

HANDSHAKE_SECONDS = 10.0
"""What TLS may take, as in Go's clients. A server that is stuck accepts connections and then sends nothing."""
_EYEBALLS_SECONDS = 0.25
"""How long one address of a server may take before the next one is tried in parallel (RFC 8305)."""
_LARGEST_REFUSAL_BYTES = 64 << 10
_NAMELESS = "no certificate can have its name"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy on the way to the server. Only it receives the name and password of its URL."""

    host: str
    port: int
    is_encrypted: bool = False
    """Whether the way to it is."""
    authorization: str = field(default="", repr=False)
    """The header that shows it the user; empty: none is sent."""

    @staticmethod
    def of_url(url: str) -> Proxy | None:
        """The proxy that a URL names, None where it is empty. Raises ValueError."""
        if not url:
            return None
        named = URL(url)
        login = f"{named.user or ''}:{named.password or ''}" if named.user or named.password else ""
        return Proxy(
            named.raw_host or "",
            named.port or 80,
            named.scheme == "https",
            f"Basic {base64.b64encode(login.encode()).decode()}" if login else "",
        )

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """Those of each request that it reads."""
        return (("Proxy-Authorization", self.authorization),) if self.authorization else ()


@dataclass(frozen=True)  # without slots, for what is cached
class Dialer:
    """Where the server is, and how to come there. `sockets` makes the sockets."""

    host: str
    port: int
    connect_seconds: float
    sockets: SocketFactory
    proxy: Proxy | None = None
    budget: MemoryBudget | None = None
    """Of the answers that are being received."""

    @cached_property
    def _proxy_tls(self) -> ssl.SSLContext | None:
        """What the proxy has to prove; to read the authorities of the machine takes some 25 ms."""
        return ssl.create_default_context() if self.proxy is not None and self.proxy.is_encrypted else None

    async def connect(
        self, tls: ssl.SSLContext | None, name: str, lines: set[Connection], deadline: float
    ) -> Connection:
        """A new connection, which is in `lines` while it is open. `name`: what the certificate must prove.

        Raises NotConnected.
        """
        loop = asyncio.get_running_loop()
        if tls is not None and not _can_be_certified(name):
            raise NotConnected(_NAMELESS)
        made = await self._socket(deadline)
        line, way = Connection(tls, name, lines, self.budget), Connection(None, "", set())
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + HANDSHAKE_SECONDS)):
                if self.proxy is None:
                    await loop.create_connection(lambda: line, sock=made, ssl=tls, server_hostname=_name(tls, name))
                else:
                    await self._go_through(self.proxy, made, way, line, deadline)
        except BaseException as error:
            # First what the event loop watches, then the socket: its number may be another's in the next moment.
            line.abort()
            way.abort()  # a handshake that is given up ends it politely, which may take long
            made.close()
            if not isinstance(error, OSError | ValueError):
                raise
            raise _handshake_failure(error) from error
        if not line.is_open:
            made.close()
            raise NotConnected("the connection was cut at once")
        return line

    async def _go_through(
        self, proxy: Proxy, made: socket.socket, way: Connection, line: Connection, deadline: float
    ) -> None:
        """To the proxy by way of `way`, and, where the server wants TLS, from there through a tunnel."""
        loop = asyncio.get_running_loop()
        tls = self._proxy_tls
        first = line if line.tls is None else way
        await loop.create_connection(lambda: first, sock=made, ssl=tls, server_hostname=_name(tls, proxy.host))
        if line.tls is None:
            return
        await self._ask_for_tunnel(proxy, way, deadline)
        tunnel = await loop.start_tls(way.opened, line, line.tls, server_hostname=line.name)
        if tunnel is not None:
            line.connection_made(tunnel)

    async def _ask_for_tunnel(self, proxy: Proxy, way: Connection, deadline: float) -> None:
        host = f"[{self.host}]" if ":" in self.host else self.host
        target = f"{host}:{self.port}"
        asking = RequestMessage(head("CONNECT", target, (("Host", target), *proxy.headers)))
        try:
            answer = await way.ask(asking, _LARGEST_REFUSAL_BYTES, deadline)
        except BodyTooLarge as error:
            raise NotConnected("the proxy refuses to lead there") from error
        except ConnectionBroken as error:
            raise NotConnected(f"on the way to the proxy {error}") from error
        if answer.code >= 300:
            raise NotConnected(f"the proxy refuses to lead there, with {answer.code}")

    async def _socket(self, deadline: float) -> socket.socket:
        loop = asyncio.get_running_loop()
        host, port = (self.proxy.host, self.proxy.port) if self.proxy is not None else (self.host, self.port)
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self.connect_seconds)):
                found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
                return await aiohappyeyeballs.start_connection(
                    found, happy_eyeballs_delay=_EYEBALLS_SECONDS, socket_factory=self.sockets
                )
        except TimeoutError as error:
            raise NotConnected(f"no connection within {self.connect_seconds:g} s") from error
        except (socket.gaierror, ValueError, OverflowError) as error:  # a UnicodeError is a ValueError
            raise NotConnected("its name is not known") from error
        except ConnectionNotAllowed as error:
            raise AddressRefused(_why(error)) from error
        except OSError as error:
            raise NotConnected(_why(error)) from error
        except RuntimeError as error:  # uvloop's word for some OSErrors
            raise NotConnected("no connection came about") from error


def _name(tls: ssl.SSLContext | None, name: str) -> str | None:
    return name if tls is not None else None


def _can_be_certified(name: str) -> bool:
    """Whether a certificate may prove this name. With an empty one uvloop would ask for no proof."""
    try:
        return bool(name.encode("idna"))
    except UnicodeError:
        return False


def _handshake_failure(error: OSError | ValueError) -> NotConnected:
    match error:
        case ssl.SSLError():
            return ServerCertificateInvalid(
                getattr(error, "verify_message", "") or error.reason or "the TLS handshake failed"
            )
        case TimeoutError():
            return NotConnected(f"no TLS handshake within {HANDSHAKE_SECONDS:g} s")
        case OSError():
            return NotConnected(_why(error))
        case _:
            return NotConnected(_NAMELESS)


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return error.strerror or "no connection came about"
