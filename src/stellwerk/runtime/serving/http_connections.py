"""One connection of an HTTP server: its requests one after the other, what they may cost, and how it ends.

llhttp parses (the package httptools, as for our calls). Each thing that a client may be slow with has a deadline: the
head of a request, its body, reading the answer, and the end; TLS alone would wait half a minute for a close message.
A connection that gives way to another is closed within a tenth of a second, so that the number of open files remains
near the limit whatever clients do.

A request is answered when it has arrived whole, so a handler never waits for its client. What follows it meanwhile
waits in its bytes, up to a limit, and then in the kernel. A handler is cancelled when its client closes the connection.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, cast
from urllib.parse import parse_qsl

import httptools

from stellwerk.runtime.serving.crowd import Crowd, peer_of
from stellwerk.runtime.serving.http_messages import Fields, Headers, Request, Response, closing, refusal, too_many
from stellwerk.runtime.serving.unread_answers import UnreadAnswers
from stellwerk.runtime.telemetry import logs

_log = logging.getLogger(__name__)

_GIVE_WAY_SECONDS = 0.1
"""How long a connection that gives way may take to send its refusal and to close."""
_LINGERING_SECONDS = 1.0
"""How long the rest of a refused request is read and dropped: an end in the midst of it would take the refusal with
it."""
_LONGEST_LINE_BYTES = 8190
_MOST_HEADERS = 128
_MOST_PARAMETERS = 128
_LARGEST_HEAD_BYTES = 64 << 10
"""What may come without a byte of a body: heads, trailers, and the frames of chunks."""
_SMALL_BYTES = 64 << 10
"""A larger body is more than what a thousand clients at a time can be allowed."""
_AHEAD_BYTES = 64 << 10
"""What may wait behind the request that is being answered."""
_MOST_AHEAD = 16
"""How many whole requests may."""
_PORTION_BYTES = 128 << 10
"""How much of an answer is written at once: it may be encrypted, on the event loop. The next portion waits until this
one has been sent; with TLS, one waits encrypted and one behind it."""
_MEBIBYTE = 1 << 20
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
"""llhttp knows those of other protocols, too."""
_HOST = re.compile(r"[A-Za-z0-9._~!$&'()*+;=%-]*(:[0-9]*)?|\[[0-9A-Fa-f:.]+\](:[0-9]*)?")
"""A host as RFC 9110 has it, without commas: they stand between values."""
_NO_REQUEST = "this is not a valid HTTP request"
_HEAD_LATE = "the request did not arrive in time"
_BODY_LATE = "the body did not arrive in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What one server accepts."""

    body_bytes: int = 1024 * 1024
    arrival_seconds: float = 10.0
    """How long a request's head, and then its body, may take to arrive; also how long a connection may take to end."""
    answer_seconds: float | None = 30.0
    """How long a handler may take; None for streams that have no end."""
    reading_seconds: float = 30.0
    """How long a client may take to read an answer, for each mebibyte of it that is begun."""
    unread_bytes: int = 32 << 20
    """How large answers of more than 64 KiB may be together while their clients read them; more make the oldest of the
    client with the most give way."""
    idle_seconds: float = 75.0
    """How long a connection may wait for its next request."""
    connections: int = 2048
    """How many connections may be open; fewer where the process may have few open files. More make others give way."""
    requests: int = 256
    """How many requests may be answered at a time; more get 429."""
    large_requests: int = 64
    """How many requests with more than 64 KiB may arrive and be answered at a time. One that announces such a body
    counts when it begins; more are refused, or make one of a client with more of them give way while it arrives."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a connection needs of its server.

    `answer` gives the response to a whole request, and never fails. `refused` gives the response to one that the
    connection refuses by itself.
    """

    limits: ServerLimits
    crowd: Crowd
    large: Crowd
    """The requests that are large, from their first 64 KiB to their answer."""
    unread: UnreadAnswers
    answer: Callable[[Request, HttpConnection], Awaitable[Response]]
    refused: Callable[[Response], Response]
    tasks: set[asyncio.Task[None]]
    """Those in which requests are answered."""


def admit(crowd: Crowd, connection: HttpConnection | Handshake | _Room, peer: str) -> None:
    """Count one more of this peer; another one gives way where there are as many as may be."""
    victim = crowd.admit(connection, peer)
    if victim is not None:
        victim.give_way()


