"""Calls over kept connections, against servers that say whatever a test wants, byte by byte."""

from __future__ import annotations

import asyncio
import gzip
import socket
import zlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.kube.scripted import OK, ask, connected_to, serving
from tests.unit.sockets import all_closed

from stellwerk.kube.http.connection_pool import Connections
from stellwerk.kube.http.dialer import Dialer
from stellwerk.kube.http.messages import Answer, BodyTooLarge, ConnectionBroken, NotConnected, RequestMessage, head
from stellwerk.kube.http.sockets import Sockets
from stellwerk.testing.eventually import eventually

# ---- what arrives


async def test_a_request_arrives_as_it_was_meant() -> None:
    async with serving(OK) as (server, connections):
        answer = await ask(connections, "/a?b=c", b"body")
    assert server.asked == [b"PATCH /a?b=c HTTP/1.1\r\nHost: here\r\nContent-Length: 4\r\n\r\nbody"]
    assert (answer.code, answer.reason, answer.body) == (200, "OK", b"ok")


@pytest.mark.parametrize("value", ["a\r\nInjected: yes", "a\nb", "a\x00b", "a\x7f"])
def test_a_value_cannot_begin_a_header_of_its_own(value: str) -> None:
    with pytest.raises(ValueError, match="character"):
        head("GET", "/", [("Impersonate-User", value)])


@pytest.mark.parametrize("target", ["/a b", "/a\r\nX: y", "/a\tHTTP/1.0\r\n"])
def test_a_path_stays_in_its_line(target: str) -> None:
    with pytest.raises(ValueError, match="character"):
        head("GET", target, [])


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000
    async with serving(OK) as (server, connections):
        await ask(connections, body=body)
    assert server.asked[0].endswith(body)


@pytest.mark.parametrize("portion", [0, 1, 7])
@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
        % (len(gzip.compress(b"hello world", mtime=0)), gzip.compress(b"hello world", mtime=0)),
    ],
    ids=["with a length", "in chunks", "after an interim word", "compressed"],
)
async def test_an_answer_is_read_whole_however_it_comes(said: bytes, portion: int) -> None:
    async with serving(said, portion=portion) as (server, connections):
        for _ in range(2):
            assert (await ask(connections)).body == b"hello world"
    assert server.connections == 1


async def test_an_answer_may_end_with_its_connection() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\n\r\nto the end", hangs_up=True) as (_, connections):
        assert (await ask(connections)).body == b"to the end"


async def test_every_value_of_a_header_is_told() -> None:
    said = b"HTTP/1.1 200 OK\r\nWarning: one\r\nwarning: two\r\nContent-Length: 0\r\n\r\n"
    async with serving(said) as (_, connections):
        answer = await ask(connections)
    assert list(answer.all("Warning")) == ["one", "two"]
    assert (answer.first("Warning"), answer.first("Retry-After")) == ("one", "")


def test_nothing_that_may_be_secret_is_in_a_repr() -> None:
    assert "hush" not in repr(RequestMessage(b"hush", b"hush"))
    assert "hush" not in repr(Answer(200, "OK", ((b"x", b"hush"),), b"hush"))


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(1, 50))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_chunks_in_any_portions_make_the_same_body(chunks: list[bytes], portion: int) -> None:
    said = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks if chunk)
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + said + b"0\r\n\r\n"

    async def once() -> bytes:
        async with serving(whole, portion=portion) as (_, connections):
            return (await ask(connections)).body

    assert asyncio.run(once()) == b"".join(chunks)


# ---- connections are kept, and shared


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with serving(OK) as (server, connections):
        for _ in range(5):
            await ask(connections)
    assert server.connections == 1


async def test_no_more_connections_are_made_than_allowed() -> None:
    async with serving(OK, limit=2) as (server, connections):
        await asyncio.gather(*(ask(connections) for _ in range(20)))
    assert len(server.asked) == 20
    assert server.connections <= 2


async def test_a_server_that_says_close_is_asked_over_a_new_connection() -> None:
    said = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"
    async with serving(said) as (server, connections):
        for _ in range(3):
            assert (await ask(connections)).body == b"ok"
    assert server.connections == 3


async def test_a_request_that_may_be_sent_twice_outlives_a_connection_that_died_at_rest() -> None:
    async with serving(OK, hangs_up=True) as (server, connections):
        for _ in range(3):
            assert (await ask(connections)).body == b"ok"
    assert len(server.asked) == 3


