"""How connections of our servers end: none outlives its server or its place, whatever its client does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TypeAlias

import pytest
from tests.unit.frozen_clients import FROZEN, Begin, a_handshake, an_unread_answer, closed_at_the_end, half_a_head
from tests.unit.sockets import accepted_at, shrink_buffers_at

from stellwerk.runtime.serving.http import ListenAddress, Server, ServerLimits
from stellwerk.runtime.serving.http_messages import Request, Response, answer
from stellwerk.runtime.serving.routes import Route
from stellwerk.runtime.serving.tls import SelfSigned
from stellwerk.testing.eventually import eventually

pytestmark = [pytest.mark.req("R-701"), pytest.mark.heavy]

LOOPBACK = ListenAddress("127.0.0.1", 0)
LARGE = b"x" * 8_000_000
Serving: TypeAlias = Callable[..., AbstractAsyncContextManager[Server]]
Loop: TypeAlias = Callable[[], asyncio.AbstractEventLoop]
LOOPS: dict[str, Loop] = {"asyncio": asyncio.new_event_loop}
if sys.platform != "win32":
    import uvloop

    LOOPS["uvloop"] = uvloop.new_event_loop
on_both_loops = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)


async def large(_: Request) -> Response:
    return Response(200, LARGE)


ROUTES = [Route("GET", "/large", large), Route("POST", "/large", large)]


def careless() -> ssl.SSLContext:
    """A client's TLS that verifies nothing."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