class Handshake:
    """A connection until its TLS handshake has ended: then an HttpConnection takes its place."""

    def __init__(self, shake_hands: Callable[[Handshake], Coroutine[None, None, bool]]) -> None:
        self.task = asyncio.get_running_loop().create_task(shake_hands(self), name="TLS handshake")

    def give_way(self) -> None:
        """Close for another connection."""
        self.task.cancel()


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """The place of a large request."""

    connection: HttpConnection

    def give_way(self) -> None:
        """Refuse the request, which has not arrived yet, for one of another client."""
        self.connection.refuse_arriving()


class _Refused(Exception):
    """The request that arrives is answered with this, and no further one is read."""

    def __init__(self, response: Response) -> None:
        super().__init__(response.status)
        self.response = response


@dataclass(slots=True)
class _Arriving:
    """The request that is being parsed."""

    target: bytes = b""
    headers: list[tuple[str, str]] | None = None
    body: bytearray | None = None
    """None until the head is whole."""
    room: _Room | None = None
    """Where it is large."""
    request: Request | None = None
    waits: bool = False
    """Whether the client sends the body when it may."""
    is_offer: bool = False
    """Whether the client offers another protocol: then llhttp ends the request with its head, and the body is read
    without it."""


_Whole: TypeAlias = "tuple[Request, _Room | None, bool]"
"""A request, its room where it is large, and whether its connection is kept."""


