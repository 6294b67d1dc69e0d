"""What our servers answer to strangers, over loopback."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit import sockets

from stellwerk.runtime.serving.health import HealthChecks
from stellwerk.runtime.serving.http import (
    AddressInvalid,
    CannotListen,
    ListenAddress,
    Server,
    ServerLimits,
)
from stellwerk.runtime.serving.http_messages import Request, Response, answer
from stellwerk.runtime.serving.routes import Route
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.checks.surprises import SURPRISES
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.heavy

LOOPBACK = ListenAddress("127.0.0.1", 0)
SMALL = ServerLimits(body_bytes=1_000)
HASTY = ServerLimits(arrival_seconds=0.4, answer_seconds=0.4)
"""Short enough to wait for; where nothing is to come too late, a busy machine could make it."""


async def echo(request: Request) -> Response:
    return answer({"length": len(request.body)})


async def hang(_: Request) -> Response:
    await asyncio.get_running_loop().create_future()
    raise AssertionError


async def fail(_: Request) -> Response:
    raise RuntimeError("the password is hunter2")


ROUTES = [Route("POST", "/echo", echo), Route("GET", "/hang", hang), Route("GET", "/fail", fail)]


@asynccontextmanager
async def serving(
    limits: ServerLimits = SMALL, metrics: Metrics | None = None, routes: Sequence[Route] = ROUTES
) -> AsyncIterator[Server]:
    server = Server("test", LOOPBACK, routes, limits=limits, metrics=metrics, grace_seconds=1)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class Raw:
    """A connection on which anything may be sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, str]:
        """Status and error of the next answer."""
        async with asyncio.timeout(20):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
            length = next(
                int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")
            )
            body = msgspec.json.decode(await self.reader.readexactly(length))
        assert "application/json" in head
        return int(head.split()[1]), body.get("error", "")

    async def is_closed(self) -> bool:
        async with asyncio.timeout(20):
            return await self.reader.read() == b""


@asynccontextmanager
async def connected(server: Server) -> AsyncIterator[Raw]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@dataclass(frozen=True)
class Answer:
    """What a client got to read."""

    status: int
    body: dict[str, object]
    headers: Mapping[str, str]


