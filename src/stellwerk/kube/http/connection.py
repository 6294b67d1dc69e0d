"""One connection to a server: one request at a time, and its answer, whole or as it comes.

A connection is used again only while nothing about it is in doubt: the request went out whole, one answer came in
whole, and not a byte behind it. Whatever else happens ends the connection at once, in the very call that sees it, so
that no later request can meet what an earlier one left. What we break ourselves is never taken for the end of an
answer.

What the server sends is held only as far as the answer may be large; what is not body, heads and trailers and the
frames of chunks, has a limit of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from collections.abc import Callable
from typing import cast

import httptools

from stellwerk.kube.http.messages import (
    LARGEST_STATUS_BYTES,
    Answer,
    AnswerBody,
    BodyTooLarge,
    ClientCertificateRejected,
    ConnectionBroken,
    GivenUp,
    NoAnswer,
    NotConnected,
    RequestMessage,
)
from stellwerk.kube.http.streamed_body import StreamedBody
from stellwerk.kube.memory_budget import MemoryBudget

_LARGEST_HEAD_BYTES = 64 << 10
_ABOUT_US = re.compile("ALERT_.*(CERTIFICATE|UNKNOWN_CA|ACCESS_DENIED)")


class Connection(asyncio.Protocol):
    """A connection. llhttp calls the methods `on_...` while it parses; one that raises ends the parsing."""

    def __init__(
        self, tls: ssl.SSLContext | None, name: str, lines: set[Connection], budget: MemoryBudget | None = None
    ) -> None:
        """`lines` has this one as long as it is open. `budget`: of the answers that are being received."""
        self.tls, self.name = tls, name
        self._budget = budget
        self.idle_since = 0.0
        self.has_heard = False
        """Whether anything of the last answer has come."""
        self._has_served = False
        self._is_premature = False
        """Whether something came before the connection was made: in one piece with the handshake in a tunnel."""
        self._lines = lines
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._waiting: asyncio.Future[Answer] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._largest = 0
        self._method = b""
        self._fruitless_bytes = 0
        """What has come since the last byte of a body."""
        self._in_head = True
        self._headers: list[tuple[bytes, bytes]] = []
        self._reason = b""
        self._body: AnswerBody | None = None
        self._ends_with_line = False
        self._silence_seconds: float | None = None
        self.stream: StreamedBody | None = None
        """The body of the last answer, where it was to be read as it comes."""

    @property
    def is_open(self) -> bool:
        """Whether it can take another request, as far as known."""
        return self._transport is not None and not self._transport.is_closing()

    async def ask(
        self,
        request: RequestMessage,
        largest: int,
        deadline: float,
        before: Callable[[], None] | None = None,
        silence_seconds: float | None = None,
    ) -> Answer:
        """Send a request and wait for its answer. Raises NoAnswer, BodyTooLarge, TimeoutError; it is not open then.

        `before` is called right before each portion leaves, and may raise to prevent it. With `silence_seconds` the
        answer of a success is without its body, which comes as `stream`.
        """
        loop = asyncio.get_running_loop()
        self._largest, self.has_heard, self._fruitless_bytes = largest, False, 0
        self._method = request.head.partition(b" ")[0]
        self._silence_seconds, self.stream = silence_seconds, None
        waiting: asyncio.Future[Answer] = loop.create_future()
        self._waiting = waiting
        alarm = loop.call_at(deadline, self._fail, TimeoutError())
        try:
            await self._send(request, waiting, before)
            answer = await waiting
        except BaseException:
            self.abort()
            raise
        finally:
            alarm.cancel()
            self._waiting = None
            if waiting.done() and not waiting.cancelled():
                waiting.exception()  # seen, even if a cancellation came before it
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.abort()  # answered before it was asked: the rest of the request is on its way
        return answer

    async def _send(
        self, request: RequestMessage, waiting: asyncio.Future[Answer], before: Callable[[], None] | None
    ) -> None:
        for portion in request.portions():
            if self._transport is None or self._transport.is_closing():
                return  # `waiting` knows why, or soon will; to write now would be a RuntimeError of uvloop's
            if before is not None:
                before()
            self._transport.write(portion)
            if not self._writable.is_set():
                await self._writable.wait()
                if waiting.done():
                    self.abort()  # the answer may come before all is sent: the server does not want it
                    return

    @property
    def opened(self) -> asyncio.Transport:
        """What the answer to a CONNECT has opened, for another protocol. Raises NotConnected where it is closed."""
        if self._transport is None or self._transport.is_closing():
            raise NotConnected("the connection was cut")
        return self._transport

    def abort(self) -> None:
        """Break the connection. An orderly end waits for the server's TLS close message.

        It drops the answer at once: the connection and its parser refer to each other, so that it stays in memory
        until the collector runs.
        """
        self._lines.discard(self)
        self._ends_with_line = False
        self._drop_body()
        transport, self._transport = self._transport, None
        if transport is not None:
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                transport.abort()

    def _drop_body(self) -> None:
        body, self._body = self._body, None
        if body is not None:
            body.drop()

    # ---- calls of the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshakes are done. What came before is no answer: the connection is not used."""
        made = cast(asyncio.Transport, transport)
        if self._is_premature:
            made.abort()
            return
        self._transport = made
        self._lines.add(self)

    def data_received(self, data: bytes) -> None:
        """A part of an answer."""
        if self._transport is None or (self._waiting is None and (self.stream is None or self.stream.is_over)):
            self._is_premature = self._transport is None
            self.abort()  # no request is open, or its caller has ended
            return
        self.has_heard = True
        self._fruitless_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            raised = error.__context__
            is_ours = isinstance(raised, BodyTooLarge | NoAnswer)
            self._fail(cast(Exception, raised) if is_ours else ConnectionBroken("the answer was cut"))
        if self._fruitless_bytes > _LARGEST_HEAD_BYTES:
            self._fail(BodyTooLarge())

    def pause_writing(self) -> None:
        """The other side does not keep up."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """It does again."""
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        """It is over, in whatever way."""
        if self._ends_with_line and error is None:
            self._deliver()
        self._transport = None
        self._fail(self._loss(error))

    def _loss(self, error: Exception | None) -> NoAnswer:
        if self.has_heard:
            return ConnectionBroken("the answer was cut")
        if isinstance(error, ssl.SSLError) and not self._has_served and _ABOUT_US.search(error.reason or ""):
            return ClientCertificateRejected(error.reason)
        return ConnectionBroken("the connection was cut")

    # ---- calls of the parser

    def on_message_begin(self) -> None:
        """An answer begins. Raises ConnectionBroken where there was one already."""
        if self._waiting is None or self._waiting.done():  # done: that of a stream too
            raise ConnectionBroken("one answer was enough")
        self._in_head, self._headers, self._reason = True, [], b""
        self._drop_body()
        self._ends_with_line = False

    def on_status(self, reason: bytes) -> None:
        """The words behind the code, or a part of them."""
        self._reason += reason

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header; or one behind a body in chunks, of which nothing is wanted."""
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """The head is whole. Raises BodyTooLarge, and ConnectionBroken for an encoding that was not requested.

        Raises ConnectionBroken also for a result over TLS that ends with its connection: the event loop does not show
        whether the server ended it or the way to it broke. The body of a refusal is only its message.
        """
        self._in_head = False
        known = dict(self._headers)
        code = self._parser.get_status_code()
        if self._method == b"HEAD" and code >= 200:
            self._deliver()
            self.abort()  # llhttp waits for the body that the head speaks of
            return
        self._ends_with_line = (
            code >= 200
            and code not in (204, 304)
            and b"content-length" not in known
            and b"transfer-encoding" not in known
        )
        if self._ends_with_line and self.tls is not None and code < 300:
            raise ConnectionBroken("the answer has no length")
        encoding = known.get(b"content-encoding", b"").decode("latin-1")
        if 200 <= code < 300 and (self._silence_seconds is not None or self._method == b"CONNECT"):
            self._begin_stream(encoding)
            return
        if int(known.get(b"content-length", b"0")) > self._largest:
            raise BodyTooLarge
        claim = self._budget.claim(self._make_room) if self._budget is not None else None
        kept = self._largest if code < 300 else min(self._largest, LARGEST_STATUS_BYTES)
        self._body = AnswerBody(self._largest, encoding, kept=kept, claim=claim)

    def on_body(self, body: bytes) -> None:
        """A part of the body. Raises BodyTooLarge, and ConnectionBroken where it is no proper gzip, or not expected."""
        self._fruitless_bytes = 0
        if self.stream is not None:
            self.stream.add(body)
        elif self._body is not None:
            self._body.add(body)
        else:
            raise ConnectionBroken("what the proxy leads to speaks first")

    def on_message_complete(self) -> None:
        """The answer is whole, or an interim word is, which the answer follows."""
        code = self._parser.get_status_code()
        if code < 200 or (code < 300 and self._method == b"CONNECT"):
            return
        self._fruitless_bytes = 0
        keeps = self._parser.should_keep_alive()
        self._deliver()
        if not keeps:
            self.abort()

    # ---- the result for the caller

    def _make_room(self) -> None:
        self._fail(GivenUp())

    def _begin_stream(self, encoding: str) -> None:
        """The head is the answer. Raises ConnectionBroken for an encoding that was not requested."""
        assert self._transport is not None
        assert self._waiting is not None
        if encoding.strip().lower() not in ("", "identity"):
            raise ConnectionBroken("an unknown encoding")
        if self._silence_seconds is not None:
            self.stream = StreamedBody(self._transport, self._silence_seconds)
        if not self._waiting.done():
            self._waiting.set_result(self._answer(b""))

    def _answer(self, body: bytes) -> Answer:
        return Answer(self._parser.get_status_code(), self._reason.decode("latin-1"), tuple(self._headers), body)

    def _deliver(self) -> None:
        self._ends_with_line = False
        if self.stream is not None:
            self.stream.end()
            self._has_served = True
        if self._waiting is None or self._waiting.done():
            self._drop_body()
            return
        try:
            whole = self._body.whole() if self._body is not None else b""
        except ConnectionBroken as error:
            self._fail(error)
            return
        self._drop_body()
        self._waiting.set_result(self._answer(whole))
        self._has_served = True
        self._writable.set()

    def _fail(self, error: Exception) -> None:
        """Report to the caller, unless it already has a result. Either way, the connection is not reused."""
        self.abort()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error)
        elif self.stream is not None:
            self.stream.end(error)
        self._writable.set()
