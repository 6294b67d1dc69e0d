"""How many large requests a server has at a time, and that each of them gives its room back."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.unit.runtime.test_http import Raw, connected, serving
from tests.unit.runtime.test_http_requests import HOST, ROUTES, read
from tests.unit.runtime.test_server_end import Loop, on_both_loops, run

from stellwerk.runtime.serving.http import Server, ServerLimits
from stellwerk.runtime.serving.http_messages import Request, Response, answer, closing
from stellwerk.runtime.serving.routes import Route
from stellwerk.testing.eventually import eventually

pytestmark = [pytest.mark.req("R-701"), pytest.mark.heavy]

SMALL = b"GET /told/x" + HOST + b"\r\n"
LARGE_BODY = b"x" * (65 << 10)
LARGE = (
    b"PUT /told/x" + HOST + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(LARGE_BODY), LARGE_BODY)
)


@on_both_loops
def test_a_large_request_whose_client_goes_before_it_is_answered_leaves_its_room(loop: Loop) -> None:
    """A task that is cancelled before its first step runs none of its code."""

    async def go_at_once() -> None:
        async with serving(ServerLimits(large_requests=1), routes=ROUTES) as server:
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", server.port)) as client:
                    client.sendall(SMALL + LARGE)  # all of it, and the end, is there when the server begins to read
                async with connected(server) as raw:  # a later one: the other was accepted before it
                    await raw.send(SMALL)
                    await read(raw)
            await eventually(lambda: not server.connections)
            async with connected(server) as raw:
                await raw.send(LARGE)
                assert (await read(raw))[0].startswith(b"HTTP/1.1 200")

    run(loop, go_at_once())


BEGIN_CHUNKS = b"PUT /told/x" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
ANNOUNCED = b"PUT /told/x" + HOST + b"Content-Length: 70000\r\n\r\n"


@asynccontextmanager
async def connected_from(address: str, server: Server) -> AsyncIterator[Raw]:
    """A connection of another client: any address of 127.0.0.0/8 is one of this machine."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, local_addr=(address, 0))
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def until_read(server: Server) -> None:
    """Return when the server has read what was sent before."""
    async with connected(server) as raw:
        await raw.send(SMALL)
        await read(raw)


@pytest.mark.parametrize("begin", [BEGIN_CHUNKS, ANNOUNCED], ids=["small chunks", "only announced"])
async def test_a_request_of_which_little_has_come_takes_no_room_of_large_ones(begin: bytes) -> None:
    async with serving(ServerLimits(large_requests=1), routes=ROUTES) as server, connected(server) as waiting:
        await waiting.send(begin)
        await until_read(server)
        async with connected(server) as raw:
            await raw.send(LARGE)
            assert (await read(raw))[0].startswith(b"HTTP/1.1 200")


async def test_a_chunked_request_takes_its_room_when_it_is_large() -> None:
    async with serving(ServerLimits(large_requests=1), routes=ROUTES) as server, connected(server) as begun:
        await begun.send(LARGE[:-5])
        await until_read(server)
        async with connected(server) as raw:
            await raw.send(LARGE)
            assert (await raw.answer())[0] == 429
        await begun.send(LARGE[-5:])
        assert (await read(begun))[0].startswith(b"HTTP/1.1 200")


async def test_a_client_with_all_rooms_for_large_requests_leaves_half_of_them_to_another() -> None:
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(ServerLimits(large_requests=4), routes=ROUTES))
        hogs = [await stack.enter_async_context(connected(server)) for _ in range(4)]
        for hog in hogs:
            await hog.send(ANNOUNCED + b"x")
            await until_read(server)
        others = [await stack.enter_async_context(connected_from("127.0.0.2", server)) for _ in range(3)]
        for other in others:
            await other.send(ANNOUNCED + b"x")
            await until_read(server)
        assert [(await raw.answer())[0] for raw in (*hogs[:2], others[2])] == [429, 429, 429]
        for served in (*hogs[2:], *others[:2]):
            await served.send(b"x" * 69_999)
            assert (await read(served))[0].startswith(b"HTTP/1.1 200")


async def test_a_large_request_that_gives_way_is_refused_behind_the_answers_before_it() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await go_on.wait()
        return answer({})

    limits = ServerLimits(large_requests=1)
    async with contextlib.AsyncExitStack() as stack:
        server = await stack.enter_async_context(serving(limits, routes=[*ROUTES, Route("GET", "/slow", slow)]))
        hog = await stack.enter_async_context(connected(server))
        other = await stack.enter_async_context(connected_from("127.0.0.2", server))
        await hog.send(b"GET /slow" + HOST + b"\r\n" + ANNOUNCED + b"x")
        await begun.wait()
        await hog.send(b"x" * 30_000)
        await other.send(LARGE)
        assert (await read(other))[0].startswith(b"HTTP/1.1 200")
        go_on.set()
        assert [(await hog.answer())[0] for _ in range(2)] == [200, 429]
        await hog.send(b"x" * 39_999)
        assert await hog.is_closed()


async def test_large_requests_that_are_dropped_behind_a_last_answer_leave_their_room() -> None:
    async def last(_: Request) -> Response:
        return closing(answer({}))

    limits = ServerLimits(large_requests=1)
    async with serving(limits, routes=[*ROUTES, Route("GET", "/last", last)]) as server:
        with socket.create_connection(("127.0.0.1", server.port)) as client:
            client.sendall(b"GET /last" + HOST + b"\r\n" + LARGE)
            await until_read(server)
        await eventually(lambda: not server.connections)
        async with connected(server) as raw:
            await raw.send(LARGE)
            assert (await read(raw))[0].startswith(b"HTTP/1.1 200")
