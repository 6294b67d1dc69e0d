"""Calls over connections that are kept: HTTP/1.1, one request at a time on each, every answer read whole.

aiohttp's client makes a dozen objects for each request; for a small object they are two thirds of what a call costs,
and an operator is made of calls for small objects. Here a request is one piece of bytes, and the answer is parsed by
llhttp, in the binding that uvloop's authors keep. What a general client has beyond that is not needed towards an API
server: redirects, cookies, bodies of unknown length. Watches and the way through a proxy stay with aiohttp.

A kept connection may be dead without anybody knowing. A request that may be sent twice is then sent again at once, over
a new one; any other is reported as cut. What is not sent for want of a connection, whatever the reason, is reported as
`NotConnected`: the caller may send it again safely. What a connection has to be for another request is stated
in `connection`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Callable

import aiohappyeyeballs

from stellwerk.kube.http.connection import Connection
from stellwerk.kube.http.messages import (
    AddressRefused,
    Answer,
    ConnectionBroken,
    NotConnected,
    RequestMessage,
    ServerCertificateInvalid,
)
from stellwerk.kube.http.sockets import ConnectionNotAllowed, OwnSocket

SocketFactory = Callable[[aiohappyeyeballs.AddrInfoType], OwnSocket]

KEPT_SECONDS = 75.0
"""How long a connection without work is kept; an API server gives it up after 90."""
HANDSHAKE_SECONDS = 10.0
"""What TLS may take, as in Go's clients. A server that is stuck accepts connections and then sends nothing."""
_TIRED_OF_WAITING = 408
"""What a server or balancer may send when it ends a kept connection, at the moment of our request."""
_NAMELESS = "no certificate can have its name"
_EYEBALLS_SECONDS = 0.25
"""How long one address of a server may take before the next one is tried in parallel (RFC 8305)."""


class Connections:
    """At most `limit` connections to one server. `sockets` makes their sockets."""

    def __init__(self, host: str, port: int, *, limit: int, connect_seconds: float, sockets: SocketFactory) -> None:
        self._host, self._port = host, port
        self._limit = limit
        self._connect_seconds = connect_seconds
        self._sockets = sockets
        self._gate = asyncio.Semaphore(limit)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()
        self._closings = 0

    async def exchange(
        self,
        request: RequestMessage,
        *,
        tls: ssl.SSLContext | None,
        name: str,
        largest: int,
        seconds: float,
        repeatable: bool,
        before: Callable[[], None] | None = None,
    ) -> Answer:
        """Send a request and read the answer, at most `largest` bytes. `name`: what the certificate must prove.

        `before` is called right before the bytes leave, each time they do, and may raise to prevent it.

        Raises NoAnswer, TooLarge, and TimeoutError after `seconds`, of which waiting for a connection is a part.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        deadline = loop.time() + seconds
        gate, closings = self._gate, self._closings
        if gate.locked():
            await _wait_for(gate, deadline, seconds)
        else:
            await gate.acquire()
        try:
            line = self._kept(tls, name, loop.time())
            if line is not None:
                try:
                    answer = await self._over(line, request, largest, deadline, closings, before)
                except ConnectionBroken:
                    if line.has_heard or not repeatable:
                        raise
                else:
                    if answer.code != _TIRED_OF_WAITING or not repeatable:
                        return answer
            line = await self._connect(tls, name, deadline)
            return await self._over(line, request, largest, deadline, closings, before)
        finally:
            gate.release()

    def close(self) -> None:
        """Break all connections. A further request makes new ones; one under way leaves none behind."""
        self._closings += 1
        self._idle.clear()
        for line in list(self._all):
            line.abort()

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Connections of an event loop that ended; nothing reads them any more."""
        self.close()
        self._loop, self._gate = loop, asyncio.Semaphore(self._limit)

    async def _over(
        self,
        line: Connection,
        request: RequestMessage,
        largest: int,
        deadline: float,
        closings: int,
        before: Callable[[], None] | None,
    ) -> Answer:
        answer = await line.ask(request, largest, deadline, before)
        if closings != self._closings:
            line.abort()
        elif line.is_open:
            line.idle_since = asyncio.get_running_loop().time()
            self._idle.append(line)
        return answer

    def _kept(self, tls: ssl.SSLContext | None, name: str, now: float) -> Connection | None:
        """The connection that was used last: the others may rest, and are given up in time."""
        while self._idle and self._idle[0].idle_since < now - KEPT_SECONDS:
            self._idle.popleft().abort()
        while self._idle:
            line = self._idle.pop()
            if line.is_open and line.tls is tls and line.name == name:
                return line
            line.abort()
        return None

    async def _connect(self, tls: ssl.SSLContext | None, name: str, deadline: float) -> Connection:
        loop = asyncio.get_running_loop()
        if tls is not None and not _can_be_certified(name):
            raise NotConnected(_NAMELESS)
        made = await self._socket(deadline)
        line = Connection(tls, name, self._all)
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + HANDSHAKE_SECONDS)):
                await loop.create_connection(lambda: line, sock=made, ssl=tls, server_hostname=name if tls else None)
        except BaseException as error:
            # First what the event loop watches, then the socket: its number may be another's in the next moment.
            line.abort()
            made.close()
            if not isinstance(error, OSError | ValueError):
                raise
            raise _handshake_failure(error) from error
        if not line.is_open:
            made.close()
            raise NotConnected("the connection was cut at once")
        return line

    async def _socket(self, deadline: float) -> socket.socket:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(min(deadline, loop.time() + self._connect_seconds)):
                found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                return await aiohappyeyeballs.start_connection(
                    found, happy_eyeballs_delay=_EYEBALLS_SECONDS, socket_factory=self._sockets
                )
        except TimeoutError as error:
            raise NotConnected(f"no connection within {self._connect_seconds:g} s") from error
        except (socket.gaierror, ValueError, OverflowError) as error:  # a UnicodeError is a ValueError
            raise NotConnected("its name is not known") from error
        except ConnectionNotAllowed as error:
            raise AddressRefused(_why(error)) from error
        except OSError as error:
            raise NotConnected(_why(error)) from error
        except RuntimeError as error:  # uvloop's word for some OSErrors
            raise NotConnected("no connection came about") from error


async def _wait_for(gate: asyncio.Semaphore, deadline: float, seconds: float) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await gate.acquire()
    except TimeoutError as error:
        raise NotConnected(f"no connection was free within {seconds:g} s") from error


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
