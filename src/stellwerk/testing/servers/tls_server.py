"""A TLS server on loopback, for the proxy and for doubles of outside services: own authority, free port, clean end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from weakref import WeakSet

from aiohttp import web

from stellwerk.local import certs
from stellwerk.local.host.private_files import write_private

HOST = "127.0.0.1"
_LARGEST_BODY_BYTES = 64 * 1024**2
_BACKLOG = 128
_TURNS_TO_ATTACH = 3
_TURNS_TO_CLOSE = 200
"""Of the event loop: TLS, the transport and the socket close one after the other, a turn or two each."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Listener(socket.socket):
    """A listening socket that keeps the connections it accepted.

    An event loop shows no connection before its TLS handshake is complete.
    """

    def __init__(self, port: int) -> None:
        super().__init__(socket.AF_INET, socket.SOCK_STREAM)
        self._accepted: WeakSet[socket.socket] = WeakSet()
        self.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.bind((HOST, port))

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection, and keep it."""
        connection, address = super().accept()
        self._accepted.add(connection)
        return connection, address

    async def stop_accepting(self) -> None:
        """Accept no further connection. Returns when the event loop has made transports for those it accepted.

        asyncio leaves a connection to the garbage collector if its server closes between these two steps.
        """
        asyncio.get_running_loop().remove_reader(self)
        for _ in range(_TURNS_TO_ATTACH):
            await asyncio.sleep(0)

    async def hang_up(self) -> None:
        """Shut the connections that are still open, and return when the event loop has closed them."""
        for connection in self._still_open():
            with contextlib.suppress(OSError):  # the client was faster
                connection.shutdown(socket.SHUT_RDWR)
        for _ in range(_TURNS_TO_CLOSE):
            if not self._still_open():
                return
            await asyncio.sleep(0)

    def _still_open(self) -> list[socket.socket]:
        return [connection for connection in self._accepted if connection.fileno() >= 0]


class TlsServer:
    """Serves every path with one handler. Opened by `async with`; requests under way are cancelled at the end.

    `authority` is what a client must trust, as PEM. A handler is cancelled when its client goes away. `names` are those
    of its certificate besides its address.
    """

    def __init__(
        self, handler: Handler, *, names: Sequence[str] = (), port: int = 0, authority: certs.Authority | None = None
    ) -> None:
        self._handler = handler
        self._names = names
        self._under_way: set[asyncio.Task[web.StreamResponse]] = set()
        self._transports: WeakSet[asyncio.Transport] = WeakSet()
        self._open = AsyncExitStack()
        self.port = port
        self._authority = authority
        self.authority = ""

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"https://{HOST}:{self.port}"

    async def __aenter__(self) -> TlsServer:
        application = web.Application(client_max_size=_LARGEST_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._handle)
        runner = web.AppRunner(
            application,
            handler_cancellation=True,
            access_log=None,
            shutdown_timeout=1.0,
            max_line_size=64 * 1024,
            max_field_size=256 * 1024,
            auto_decompress=False,
        )
        with tempfile.TemporaryDirectory(prefix="stellwerk-tls-") as folder:
            identity = self._identity(Path(folder))
        await runner.setup()
        listener = _Listener(self.port)
        self._open.push_async_callback(self._end_connections, runner, listener)
        self._open.push_async_callback(self._cancel_under_way)
        await web.SockSite(runner, listener, ssl_context=identity, backlog=_BACKLOG).start()
        self.port = runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _end_connections(self, runner: web.AppRunner, listener: _Listener) -> None:
        """Leave no socket to the garbage collector: a polite end of TLS would wait for peers, which may be frozen."""
        await listener.stop_accepting()
        idle = {connection.transport for connection in getattr(runner.server, "connections", ())}
        await runner.cleanup()
        for transport in {*self._transports, *idle} - {None}:
            transport.abort()
        await listener.hang_up()

    async def _cancel_under_way(self) -> None:
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def _identity(self, folder: Path) -> ssl.SSLContext:
        authority = self._authority or certs.unkept_authority()
        credential = authority.server([HOST], self._names) if self._names else authority.server([HOST])
        self.authority = authority.pem.decode()
        write_private(folder / "server.pem", credential.pem)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(folder / "server.pem")
        return context

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            self._transports.add(request.transport)
        task = asyncio.ensure_future(self._handler(request))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            return await task
        finally:
            task.cancel()