class HttpConnection(asyncio.Protocol):
    """One connection. llhttp calls the methods `on_...` while it parses; one that raises ends the parsing."""

    def __init__(self, service: Service, arrival: Handshake | None = None) -> None:
        """`arrival` counts in the crowd until this one does."""
        self._service = service
        self._arrival = arrival
        self._limits = service.limits
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._remote = ""
        self._certificate = b""
        self._peer = ""
        self._is_cut = False
        """By its server, perhaps before it was made."""
        self._deadline: asyncio.TimerHandle | None = None
        """For what the client has to send."""
        self._complaint = ""
        """The message of the 408 when it passes; empty where the connection only rests."""
        self._unread: asyncio.TimerHandle | None = None
        self._end: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._arriving: _Arriving | None = None
        self._fruitless_bytes = 0
        self._whole: deque[_Whole] = deque()
        self._ahead = bytearray()
        self._rests = False
        """Whether the client has to wait until it may send more."""
        self._task: asyncio.Task[None] | None = None
        self._is_ending = False
        """Whether no further request is read; what has arrived whole is answered."""
        self._is_finishing = False
        """Whether it ends with the answer that is due: what has arrived behind it is dropped."""
        self._is_closing = False
        self.closed = asyncio.Event()
        """Set when the event loop has closed it."""
        self.answered_at = float("-inf")
        """When the last answer was written, by the clock of the event loop."""
        self._refusal: Response | None = None
        """The last answer, after those of the requests before."""
        self._unsent_body_bytes: int | None = None
        """What is still to come of a refused request, where that is known."""

    @property
    def is_open(self) -> bool:
        """Whether the event loop has not closed it yet."""
        return self._transport is not None

    # ---- calls of the server

    def give_way(self) -> None:
        """Close for another connection; with an answer where the client waits for one that is not begun."""
        if self._complaint and not self._is_ending:
            self._refuse(refusal(429, "too many connections: try again"))
            self._hang_up()
            self._end_within(_GIVE_WAY_SECONDS)
        else:  # idle, ending, or with an answer that its client does not read
            self.cut()

    def refuse_arriving(self) -> None:
        """Refuse the request that arrives, after the answers before it."""
        assert self._arriving is not None
        assert self._arriving.body is not None
        self._arriving.room = None
        self._arriving.body.clear()
        if self._is_ending:  # with another refusal, or with its server
            return
        self._is_ending, self._refusal = True, too_many()
        self._drop(len(self._ahead))
        self._ahead.clear()
        self._go_on()

    def finish(self) -> None:
        """Close, as soon as what is being answered is."""
        self._is_ending = self._is_finishing = True
        if self._task is None:
            self._hang_up()

    def cut(self) -> None:
        """Close at once, whatever is still to be sent."""
        self._is_cut = True
        if self._transport is not None:
            self._transport.abort()

    # ---- calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected, and has to send a request."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=1, low=0)  # an answer has been sent when nothing of it waits
        if self._is_cut:
            self._transport.abort()
            return
        address = transport.get_extra_info("peername")
        self._remote = str(address[0]) if isinstance(address, tuple) and address else ""
        self._peer = peer_of(address)
        handshake = transport.get_extra_info("ssl_object")
        if isinstance(handshake, ssl.SSLObject) and handshake.context.verify_mode is ssl.CERT_REQUIRED:
            self._certificate = handshake.getpeercert(binary_form=True) or b""
        self._expect(_HEAD_LATE)
        if self._arrival is not None:
            self._service.crowd.leave(self._arrival)
            self._arrival = None
        admit(self._service.crowd, self, self._peer)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._is_ending:
            self._drop(len(data))
        elif self._arriving is not None and self._arriving.is_offer:
            self._take_body(data)
            self._go_on()
        elif self._task is not None:
            self._ahead += data
            if len(self._ahead) > _AHEAD_BYTES and not self._rests and self._transport is not None:
                self._rests = True
                self._transport.pause_reading()
        else:
            self._parse(data)

    def pause_writing(self) -> None:
        """Something waits to be sent."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """All has been sent."""
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone."""
        self._transport = None
        self._is_ending = self._is_closing = True
        self._forget()
        _cancel(self._end)
        self._service.crowd.leave(self)
        self.closed.set()
        self._writable.set()
        if self._arriving is not None:
            self._leave_room(self._arriving.room)
        self._arriving = None
        self._forget_whole()
        if self._task is not None:
            self._task.cancel()

    # ---- calls of the parser

    def on_message_begin(self) -> None:
        """A request begins. Raises _Refused where its client does not wait for answers."""
        if len(self._whole) >= _MOST_AHEAD:
            raise _Refused(refusal(429, "too many requests on one connection: wait for their answers"))
        self._arriving = _Arriving(headers=[])
        self._fruitless_bytes = 0
        if not self._complaint:  # a further request; line breaks before it are none
            self._expect(_HEAD_LATE)

    def on_url(self, part: bytes) -> None:
        """The target, or a part of it. Raises _Refused."""
        assert self._arriving is not None
        self._arriving.target += part
        if len(self._arriving.target) > _LONGEST_LINE_BYTES:
            raise _Refused(refusal(400, _NO_REQUEST))

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or one behind a body in chunks, of which none is wanted. Raises _Refused."""
        arriving = self._arriving
        if arriving is None or arriving.headers is None or arriving.body is not None:
            return
        if len(arriving.headers) >= _MOST_HEADERS or max(len(name), len(value)) > _LONGEST_LINE_BYTES:
            raise _Refused(refusal(400, _NO_REQUEST))
        arriving.headers.append((name.decode("latin-1"), value.decode("latin-1").strip(" \t")))

    def on_headers_complete(self) -> None:
        """The head is whole. Raises _Refused for a body that is too large, and for an encoding."""
        arriving = self._arriving
        assert arriving is not None
        request = arriving.request = self._request(arriving)
        arriving.body = bytearray()
        length = request.headers.get("content-length", "")
        has_body = "transfer-encoding" in request.headers or length not in ("", "0")
        if not has_body:
            return
        self._unsent_body_bytes = int(length) if length else None
        arriving.is_offer = self._parser.should_upgrade()
        if arriving.is_offer and not length:
            raise _Refused(refusal(411, "a body of unknown length comes with the offer of another protocol"))
        if length and int(length) > self._limits.body_bytes:
            raise _Refused(self._too_large())
        if request.headers.get("content-encoding", "identity").lower() not in ("", "identity"):
            raise _Refused(refusal(415, "the body is encoded: send it as it is"))
        self._expect(_BODY_LATE)
        arriving.waits = request.headers.get("expect", "").lower() == "100-continue"
        if not self._whole:
            self._let_continue(arriving)

    def _let_continue(self, arriving: _Arriving) -> None:
        """Ask for a body whose client waits for that. No answer may be due before."""
        if arriving.waits and not arriving.body and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, part: bytes) -> None:
        """A part of the body. Raises _Refused where that becomes too large, and where there is no room for it."""
        arriving = self._arriving
        assert arriving is not None
        assert arriving.body is not None
        self._fruitless_bytes = 0
        if self._unsent_body_bytes is not None:
            self._unsent_body_bytes -= len(part)
        if len(arriving.body) + len(part) > self._limits.body_bytes:
            raise _Refused(self._too_large())
        arriving.body += part
        is_large = len(arriving.body) + (self._unsent_body_bytes or 0) > _SMALL_BYTES
        if is_large and arriving.room is None:
            if not self._service.large.has_place(self._peer):
                raise _Refused(too_many())
            arriving.room = _Room(self)
            admit(self._service.large, arriving.room, self._peer)

    def on_message_complete(self) -> None:
        """The request is whole."""
        arriving = self._arriving
        assert arriving is not None
        assert arriving.request is not None
        assert arriving.body is not None
        if arriving.is_offer and self._unsent_body_bytes:
            return
        arriving.request.body = bytes(arriving.body)
        keeps_alive = self._parser.should_keep_alive() and not self._parser.should_upgrade()
        self._whole.append((arriving.request, arriving.room, keeps_alive))
        if arriving.room is not None:
            self._service.large.answering(arriving.room)
        self._arriving = None
        self._unsent_body_bytes = None
        self._forget()

    # ---- a request arrives

    def _parse(self, data: bytes) -> None:
        if self._arriving is not None and not self._complaint:  # it has waited for the answer before it
            self._expect_arriving(self._arriving)
        self._fruitless_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:  # it is not taken up: the request is answered as any other
            if self._arriving is not None:
                self._take_body(data[offer.args[0] :])
            else:
                self._is_ending = True
        except httptools.HttpParserError as error:
            raised = error.__context__
            self._refusal = raised.response if isinstance(raised, _Refused) else refusal(400, _NO_REQUEST)
            if self._unsent_body_bytes is not None and (arriving := self._arriving) is not None and not arriving.body:
                _, end, begun = data.partition(b"\r\n\r\n")
                self._unsent_body_bytes -= len(begun) if end else 0
        if self._fruitless_bytes > _LARGEST_HEAD_BYTES and self._arriving is not None and self._refusal is None:
            self._refusal = refusal(400, _NO_REQUEST)
        if self._refusal is not None:
            self._is_ending = True
        self._go_on()

    def _take_body(self, data: bytes) -> None:
        """A part of a body of known length that llhttp does not read. What follows it is in no protocol of ours."""
        assert self._unsent_body_bytes is not None
        try:
            self.on_body(data[: self._unsent_body_bytes])
        except _Refused as refused:
            self._is_ending, self._refusal = True, refused.response
            return
        if not self._unsent_body_bytes:
            self.on_message_complete()
            self._is_ending = True

    def _request(self, arriving: _Arriving) -> Request:
        """The head as a request. Raises _Refused where it is none of HTTP/1."""
        try:
            target = httptools.parse_url(arriving.target)
            path, query = (target.path or b"").decode("ascii"), (target.query or b"").decode("ascii")
            parameters = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except (httptools.HttpParserError, ValueError):  # a UnicodeError is a ValueError
            raise _Refused(refusal(400, _NO_REQUEST)) from None
        version, method = self._parser.get_http_version(), self._parser.get_method().decode("ascii")
        if version not in ("1.0", "1.1") or method not in _METHODS:
            raise _Refused(refusal(400, _NO_REQUEST))
        headers = Headers(arriving.headers or ())
        _check_host(headers, version)
        _check_framing(headers, version)
        return Request(
            method=method,
            path=path,
            query=Fields(parameters),
            headers=headers,
            remote=self._remote,
            certificate=self._certificate,
        )

    def _too_large(self) -> Response:
        return refusal(413, f"the body is larger than {self._limits.body_bytes} bytes")

    # ---- requests are answered

    def _go_on(self) -> None:
        """Answer the next request; or refuse what follows it, and end; or wait for more."""
        if self._task is not None or self._transport is None:
            return
        if self._whole:
            self._forget()
            request, room, keeps_alive = self._whole.popleft()
            self._task = self._loop.create_task(self._answer(request, keeps_alive), name="HTTP request")
            self._service.tasks.add(self._task)
            self._task.add_done_callback(partial(self._on_answered, room))
        elif self._refusal is not None:
            self._refuse(self._refusal)
            self._linger()
        elif self._is_ending:
            self._hang_up()
        elif self._arriving is None and self._deadline is None:  # it rests
            self._deadline = self._loop.call_later(self._limits.idle_seconds, self._hang_up)

    async def _answer(self, request: Request, keeps_alive: bool) -> None:
        response = await self._service.answer(request, self)
        if response.closes or not keeps_alive:
            self._is_ending = self._is_finishing = True
        head = response.head(keeps_alive=not self._is_finishing)
        await self._write(head, b"" if request.method == "HEAD" else response.body)

    async def _write(self, head: bytes, body: bytes) -> None:
        try:
            for start in range(0, max(len(body), 1), _PORTION_BYTES):
                if self._transport is None or self._transport.is_closing():
                    return
                self._transport.write(
                    (b"" if start else head) + body[start : start + _PORTION_BYTES]
                )  # no copy is kept
                self.answered_at = self._loop.time()
                if not self._writable.is_set():
                    self._expect_reader(len(body))
                    await self._writable.wait()
        finally:
            self._service.unread.end(self)
            _cancel(self._unread)
            self._unread = None

    def _expect_reader(self, size: int) -> None:
        """Give the client its time for an answer of this size, once."""
        if self._unread is None and self._transport is not None:
            seconds = self._limits.reading_seconds * (1 + size // _MEBIBYTE)
            self._unread = self._loop.call_later(seconds, self._transport.abort)
            self._service.unread.begin(self, self._peer, size)

    def _on_answered(self, room: _Room | None, task: asyncio.Task[None]) -> None:
        self._leave_room(room)  # here, because a task that is cancelled before its first step runs no `finally`
        self._service.tasks.discard(task)
        self._task = None
        if task.cancelled():
            self.cut()
            return
        if (failure := task.exception()) is not None:
            _log.error("cannot send an answer", exc_info=failure, extra=logs.STACK)
            self.cut()
            return
        if self._rests and self._transport is not None:
            self._rests = False
            self._transport.resume_reading()
        if self._is_finishing:
            self._forget_whole()
            self._hang_up()
        elif self._whole or self._refusal is not None:
            self._go_on()
        elif self._ahead:
            data = bytes(self._ahead)
            self._ahead.clear()
            self._parse(data)
        elif self._arriving is not None:
            self._expect_arriving(self._arriving)
            self._let_continue(self._arriving)
        else:
            self._go_on()

    def _forget_whole(self) -> None:
        for _, room, _ in self._whole:
            self._leave_room(room)
        self._whole.clear()

    def _leave_room(self, room: _Room | None) -> None:
        if room is not None:
            self._service.large.leave(room)

    # ---- deadlines, and the end

    def _expect(self, complaint: str) -> None:
        _cancel(self._deadline)
        self._complaint = complaint
        self._deadline = self._loop.call_later(self._limits.arrival_seconds, self._too_late)

    def _expect_arriving(self, arriving: _Arriving) -> None:
        self._expect(_HEAD_LATE if arriving.body is None else _BODY_LATE)

    def _forget(self) -> None:
        _cancel(self._deadline)
        self._deadline, self._complaint = None, ""

    def _too_late(self) -> None:
        self._refuse(refusal(408, self._complaint))
        self._hang_up()

    def _refuse(self, response: Response) -> None:
        """Answer what has not arrived as a request."""
        self._is_ending, self._refusal = True, None
        self._forget()
        response = self._service.refused(closing(response))
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(response.head(keeps_alive=False) + response.body)
            self.answered_at = self._loop.time()

    def _linger(self) -> None:
        """Read the rest of a refused request, and drop it."""
        if self._arriving is None or self._arriving.body is None or self._unsent_body_bytes == 0:
            self._hang_up()
        else:
            self._arriving.body.clear()
            self._deadline = self._loop.call_later(_LINGERING_SECONDS, self._hang_up)

    def _drop(self, size: int) -> None:
        if self._unsent_body_bytes is not None:
            self._unsent_body_bytes -= size
            if self._unsent_body_bytes <= 0 and self._task is None:
                self._hang_up()

    def _hang_up(self) -> None:
        """Close; what is written is sent before."""
        self._forget()
        self._is_ending = True
        if self._transport is None:
            return
        if not self._is_closing:  # asyncio takes a second close for the last word, and waits
            self._is_closing = True
            self._transport.close()
        self._end_within(self._limits.arrival_seconds)

    def _end_within(self, seconds: float) -> None:
        """Cut the connection unless it is closed by then."""
        if self._transport is not None and (self._end is None or self._end.when() > self._loop.time() + seconds):
            _cancel(self._end)
            self._end = self._loop.call_later(seconds, self._transport.abort)


def _check_host(headers: Headers, version: str) -> None:
    """Raises _Refused unless the request names one host: two parties could each read another one."""
    hosts = headers.all("host")
    if len(hosts) > 1 or (not hosts and version != "1.0"):
        raise _Refused(refusal(400, "the request must have one Host header"))
    if hosts and not _HOST.fullmatch(hosts[0]):
        raise _Refused(refusal(400, "the Host header has no name of a host"))


def _check_framing(headers: Headers, version: str) -> None:
    """Raises _Refused where another party could see another end of the body than llhttp does."""
    encodings = headers.all("transfer-encoding")
    if encodings and version == "1.0":
        raise _Refused(refusal(400, "HTTP/1.0 has no Transfer-Encoding"))
    if encodings and [each.lower() for each in encodings] != ["chunked"]:
        raise _Refused(refusal(501, "no other Transfer-Encoding is served than chunked, once"))


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()
