"""The way through a proxy: encrypted or not, to a server that is or is not, and what becomes of one that is closed."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import uvloop
from tests.unit.kube.identities import authority, server_side
from tests.unit.kube.scripted import OK, Server
from tests.unit.sockets import all_closed, open_sockets

from stellwerk.kube.http.transport import Request, Transport
from stellwerk.kube.login.auth import Material
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Unreachable

pytestmark = pytest.mark.heavy

NewLoop = Callable[[], asyncio.AbstractEventLoop]
on_both_loops = pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
LOOK = Request("GET", "/thing", about="look")
LED = b"HTTP/1.1 200 Connection established\r\n\r\n"
WHO = f"Basic {base64.b64encode(b'me:p@ss').decode()}".encode()
TURNS = 80


@dataclass
class Proxy:
    """Answers CONNECT with these words and leads to the server, and hands on what it is to read."""

    server_port: int
    words: bytes = LED
    asked: list[bytes] = field(default_factory=list)
    under_way: set[asyncio.Task[None] | None] = field(default_factory=set)

    async def lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.under_way.add(asyncio.current_task())
        onward: asyncio.StreamWriter | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            self.asked.append(head)
            upstream, onward = await asyncio.open_connection("127.0.0.1", self.server_port)
            if head.startswith(b"CONNECT "):
                writer.write(self.words)
            else:
                onward.write(head)
            both = [asyncio.ensure_future(_pumped(*pair)) for pair in ((reader, onward), (upstream, writer))]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for one in both:
                one.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            pass
        finally:
            for end in (writer, onward):
                if end is not None:
                    end.transport.abort()  # a polite end of TLS would wait for a peer that is gone


async def _pumped(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await source.read(65536):
            target.write(data)
            await target.drain()


@asynccontextmanager
async def leading(
    *,
    proxy_tls: bool,
    server_tls: bool,
    words: bytes = LED,
    host: str = "behind.example",
    tls_server_name: str = "127.0.0.1",
) -> AsyncIterator[tuple[Proxy, Server, Transport]]:
    server = Server(lambda number, request: OK)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=server_side() if server_tls else None)
    proxy = Proxy(listening.sockets[0].getsockname()[1], words)
    front = await asyncio.start_server(proxy.lead, "127.0.0.1", 0, ssl=server_side() if proxy_tls else None)
    port = front.sockets[0].getsockname()[1]
    config = ClusterConfig(
        # By a name that this machine does not know: the proxy does.
        server=f"{'https' if server_tls else 'http'}://{host}:6443",
        tls_server_name=tls_server_name,
        authority=Material(authority().pem),
        proxy=f"{'https' if proxy_tls else 'http'}://me:p%40ss@127.0.0.1:{port}",
    )
    async with listening, front:
        async with Transport(config, user_agent="test", rest=_at_once) as transport:
            yield proxy, server, transport
        await asyncio.gather(*(task for task in proxy.under_way if task is not None), return_exceptions=True)
        await server.ended()
        await all_closed(port)


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


@pytest.fixture(autouse=True)
def trusted_by_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the certificate of a company's proxy is."""
    (tmp_path / "machine.pem").write_bytes(authority().pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "machine.pem"))


ways = pytest.mark.parametrize(
    ("proxy_tls", "server_tls"),
    [(False, False), (False, True), (True, False), (True, True)],
    ids=["plain", "to TLS", "by TLS", "by TLS to TLS"],
)


@on_both_loops
@ways
def test_calls_and_streams_go_through_a_proxy(new_loop: NewLoop, proxy_tls: bool, server_tls: bool) -> None:
    async def go() -> tuple[Proxy, Server]:
        async with leading(proxy_tls=proxy_tls, server_tls=server_tls) as (proxy, server, transport):
            assert await transport.call(LOOK) == b"ok"
            async with transport.stream(LOOK, silence_seconds=10) as pieces:
                assert b"".join([piece async for piece in pieces]) == b"ok"
        return proxy, server

    with asyncio.Runner(loop_factory=new_loop) as runner:
        proxy, server = runner.run(go())
    asked = [head.split(b"\r\n")[0] for head in proxy.asked]
    assert asked == (
        [b"CONNECT behind.example:6443 HTTP/1.1"]
        if server_tls
        else [b"GET http://behind.example:6443/thing HTTP/1.1"]  # the second went the same way, over its connection
    )
    assert all(b"Proxy-Authorization: " + WHO in head for head in proxy.asked)
    assert len(server.asked) == 2
    assert not server_tls or not any(WHO in request for request in server.asked), (
        "the tunnel keeps the proxy's password"
    )


async def test_a_server_that_is_named_with_the_dot_of_the_root_proves_its_name_without_it() -> None:
    async with leading(proxy_tls=False, server_tls=True, host="kubernetes.default.svc.", tls_server_name="") as (
        proxy,
        _,
        transport,
    ):
        assert await transport.call(LOOK) == b"ok"
    assert proxy.asked[0].startswith(b"CONNECT kubernetes.default.svc.:6443 ")


async def test_the_authorities_of_the_machine_are_read_once_for_a_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(proxy_tls=True, server_tls=False) as (proxy, _, transport):
        assert await transport.call(LOOK) == b"ok"
        await transport.close()
        (tmp_path / "none.pem").touch()
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
        assert await transport.call(LOOK) == b"ok"
    assert len(proxy.asked) == 2


@on_both_loops
@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (
            b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 2\r\n\r\nno",
            "refuses to lead there, with 407",
        ),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 200000\r\n\r\n", "the proxy refuses to lead there"),
        (b"HTTP/1.0 403 Forbidden\r\n\r\nwords until the end", "on the way to the proxy"),
        (b"nonsense\r\n\r\n", "on the way to the proxy the answer was cut"),
        (LED + b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer: the connection was cut"),
    ],
    ids=["login", "large", "without end", "nonsense", "plain behind"],
)
def test_a_way_that_does_not_open_is_named_and_nothing_was_sent(new_loop: NewLoop, words: bytes, cause: str) -> None:
    async def go() -> Server:
        async with leading(proxy_tls=False, server_tls=True, words=words) as (proxy, server, transport):
            proxy.server_port = 1 if words.startswith(b"HTTP/1.0") else proxy.server_port
            with pytest.raises(Unreachable, match=cause) as caught:
                await transport.call(LOOK)
            assert "p@ss" not in str(caught.value)
            assert isinstance(caught.value, Unreachable)
            assert not caught.value.outcome_unknown
        return server

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert runner.run(go()).asked == []


@on_both_loops
@ways
def test_no_moment_is_a_bad_one_for_giving_up(new_loop: NewLoop, proxy_tls: bool, server_tls: bool) -> None:
    async def given_up_after(turns: int) -> None:
        async with leading(proxy_tls=proxy_tls, server_tls=server_tls) as (_, _, transport):
            task = asyncio.create_task(transport.call(LOOK))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])

    async def go() -> None:
        before = open_sockets()
        for turns in range(0, TURNS, 2):
            await given_up_after(turns)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        assert open_sockets() - before == set()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(go())
