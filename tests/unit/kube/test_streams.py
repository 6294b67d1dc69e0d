"""An answer that lasts is read while it comes, and holds no more than its reader takes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop
from tests.unit.kube.identities import authority, server_side
from tests.unit.kube.scripted import OK, Server, serving

from stellwerk.kube.http.streamed_body import StreamedBody
from stellwerk.kube.http.transport import CALLS, Request, Transport
from stellwerk.kube.login.auth import Material
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Forbidden, Unreachable
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.heavy

NewLoop = Callable[[], asyncio.AbstractEventLoop]
on_both_loops = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
LOOK = Request("GET", "/", about="look")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
DENIED = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\n{}"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def reaching(words: Callable[[int, bytes], bytes | None] | bytes) -> AsyncIterator[tuple[Server, Transport]]:
    async with serving(words) as (server, _):
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}")
        async with Transport(config, user_agent="test", rest=_at_once) as transport:
            yield server, transport


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


async def whole(transport: Transport, silence_seconds: float = 10) -> bytes:
    async with transport.stream(LOOK, silence_seconds=silence_seconds) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_a_stream_takes_a_connection_that_rests_and_gives_it_back_when_it_was_read_to_its_end() -> None:
    async with reaching(lambda number, request: CHUNKED + chunk(b"one") + END if number == 2 else OK) as (
        server,
        transport,
    ):
        assert await transport.call(LOOK) == b"ok"
        assert await whole(transport) == b"one"
        assert await transport.call(LOOK) == b"ok"
    assert server.connections == 1


class Gate(asyncio.ReadTransport):
    """A connection that is read or not."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[str] = []

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.turns.append("paused")

    def resume_reading(self) -> None:
        self.turns.append("read")


async def test_one_that_ends_while_its_server_waits_gives_back_a_connection_that_is_read() -> None:
    gate = Gate()
    body = StreamedBody(gate, silence_seconds=10)
    body.add(b"x" * 400_000)
    body.end()
    assert gate.turns == ["paused"]
    assert sum([len(piece) async for piece in body]) == 400_000
    assert gate.turns == ["paused", "read"]
    assert body.is_complete


async def test_one_that_is_given_up_gives_nothing_back() -> None:
    async with reaching(lambda number, request: CHUNKED + chunk(b"one") if number == 1 else OK) as (server, transport):
        async with transport.stream(LOOK, silence_seconds=10) as pieces:
            assert await anext(aiter(pieces)) == b"one"
        assert await transport.call(LOOK) == b"ok"
    assert server.connections == 2


async def test_a_stream_outlives_a_connection_that_died_at_rest() -> None:
    async with reaching(lambda number, request: CHUNKED + chunk(b"one") + END if number == 2 else OK) as (
        server,
        transport,
    ):
        server.hangs_up = True
        assert await transport.call(LOOK) == b"ok"
        assert await whole(transport) == b"one"
    assert server.connections == 2


async def test_streams_leave_the_connections_of_calls_alone() -> None:
    async with (
        reaching(lambda number, request: OK if b"/call" in request else CHUNKED) as (server, transport),
        asyncio.TaskGroup() as group,
    ):
        streams = [group.create_task(whole(transport)) for _ in range(CALLS + 1)]
        await eventually(lambda: len(server.asked) == CALLS + 1)
        assert await transport.call(Request("GET", "/call", about="look")) == b"ok"
        for stream in streams:
            stream.cancel()


async def test_a_refusal_is_read_whole_and_its_connection_is_used_again() -> None:
    async with reaching(lambda number, request: DENIED if number == 1 else OK) as (server, transport):
        with pytest.raises(Forbidden):
            await whole(transport)
        assert await transport.call(LOOK) == b"ok"
    assert server.connections == 1


@pytest.mark.parametrize(
    ("said", "cause"),
    [
        (CHUNKED + chunk(b"one"), "no answer in time"),
        (b"", "no answer in time"),
        (CHUNKED + chunk(b"one") + b"nonsense", "the answer was cut"),
        (CHUNKED.replace(b"Transfer", b"Content-Encoding: br\r\nTransfer"), "an unknown encoding"),
    ],
    ids=["silent in the middle", "silent at once", "no chunk", "encoded"],
)
async def test_a_stream_that_breaks_is_named(said: bytes, cause: str) -> None:
    async with reaching(lambda number, request: said or None) as (_, transport):
        with pytest.raises(Unreachable, match=cause):
            await whole(transport, silence_seconds=0.05)


async def test_what_follows_the_end_of_a_stream_meets_no_later_request() -> None:
    evil = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
    async with reaching(lambda number, request: CHUNKED + chunk(b"one") + END + evil if number == 1 else OK) as (
        server,
        transport,
    ):
        assert await whole(transport) == b"one"
        assert await transport.call(LOOK) == b"ok"
    assert server.connections == 2


async def test_the_end_of_its_client_ends_a_stream() -> None:
    async with reaching(CHUNKED) as (server, transport):
        reading = asyncio.create_task(whole(transport))
        await server.came.wait()
        await transport.close()
        with pytest.raises(Unreachable, match="cut"):
            await reading


@pytest.mark.req("R-411")
@on_both_loops
@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
def test_a_reader_that_is_slow_makes_the_server_wait(new_loop: NewLoop, encrypted: bool) -> None:
    """A mebibyte at a time, as often as the server gets rid of it."""
    sent = 0
    pause = asyncio.Event()

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED)
        try:
            while sent < 48:
                writer.write(chunk(b"x" * (1 << 20)))
                sent += 1
                async with asyncio.timeout(0.2):
                    await writer.drain()
        except TimeoutError:
            pass
        pause.set()
        await writer.drain()
        writer.write(END)
        writer.close()

    async def read() -> int:
        pause.clear()
        tls: ssl.SSLContext | None = server_side() if encrypted else None
        server = await asyncio.start_server(pour, "127.0.0.1", 0, ssl=tls)
        port = server.sockets[0].getsockname()[1]
        config = ClusterConfig(
            server=f"{'https' if encrypted else 'http'}://127.0.0.1:{port}", authority=Material(authority().pem)
        )
        async with server, Transport(config, user_agent="test") as transport:
            async with transport.stream(LOOK, silence_seconds=10) as pieces:
                await pause.wait()
                held = sent
                size = 0
                async for piece in pieces:
                    size += len(piece)
            assert size == sent << 20
        return held

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(read()) < 24
