"""Bytes to an API server and back: one connection pool, credentials that rotate, retries that are safe.

What may be sent again is decided here and nowhere else. A refusal with 429 was not carried out, whatever it was. A
connection that never came about carried nothing. Everything else is sent again only when a second time does no harm:
reads, applies, deletes with a precondition, updates with a resourceVersion. A create whose answer was lost is reported
as `Unreachable`: only a fresh look tells whether it took place.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import TypeAlias

import aiohttp
import msgspec
from yarl import URL

from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.errors import LoginFailed, ServerFault, Status, StatusError, TooManyRequests, Unreachable, refusal

ATTEMPTS = 5
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0
CONNECT_SECONDS = 5.0
CALL_SECONDS = 60.0

Headers: TypeAlias = tuple[tuple[str, str], ...]
"""Names may repeat: a group of an impersonated user has a header of its own."""

_status = msgspec.json.Decoder(Status)


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """One finished request, for metrics. `code` is 0 when no answer came."""

    method: str
    host: str
    code: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Request:
    """What to send. `about` finishes the sentence "cannot ..."; `repeatable`: a second time does no harm."""

    method: str
    path: str
    query: str = ""
    body: bytes | None = None
    headers: Headers = ()
    about: str = ""
    repeatable: bool = True
    hides_values: bool = False
    """Whether a refusal may quote values that nobody should read."""


class Transport:
    """A pool of connections to one API server."""

    def __init__(
        self, config: ClusterConfig, *, user_agent: str, on_request: Callable[[RequestFacts], None] | None = None
    ) -> None:
        self.config = config
        self._agent = user_agent
        self._on_request = on_request
        self._session: aiohttp.ClientSession | None = None
        self._host = URL(config.server).authority

    async def __aenter__(self) -> Transport:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections. A further call opens new ones."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, request: Request) -> bytes:
        """Send, and read the whole answer. Raises the ApiError that fits, after the safe retries."""
        attempt = 1
        while True:
            try:
                return await self._once(request)
            except (StatusError, Unreachable) as error:
                pause = _pause(error, request, attempt)
                if pause is None:
                    raise
            await asyncio.sleep(pause)
            attempt += 1

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """Send, and read the answer chunk by chunk. Raises Unreachable when nothing comes for `silence_seconds`."""
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence_seconds)
        began = perf_counter()
        try:
            async with await self._send(request, timeout) as response:
                self._report(request, response.status, began)
                if response.status >= 400:
                    raise _refused(request, response, await response.read())
                yield response.content.iter_any()
        except _NO_ANSWER as error:
            raise _unreachable(request, self.config, error) from error

    async def _once(self, request: Request) -> bytes:
        began, code = perf_counter(), 0
        try:
            async with await self._send(request, _CALL_TIMEOUT) as response:
                body = await response.read()
                code = response.status
        except _NO_ANSWER as error:
            raise _unreachable(request, self.config, error) from error
        finally:
            self._report(request, code, began)
        if code >= 400:
            raise _refused(request, response, body)
        return body

    async def _send(self, request: Request, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientResponse:
        """The response's head. Credentials that were refused are made anew once."""
        session = self._session or await self._open()
        url = URL(f"{self.config.server}{request.path}{'?' if request.query else ''}{request.query}", encoded=True)
        for last in (False, True):
            headers = request.headers
            if authorization := await self.config.credentials.authorization():
                headers = (*headers, ("Authorization", authorization))
            response = await session.request(
                request.method,
                url,
                data=request.body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
                proxy=self.config.proxy or None,
                server_hostname=self.config.tls_server_name or None,
            )
            if response.status != 401 or last:
                return response
            response.release()
            await self._log_in_again()
        raise AssertionError("the loop above returns")

    async def _open(self) -> aiohttp.ClientSession:
        context = self.config.ssl_context()
        connector = aiohttp.TCPConnector(ssl=context or False, limit=0, limit_per_host=0, keepalive_timeout=75)
        self._session = aiohttp.ClientSession(
            connector=connector,
            headers={"User-Agent": self._agent, "Accept": "application/json"},
            auto_decompress=True,
            skip_auto_headers=("Content-Type",),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=2**18,
        )
        return self._session

    async def _log_in_again(self) -> None:
        """A token may have been rotated, a certificate renewed on disk: new connections read both again."""
        self.config.credentials.refresh()
        if self.config.client_certificate and self._session is not None:
            old, self._session = self._session, None
            await old.close()
            await self._open()

    def _report(self, request: Request, code: int, began: float) -> None:
        if self._on_request is not None:
            self._on_request(RequestFacts(request.method, self._host, code, perf_counter() - began))


_CALL_TIMEOUT = aiohttp.ClientTimeout(total=CALL_SECONDS, sock_connect=CONNECT_SECONDS)
_NO_ANSWER = (aiohttp.ClientError, TimeoutError, ConnectionError)


def _pause(error: StatusError | Unreachable, request: Request, attempt: int) -> float | None:
    """Seconds until the request may be sent again; None when it may not."""
    if attempt >= ATTEMPTS:
        return None
    if isinstance(error, StatusError):
        refused_before = isinstance(error, TooManyRequests)
        passing = isinstance(error, ServerFault) and error.code in (500, 502, 503, 504)
        if not refused_before and not (passing and request.repeatable):
            return None
        if error.retry_after is not None:
            return min(error.retry_after, LONGEST_PAUSE_SECONDS) * random.uniform(1.0, 1.2)
    elif not request.repeatable and not isinstance(error.__cause__, aiohttp.ClientConnectorError):
        return None
    pause: float = FIRST_PAUSE_SECONDS * 2.0 ** (attempt - 1)
    return min(pause, LONGEST_PAUSE_SECONDS) * random.uniform(0.75, 1.25)


def _refused(request: Request, response: aiohttp.ClientResponse, body: bytes) -> StatusError:
    try:
        status = _status.decode(body)
    except msgspec.DecodeError:
        words = " ".join(body[:200].decode(errors="replace").split())
        status = Status(code=response.status, reason=response.reason or "", message=words)
    if not status.code:
        status = msgspec.structs.replace(status, code=response.status)
    if request.hides_values and status.code in (400, 422):
        status = _without_values(status)
    wait = response.headers.get("Retry-After", "")
    return refusal(status, request.about, float(wait) if wait.isdigit() else None)


def _without_values(status: Status) -> Status:
    """A refusal that says which fields are wrong, and not what is in them."""
    fields = ", ".join(cause.field for cause in status.details.causes if cause.field) or "its content"
    causes = tuple(msgspec.structs.replace(cause, message="") for cause in status.details.causes)
    return msgspec.structs.replace(
        status,
        message=f"{status.details.kind} {status.details.name!r} is invalid: see {fields}",
        details=msgspec.structs.replace(status.details, causes=causes),
    )


def _unreachable(request: Request, config: ClusterConfig, error: BaseException) -> Unreachable | LoginFailed:
    cause = "no answer in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    if isinstance(error, aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError):
        return LoginFailed(f"cannot {request.about}: {config.server} does not prove its identity: {cause}")
    return Unreachable(f"cannot {request.about}: {config.server} does not answer: {cause}")
