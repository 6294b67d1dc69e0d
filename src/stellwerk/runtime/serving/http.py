"""Our HTTP servers: probes, metrics, webhooks, and whatever an operator offers to the outside.

All of them have the same limits, because all of them may be reached by strangers: a body of 1 MiB, 10 s for a request
to arrive whole, bounded numbers of connections, of large bodies and of requests at a time. A client that exceeds one
gets a status with a JSON body (400, 408, 413, 429) and never a silently closed connection. The requests of
a connection are the work of `http_connections`.

Nor does a client that holds connections open keep others out: at the limit, the longest waiting connection of the peer
with the most gives way (`crowd`). A TLS handshake counts as a connection.

Addresses are spelled as Go operators' flags spell them: `:8080` for every interface, `0` for "no server". Port 0 lets
the system choose; `Server.port` is the chosen one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import resource
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from weakref import WeakSet

from stellwerk.runtime.serving.crowd import Crowd, peer_of
from stellwerk.runtime.serving.http_connections import Handshake, HttpConnection, Service, admit
from stellwerk.runtime.serving.http_connections import ServerLimits as ServerLimits
from stellwerk.runtime.serving.http_messages import Request, Response, refusal, too_many
from stellwerk.runtime.serving.routes import Handler, Routes
from stellwerk.runtime.serving.routes import Route as Route
from stellwerk.runtime.serving.unread_answers import UnreadAnswers
from stellwerk.runtime.supervision.tasks import StartFailed, surprise
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.metrics import Metrics

_log = logging.getLogger(__name__)
_BACKLOG = 1024
_ACCEPTED_AT_ONCE = 100
"""How many connections are accepted before the event loop does something else."""
_ACCEPT_AGAIN_SECONDS = 0.1
_SERVER_PART = 8
"""The part of the open files of a process that one server may have for connections: one in so many."""
_CANCELLED_SECONDS = 2.0
"""How long cancelled handlers may take to end."""
_TURNS_TO_CLOSE = 200
"""Of the event loop: TLS, the transport and the socket close one after the other, a turn or two each."""


class AddressInvalid(ValueError):
    """A bind address that is not `host:port`."""


class CannotListen(StartFailed):
    """The address is taken, or may not be used."""


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Where a server listens. An empty host means every interface; port 0 lets the system choose."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ListenAddress | None:
        """Read `host:port`, `:port` or `[v6]:port`; `0` and the empty text mean no server. Raises AddressInvalid."""
        if text in ("", "0"):
            return None
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise AddressInvalid(f"bind address {text!r}: expected host:port or :port, or 0 for no server")
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise AddressInvalid(f"bind address {text!r}: an IPv6 host is in brackets, as in [::1]:{port}")
        return cls(host.strip("[]"), int(port))


class Server:
    """One listening socket. `run()` serves until cancelled, and then finishes what is being answered."""

    def __init__(
        self,
        name: str,
        address: ListenAddress,
        routes: Sequence[Route],
        *,
        metrics: Metrics | None = None,
        tls: ssl.SSLContext | None = None,
        limits: ServerLimits | None = None,
        grace_seconds: float = 5.0,
        on_answer: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`on_answer` is called with the status of each answer, also of a refusal that no handler has seen."""
        self.name = name
        self._address = address
        self._tls = tls
        self._limits = limits or ServerLimits()
        self._grace_seconds = grace_seconds
        self._crowd = Crowd(_at_most(self._limits.connections))
        self._handshakes: set[asyncio.Task[bool]] = set()
        self._connections: WeakSet[HttpConnection] = WeakSet()
        self._listeners: list[socket.socket] = []
        self._cannot_accept = False
        """Whether the process had too many open files for a connection that waited, and has not accepted all since."""
        gate = _Gate(name, self._limits, metrics, self._crowd, Routes(routes), on_answer)
        self._tasks: set[asyncio.Task[None]] = set()
        large = Crowd(self._limits.large_requests)
        unread = UnreadAnswers(self._limits.unread_bytes)
        self._service = Service(self._limits, self._crowd, large, unread, gate.answer, gate.counted, self._tasks)
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

    @property
    def connections(self) -> int:
        """How many connections are open, TLS handshakes included."""
        return len(self._crowd)

    @property
    def most_connections(self) -> int:
        """How many may be open."""
        return self._crowd.limit

    async def run(self) -> None:
        """Listen and serve until cancelled. Raises CannotListen."""
        await self.start()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await self.stop()

    async def start(self) -> None:
        """Listen. Raises CannotListen with the address and the system's word."""
        try:
            self._listening = await asyncio.get_running_loop().create_server(
                self._connection,
                self._address.host or None,
                self._address.port,
                reuse_address=True,
                start_serving=False,
            )
            self._listen(self._listening.sockets)
        except OSError as error:
            await self.stop()
            where = f"{self._address.host}:{self._address.port}"
            raise CannotListen(f"server {self.name} cannot listen on {where}: {error.strerror or error}") from error
        _log.debug("server %s listens on port %d", self.name, self.port)

    async def stop(self) -> None:
        """Take no new connection, let running answers end and be read within the grace, close the rest.

        Returns when no handler runs and no connection is open. A second cancellation ends the grace.
        """
        listening, self._listening = self._listening, None
        loop = asyncio.get_running_loop()
        for listener in self._listeners:
            loop.remove_reader(listener)
            listener.close()
        self._listeners = []
        if listening is not None:
            listening.close()
        ending = loop.create_task(self._end(), name=f"end of server {self.name}")
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            self._cut()
            raise

    async def _end(self) -> None:
        began = asyncio.get_running_loop().time()
        for handshake in self._handshakes:
            handshake.cancel()
        for connection in [*self._connections]:
            connection.finish()
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=self._grace_seconds)
        await self._closed()
        await self._read(began)
        self._cut()
        if self._tasks:
            await asyncio.wait([*self._tasks], timeout=_CANCELLED_SECONDS)
        await self._closed()

    async def _read(self, began: float) -> None:
        """Close what rests, and wait for the clients of recent answers until the grace is over.

        The last bytes of an answer may still be on their way, which TLS does not show; a client closes the connection
        when it has read them.
        """
        reading = [each for each in self._connections if each.is_open]
        for connection in reading:
            if connection.answered_at < began - self._grace_seconds:
                connection.cut()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(began + self._grace_seconds):
                for connection in reading:
                    await connection.closed.wait()

    async def _closed(self) -> None:
        """Wait for connections that are closing, for as long as only the event loop has to act."""
        for _ in range(_TURNS_TO_CLOSE):
            if not self._handshakes and not any(connection.is_open for connection in self._connections):
                return
            await asyncio.sleep(0)

    def _cut(self) -> None:
        """Cancel the handlers, and close all connections at once."""
        for task in self._tasks:
            task.cancel()
        for connection in [*self._connections]:
            connection.cut()

    def _connection(self, arrival: Handshake | None = None) -> HttpConnection:
        connection = HttpConnection(self._service, arrival)
        self._connections.add(connection)
        return connection

    def _listen(self, bound: Sequence[socket.socket]) -> None:
        """Listen without the event loop's server: it shows no connection before its handshake has ended, and loses one
        that it accepts while it closes."""
        self._listeners = [socket.socket(fileno=os.dup(each.fileno())) for each in bound]
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._resume(listener)

    def _resume(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept the connections that wait, and begin their TLS handshakes."""
        loop = asyncio.get_running_loop()
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                accepted, address = listener.accept()
            except BlockingIOError:  # none waits
                self._cannot_accept = False
                return
            except (InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # as many files are open as may be; a connection that ends makes room
                if not self._cannot_accept:
                    _log.warning("server %s cannot accept a connection: %s", self.name, error)
                self._cannot_accept = True
                loop.remove_reader(listener)
                loop.call_later(_ACCEPT_AGAIN_SECONDS, self._resume, listener)
                return
            accepted.setblocking(False)
            arrival = Handshake(partial(self._shake_hands, accepted))
            self._handshakes.add(arrival.task)
            if self._tls is not None:
                admit(self._crowd, arrival, peer_of(address))
            arrival.task.add_done_callback(partial(self._on_handshake_end, arrival, accepted))

    def _on_handshake_end(self, arrival: Handshake, accepted: socket.socket, handshake: asyncio.Task[bool]) -> None:
        self._handshakes.discard(handshake)
        self._crowd.leave(arrival)
        if handshake.cancelled() or not handshake.result():
            accepted.close()

    async def _shake_hands(self, accepted: socket.socket, arrival: Handshake) -> bool:
        """Whether a connection came of it. Without TLS there is nothing to wait for."""
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                partial(self._connection, arrival),
                accepted,
                ssl=self._tls,
                ssl_handshake_timeout=self._limits.arrival_seconds if self._tls else None,
            )
        except Exception as error:  # a client may send anything, and go at any time
            _log.debug("server %s: no TLS handshake: %s", self.name, error)
            return False
        return True


class _Gate:
    """What every request passes: the number at a time, its time, and the shape of a refusal."""

    def __init__(
        self,
        name: str,
        limits: ServerLimits,
        metrics: Metrics | None,
        crowd: Crowd,
        routes: Routes,
        on_answer: Callable[[int], None],
    ) -> None:
        self._name = name
        self._on_answer = on_answer
        self._limits = limits
        self._metrics = metrics
        self._crowd = crowd
        self._routes = routes
        self._running = 0

    async def answer(self, request: Request, connection: HttpConnection) -> Response:
        """The response to a request, whatever happens."""
        if self._running >= self._limits.requests:
            return self.counted(too_many())
        self._running += 1
        self._crowd.answering(connection)
        try:
            return self.counted(await self._answer(request))
        finally:
            self._running -= 1
            self._crowd.waiting(connection)

    async def _answer(self, request: Request) -> Response:
        found = self._routes.find(request)
        return found if isinstance(found, Response) else await self._handled(request, found)

    async def _handled(self, request: Request, handler: Handler) -> Response:
        try:
            async with asyncio.timeout(self._limits.answer_seconds):
                return await handler(request)
        except TimeoutError:
            _log.warning("server %s: no answer to %s in time", self._name, request.path)
            return refusal(503, "no answer in time: try again")
        except BaseException as raised:
            failure = raised if isinstance(raised, Exception) else surprise(raised)
            what = "server %s: cannot answer %s %s"
            _log.error(what, self._name, request.method, request.path, exc_info=failure, extra=logs.STACK)
            if self._metrics is not None:
                self._metrics.task_failed("request")
            return refusal(500, "internal error; the log of this process has the cause")

    def counted(self, response: Response) -> Response:
        """The response, which its client gets now."""
        if self._metrics is not None:
            self._metrics.answered(self._name, response.status)
        self._on_answer(response.status)
        return response


def _at_most(connections: int) -> int:
    """So many connections that files and connections to API servers can still be opened besides them."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return connections if files == resource.RLIM_INFINITY else max(1, min(connections, files // _SERVER_PART))
