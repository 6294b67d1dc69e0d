"""A write leaves only if the fence is open at the moment in which its bytes leave, on both roads to an API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.unit.kube.scripted import OK, Server, serving

from stellwerk.kube.http.transport import CALLS, Request, Transport
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.testing.eventually import eventually

REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"
BUSY = b"HTTP/1.1 429 Too Many\r\nContent-Length: 2\r\n\r\n{}"
LARGE = b"x" * (3 << 20)

pytestmark = pytest.mark.req("R-301")


class Closed(Exception):
    """The fence is closed."""


@dataclass
class Fence:
    """Open for so many checks."""

    open_for: int = 1_000
    asked: int = 0

    def check(self) -> None:
        self.asked += 1
        if self.asked > self.open_for:
            raise Closed

    def close(self) -> None:
        self.open_for = 0


@dataclass
class Tokens:
    """Renews a token only when it may."""

    may_renew: asyncio.Event = field(default_factory=asyncio.Event)
    name: str = "old"

    async def authorization(self) -> str:
        if self.name == "new":
            await self.may_renew.wait()
        return f"Bearer {self.name}"

    def refresh(self) -> None:
        self.name = "new"


def write(method: str = "PUT", body: bytes = b"{}") -> Request:
    return Request(method, "/thing", body=body, about="write")


@asynccontextmanager
async def reaching(
    road: str, words: Callable[[int, bytes], bytes | None], tokens: Tokens | None = None, *, hangs_up: bool = False
) -> AsyncIterator[tuple[Server, Transport]]:
    async with serving(words, hangs_up=hangs_up) as (server, _):
        address = f"http://127.0.0.1:{server.port}"
        named = {"server": address} if road == "own" else {"server": "http://behind.example", "proxy": address}
        config = ClusterConfig(**named, credentials=tokens or Tokens())  # type: ignore[arg-type]
        async with Transport(config, user_agent="test", rest=_at_once) as transport:
            yield server, transport


async def _at_once(seconds: float) -> None:
    await asyncio.sleep(0)


roads = pytest.mark.parametrize("road", ["own", "proxy"])


@roads
async def test_an_open_fence_lets_a_write_pass(road: str) -> None:
    fence = Fence()
    async with reaching(road, lambda number, request: OK) as (server, transport):
        assert await transport.call(write(), before=fence.check) == b"ok"
        assert await transport.call(write(body=LARGE), before=fence.check) == b"ok"
    assert len(server.asked) == 2
    assert fence.asked >= 3


@roads
async def test_a_closed_fence_lets_nothing_pass(road: str) -> None:
    for body in (b"{}", LARGE):
        async with reaching(road, lambda number, request: OK) as (server, transport):
            with pytest.raises(Closed):
                await transport.call(write(body=body), before=Fence(0).check)
        assert server.asked == []


@roads
async def test_a_fence_that_closes_while_a_write_waits_for_a_connection_keeps_it_back(road: str) -> None:
    fence = Fence()
    async with reaching(road, lambda number, request: None) as (server, transport):
        holding = [asyncio.create_task(transport.call(Request("GET", "/held", about="hold"))) for _ in range(CALLS)]
        await eventually(lambda: len(server.asked) == CALLS)
        waiting = asyncio.create_task(transport.call(write(), before=fence.check))
        await asyncio.sleep(0)
        fence.close()
        for task in holding:
            task.cancel()
        with pytest.raises(Closed):
            await waiting
        await asyncio.gather(*holding, return_exceptions=True)
    assert {request.split()[0] for request in server.asked} == {b"GET"}


@roads
async def test_a_fence_that_closes_before_a_write_is_sent_again_over_a_new_connection_keeps_it_back(road: str) -> None:
    """The first request makes a connection, which breaks under the second one."""

    def words(number: int, request: bytes) -> bytes | None:
        if number > 1:
            server.hangs_up = True
            return b" "[:0]
        return OK

    fence = Fence(open_for=1)
    async with reaching(road, words) as (server, transport):
        await transport.call(Request("GET", "/", about="look"))
        with pytest.raises(Closed):
            await transport.call(write(), before=fence.check)
    assert len(server.asked) == 2
    assert fence.asked == 2


@roads
async def test_a_fence_that_closes_while_the_login_is_renewed_keeps_the_write_back(road: str) -> None:
    tokens, fence = Tokens(), Fence()
    async with reaching(road, lambda number, request: REFUSED, tokens) as (server, transport):
        writing = asyncio.create_task(transport.call(write(), before=fence.check))
        await eventually(lambda: tokens.name == "new")
        fence.close()
        tokens.may_renew.set()
        with pytest.raises(Closed):
            await writing
    assert len(server.asked) == 1


@roads
async def test_a_fence_that_closes_between_two_attempts_keeps_the_second_one_back(road: str) -> None:
    fence = Fence(open_for=1)
    async with reaching(road, lambda number, request: BUSY) as (server, transport):
        with pytest.raises(Closed):
            await transport.call(write(), before=fence.check)
    assert len(server.asked) == 1


@roads
async def test_a_fence_that_closes_in_the_middle_of_a_large_write_ends_it(road: str) -> None:
    fence = Fence(open_for=3)
    async with reaching(road, lambda number, request: OK) as (server, transport):
        with pytest.raises(Closed):
            await transport.call(write(body=LARGE), before=fence.check)
    assert server.asked == [], "a request that did not arrive whole"


@roads
async def test_reads_ask_no_fence(road: str) -> None:
    async with reaching(road, lambda number, request: OK) as (_, transport):
        assert await transport.call(Request("GET", "/", about="look")) == b"ok"
