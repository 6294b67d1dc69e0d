"""A connection that is in doubt serves nobody any more, and a server cannot make us hold what it likes."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from tests.unit.kube.scripted import OK, Server, ask, connected_to, serving
from tests.unit.sockets import all_closed

from stellwerk.kube.http.connection import Connection
from stellwerk.kube.http.messages import BodyTooLarge, ConnectionBroken, NotConnected
from stellwerk.local.host.ports import free_port

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"


def first_then_ok(said: bytes) -> Callable[[int, bytes], bytes]:
    return lambda number, request: said if number == 1 else OK


@contextmanager
def memory_below(most: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


# ---- one answer, and nothing behind it


@pytest.mark.parametrize("behind", [b"garbage", b"HTTP/1.1 2", b"HTTP/1.1 100 Continue\r\n\r\n", b"\x00"])
async def test_what_follows_an_answer_is_left_to_nobody(behind: bytes) -> None:
    async with serving(first_then_ok(OK + behind)) as (server, connections):
        assert [(await ask(connections, repeatable=False)).body for _ in range(3)] == [b"ok"] * 3
    assert server.connections == 2


@pytest.mark.parametrize("code", [b"204 No Content", b"304 Not Modified"])
async def test_an_answer_that_has_no_body_does_not_wait_for_one(code: bytes) -> None:
    async with serving(first_then_ok(b"HTTP/1.1 " + code + b"\r\n\r\n")) as (server, connections):
        assert (await ask(connections)).code == int(code[:3])
        assert (await ask(connections)).body == b"ok"
    assert server.connections == 1


async def test_an_answer_about_a_body_is_not_taken_for_one_with_it() -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n"
    async with serving(first_then_ok(said)) as (_, connections):
        assert (await ask(connections, method="HEAD", largest=1000)).first("Content-Length") == "2000"
        assert (await ask(connections)).body == b"ok"


async def test_an_offer_to_change_the_protocol_is_not_taken() -> None:
    said = b"HTTP/1.1 200 OK\r\nConnection: upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok"
    async with serving(first_then_ok(said)) as (_, connections):
        assert [(await ask(connections)).body for _ in range(2)] == [b"ok"] * 2


class Way(asyncio.Transport):
    """A way to a server, open until it is aborted."""

    is_aborted = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize(("early", "is_open"), [(b"", True), (OK, False)], ids=["nothing", "an answer"])
async def test_a_connection_on_which_something_came_before_it_was_made_is_not_used(early: bytes, is_open: bool) -> None:
    """Behind the last bytes of the handshake in a tunnel."""
    lines: set[Connection] = set()
    line, way = Connection(None, "", lines), Way()
    if early:
        line.data_received(early)
    line.connection_made(way)
    assert (line.is_open, bool(lines), way.is_aborted) == (is_open, is_open, not is_open)


async def test_what_we_break_ourselves_is_not_the_end_of_an_answer() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\n\r\nhalf of") as (server, connections):
        task = asyncio.create_task(ask(connections))
        await server.came.wait()
        for _ in range(100):
            await asyncio.sleep(0)
        connections.close()
        with pytest.raises(ConnectionBroken):
            await task


async def test_a_request_that_was_answered_before_it_was_sent_is_the_last_one_of_its_connection() -> None:
    server = Server(lambda number, request: OK)
    done = asyncio.Event()

    async def hasty(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server.connections += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await done.wait()
        writer.close()

    listening = await asyncio.start_server(hasty, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    connections = connected_to(port)
    async with listening:
        for _ in range(2):
            assert (await ask(connections, body=b"x" * (64 << 20), repeatable=False)).body == b"ok"
        done.set()
        connections.close()
        await all_closed(port)
    assert server.connections == 2


async def test_a_call_under_way_leaves_no_connection_behind_when_all_are_closed() -> None:
    def words(number: int, request: bytes) -> bytes | None:
        return None if number == 1 else OK

    async with serving(words, limit=1) as (server, connections):
        first = asyncio.create_task(ask(connections, repeatable=False))
        await server.came.wait()
        waits = asyncio.create_task(ask(connections))
        await asyncio.sleep(0)
        connections.close()
        with pytest.raises(ConnectionBroken):
            await first
        assert (await waits).body == b"ok"
        assert (await ask(connections)).body == b"ok"
    assert server.connections == 3


@pytest.mark.parametrize("patience_ends", [False, True])
async def test_a_call_that_is_given_up_ends_its_connection_at_once(patience_ends: bool) -> None:
    async with serving(lambda number, request: None) as (server, connections):
        task = asyncio.create_task(ask(connections, seconds=0.5 if patience_ends else 30))
        await server.came.wait()
        if not patience_ends:
            task.cancel()
        await asyncio.wait([task])
        async with asyncio.timeout(60):
            await server.ended()


# ---- a connection that was given up as we sent


async def test_a_server_that_tired_of_waiting_is_asked_again_over_a_new_connection() -> None:
    tired = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    def words(number: int, request: bytes) -> bytes | None:
        return tired if number == 2 else OK

    async with serving(words) as (server, connections):
        assert [(await ask(connections)).code for _ in range(2)] == [200, 200]
    assert (len(server.asked), server.connections) == (3, 2)


async def test_but_not_with_what_may_not_be_sent_twice() -> None:
    tired = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

    def words(number: int, request: bytes) -> bytes | None:
        return tired if number == 2 else OK

    async with serving(words) as (server, connections):
        assert [(await ask(connections, repeatable=False)).code for _ in range(2)] == [200, 408]
    assert len(server.asked) == 2


def test_one_event_loop_after_the_other_may_use_them() -> None:
    async def once() -> bytes:
        server = Server(lambda number, request: OK)
        async with await asyncio.start_server(server.serve, "127.0.0.1", port):
            answers = await asyncio.gather(*(ask(connections) for _ in range(4)))
            connections.close()
            await server.ended()
            await all_closed(port)
        return b"".join(one.body for one in answers)

    port = free_port()
    connections = connected_to(port, limit=1)
    assert [asyncio.run(once()) for _ in range(2)] == [b"ok" * 4] * 2


# ---- what a server may make us hold


@pytest.mark.req("R-405")
@pytest.mark.parametrize("before", [1, 1001], ids=["in the piece that is too much", "after it"])
async def test_what_unpacks_to_too_much_is_not_unpacked_any_further(before: int) -> None:
    bomb = zlib.compressobj(9, wbits=31)
    packed = bomb.compress(b"x" * before) + bomb.flush(zlib.Z_SYNC_FLUSH)
    packed_bomb = bomb.compress(bytes(100 << 20)) + bomb.flush()
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (packed, packed_bomb))
    async with serving(CHUNKED + b"Content-Encoding: gzip\r\n\r\n" + chunks + b"0\r\n\r\n") as (_, connections):
        with memory_below(20 << 20), pytest.raises(BodyTooLarge):
            await ask(connections, largest=1000)


async def test_nothing_may_follow_the_end_of_what_is_packed() -> None:
    packed = zlib.compress(b"ok", wbits=31)
    for chunks in ((packed + b"more",), (packed, b"more")):
        said = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
        async with serving(CHUNKED + b"Content-Encoding: gzip\r\n\r\n" + said + b"0\r\n\r\n") as (_, connections):
            with pytest.raises(ConnectionBroken):
                await ask(connections)


async def test_a_body_in_tiny_chunks_is_held_as_what_it_is() -> None:
    said = CHUNKED + b"\r\n" + b"2\r\nab\r\n" * 500_000 + b"0\r\n\r\n"
    async with serving(said) as (_, connections):
        with memory_below(10 << 20):
            assert len((await ask(connections, largest=1 << 20, seconds=60)).body) == 1_000_000


@pytest.mark.req("R-405")
@pytest.mark.parametrize(
    "said",
    [
        CHUNKED + b"\r\n2\r\nok\r\n0\r\n" + b"X-Trailer: flood\r\n" * 10_000,
        CHUNKED + b"\r\n2\r\nok\r\n0\r\nX-Trailer: " + b"x" * 200_000,
        CHUNKED + b"\r\n2;" + b"x" * 200_000,
        b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n" * 10_000,
    ],
    ids=["in trailers", "in one trailer", "in an extension of a chunk", "in interim words"],
)
async def test_what_is_no_body_has_a_limit_too(said: bytes) -> None:
    async with serving(said, portion=1_000) as (_, connections):
        with pytest.raises(BodyTooLarge):
            await ask(connections)


async def test_a_trailer_is_not_taken_for_a_header() -> None:
    said = CHUNKED + b"\r\n2\r\nok\r\n0\r\nRetry-After: 9\r\n\r\n"
    async with serving(said) as (_, connections):
        answer = await ask(connections)
    assert (answer.body, answer.first("Retry-After")) == (b"ok", "")


async def test_a_large_answer_takes_nothing_from_what_the_next_head_may_have() -> None:
    large = b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 200_000
    async with serving(first_then_ok(large)) as (server, connections):
        await ask(connections)
        server.portion = 5
        assert (await ask(connections)).body == b"ok"


# ---- names that are none


@pytest.mark.parametrize("host", ["a..b", "." + "x" * 70, "x" * 64 + ".example"])
async def test_a_name_that_cannot_be_one_is_named_as_that(host: str) -> None:
    connections = connected_to(1, host=host)
    with pytest.raises(NotConnected, match="its name is not known"):
        await ask(connections)
