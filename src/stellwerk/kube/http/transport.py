"""Bytes to an API server and back: one connection pool, credentials that rotate, retries that are safe.

What may be sent again is decided here and nowhere else. A refusal with 429 was not carried out, whatever it was. A
connection that never came about carried nothing. Everything else is sent again only when a second time does no harm:
reads, applies, deletes with a precondition, updates with a resourceVersion. A create whose answer was lost is reported
as `Unreachable`: only a new read shows whether it took place.

Certificates may be renewed on disk at any time. Each call takes the context that fits the files as they are, and
connections are pooled by context: new calls start a new handshake, calls under way end normally.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import TypeAlias

from yarl import URL

from stellwerk.kube.http import error_mapping, warnings
from stellwerk.kube.http.call_slots import SLOW_SECONDS
from stellwerk.kube.http.circuit_breaker import CircuitBreaker
from stellwerk.kube.http.connection_pool import Connections, Wish
from stellwerk.kube.http.dialer import Dialer, Proxy
from stellwerk.kube.http.messages import Answer, BodyTooLarge, NotConnected, RequestMessage, head
from stellwerk.kube.http.sockets import Sockets, Tls
from stellwerk.kube.http.streamed_body import StreamedBody
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.memory_budget import MemoryBudget, forget_variables
from stellwerk.kube.types import sizes
from stellwerk.kube.types.errors import (
    AddressForbidden,
    AnswerTooLarge,
    LoginFailed,
    ServerFault,
    StatusError,
    TooManyRequests,
    Unreachable,
    silent_webhook,
)

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
CONNECT_SECONDS = 5.0
CALL_SECONDS = 60.0
"""For how long a call may take, all attempts and pauses together, once there is a login."""
ANSWER_SECONDS = 30.0
"""What must be left for another attempt at a write that must not be repeated: webhooks may take as long to answer."""
_NO_TIME_SECONDS = 0.01
"""So little time is none: timers and their sums are not exact."""
CALLS = 32
"""How many calls to one API server are under way, for tenants, and as many of our own; others wait. More gain
nothing: a fast server works off two thousand a second so, and each connection is a handshake there and a tenth of a
megabyte here. For slow ones see `call_slots`."""
RENEWAL_SECONDS = 5.0
LARGEST_ANSWER_BYTES = 32 << 20
"""Several times a page of objects of the usual size. A list whose page is larger asks for fewer objects at a time."""
LARGEST_FOREIGN_ANSWER_BYTES = 16 << 20
"""The same for a server that a user names. No object is as large: etcd stores 1.5 MiB, and escapes make 9 of it."""
LARGEST_FOREIGN_LIST_BYTES = 256 << 20
"""What all pages of a list of such a server may take in memory: some 20,000 objects of 4 KiB. Lists of our own cluster
are bounded by their number of objects, because each of its tenants could make a list large."""
_WEIGHT = 4
"""How many times its largest text an answer may take in memory once it is decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerBounds:
    """What one server may take of us, besides memory. `breaker`: None: it is called whenever it is asked for."""

    calls: int = CALLS
    """How many calls are under way for tenants, and as many of our own."""
    breaker: CircuitBreaker | None = None


Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names may repeat: a group of an impersonated user has a header of its own."""
Before: TypeAlias = "Callable[[], None] | None"
Streamed: TypeAlias = "tuple[Answer, StreamedBody | None]"
"""An answer, and its body where that comes piece by piece."""


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One finished request, for metrics. `code` is 0 when no answer came; `verb` and `resource` are RBAC's words."""

    method: str
    host: str
    code: int
    seconds: float
    verb: str = ""
    resource: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `about` finishes the sentence "cannot ..."; `repeatable`: a second time does no harm."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = field(default=None, repr=False)  # may be a Secret, and tracebacks show reprs
    headers: Headers = field(default=(), repr=False)
    about: str = ""
    repeatable: bool = True
    hides_values: bool = False
    """Whether a refusal may quote secret values."""
    verb: str = ""
    resource: str = ""
    largest_answer_bytes: int | None = None
    """The size up to which the answer is read, if that is less than for other answers of the server."""
    tenant: str = ""
    """Whose slow calls it is counted with (`call_slots`); empty: the operator's own."""


