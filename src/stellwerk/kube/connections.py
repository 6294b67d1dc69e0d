"""Calls over connections that are kept: HTTP/1.1, one request at a time on each, every answer read whole.

aiohttp's client makes a dozen objects for each request; for a small object they are two thirds of what a call costs,
and an operator is made of calls for small objects. Here a request is one piece of bytes, and the answer is parsed by
llhttp, in the binding that uvloop's authors keep. What a general client has beyond that is not needed towards an API
server: redirects, cookies, bodies of unknown length. Watches and the way through a proxy stay with aiohttp.

A kept connection may be dead without anybody knowing. A request that may be sent twice is then sent again at once, over
a new one; any other is reported as cut.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import cast

import aiohappyeyeballs
import httptools

SocketFactory = Callable[[aiohappyeyeballs.AddrInfoType], socket.socket]

KEPT_SECONDS = 75.0
"""How long a connection without work is kept; an API server gives it up after 90."""
_EYEBALLS_SECONDS = 0.25
"""How long one address of a server may take before the next one is tried beside it (RFC 8305)."""
_LARGEST_HEAD_BYTES = 64 << 10
_PORTION_BYTES = 256 << 10
_GZIP = 16 + zlib.MAX_WBITS

_UNFIT = re.compile(r"[^\t\x20-\x7e\x80-\U0010ffff]")
"""What no field of a head may hold: it would end the line, and begin another one."""


class NoAnswer(Exception):
    """No answer came; the message says why in a few steady words."""


class Cut(NoAnswer):
    """The connection broke after the request had been sent, or in the middle of it."""


class NotConnected(NoAnswer):
    """No connection came about, so nothing was sent."""


class Unproved(NotConnected):
    """The server does not prove its identity, or refuses ours."""


class TooLarge(Exception):
    """The answer is larger than it may be."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The whole answer to a request. `headers`: lower-case names, in order."""

    code: int
    reason: str = ""
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)  # may be a Secret

    def all(self, name: str) -> Iterator[str]:
        """The values of a header."""
        wanted = name.lower().encode()
        return (value.decode("latin-1") for known, value in self.headers if known == wanted)

    def first(self, name: str) -> str:
        """The first value of a header; empty where it has none."""
        return next(self.all(name), "")


@dataclass(frozen=True, slots=True)
class Message:
    """A request as bytes."""

    head: bytes = field(repr=False)  # has credentials
    body: bytes | None = field(default=None, repr=False)

    def portions(self) -> Iterator[bytes]:
        """One for most requests; a large body would hold up the event loop if it were encrypted whole."""
        if self.body is None:
            yield self.head + b"\r\n\r\n"
            return
        start = b"%b\r\nContent-Length: %d\r\n\r\n" % (self.head, len(self.body))
        if len(self.body) <= _PORTION_BYTES:
            yield start + self.body
            return
        yield start
        for begin in range(0, len(self.body), _PORTION_BYTES):
            yield self.body[begin : begin + _PORTION_BYTES]


def head(method: str, target: str, headers: Iterable[tuple[str, str]]) -> bytes:
    """The head of a request, without its end. Raises ValueError for what does not fit into one line of it."""
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    if " " in target or any(_UNFIT.search(line) for line in lines):
        raise ValueError("a request holds a character that no header may have")
    return "\r\n".join(lines).encode()


