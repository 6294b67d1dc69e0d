"""Our HTTP servers: probes, metrics, webhooks, and whatever an operator offers to the outside.

All of them are aiohttp servers behind the same limits, because all of them may be reached by strangers: a body of 1
MiB, 10 s for a request to arrive whole, bounded numbers of connections, of large bodies and of requests at a time.
Whoever breaks one gets a status with a JSON body (400, 408, 413, 429) and never a silently closed connection.

aiohttp has no time limit on headers: a client that sends a byte a second would keep its connection for ever. So the
connection is ours (`_Connection`): it is given a deadline when it begins and with each further request, and answers
408 by itself when no request came out of the bytes until then. The rest of the request is read before the handler
runs, so a handler never waits for a slow client.

Addresses are spelled as Go operators' flags spell them: `:8080` for every interface, `0` for "no server". Port 0 lets
the system choose; `Server.port` tells what it chose.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TypeAlias

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware
from aiohttp.web_protocol import RequestHandler

from stellwerk.kube.model import JsonObject, encode_json
from stellwerk.runtime.metrics import Metrics

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

_log = logging.getLogger(__name__)
_JSON = "application/json"
_SMALL_BYTES = 64 * 1024
_NO_ACCESS_LOG = logging.Logger("none")  # aiohttp takes a logger and no None; this one says nothing
_NO_ACCESS_LOG.disabled = True


class AddressInvalid(ValueError):
    """A bind address that is not `host:port`."""


class CannotListen(Exception):
    """The address is taken, or may not be used."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server listens. An empty host means every interface; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address | None:
        """Read `host:port`, `:port` or `[v6]:port`; `0` and the empty text mean no server. Raises AddressInvalid."""
        if text in ("", "0"):
            return None
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise AddressInvalid(f"bind address {text!r}: expected host:port or :port, or 0 for no server")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise AddressInvalid(f"bind address {text!r}: an IPv6 host stands in brackets, as in [::1]:{port}")
        return cls(host.strip("[]"), int(port))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one server accepts."""

    body_bytes: int = 1024 * 1024
    arrival_seconds: float = 10.0
    """How long a request's head, and then its body, may take to arrive."""
    answer_seconds: float | None = 30.0
    """How long a handler may take; None for streams that have no end."""
    idle_seconds: float = 75.0
    """How long a connection may wait for its next request."""
    connections: int = 2048
    requests: int = 256
    """How many requests may be answered at a time; more get 429."""
    large_requests: int = 64
    """How many requests with more than 64 KiB, or of unknown size, may arrive and be answered at a time."""


@dataclass(frozen=True, slots=True)
class Route:
    """One path of a server."""

    method: str
    path: str
    handler: Handler


class Server:
    """One listening socket. `run()` serves until cancelled, and then finishes what is being answered."""

    def __init__(
        self,
        name: str,
        address: Address,
        routes: Sequence[Route],
        *,
        metrics: Metrics | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
        grace_seconds: float = 5.0,
    ) -> None:
        self.name = name
        self._address = address
        self._tls = tls
        self._limits = limits or Limits()
        self._metrics = metrics
        self._grace_seconds = grace_seconds
        self._gate = _Gate(name, self._limits, metrics)
        self._app = web.Application(client_max_size=self._limits.body_bytes, middlewares=[self._gate.middleware()])
        for route in routes:
            self._app.router.add_route(route.method, route.path, route.handler)
        self._runner: web.AppRunner | None = None
        self._listening: asyncio.Server | None = None

    @property
    def is_listening(self) -> bool:
        """Whether callers are let in."""
        return self._listening is not None

    @property
    def port(self) -> int:
        """The port that is listened on. Raises RuntimeError before `start`."""
        if self._listening is None:
            raise RuntimeError(f"server {self.name} does not listen yet")
        return int(self._listening.sockets[0].getsockname()[1])

    async def run(self) -> None:
        """Listen and serve until cancelled. Raises CannotListen."""
        await self.start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Listen. Raises CannotListen with the address and the system's word."""
        self._runner = web.AppRunner(self._app, shutdown_timeout=self._grace_seconds)
        await self._runner.setup()
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connection,
                self._address.host or None,
                self._address.port,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.arrival_seconds if self._tls else None,
                backlog=1024,
                reuse_address=True,
            )
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._address.host}:{self._address.port}"
            raise CannotListen(f"server {self.name} cannot listen on {where}: {error.strerror or error}") from error
        _log.debug("server %s listens on port %d", self.name, self.port)

    async def stop(self) -> None:
        """Take no new connection, let running answers end within the grace, close the rest."""
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.close()
        if self._runner is not None:
            # Also when we are being cancelled a second time: a socket left open would outlive its server.
            await asyncio.shield(self._runner.cleanup())

    def _connection(self) -> asyncio.Protocol:
        assert self._runner is not None
        assert self._runner.server is not None, "the runner is set up before the socket listens"
        return _Connection(self._runner.server, self._limits)


def refusal(status: int, message: str) -> web.Response:
    """An answer that says no: JSON with `error` and `code`, one shape for all our servers."""
    return web.Response(status=status, body=_body(status, message), content_type=_JSON)


