"""Bytes to an API server and back: one connection pool, credentials that rotate, retries that are safe.

What may be sent again is decided here and nowhere else. A refusal with 429 was not carried out, whatever it was. A
connection that never came about carried nothing. Everything else is sent again only when a second time does no harm:
reads, applies, deletes with a precondition, updates with a resourceVersion. A create whose answer was lost is reported
as `Unreachable`: only a new read shows whether it took place. aiohttp repeats PUT and DELETE on its own when a kept
connection turns out dead; it is kept from that where a repetition may do harm.

Calls go over `connection_pool`. Watches, which last, and calls through a proxy go over aiohttp.

Certificates may be renewed on disk at any time. Each call takes the context that fits the files as they are, and
connections are pooled by context: new calls start a new handshake, calls under way end normally.
"""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter
from types import TracebackType
from typing import TypeAlias, TypeVar

import aiohttp
from aiohttp.connector import Connection
from yarl import URL

from stellwerk.kube.http import error_mapping, warnings
from stellwerk.kube.http.connection_pool import Connections
from stellwerk.kube.http.messages import (
    Answer,
    AnswerBody,
    BodyTooLarge,
    ConnectionBroken,
    NotConnected,
    RequestMessage,
    head,
)
from stellwerk.kube.http.sockets import Sockets, Tls
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types import sizes
from stellwerk.kube.types.errors import (
    AddressForbidden,
    AnswerTooLarge,
    LoginFailed,
    ServerFault,
    StatusError,
    TooManyRequests,
    Unreachable,
)
from stellwerk.kube.types.header_values import fits

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
CONNECT_SECONDS = 5.0
CALL_SECONDS = 60.0
CALLS = 32
"""How many calls to one API server are under way; others wait. More gain nothing: a fast server works off two thousand
a second so, and each connection is a handshake there and a tenth of a megabyte here."""
_UNLIMITED = 0
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

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names may repeat: a group of an impersonated user has a header of its own."""
Before: TypeAlias = "Callable[[], None] | None"
Sent = TypeVar("Sent", bound=Answer | aiohttp.ClientResponse)


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
    ) -> None:
        """`rest` waits between attempts. `renewal_seconds`: how long a renewed certificate may go unnoticed."""
        self.config = config
        self._agent = user_agent
        self._on_request = on_request
        self._rest = rest
        self.largest_answer_bytes = largest_answer_bytes
        """The size up to which answers are read."""
        self.largest_list_bytes = largest_list_bytes
        """What a list may take in memory, all pages together; None: any size."""
        self._call_seconds = call_seconds
        self._sessions: dict[int, aiohttp.ClientSession] = {}
        """By how many connections they may have: calls share a few, each stream has its own."""
        self._sockets = Sockets(config.may_connect)
        self._tls = Tls(config, renewal_seconds)
        url = URL(config.server)
        self._host = url.authority
        self._root = url.raw_path.rstrip("/")
        self._name = config.tls_server_name or url.raw_host or ""
        self._headers = (("Host", url.host_port_subcomponent or ""), ("User-Agent", user_agent))
        self._connections = Connections(
            url.raw_host or "",
            url.port or 443,
            limit=CALLS,
            connect_seconds=CONNECT_SECONDS,
            sockets=self._sockets.make,
        )

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. A further call opens new ones."""
        self._connections.close()
        while self._sessions:
            _, session = self._sessions.popitem()
            await session.close()
        await self._sockets.hang_up()

    async def call(self, request: Request, *, before: Callable[[], None] | None = None) -> bytes:
        """Send, and read the whole answer. Raises the ApiError that fits, after the safe retries.

        `before` is called each time right before the bytes leave, and may raise to prevent it: a leader may lose its
        lease while the call waits for a connection, for a login, or for another attempt.
        """
        if self._call_seconds is None:
            return await self._call(request, before)
        try:
            async with asyncio.timeout(self._call_seconds):
                return await self._call(request, before)
        except TimeoutError:
            raise TimeoutError(f"{self._host} has not answered within {self._call_seconds:g} s") from None

    async def _call(self, request: Request, before: Before) -> bytes:
        began = perf_counter()
        attempt = 1
        while True:
            try:
                return await self._once(request, before)
            except (StatusError, Unreachable) as error:
                pause = _pause(error, request, attempt)
                if pause is None or perf_counter() - began + pause > CALL_SECONDS:
                    raise
            await self._rest(pause)
            attempt += 1

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send, and read the answer chunk by chunk. Raises Unreachable when nothing comes for `silence_seconds`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        began = perf_counter()
        try:
            begun = await self._with_login(lambda: self._begin(request, timeout))
            if isinstance(begun, Answer):
                self._report(request, begun.code, began)
                raise error_mapping.refused(begun, request.about, hides_values=request.hides_values)
            async with begun as response:
                self._report(request, response.status, began)
                try:
                    yield response.content.iter_any()
                finally:
                    _cut(response)
        except BodyTooLarge as error:
            raise _too_large(request, self.largest_answer_bytes) from error
        except error_mapping.NO_ANSWER as error:
            raise self._unreachable(request, error) from error

    async def _once(self, request: Request, before: Before) -> bytes:
        began, code = perf_counter(), 0
        try:
            answer = await self._with_login(lambda: self._answer(request, before))
            code = answer.code
        except BodyTooLarge as error:
            raise _too_large(request, self.largest_answer_bytes) from error
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

    async def _answer(self, request: Request, before: Before) -> Answer:
        if self.config.proxy:
            return await self._proxied(request, before)
        target = f"{self._root}{request.path}?{request.query}" if request.query else f"{self._root}{request.path}"
        fields = await self._fields(request)
        try:
            start = head(request.method, target, fields)
        except ValueError as error:
            raise _unfit(request) from error
        return await self._connections.exchange(
            RequestMessage(start, request.body),
            tls=self._tls.context(),
            name=self._name,
            largest=self.largest_answer_bytes,
            seconds=CALL_SECONDS,
            repeatable=request.repeatable,
            before=before,
        )

    async def _fields(self, request: Request) -> Headers:
        """The head of a request, but for its first line."""
        fields = (*self._headers, *request.headers, ("Accept-Encoding", "gzip"))
        if not any(name == "Accept" for name, _ in request.headers):
            fields = (*fields, ("Accept", "application/json"))
        if authorization := await self.config.credentials.authorization():
            fields = (*fields, ("Authorization", authorization))
        return fields

    async def _proxied(self, request: Request, before: Before) -> Answer:
        async with await self._send_once(request, _CALL_TIMEOUT, CALLS, before) as response:
            return await _answer_of(response, self.largest_answer_bytes)

    async def _begin(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse | Answer:
        """The head of a stream, or the whole of a refusal."""
        response = await self._send_once(request, timeout, _UNLIMITED)
        if response.status < 300:
            if response.headers.get("Content-Encoding", "identity").strip().lower() != "identity":
                response.close()
                raise ConnectionBroken("an unknown encoding")
            return response
        async with response:
            return await _answer_of(response, self.largest_answer_bytes)

    async def _with_login(self, send: Callable[[], Awaitable[Sent]]) -> Sent:
        """The answer of `send`. Refused credentials are renewed once."""
        sent = await send()
        if not isinstance(sent, Answer) or sent.code != 401:
            return sent
        self.config.credentials.refresh()
        self._tls.refresh()
        return await send()

    async def _send_once(
        self, request: Request, timeout: aiohttp.ClientTimeout, connections: int, before: Before = None
    ) -> aiohttp.ClientResponse:
        session = self._sessions.get(connections) or self._open(connections)
        headers = request.headers
        if authorization := await self.config.credentials.authorization():
            headers = (*headers, ("Authorization", authorization))
        if not all(fits(value) for _, value in headers):
            raise _unfit(request)
        query = f"?{request.query}" if request.query else ""
        fence = _Fence(before)
        with fence.around_sending():
            return await session.request(
                request.method,
                URL(f"{self.config.server}{request.path}{query}", encoded=True),
                data=_payload(request.body, fence),
                headers=headers,
                timeout=timeout,
                allow_redirects=False,  # credentials belong to this server
                ssl=self._tls.context() or False,
                proxy=self.config.proxy or None,
                server_hostname=self.config.tls_server_name or None,
                middlewares=None if request.repeatable or request.method not in ("PUT", "DELETE") else (_only_once,),
            )

    def _open(self, connections: int) -> aiohttp.ClientSession:
        encoding = "identity" if connections == _UNLIMITED else "gzip"
        connector = aiohttp.TCPConnector(limit=connections, keepalive_timeout=75, socket_factory=self._sockets.make)
        session = self._sessions[connections] = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._agent, "Accept": "application/json", "Accept-Encoding": encoding},
            auto_decompress=False,  # it would unpack a whole piece at once, whatever that comes to
            skip_auto_headers=("Content-Type",),
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=_FencedRequest,
            read_bufsize=2**18,
        )
        return session

    def _unreachable(self, request: Request, error: BaseException) -> Unreachable | LoginFailed:
        return error_mapping.unreachable(error, request.about, self.config.server, connect_seconds=CONNECT_SECONDS)

    def _report(self, request: Request, code: int, began: float) -> None:
        if self._on_request is not None:
            seconds = perf_counter() - began
            self._on_request(RequestFacts(request.method, self._host, code, seconds, request.verb, request.resource))