@asynccontextmanager
async def plain(
    limits: ServerLimits | None = None,
    routes: Sequence[Route] = ROUTES,
    grace_seconds: float = 0.1,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[Server]:
    server = Server("test", LOOPBACK, routes, tls=tls, limits=limits, grace_seconds=grace_seconds)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def secured(
    limits: ServerLimits | None = None, routes: Sequence[Route] = ROUTES, grace_seconds: float = 0.1
) -> AsyncIterator[Server]:
    own = SelfSigned(names=("localhost",))
    own.check()
    async with plain(limits, routes, grace_seconds, own.context) as server:
        yield server


def run(loop: Loop, work: Awaitable[None]) -> None:
    async def awaited() -> None:
        await work

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(awaited())


@on_both_loops
@pytest.mark.parametrize("begin", FROZEN.values(), ids=FROZEN)
def test_no_connection_of_a_frozen_client_outlives_the_server(loop: Loop, begin: Begin) -> None:
    async def serve_and_stop() -> None:
        with closed_at_the_end() as clients:
            async with secured(ServerLimits(arrival_seconds=60)) as server:
                port = server.port
                clients.append(await asyncio.to_thread(begin, port, careless()))
                await eventually(lambda: accepted_at(port))
            assert not accepted_at(port)

    run(loop, serve_and_stop())


@on_both_loops
@pytest.mark.parametrize("begin", [a_handshake, an_unread_answer])
def test_connections_that_give_way_leave_no_open_files(loop: Loop, begin: Begin) -> None:
    """A polite end of TLS waits for a client that does not answer it."""

    async def crowd() -> None:
        with closed_at_the_end() as clients:
            async with secured(ServerLimits(connections=5, arrival_seconds=60)) as server:
                port = server.port
                for _ in range(20):
                    clients.append(await asyncio.to_thread(begin, port, careless()))
                await eventually(lambda: len(accepted_at(port)) <= 5, within=20)

    run(loop, crowd())


UNREAD = {"plain": (plain, None), "tls": (secured, careless())}


@on_both_loops
@pytest.mark.parametrize(("serving", "tls"), UNREAD.values(), ids=UNREAD)
def test_an_answer_that_is_not_read_ends_its_connection(
    loop: Loop, serving: Serving, tls: ssl.SSLContext | None
) -> None:
    limits = ServerLimits(reading_seconds=0.2, idle_seconds=60)

    async def leave_unread() -> None:
        with closed_at_the_end() as clients:
            async with serving(limits) as server:
                port = server.port
                clients.append(await asyncio.to_thread(an_unread_answer, port, tls))
                await eventually(lambda: not accepted_at(port), within=20)

    run(loop, leave_unread())


def asked_for_last(port: int, tls: ssl.SSLContext | None) -> socket.socket:
    """A request for /last on a connection that holds little of what has come; one byte of the answer has."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8_192)
    client.settimeout(20)
    client.connect(("127.0.0.1", port))
    if tls is not None:
        client = tls.wrap_socket(client, server_hostname="127.0.0.1")
    client.sendall(b"GET /last HTTP/1.1\r\nHost: a\r\n\r\n")
    assert client.recv(1)
    return client


def read_to_its_end(client: socket.socket) -> int:
    """How many bytes still come."""
    read_bytes = 0
    while piece := client.recv(4_096):
        read_bytes += len(piece)
    client.close()
    return read_bytes


@on_both_loops
@pytest.mark.parametrize(("serving", "tls"), UNREAD.values(), ids=UNREAD)
@pytest.mark.parametrize("size", [60_000, 120_000])
def test_a_stop_waits_for_clients_that_still_read_their_answers(
    loop: Loop, serving: Serving, tls: ssl.SSLContext | None, size: int
) -> None:
    async def last(_: Request) -> Response:
        return Response(200, b"x" * size)

    async def stop_while_it_is_read() -> None:
        with closed_at_the_end() as clients:
            async with serving(ServerLimits(), [Route("GET", "/last", last)], 20) as server:
                shrink_buffers_at(server.port)
                clients.append(await asyncio.to_thread(asked_for_last, server.port, tls))
                stopping = asyncio.create_task(server.stop())
                done, _ = await asyncio.wait([stopping], timeout=0.3)
                assert not done
                assert await asyncio.to_thread(read_to_its_end, *clients) > size
                async with asyncio.timeout(10):
                    await stopping

    run(loop, stop_while_it_is_read())


@on_both_loops
def test_a_stop_does_not_wait_for_connections_that_rest(loop: Loop) -> None:
    """Their clients may be frozen, and never answer the end of TLS."""

    async def stop_at_once() -> None:
        with closed_at_the_end() as clients:
            async with secured(ServerLimits(arrival_seconds=60), ROUTES, 300) as server:
                port = server.port
                for begin in (a_handshake, half_a_head):
                    clients.append(await asyncio.to_thread(begin, port, careless()))
                await eventually(lambda: len(accepted_at(port)) == 2)
                async with asyncio.timeout(20):
                    await server.stop()

    run(loop, stop_at_once())


class Stuck:
    """A handler that waits until it is cancelled."""

    def __init__(self) -> None:
        self.begun, self.cancelled = asyncio.Event(), asyncio.Event()

    async def handle(self, _: Request) -> Response:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()
        raise AssertionError


@asynccontextmanager
async def asked(stuck: Stuck, *, grace_seconds: float) -> AsyncIterator[tuple[Server, asyncio.StreamWriter]]:
    """A server, not stopped at the end, that answers this client's request."""
    limits = ServerLimits(answer_seconds=None)
    server = Server("test", LOOPBACK, [Route("GET", "/", stuck.handle)], limits=limits, grace_seconds=grace_seconds)
    await server.start()
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    await stuck.begun.wait()
    yield server, writer
    writer.close()


async def test_a_handler_does_not_outlive_its_client() -> None:
    stuck = Stuck()
    async with asked(stuck, grace_seconds=300) as (server, client):
        client.close()
        async with asyncio.timeout(30):
            await stuck.cancelled.wait()
            await server.stop()


async def test_a_handler_does_not_outlive_the_grace_of_its_server() -> None:
    stuck = Stuck()
    async with asked(stuck, grace_seconds=0.1) as (server, _):
        await server.stop()
        assert stuck.cancelled.is_set()


async def test_a_second_cancellation_ends_the_grace() -> None:
    stuck = Stuck()
    async with asked(stuck, grace_seconds=300) as (server, _):
        stopping = asyncio.create_task(server.stop())
        await asyncio.sleep(0)
        stopping.cancel()
        async with asyncio.timeout(30):
            await asyncio.wait([stopping])
            await stuck.cancelled.wait()
        await eventually(lambda: server.connections == 0)


async def test_a_server_that_was_stopped_starts_again() -> None:
    async def hello(_: Request) -> Response:
        return answer({})

    server = Server("test", LOOPBACK, [Route("GET", "/", hello)])
    for _ in range(2):
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()
        await server.stop()