class _Deadline:
    """The end of a call. Its time runs from the first look at it: a login may take a minute before the call begins."""

    def __init__(self) -> None:
        self._ends: float | None = None
        self._sent_at = 0.0

    def note_sent(self) -> None:
        """An attempt leaves: it waits no more for a login, or for a connection."""
        self._sent_at = asyncio.get_running_loop().time()

    def took(self) -> float:
        """The seconds since the last attempt has left."""
        return asyncio.get_running_loop().time() - self._sent_at

    def left(self) -> float:
        """The seconds until the end; 0 after it."""
        now = asyncio.get_running_loop().time()
        if self._ends is None:
            self._ends = now + CALL_SECONDS
        return max(0.0, self._ends - now)


class Transport:
    """A pool of connections to one API server."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        user_agent: str,
        on_request: Callable[[RequestFacts], None] | None = None,
        rest: Callable[[float], Awaitable[None]] = asyncio.sleep,
        renewal_seconds: float = RENEWAL_SECONDS,
        largest_answer_bytes: int = LARGEST_ANSWER_BYTES,
        largest_list_bytes: int | None = None,
        call_seconds: float | None = None,
        budget: MemoryBudget | None = None,
        bounds: ServerBounds = ServerBounds(),  # immutable
    ) -> None:
        """`rest` waits between attempts. `renewal_seconds`: how long a renewed certificate may go unnoticed.

        `budget`: of the answers that are being received, shared with other servers; None: no bound.
        """
        self._breaker = bounds.breaker
        self.budget = budget
        self.config = config
        self._agent = user_agent
        self._on_request = on_request
        self._rest = rest
        self.largest_answer_bytes = largest_answer_bytes
        """The size up to which answers are read."""
        self.largest_list_bytes = largest_list_bytes
        """What a list may take in memory, all pages together; None: any size."""
        self._call_seconds = call_seconds
        self._sockets = Sockets(config.may_connect)
        self._tls = Tls(config, renewal_seconds)
        url, proxy = URL(config.server), Proxy.of_url(config.proxy)
        self._host = url.authority
        self._root = url.raw_path.rstrip("/")
        self._name = config.tls_server_name or (url.raw_host or "").removesuffix(".")  # certificates have names without
        self._headers: Headers = (("Host", url.host_port_subcomponent or ""), ("User-Agent", user_agent))
        if proxy is not None and url.scheme == "http":  # it reads each request, and finds the server in it
            self._root = f"http://{url.host_port_subcomponent}{self._root}"
            self._headers = (*self._headers, *proxy.headers)
        port = url.port or (443 if url.scheme == "https" else 80)
        dialer = Dialer(url.raw_host or "", port, CONNECT_SECONDS, self._sockets.make, proxy, budget)
        self._connections = Connections(dialer, limit=bounds.calls)

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. A further call opens new ones, and is not reported any more."""
        self._on_request = None  # a pass may still use it when the metrics of the server are gone
        self._connections.close()
        await self._sockets.hang_up()

    async def call(self, request: Request, *, before: Callable[[], None] | None = None) -> bytes:
        """Send, and read the whole answer. Raises the ApiError that fits, after the safe retries.

        `before` is called each time right before the bytes leave, and may raise to prevent it: a leader may lose its
        lease while the call waits for a connection, for a login, or for another attempt.
        """
        try:
            async with self._admitted(request):
                return await self._in_time(request, before)
        except BaseException as error:
            forget_variables(error)
            raise

    def _admitted(self, request: Request) -> AbstractAsyncContextManager[None]:
        """A block for a call, or for the beginning of a stream. Raises Unreachable if the server is left alone."""
        return nullcontext() if self._breaker is None else self._not_left_alone(request, self._breaker)

    @asynccontextmanager
    async def _not_left_alone(self, request: Request, breaker: CircuitBreaker) -> AsyncIterator[None]:
        try:
            async with breaker.call():
                yield
        except NotConnected as error:
            raise self._unreachable(request, error) from error

    async def _in_time(self, request: Request, before: Before) -> bytes:
        if self._call_seconds is None:
            return await self._call(request, before)
        try:
            async with asyncio.timeout(self._call_seconds):
                return await self._call(request, before)
        except TimeoutError:
            raise TimeoutError(f"{self._host} has not answered within {self._call_seconds:g} s") from None

    async def _call(self, request: Request, before: Before) -> bytes:
        deadline = _Deadline()
        attempt = 1
        fault: ServerFault | None = None
        while True:
            try:
                return await self._once(request, before, deadline)
            except (StatusError, Unreachable) as error:
                left, took = deadline.left(), deadline.took()
                if fault is not None and isinstance(error, Unreachable) and left < _NO_TIME_SECONDS:
                    raise fault from error
                pause = _pause(error, request, attempt, took)
                if pause is None or pause + _needed(error, request, took) > left:
                    raise
                if isinstance(error, ServerFault):
                    forget_variables(error)  # one of them is this one
                    fault = error
            await self._rest(pause)
            attempt += 1

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_seconds: float) -> AsyncIterator[StreamedBody]:
        """Send, and read the answer chunk by chunk. Raises Unreachable when nothing comes for `silence_seconds`."""
        try:
            async with AsyncExitStack() as opened:
                async with self._admitted(request):
                    answer, body = await self._begun(opened, request, silence_seconds)
                if body is None:
                    raise error_mapping.refused(answer, request.about, hides_values=request.hides_values)
                yield body
        except BodyTooLarge as error:
            raise _too_large(request, self._largest(request)) from error
        except error_mapping.NO_ANSWER as error:
            raise self._unreachable(request, error) from error

    async def _begun(self, opened: AsyncExitStack, request: Request, silence_seconds: float) -> Streamed:
        began, code = perf_counter(), 0
        try:
            answer, body = await self._with_login(lambda: self._opened(opened, request, silence_seconds))
            code = answer.code
        except error_mapping.NO_ANSWER as error:
            raise self._unreachable(request, error) from error
        finally:
            self._report(request, code, began)
        return answer, body

    async def _opened(self, opened: AsyncExitStack, request: Request, silence_seconds: float) -> Streamed:
        """The head of a stream, or the whole of a refusal, whose connection is free for the next attempt."""
        message, wish = await self._message(request, "identity"), self._wish(request, silence_seconds=silence_seconds)
        streaming = self._connections.stream(message, wish, seconds=silence_seconds)
        answer, body = await opened.enter_async_context(streaming)
        if body is None:
            await opened.aclose()
        return answer, body

    async def _once(self, request: Request, before: Before, deadline: _Deadline) -> bytes:
        began, code = perf_counter(), 0
        try:
            answer, _ = await self._with_login(lambda: self._exchanged(request, before, deadline))
            code = answer.code
        except BodyTooLarge as error:
            raise _too_large(request, self._largest(request)) from error
        except error_mapping.NO_ANSWER as error:
            raise self._unreachable(request, error) from error
        finally:
            self._report(request, code, began)
        if warnings.anybody_listens():
            warnings.note(answer.all(warnings.HEADER))
        if code >= 300:
            raise error_mapping.refused(answer, request.about, hides_values=request.hides_values)
        if sizes.is_heavier(answer.body, self.largest_answer_bytes * _WEIGHT):
            raise AnswerTooLarge(f"cannot {request.about}: the answer holds more lists and objects than can be read")
        return answer.body

    async def _exchanged(self, request: Request, before: Before, deadline: _Deadline) -> Streamed:
        def leaving() -> None:
            deadline.note_sent()
            if before is not None:
                before()

        message, wish = await self._message(request, "gzip"), self._wish(request, leaving)
        return await self._connections.exchange(message, wish, seconds=deadline.left()), None

    async def _message(self, request: Request, encoding: str) -> RequestMessage:
        """The request as bytes. Raises LoginFailed where the login has no place in them."""
        target = f"{self._root}{request.path}?{request.query}" if request.query else f"{self._root}{request.path}"
        fields = (*self._headers, *request.headers, ("Accept-Encoding", encoding))
        if not any(name == "Accept" for name, _ in request.headers):
            fields = (*fields, ("Accept", "application/json"))
        if authorization := await self.config.credentials.authorization():
            fields = (*fields, ("Authorization", authorization))
        try:
            return RequestMessage(head(request.method, target, fields), request.body)
        except ValueError as error:
            raise _unfit(request) from error

    def _wish(self, request: Request, before: Before = None, *, silence_seconds: float | None = None) -> Wish:
        return Wish(
            tls=self._tls.context(),
            name=self._name,
            largest=self._largest(request),
            repeatable=request.repeatable,
            before=before,
            silence_seconds=silence_seconds,
            tenant=request.tenant,
        )

    async def _with_login(self, send: Callable[[], Awaitable[Streamed]]) -> Streamed:
        """The answer of `send`. Refused credentials are renewed once."""
        answer, body = await send()
        if answer.code != 401:
            return answer, body
        self.config.credentials.refresh()
        self._tls.refresh()
        return await send()

    def _largest(self, request: Request) -> int:
        return min(self.largest_answer_bytes, request.largest_answer_bytes or self.largest_answer_bytes)

    def _unreachable(self, request: Request, error: BaseException) -> Unreachable | LoginFailed:
        return error_mapping.unreachable(error, request.about, self.config.server)

    def _report(self, request: Request, code: int, began: float) -> None:
        if self._on_request is not None:
            seconds = perf_counter() - began
            self._on_request(RequestFacts(request.method, self._host, code, seconds, request.verb, request.resource))


