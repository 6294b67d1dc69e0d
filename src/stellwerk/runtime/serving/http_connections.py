"""One connection of an HTTP server: what it may cost, and how it ends.

aiohttp has no time limit on a request's head, on reading an answer, or on the end of a connection: TLS waits half a
minute for the peer's close message, and bytes that the peer does not read are kept for ever. Here each of these has a
deadline, after which the connection is cut. A connection that gives way to another is closed within a tenth of a
second, so that the number of open files stays near the limit whatever clients do.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from stellwerk.runtime.serving.crowd import Crowd, peer_of
from stellwerk.runtime.serving.http_answers import JSON, closing, refusal, refusal_body

_GIVE_WAY_SECONDS = 0.1
"""How long a connection that gives way may take to send its refusal and to close."""
_NO_ACCESS_LOG = logging.Logger("none")  # aiohttp takes a logger and no None; this one is silent
_NO_ACCESS_LOG.disabled = True

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What one server accepts."""

    body_bytes: int = 1024 * 1024
    arrival_seconds: float = 10.0
    """How long a request's head, and then its body, may take to arrive; also how long a connection may take to end."""
    answer_seconds: float | None = 30.0
    """How long a handler may take; None for streams that have no end."""
    reading_seconds: float = 30.0
    """How long a client may leave an answer unread."""
    idle_seconds: float = 75.0
    """How long a connection may wait for its next request."""
    connections: int = 2048
    """How many connections may be open; fewer where the process may have few open files. More make others give way."""
    requests: int = 256
    """How many requests may be answered at a time; more get 429."""
    large_requests: int = 64
    """How many requests with more than 64 KiB, or of unknown size, may arrive and be answered at a time."""


def admit(crowd: Crowd, connection: HttpConnection | Handshake, address: object) -> None:
    """Count a new connection of this peer; another one gives way where there are as many as may be."""
    victim = crowd.admit(connection, peer_of(address))
    if victim is not None:
        victim.give_way()


class Handshake:
    """A connection until its TLS handshake has ended."""

    def __init__(self, task: asyncio.Task[bool]) -> None:
        self._task = task

    def give_way(self) -> None:
        """Close for another connection."""
        self._task.cancel()


class HttpConnection(RequestHandler):
    """One connection, with a deadline for each request's head, for reading the answer, and for the end."""

    __slots__ = (
        "__weakref__",
        "_crowd",
        "_deadline",
        "_end",
        "_is_cut",
        "_limits",
        "_seen",
        "_unread",
        "_wire",
        "awaits_body",
    )

    def __init__(self, server: web.Server, limits: ServerLimits, crowd: Crowd) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_seconds,
            lingering_time=1.0,
            access_log=_NO_ACCESS_LOG,
        )
        self._limits = limits
        self._crowd = crowd
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        self._wire: asyncio.Transport | None = None
        """The transport until it is closed; aiohttp forgets its own when it begins to close it."""
        self._is_cut = False
        self._seen = 0
        self.awaits_body = False
        """Whether the body of a request is still arriving."""

    @property
    def is_open(self) -> bool:
        """Whether the event loop has not closed it yet."""
        return self._wire is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, and has to send a request."""
        self._wire = cast(asyncio.Transport, transport)
        if self._is_cut:
            self._wire.abort()
            return
        super().connection_made(transport)
        self._expect_head()
        admit(self._crowd, self, transport.get_extra_info("peername"))

    def give_way(self) -> None:
        """Close for another connection; with an answer where the client waits for one that is not begun."""
        if (self._deadline is not None or self.awaits_body) and self.transport is not None:
            self._refuse(429, "too many connections: try again")
            self._end_within(_GIVE_WAY_SECONDS)
        else:  # idle, ending, or with an answer that its client does not read
            self.cut()

    def cut(self) -> None:
        """Close at once, whatever is still to be sent."""
        self._is_cut = True
        if self._wire is not None:
            self._wire.abort()

    async def start(self) -> None:
        """Answer requests until the connection has to end."""
        await super().start()
        self.transport = None  # it is being closed; asyncio takes a second close for the last word, and waits
        self._end_within(self._limits.arrival_seconds)

    def force_close(self) -> None:
        """Begin to close."""
        super().force_close()
        self._end_within(self._limits.arrival_seconds)

    def data_received(self, data: bytes) -> None:
        """Bytes came. Did a request come out of them, or is one under way?"""
        waits = self._waiter is not None and not self._waiter.done() and not self._messages
        if waits and self._deadline is None:
            self._expect_head()  # the first byte of a further request
        super().data_received(data)
        if self._request_count > self._seen:
            self._seen = self._request_count
            self._forget_deadline()

    def pause_writing(self) -> None:
        """The client does not read what is sent."""
        super().pause_writing()
        if self._wire is not None and self._unread is None:
            self._unread = asyncio.get_running_loop().call_later(self._limits.reading_seconds, self._wire.abort)

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        _cancel(self._unread)
        self._unread = None

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client has gone."""
        self._wire = None
        self._forget_deadline()
        _cancel(self._unread)
        _cancel(self._end)
        self._crowd.leave(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to bytes that are no HTTP request; in our shape, and without quoting them."""
        said = "this is not a valid HTTP request" if status == 400 else HTTPStatus(status).phrase
        if status >= 500:
            _log.error("cannot answer a request", exc_info=exc)
        return closing(refusal(status, said))

    def _expect_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._limits.arrival_seconds, self._too_late)

    def _forget_deadline(self) -> None:
        _cancel(self._deadline)
        self._deadline = None

    def _too_late(self) -> None:
        self._refuse(408, "the request did not arrive in time")

    def _refuse(self, status: int, message: str) -> None:
        """Answer without a request, and hang up."""
        self._forget_deadline()
        transport = self.transport
        if transport is not None and not transport.is_closing():
            body = refusal_body(status, message)
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {JSON}\r\n"
            transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.force_close()

    def _end_within(self, seconds: float) -> None:
        """Cut the connection unless it is closed by then."""
        if self._wire is None:
            return
        loop = asyncio.get_running_loop()
        if self._end is None or self._end.when() > loop.time() + seconds:
            _cancel(self._end)
            self._end = loop.call_later(seconds, self._wire.abort)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