class Connections:
    """At most `limit` connections to one server. `sockets` makes theirs."""

    def __init__(self, host: str, port: int, *, limit: int, connect_seconds: float, sockets: SocketFactory) -> None:
        self._host, self._port = host, port
        self._connect_seconds = connect_seconds
        self._sockets = sockets
        self._gate = asyncio.Semaphore(limit)
        self._idle: deque[_Line] = deque()
        self._all: set[_Line] = set()

    async def exchange(
        self,
        request: Message,
        *,
        tls: ssl.SSLContext | None,
        name: str,
        largest: int,
        seconds: float,
        repeatable: bool,
    ) -> Answer:
        """Send a request and read the answer, at most `largest` bytes. `name`: whom a certificate must prove.

        Raises NoAnswer, TooLarge, and TimeoutError after `seconds`, of which waiting for a connection is a part.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        if self._gate.locked():
            async with asyncio.timeout_at(deadline):
                await self._gate.acquire()
        else:
            await self._gate.acquire()
        try:
            line = self._kept(tls, name, loop.time())
            if line is not None:
                try:
                    return await self._over(line, request, largest, deadline)
                except Cut:
                    if line.has_heard or not repeatable:
                        raise
            return await self._over(await self._connect(tls, name, deadline), request, largest, deadline)
        finally:
            self._gate.release()

    def close(self) -> None:
        """Break all connections. A further request makes new ones."""
        self._idle.clear()
        for line in list(self._all):
            line.abort()

    async def _over(self, line: _Line, request: Message, largest: int, deadline: float) -> Answer:
        try:
            answer = await line.ask(request, largest, deadline)
        except BaseException:
            line.abort()
            raise
        if line.is_open:
            line.idle_since = asyncio.get_running_loop().time()
            self._idle.append(line)
        return answer

    def _kept(self, tls: ssl.SSLContext | None, name: str, now: float) -> _Line | None:
        """The connection that was used last: the others may rest, and are given up in time."""
        while self._idle and self._idle[0].idle_since < now - KEPT_SECONDS:
            self._idle.popleft().abort()
        while self._idle:
            line = self._idle.pop()
            if line.is_open and line.tls is tls and line.name == name:
                return line
            line.abort()
        return None

    async def _connect(self, tls: ssl.SSLContext | None, name: str, deadline: float) -> _Line:
        loop = asyncio.get_running_loop()
        made = await self._socket()
        try:
            async with asyncio.timeout_at(deadline):
                _, line = await loop.create_connection(
                    lambda: _Line(tls, name, self._all), sock=made, ssl=tls, server_hostname=name if tls else None
                )
        except ssl.SSLError as error:
            made.close()
            raise Unproved(_distrust(error)) from error
        except OSError as error:
            made.close()
            if isinstance(error, TimeoutError):
                raise
            raise NotConnected(_why(error)) from error
        except BaseException:
            made.close()
            raise
        return line

    async def _socket(self) -> socket.socket:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._connect_seconds):
                found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                made = await aiohappyeyeballs.start_connection(
                    found, happy_eyeballs_delay=_EYEBALLS_SECONDS, socket_factory=self._sockets
                )
        except TimeoutError as error:
            raise NotConnected(f"no connection within {self._connect_seconds:g} s") from error
        except socket.gaierror as error:
            raise NotConnected("its name is not known") from error
        except OSError as error:
            raise NotConnected(_why(error)) from error
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return made


class _Line(asyncio.Protocol):
    """One connection. llhttp calls the methods `on_...` while it parses."""

    def __init__(self, tls: ssl.SSLContext | None, name: str, lines: set[_Line]) -> None:
        self.tls, self.name = tls, name
        self.idle_since = 0.0
        self.has_heard = False
        """Whether anything of the last answer has come."""
        self._lines = lines
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[Answer] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._largest = 0
        self._head_bytes = 0
        self._in_head = True
        self._headers: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._body: list[bytes] = []
        self._size = 0
        self._inflate: zlib._Decompress | None = None
        self._ends_with_line = False

    @property
    def is_open(self) -> bool:
        """Whether it can take another request, as far as known."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(self, request: Message, largest: int, deadline: float) -> Answer:
        """Send a request and wait for its answer. Raises Cut, TooLarge, TimeoutError."""
        loop = asyncio.get_running_loop()
        self._largest, self.has_heard = largest, False
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._waiting = waiting
        alarm = loop.call_at(deadline, self._fail, TimeoutError())
        try:
            await self._send(request, waiting)
            return await waiting
        finally:
            alarm.cancel()
            self._waiting = None
            if waiting.done() and not waiting.cancelled():
                waiting.exception()  # seen, even if a cancellation came before it

    async def _send(self, request: Message, waiting: asyncio.Future[Answer]) -> None:
        for portion in request.portions():
            if self._transport is None:
                self._fail(Cut("the connection was cut"))
            if self._transport is None or waiting.done():
                self.abort()  # the answer may come before all is sent: the server does not want it
                return
            self._transport.write(portion)
            if not self._writable.is_set():
                await self._writable.wait()

    def abort(self) -> None:
        """Break the connection. In order it would be a TLS farewell, for which the other side may leave us waiting."""
        self._lines.discard(self)
        if self._transport is not None:
            self._transport.abort()

    # ---- what the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshakes are done."""
        self._transport = cast(asyncio.Transport, transport)
        self._lines.add(self)

    def data_received(self, data: bytes) -> None:
        """A part of an answer."""
        if self._waiting is None:
            self.abort()  # nobody has asked
            return
        self.has_heard = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(Cut("the answer was cut"))
        if self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _LARGEST_HEAD_BYTES:
                self._fail(TooLarge())

    def pause_writing(self) -> None:
        """The other side does not keep up."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over, in whatever way."""
        self._transport = None
        self._lines.discard(self)
        self._writable.set()
        if self._ends_with_line and error is None:
            self.on_message_complete()
        self._fail(Cut("the answer was cut" if self.has_heard else "the connection was cut"))

    # ---- what the parser tells

    def on_message_begin(self) -> None:
        """An answer begins."""
        if self._waiting is None or self._waiting.done():
            self.abort()  # one was enough
        self._headers, self._reason, self._body, self._size = [], b"", [], 0
        self._inflate, self._ends_with_line = None, False

    def on_status(self, reason: bytes) -> None:
        """The words behind the code, or a part of them."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header."""
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._in_head, self._head_bytes = False, 0
        known = dict(self._headers)
        if int(known.get(b"content-length", b"0")) > self._largest:
            self._fail(TooLarge())
        match known.get(b"content-encoding", b"identity").lower():
            case b"identity":
                pass
            case b"gzip":
                self._inflate = zlib.decompressobj(_GZIP)
            case _:
                self._fail(Cut("the answer was cut"))
        self._ends_with_line = (
            b"content-length" not in known
            and b"transfer-encoding" not in known
            and self._parser.get_status_code() not in (204, 304)
        )

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if self._inflate is not None:
            try:
                body = self._inflate.decompress(body, self._largest - self._size + 1)
            except zlib.error:
                self._fail(Cut("the answer was cut"))
                return
        self._size += len(body)
        if self._size > self._largest:
            self._fail(TooLarge())
            return
        self._body.append(body)

    def on_message_complete(self) -> None:
        """The answer is whole."""
        code, self._in_head, self._ends_with_line = self._parser.get_status_code(), True, False
        if code < 200:
            return  # an interim word; the answer follows
        if self._inflate is not None and self._body and not self._inflate.eof:
            self._fail(Cut("the answer was cut"))
        keeps = self._parser.should_keep_alive()
        if self._waiting is not None and not self._waiting.done():
            body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
            answer = Answer(code, self._reason.decode("latin-1"), tuple(self._headers), body)
            self._waiting.set_result(answer)
            self._writable.set()
        self._body = []
        if not keeps:
            self.abort()

    def _fail(self, error: Exception) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
            self._writable.set()


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    return error.strerror or "no connection came about"


def _distrust(error: ssl.SSLError) -> str:
    return getattr(error, "verify_message", "") or error.reason or "the TLS handshake failed"
