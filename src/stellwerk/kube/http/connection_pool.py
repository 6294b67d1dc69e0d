"""Requests over connections that are kept: HTTP/1.1, one request at a time on each.

aiohttp's client makes a dozen objects for each request; for a small object they are two thirds of what a call costs,
and an operator is made of calls for small objects. Here a request is one piece of bytes, and the answer is parsed by
llhttp, in the binding that uvloop's authors keep. What a general client has beyond that is not needed towards an API
server: redirects, cookies, request bodies of unknown length.

A kept connection may be dead without anybody knowing. A request that may be sent twice is then sent again at once, over
a new one; any other is reported as cut. What is not sent for want of a connection, whatever the reason, is reported as
`NotConnected`: the caller may send it again safely. What a connection has to be for another request is stated
in `connection`, how one is made in `dialer`.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from stellwerk.kube.http.call_slots import CallSlots, Slot
from stellwerk.kube.http.connection import Connection
from stellwerk.kube.http.dialer import Dialer
from stellwerk.kube.http.messages import Answer, ConnectionBroken, NotConnected, RequestMessage
from stellwerk.kube.http.streamed_body import StreamedBody

KEPT_SECONDS = 75.0
"""How long a connection without work is kept; an API server gives it up after 90."""
_TIRED_OF_WAITING = 408
"""What a server or balancer may send when it ends a kept connection, at the moment of our request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is wanted of an exchange.

    `name`: what the server's certificate must prove. `largest`: how many bytes the answer may have. `repeatable`: the
    request may be sent twice. `before` is called right before the bytes leave, each time they do, and may raise to
    prevent it. `silence_seconds`: the answer is read while it comes, and so long may nothing come; None: it is read
    whole. `tenant`: whose slow calls it is counted with, see `call_slots`; empty: the operator's own.
    """

    tls: ssl.SSLContext | None
    name: str
    largest: int
    repeatable: bool
    before: Callable[[], None] | None = None
    silence_seconds: float | None = None
    tenant: str = ""


class Connections:
    """Exchanges with one server, with as many at a time as `CallSlots` allows, and any number of streams.

    The operator's own calls have slots of their own: a webhook that hangs for the whole cluster makes the calls of all
    tenants slow at once, and leaves none of their slots.
    """

    def __init__(self, dialer: Dialer, *, limit: int) -> None:
        self._dialer = dialer
        self._limit = limit
        self._own = CallSlots(limit)
        self._slots = CallSlots(limit)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._idle: deque[Connection] = deque()
        self._all: set[Connection] = set()
        self._closings = 0

    async def exchange(self, request: RequestMessage, wish: Wish, *, seconds: float) -> Answer:
        """Send a request and read the whole answer.

        Raises NoAnswer, BodyTooLarge, and TimeoutError after `seconds`, of which waiting for a connection is a part.
        """
        loop = self._in_this_loop()
        deadline = loop.time() + seconds
        slots, closings = self._slots if wish.tenant else self._own, self._closings
        slot = slots.take(wish.tenant) or await _wait_for(slots, wish.tenant, deadline, seconds)
        try:
            line, answer = await self._asked(request, wish, deadline)
            self._put_back(line, closings)
            return answer
        finally:
            slots.give_back(slot)

    @asynccontextmanager
    async def stream(
        self, request: RequestMessage, wish: Wish, *, seconds: float
    ) -> AsyncIterator[tuple[Answer, StreamedBody | None]]:
        """Send a request and read the body of the answer while it comes. A refusal is read whole, and has no stream.

        It is not counted: streams last, and have a connection each. One that rests is taken first.

        Raises NoAnswer, BodyTooLarge, and TimeoutError where no answer begins within `seconds`.
        """
        loop = self._in_this_loop()
        closings = self._closings
        line, answer = await self._asked(request, wish, loop.time() + seconds)
        stream = line.stream
        try:
            yield answer, stream
        finally:
            if stream is not None and not stream.is_complete:
                line.abort()  # an orderly end needs a TLS close message, for which a server lets its client wait
            self._put_back(line, closings)

    def close(self) -> None:
        """Break all connections. A further request makes new ones; one under way leaves none behind."""
        self._closings += 1
        self._idle.clear()
        for line in list(self._all):
            line.abort()

    def _in_this_loop(self) -> asyncio.AbstractEventLoop:
        """The running event loop. Connections of one that has ended are closed: nothing reads them any more."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self.close()
            self._loop, self._own, self._slots = loop, CallSlots(self._limit), CallSlots(self._limit)
        return loop

    async def _asked(self, request: RequestMessage, wish: Wish, deadline: float) -> tuple[Connection, Answer]:
        """The answer, and the connection over which it came."""
        line = self._kept(wish, asyncio.get_running_loop().time())
        if line is not None:
            try:
                answer = await line.ask(request, wish.largest, deadline, wish.before, wish.silence_seconds)
            except ConnectionBroken:
                if line.has_heard or not wish.repeatable:
                    raise
            else:
                if answer.code != _TIRED_OF_WAITING or not wish.repeatable:
                    return line, answer
                line.abort()
        line = await self._dialer.connect(wish.tls, wish.name, self._all, deadline)
        return line, await line.ask(request, wish.largest, deadline, wish.before, wish.silence_seconds)

    def _put_back(self, line: Connection, closings: int) -> None:
        """Keep a connection for another request, unless it was broken or all were closed meanwhile."""
        if closings != self._closings:
            line.abort()
        elif line.is_open:
            line.idle_since = asyncio.get_running_loop().time()
            self._idle.append(line)

    def _kept(self, wish: Wish, now: float) -> Connection | None:
        """The connection that was used last: the others may rest, and are given up in time."""
        while self._idle and self._idle[0].idle_since < now - KEPT_SECONDS:
            self._idle.popleft().abort()
        while self._idle:
            line = self._idle.pop()
            if line.is_open and line.tls is wish.tls and line.name == wish.name:
                return line
            line.abort()
        return None


async def _wait_for(slots: CallSlots, tenant: str, deadline: float, seconds: float) -> Slot:
    try:
        async with asyncio.timeout_at(deadline):
            return await slots.wait(tenant)
    except TimeoutError as error:
        raise NotConnected(f"no connection was free within {seconds:.3g} s") from error
