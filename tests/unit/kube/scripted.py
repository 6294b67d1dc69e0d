"""Servers that say whatever a test wants, byte by byte, and calls to them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohappyeyeballs
from tests.unit.sockets import all_closed

from stellwerk.kube.http.connection_pool import Connections, Wish
from stellwerk.kube.http.dialer import Dialer
from stellwerk.kube.http.messages import Answer, RequestMessage, head
from stellwerk.kube.http.sockets import OwnSocket

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
MOST = 1 << 20
Words = Callable[[int, bytes], bytes | None]


@dataclass
class Server:
    """Answers each request with bytes; None: says nothing, and keeps the connection."""

    words: Words
    portion: int = 0
    """Answers in pieces of so many bytes; 0: at once."""
    hangs_up: bool = False
    """Whether it closes the connection behind an answer without saying so."""
    asked: list[bytes] = field(default_factory=list)
    came: asyncio.Event = field(default_factory=asyncio.Event)
    dialled: asyncio.Event = field(default_factory=asyncio.Event)
    connections: int = 0
    port: int = 0
    open: int = 0
    """How many connections there are now."""
    under_way: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def ended(self) -> None:
        """Every connection is, as the server sees it."""
        await asyncio.gather(*(task for task in self.under_way if task is not None), return_exceptions=True)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        self.under_way.add(asyncio.current_task())
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = next((int(one[15:]) for one in head.split(b"\r\n") if one.startswith(b"Content-Length:")), 0)
                self.asked.append(head + await reader.readexactly(size))
                self.came.set()
                said = self.words(len(self.asked), self.asked[-1])
                if said is None:
                    continue
                for begin in range(0, len(said), self.portion or len(said)):
                    writer.write(said[begin : begin + (self.portion or len(said))])
                    await writer.drain()
                if self.hangs_up:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def serving(
    words: Words | bytes, *, limit: int = 2, tls: ssl.SSLContext | None = None, **kwargs: object
) -> AsyncIterator[tuple[Server, Connections]]:
    fixed = words
    server = Server((lambda number, request: fixed) if isinstance(fixed, bytes) else fixed, **kwargs)  # type: ignore[arg-type]
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    connections = connected_to(server.port, limit, server.dialled)
    async with listening:
        try:
            yield server, connections
        finally:
            connections.close()
            await server.ended()
            await all_closed(server.port)


def connected_to(
    port: int, limit: int = 2, dialled: asyncio.Event | None = None, host: str = "127.0.0.1"
) -> Connections:
    """`dialled` is set when a socket is made."""

    def make(address: aiohappyeyeballs.AddrInfoType) -> OwnSocket:
        if dialled is not None:
            dialled.set()
        return OwnSocket(*address[:3])

    return Connections(Dialer(host, port, 5, make), limit=limit)


async def ask(
    connections: Connections,
    path: str = "/",
    body: bytes | None = None,
    *,
    method: str = "PATCH",
    tls: ssl.SSLContext | None = None,
    name: str = "127.0.0.1",
    seconds: float = 10,
    largest: int = MOST,
    repeatable: bool = True,
    tenant: str = "",
) -> Answer:
    message = RequestMessage(head(method, path, [("Host", "here")]), body)
    wish = Wish(tls=tls, name=name, largest=largest, repeatable=repeatable, tenant=tenant)
    return await connections.exchange(message, wish, seconds=seconds)