def _unfit(request: Request) -> LoginFailed:
    return LoginFailed(
        f"cannot {request.about}: the token, or the account to act as, has a character that no header may have: "
        "look for a line break in it"
    )


def _too_large(request: Request, largest: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"cannot {request.about}: the answer is larger than {largest >> 20} MiB")


def _pause(error: StatusError | Unreachable, request: Request, attempt: int, took: float) -> float | None:
    """Seconds until the request may be sent again; None when it may not. The last attempt `took` so many."""
    if attempt >= ATTEMPTS or not _may_repeat(error, request, took):
        return None
    if isinstance(error, StatusError) and error.retry_after is not None:
        # A longer wait is left to the caller, who can do something else meanwhile.
        return error.retry_after * random.uniform(1.0, 1.2) if error.retry_after <= LONGEST_PAUSE_SECONDS else None
    pause: float = FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)
    return min(pause, LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.25)


def _needed(error: StatusError | Unreachable, request: Request, took: float) -> float:
    """The seconds that must be left for another attempt, where the server `took` so many for the last one.

    An attempt without the time for an answer would make a known outcome unknown. A server that refuses late does so
    again: with a conversion webhook that hangs, each answer takes 30 seconds.
    """
    least = CONNECT_SECONDS if request.repeatable else ANSWER_SECONDS
    return max(least, took) if isinstance(error, StatusError) else least


def _may_repeat(error: StatusError | Unreachable, request: Request, took: float) -> bool:
    match error:
        case TooManyRequests():
            return True
        case AddressForbidden():
            return False
        case ServerFault() if took >= SLOW_SECONDS and silent_webhook(error):
            # It hangs: each attempt keeps a connection until the API server gives up. The caller backs off.
            return False
        case ServerFault():
            return request.repeatable and error.code in (500, 502, 503, 504)
        case Unreachable():
            return request.repeatable or not error.outcome_unknown
        case _:
            return False