async def _only_once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Make a broken connection look like what aiohttp does not repeat."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise aiohttp.ClientConnectionError("the connection was cut") from error


_LARGE_BYTES = 1 << 20
_CALL_TIMEOUT = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)


def _payload(body: bytes | None, fence: _Fence) -> bytes | io.BytesIO | None:
    """A large body is written in parts: whole it would hold up the event loop."""
    return body if body is None or len(body) <= _LARGE_BYTES else _Parts(body, fence)


class _Fence:
    """`before` of one call on aiohttp's road, which calls us back in the middle of a request in two places."""

    def __init__(self, before: Before) -> None:
        self._before = before
        self._closed: Exception | None = None

    def check(self) -> None:
        """Call `before`, and raise what it raises."""
        if self._before is None:
            return
        try:
            self._before()
        except Exception as error:
            self._closed = error
            raise

    @contextmanager
    def around_sending(self) -> Iterator[None]:
        """Raises what `before` raised: aiohttp takes it for a failure of its connection."""
        token = _fence.set(self)
        try:
            yield
        except aiohttp.ClientError as error:
            if self._closed is None:
                raise
            raise self._closed from error
        except (ValueError, OverflowError) as error:  # of a host or port; a UnicodeError is a ValueError
            raise self._closed or NotConnected("its name is not known") from error
        finally:
            _fence.reset(token)