def answer(body: JsonObject | msgspec.Struct, status: int = 200) -> web.Response:
    """A JSON answer."""
    return web.Response(status=status, body=encode_json(body), content_type=_JSON)


def _body(status: int, message: str) -> bytes:
    return encode_json({"error": message, "code": status})


class _Gate:
    """What every request passes: the number at a time, its arrival, and the shape of a refusal."""

    def __init__(self, name: str, limits: Limits, metrics: Metrics | None) -> None:
        self._name = name
        self._limits = limits
        self._metrics = metrics
        self._running = 0
        self._large = 0

    def middleware(self) -> Middleware:
        """The gate as aiohttp takes it."""

        @web.middleware
        async def pass_through(request: web.Request, handler: Handler) -> web.StreamResponse:
            return await self._pass_through(request, handler)

        return pass_through

    async def _pass_through(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        large = _may_be_large(request)
        if large and self._large >= self._limits.large_requests:
            return self._counted(_too_many())
        self._large += large
        try:
            return self._counted(await self._arrive(request) or await self._run(request, handler))
        finally:
            self._large -= large

    async def _run(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Only whole requests get here, so a slow client takes nobody's place."""
        if self._running >= self._limits.requests:
            return _too_many()
        self._running += 1
        try:
            return await self._answer(request, handler)
        finally:
            self._running -= 1

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            async with asyncio.timeout(self._limits.answer_seconds):
                return await handler(request)
        except web.HTTPException as error:
            return _as_json(error)
        except TimeoutError:
            _log.warning("server %s: no answer to %s in time", self._name, request.path)
            return refusal(503, "no answer in time: try again")
        except Exception:
            _log.exception("server %s: cannot answer %s %s", self._name, request.method, request.path)
            return refusal(500, "internal error; the log of this process has the cause")

    async def _arrive(self, request: web.Request) -> web.Response | None:
        """Read the whole body; the refusal where that fails."""
        too_large = _closing(refusal(413, f"the body is larger than {self._limits.body_bytes} bytes"))
        if (request.content_length or 0) > self._limits.body_bytes:
            return too_large
        try:
            async with asyncio.timeout(self._limits.arrival_seconds):
                await request.read()
        except web.HTTPRequestEntityTooLarge:
            return too_large
        except TimeoutError:
            return _closing(refusal(408, "the body did not arrive in time"))
        except (web.HTTPException, ValueError) as error:
            return _closing(refusal(400, f"the body cannot be read: {error}"))
        return None

    def _counted(self, response: web.StreamResponse) -> web.StreamResponse:
        if self._metrics is not None:
            self._metrics.answered(self._name, response.status)
        return response


def _may_be_large(request: web.Request) -> bool:
    """Whether the body may be larger than what a thousand clients at a time can be allowed."""
    length = request.content_length
    return request.can_read_body and (length is None or length > _SMALL_BYTES)


def _too_many() -> web.Response:
    return _closing(refusal(429, "too many requests at a time: try again"), retry_after=1)


def _closing(response: web.Response, retry_after: int | None = None) -> web.Response:
    """The answer, and no further request on this connection: its bytes may be anything."""
    response.force_close()
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    return response


def _as_json(error: web.HTTPException) -> web.Response:
    """aiohttp's own refusals (no such path, wrong method) in our shape, with the headers they need."""
    response = refusal(error.status, error.text if error.content_type == _JSON and error.text else error.reason)
    for name in ("Allow", "Location", "Retry-After", "WWW-Authenticate"):
        if name in error.headers:
            response.headers[name] = error.headers[name]
    return response


class _Connection(RequestHandler):
    """One connection, with a deadline for each request's head."""

    __slots__ = ("_deadline", "_limits", "_seen")

    def __init__(self, server: web.Server, limits: Limits) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=limits.idle_seconds,
            lingering_time=1.0,
            access_log=_NO_ACCESS_LOG,
        )
        self._limits = limits
        self._deadline: asyncio.TimerHandle | None = None
        self._seen = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there; it has to say what it wants."""
        super().connection_made(transport)
        server = self._manager
        if server is not None and len(server.connections) > self._limits.connections:
            self._refuse(429, "too many connections: try again")
        else:
            self._expect_head()

    def data_received(self, data: bytes) -> None:
        """Bytes came. Did a request come out of them, or is one under way?"""
        waits = self._waiter is not None and not self._waiter.done() and not self._messages
        if waits and self._deadline is None:
            self._expect_head()  # the first byte of a further request
        super().data_received(data)
        if self._request_count > self._seen:
            self._seen = self._request_count
            self._forget_deadline()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client has gone."""
        self._forget_deadline()
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
        return _closing(refusal(status, said))

    def _expect_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(self._limits.arrival_seconds, self._too_late)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._deadline = None
        self._refuse(408, "the request did not arrive in time")

    def _refuse(self, status: int, message: str) -> None:
        """Answer without a request, and hang up."""
        transport = self.transport
        if transport is not None and not transport.is_closing():
            body = _body(status, message)
            head = f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: {_JSON}\r\n"
            transport.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        self.force_close()