async def asked(server: Server, method: str, path: str, data: bytes = b"") -> Answer:
    url = f"http://127.0.0.1:{server.port}{path}"
    async with aiohttp.request(method, url, data=data) as response:
        return Answer(response.status, await response.json(), response.headers)


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both sides of 500 connections are in this process."""
    with sockets.many_files():
        yield


async def test_a_request_is_answered_and_counted() -> None:
    metrics = Metrics()
    async with serving(metrics=metrics) as server:
        response = await asked(server, "POST", "/echo", b"x" * 999)
    assert (response.status, response.body) == (200, {"length": 999})
    labels = {"server": "test", "code": "200"}
    assert metrics.registry.get_sample_value("stellwerk_http_answers_total", labels) == 1


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("PUT", "/echo", 405), ("GET", "/hang", 503)]
)
async def test_every_refusal_is_json(method: str, path: str, status: int) -> None:
    async with serving(HASTY if path == "/hang" else SMALL) as server:
        response = await asked(server, method, path)
    assert response.status == response.body["code"] == status
    assert response.body["error"]
    assert ("Allow" in response.headers) == (status == 405)


async def test_a_bug_of_ours_is_a_500_without_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as server:
        response = await asked(server, "GET", "/fail")
    assert response.status == 500
    assert "hunter2" not in str(response.body)
    assert "cannot answer GET /fail" in caplog.text


@pytest.mark.req("R-512")
@pytest.mark.parametrize("raised", SURPRISES.values(), ids=SURPRISES)
async def test_whatever_a_handler_raises_its_client_is_answered_and_the_server_goes_on(
    raised: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    async def surprising(_: Request) -> Response:
        raise raised()

    metrics = Metrics()
    async with serving(metrics=metrics, routes=[*ROUTES, Route("GET", "/surprising", surprising)]) as server:
        refused = await asked(server, "GET", "/surprising")
        assert (await asked(server, "POST", "/echo", b"ok")).status == 200
    if isinstance(raised(), TimeoutError):
        assert refused.status == 503
        return
    assert refused.status == 500
    assert metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": "request"}) == 1
    assert "cannot answer GET /surprising" in caplog.text


@pytest.mark.req("R-701")
async def test_a_body_that_is_too_large_is_a_413() -> None:
    async with serving() as server, connected(server) as raw:
        await raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n" + b"x" * 1001)
        assert (await raw.answer())[0] == 413
        assert await raw.is_closed()


@pytest.mark.req("R-701")
async def test_a_chunked_body_that_is_too_large_is_a_413() -> None:
    chunk = b"%x\r\n%s\r\n" % (600, b"x" * 600)
    async with serving() as server, connected(server) as raw:
        await raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk + chunk)
        assert (await raw.answer())[0] == 413


@pytest.mark.req("R-701")
@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"nonsense\r\n\r\n",
        b"GET /echo HTTP/9.9\r\nHost: a\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: many\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nA: " + b"b" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"h%d: x\r\n" % n for n in range(500)) + b"\r\n",
    ],
    ids=["tls", "nonsense", "version", "length", "long line", "long header", "many headers"],
)
async def test_what_is_no_http_request_is_a_400(sent: bytes) -> None:
    async with serving() as server, connected(server) as raw:
        await raw.send(sent)
        status, error = await raw.answer()
        assert status == 400
        assert error == "this is not a valid HTTP request"
        assert await raw.is_closed()


@pytest.mark.req("R-701")
@pytest.mark.parametrize(
    "sent", [b"", b"G", b"POST /echo HTTP/1.1\r\nHost: a\r\n"], ids=["nothing", "a byte", "half a head"]
)
async def test_a_head_that_does_not_arrive_is_a_408(sent: bytes) -> None:
    async with serving(HASTY) as server, connected(server) as raw:
        await raw.send(sent)
        assert (await raw.answer())[0] == 408
        assert await raw.is_closed()


@pytest.mark.req("R-701")
async def test_a_body_that_does_not_arrive_is_a_408() -> None:
    async with serving(HASTY) as server, connected(server) as raw:
        await raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc")
        assert (await raw.answer())[0] == 408


@pytest.mark.req("R-701")
async def test_a_second_request_on_a_connection_has_a_deadline_of_its_own() -> None:
    async with serving(HASTY) as server, connected(server) as raw:
        await raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
        assert await raw.answer() == (200, "")
        await raw.send(b"POST /ec")
        assert (await raw.answer())[0] == 408


async def test_an_idle_connection_is_kept_beyond_the_deadline_of_a_head() -> None:
    async with serving(HASTY) as server, connected(server) as raw:
        for _ in range(2):
            await raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab")
            assert await raw.answer() == (200, "")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(HASTY.arrival_seconds * 2):
                    await raw.reader.read(1)


async def test_a_body_in_pieces_does_not_count_as_a_further_request() -> None:
    async with serving(ServerLimits(arrival_seconds=2)) as server, connected(server) as raw:
        await raw.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n")
        for byte in (b"a", b"b", b"c", b"d"):
            await raw.send(byte)
        assert await raw.answer() == (200, "")


@pytest.mark.req("R-701")
@pytest.mark.parametrize(
    "begin",
    [b"POST /echo HTTP/1.1\r\n", b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nx"],
    ids=["heads", "bodies"],
)
@pytest.mark.usefixtures("many_files")
async def test_500_slow_clients_do_not_keep_others_from_being_served(begin: bytes) -> None:
    async with serving(ServerLimits(arrival_seconds=30)) as server, contextlib.AsyncExitStack() as stack:
        for _ in range(500):
            raw = await stack.enter_async_context(connected(server))
            await raw.send(begin)
        async with asyncio.timeout(20):
            assert (await asked(server, "POST", "/echo", b"ok")).status == 200


@pytest.mark.req("R-701")
async def test_slow_clients_with_large_bodies_are_bounded_and_small_requests_are_served() -> None:
    begin = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\n" + b"x" * 10_000
    limits = ServerLimits(arrival_seconds=30, large_requests=3)
    async with serving(limits) as server, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server)) for _ in range(4)]
        for client in clients[:3]:
            await client.send(begin)
        await asked(server, "POST", "/echo", b"small")  # the three are known by now
        await clients[3].send(begin)
        assert (await clients[3].answer())[0] == 429
        assert (await asked(server, "POST", "/echo", b"small")).status == 200


@pytest.mark.req("R-701")
async def test_more_requests_at_a_time_than_allowed_are_a_429() -> None:
    begun = asyncio.Semaphore(0)

    async def held(request: Request) -> Response:
        begun.release()
        return await hang(request)

    async with (
        serving(ServerLimits(requests=2), routes=[Route("GET", "/hang", held)]) as server,
        connected(server) as one,
        connected(server) as two,
        connected(server) as three,
    ):
        for raw in (one, two):
            await raw.send(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
            await begun.acquire()
        await three.send(b"GET /hang HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await three.answer())[0] == 429


@pytest.mark.req("R-701")
async def test_of_more_connections_than_allowed_the_one_that_waits_longest_gets_a_429() -> None:
    async with serving(ServerLimits(connections=1)) as server, connected(server) as one:
        await one.send(b"P")
        async with connected(server) as two:
            assert (await one.answer())[0] == 429
            assert await one.is_closed()
            await two.send(b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n")
            assert (await two.answer())[0] == 404


@dataclass(frozen=True)
class Stranger:
    """How a client holds its connections."""

    sends: bytes = b""
    reads: bool = False


STRANGERS = {
    "silent": Stranger(),
    "half a head": Stranger(b"GET /healthz HTTP/1.1\r\nHost:"),
    "half a body": Stranger(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\nx"),
    "kept after a request": Stranger(b"GET /nowhere HTTP/1.1\r\nHost: a\r\n\r\n", reads=True),
    "an answer that is not read": Stranger(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n"),
}


@pytest.mark.req("R-701")
@pytest.mark.req("R-412")
@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
@pytest.mark.usefixtures("many_files")
async def test_idle_connections_never_cost_the_kubelet_its_probe(
    stranger: Stranger, caplog: pytest.LogCaptureFixture
) -> None:
    async def large(_: Request) -> Response:
        return Response(200, b"x" * 1_000_000)

    routes = [*HealthChecks().routes(), Route("POST", "/echo", echo), Route("GET", "/large", large)]
    limits = ServerLimits(connections=100, arrival_seconds=60, idle_seconds=60)
    async with serving(limits, routes=routes) as server, contextlib.AsyncExitStack() as stack:
        with measured_stalls() as stalls:
            for _ in range(300):
                raw = await stack.enter_async_context(connected(server))
                await raw.send(stranger.sends)
                if stranger.reads:
                    await raw.answer()
            for _ in range(5):
                async with asyncio.timeout(20):
                    url = f"http://127.0.0.1:{server.port}/healthz"
                    async with aiohttp.request("GET", url) as response:
                        assert (response.status, await response.text()) == (200, "ok")
        assert server.connections <= 100
        assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.req("R-701")
async def test_a_request_that_is_being_answered_does_not_give_way() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await go_on.wait()
        return answer({})

    routes = [Route("GET", "/slow", slow)]
    async with (
        serving(ServerLimits(connections=3), routes=routes) as server,
        connected(server) as served,
        contextlib.AsyncExitStack() as stack,
    ):
        await served.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await begun.wait()
        for _ in range(10):
            await stack.enter_async_context(connected(server))
        go_on.set()
        assert await served.answer() == (200, "")


@pytest.mark.req("R-305")
@pytest.mark.req("R-701")
def test_a_server_leaves_most_open_files_to_others() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        few = Server("few", LOOPBACK, [])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert few.most_connections == 32


@pytest.mark.req("R-305")
async def test_a_process_without_free_files_logs_once_that_it_cannot_accept_and_accepts_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.get_running_loop()
    async with serving() as server:
        for _ in range(2):
            caplog.clear()
            with socket.socket() as client:
                client.setblocking(False)
                with sockets.no_free_files():
                    await loop.sock_connect(client, ("127.0.0.1", server.port))
                    await eventually(lambda: "cannot accept" in caplog.text)
                    with pytest.raises(TimeoutError):
                        async with asyncio.timeout(0.35):  # it tries again each 0.1 s
                            await loop.sock_recv(client, 1)
                    assert caplog.text.count("cannot accept a connection") == 1
            assert (await asked(server, "POST", "/echo", b"ok")).status == 200


async def test_a_taken_port_is_named() -> None:
    async with serving() as server:
        second = Server("second", ListenAddress("127.0.0.1", server.port), ROUTES)
        with pytest.raises(CannotListen, match=rf"second cannot listen on 127\.0\.0\.1:{server.port}"):
            await second.start()


async def test_a_stop_lets_a_running_answer_end_and_closes_the_rest() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Response:
        begun.set()
        await go_on.wait()
        return answer({})

    server = Server("test", LOOPBACK, [Route("GET", "/slow", slow)], grace_seconds=5)
    await server.start()
    async with connected(server) as raw, connected(server) as idle:
        await raw.send(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        await begun.wait()
        stopping = asyncio.create_task(server.stop())
        assert await idle.is_closed()
        go_on.set()
        assert await raw.answer() == (200, "")
        await stopping


@pytest.mark.parametrize(
    ("text", "address"),
    [
        (":8080", ListenAddress("", 8080)),
        ("127.0.0.1:0", ListenAddress("127.0.0.1", 0)),
        ("[::1]:443", ListenAddress("::1", 443)),
        ("localhost:80", ListenAddress("localhost", 80)),
        ("0", None),
        ("", None),
    ],
)
def test_addresses_are_read_as_go_writes_them(text: str, address: ListenAddress | None) -> None:
    assert ListenAddress.parse(text) == address


@pytest.mark.parametrize("text", ["8080", "host", ":x", ":65536", "::1:80", ":-1", ":8\u0660"])
def test_a_wrong_address_says_what_is_expected(text: str) -> None:
    with pytest.raises(AddressInvalid, match="bind address"):
        ListenAddress.parse(text)


@given(st.text())
def test_any_text_is_an_address_or_a_refusal(text: str) -> None:
    with contextlib.suppress(AddressInvalid):
        ListenAddress.parse(text)