_fence: ContextVar[_Fence] = ContextVar("fence")


class _FencedRequest(aiohttp.ClientRequest):
    """Asks the fence when the request has its connection, each time that it gets one."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        _fence.get().check()
        return await super().send(conn)


class _Parts(io.BytesIO):
    """A large body, of which each part asks the fence before it is written."""

    def __init__(self, body: bytes, fence: _Fence) -> None:
        super().__init__(body)
        self._fence = fence

    def read(self, size: int | None = -1, /) -> bytes:
        self._fence.check()
        return super().read(size)


async def _answer_of(response: aiohttp.ClientResponse, largest: int) -> Answer:
    """A response of aiohttp as an `Answer`. Raises BodyTooLarge, and ConnectionBroken where it is no valid gzip."""
    try:
        body = AnswerBody(largest, response.headers.get("Content-Encoding", ""))
        async for piece in response.content.iter_any():
            body.add(piece)
        whole = body.whole()
    except (BodyTooLarge, ConnectionBroken):
        _cut(response)
        raise
    headers = tuple((name.lower(), value) for name, value in response.raw_headers)
    return Answer(response.status, response.reason or "", headers, whole)


def _unfit(request: Request) -> LoginFailed:
    return LoginFailed(
        f"cannot {request.about}: the token, or the account to act as, has a character that no header may have: "
        "look for a line break in it"
    )


def _too_large(request: Request, largest: int) -> AnswerTooLarge:
    return AnswerTooLarge(f"cannot {request.about}: the answer is larger than {largest >> 20} MiB")


def _cut(response: aiohttp.ClientResponse) -> None:
    """End a stream that has no reader any more.

    An orderly close needs a TLS close message, for which a streaming server lets the client wait.
    """
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def _pause(error: StatusError | Unreachable, request: Request, attempt: int) -> float | None:
    """Seconds until the request may be sent again; None when it may not."""
    if attempt >= ATTEMPTS or not _may_repeat(error, request):
        return None
    if isinstance(error, StatusError) and error.retry_after is not None:
        # A longer wait is left to the caller, who can do something else meanwhile.
        return error.retry_after * random.uniform(1.0, 1.2) if error.retry_after <= LONGEST_PAUSE_SECONDS else None
    pause: float = FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)
    return min(pause, LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.25)


def _may_repeat(error: StatusError | Unreachable, request: Request) -> bool:
    match error:
        case TooManyRequests():
            return True
        case AddressForbidden():
            return False
        case ServerFault():
            return request.repeatable and error.code in (500, 502, 503, 504)
        case Unreachable():
            return request.repeatable or not error.outcome_unknown
        case _:
            return False