async def test_one_that_may_not_is_never_sent_twice() -> None:
    def words(number: int, request: bytes) -> bytes | None:
        return OK if number == 1 else b""

    async with serving(words) as (server, connections):
        await ask(connections)
        server.hangs_up = True  # and without an answer
        with pytest.raises(ConnectionBroken, match="the connection was cut"):
            await ask(connections, repeatable=False)
    assert len(server.asked) == 2


async def test_a_cancelled_request_leaves_no_half_an_answer_to_the_next_one() -> None:
    def words(number: int, request: bytes) -> bytes | None:
        return None if number == 1 else OK

    async with serving(words) as (server, connections):
        task = asyncio.create_task(ask(connections))
        await server.came.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await ask(connections)).body == b"ok"
    assert server.connections == 2


async def test_two_answers_to_one_request_are_not_taken_for_the_next_one() -> None:
    def words(number: int, request: bytes) -> bytes | None:
        return OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil" if number == 1 else OK

    async with serving(words) as (_, connections):
        assert [(await ask(connections)).body for _ in range(3)] == [b"ok"] * 3


# ---- what may go wrong


@pytest.mark.parametrize(
    "said",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: nine\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nnope",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\n"
        + gzip.compress(b"x" * 50, mtime=0)[:20],
        b"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 20",
    ],
)
async def test_an_answer_that_is_none_is_reported_as_cut(said: bytes) -> None:
    async with serving(said, hangs_up=True) as (_, connections):
        with pytest.raises(ConnectionBroken, match="cut"):
            await ask(connections)


async def test_an_encoding_that_was_not_requested_is_named() -> None:
    brotli = b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nok"
    async with serving(brotli) as (_, connections):
        with pytest.raises(ConnectionBroken, match="an unknown encoding"):
            await ask(connections)


@pytest.mark.req("R-405")
@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" + b"x" * 2000 + b"\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
        % (len(zlib.compress(b"x" * 10**7, wbits=31)), zlib.compress(b"x" * 10**7, wbits=31)),
        b"HTTP/1.1 200 OK\r\n" + b"X-Flood: " + b"x" * 100_000,
    ],
    ids=["by its length", "in chunks", "a small one that unpacks to much", "in headers"],
)
async def test_an_answer_that_is_too_large_is_not_read(said: bytes) -> None:
    async with serving(said) as (_, connections):
        with pytest.raises(BodyTooLarge):
            await ask(connections, largest=1000)


async def test_a_silent_server_is_given_up_in_time() -> None:
    async with serving(lambda number, request: None) as (_, connections):
        with pytest.raises(TimeoutError):
            await ask(connections, seconds=0.5)


async def test_waiting_for_a_connection_counts_as_waiting() -> None:
    async with serving(lambda number, request: None, limit=1) as (server, connections):
        first = asyncio.create_task(ask(connections, seconds=30))
        await server.came.wait()
        with pytest.raises(NotConnected, match="no connection was free"):
            await ask(connections, seconds=0.05)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)


@pytest.mark.req("R-507")
async def test_an_own_call_waits_for_no_tenant_however_many_of_them_hang() -> None:
    async with serving(lambda number, request: OK if b" /own " in request else None, limit=2) as (server, connections):
        hanging = [asyncio.create_task(ask(connections, tenant=f"tenant-{number}", seconds=30)) for number in range(20)]
        await eventually(lambda: len(server.asked) == 2)
        # Less than a second: no call of a tenant has gone on without its slot meanwhile.
        assert (await ask(connections, "/own", seconds=0.5)).body == b"ok"
        for each in hanging:
            each.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)


async def test_a_server_may_refuse_a_large_body_before_it_is_sent() -> None:
    async def refusing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await asked.wait()
        writer.close()

    asked = asyncio.Event()
    listening = await asyncio.start_server(refusing, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    connections = connected_to(port)
    async with listening:
        answer = await ask(connections, body=b"x" * (64 << 20))
        asked.set()
        connections.close()
        await all_closed(port)
    assert answer.code == 413


async def test_a_port_without_a_server_is_named_as_that() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(NotConnected, match="the connection was refused"):
            await ask(connected_to(held.getsockname()[1]))


async def test_a_name_that_nobody_knows_is_named_as_that() -> None:
    connections = Connections(Dialer("no.such.host.invalid", 1, 30, Sockets().make), limit=1)
    with pytest.raises(NotConnected, match="its name is not known"):
        await ask(connections)


async def test_nothing_is_open_after_the_end(recwarn: pytest.WarningsRecorder) -> None:
    async with serving(OK) as (_, connections):
        await asyncio.gather(*(ask(connections) for _ in range(4)))
        connections.close()
        assert (await ask(connections)).body == b"ok"
    assert [str(one.message) for one in recwarn] == []
