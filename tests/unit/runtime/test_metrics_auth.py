"""Who passes a guard, whatever strangers send and whatever the API server answers, and what it may cost."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as some

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.runtime.serving.http import ListenAddress, Server
from stellwerk.runtime.serving.http_messages import Request, Response, text
from stellwerk.runtime.serving.metrics_auth import (
    PEER_BURST,
    PEER_REFILL_SECONDS,
    PEER_REVIEWS,
    REVIEWS,
    Allowance,
    Guard,
    Verdicts,
)
from stellwerk.runtime.serving.routes import Route
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.req("R-707")

KNOWN = b'{"status": {"authenticated": true, "user": {"username": "ann"}}}'
ALLOWED = b'{"status": {"allowed": true}}'


@dataclass
class Reviews:
    """An API server whose answers to reviews a test chooses."""

    token: bytes = KNOWN
    access: bytes = ALLOWED
    code: int = 201
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    """Set: reviews are answered."""
    asked: list[Any] = field(default_factory=list)
    under_way: int = 0
    most_under_way: int = 0

    def __post_init__(self) -> None:
        self.answers.set()

    async def handle(self, request: Request) -> Response:
        self.asked.append(json.loads(request.body))
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            await self.answers.wait()
        finally:
            self.under_way -= 1
        body = self.token if request.path.endswith("tokenreviews") else self.access
        return Response(status=self.code, body=body, content_type="application/json")


@dataclass
class Guarded:
    """A guarded server, and the API server that it asks."""

    server: Server
    reviews: Reviews
    clock: FakeClock

    async def ask(self, token: str = "t", peer: str = "127.0.0.1") -> int:
        """The status of the answer to a peer with this token."""
        connector = aiohttp.TCPConnector(local_addr=(peer, 0), family=socket.AF_INET, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(
                f"http://127.0.0.1:{self.server.port}/metrics", headers={"Authorization": f"Bearer {token}"}
            ) as response,
        ):
            return response.status


@asynccontextmanager
async def guarded() -> AsyncIterator[Guarded]:
    async def metrics(_: Request) -> Response:
        return text("numbers")

    reviews, clock = Reviews(), FakeClock()
    upstream = Server("reviews", ListenAddress("127.0.0.1", 0), [Route("POST", "/{path:.*}", reviews.handle)])
    await upstream.start()
    config = ClusterConfig(server=f"http://127.0.0.1:{upstream.port}")
    async with Client.connect(config) as client:
        guard = Guard(client, clock=clock)
        server = Server("metrics", ListenAddress("127.0.0.1", 0), [guard.protect(Route("GET", "/metrics", metrics))])
        await server.start()
        try:
            yield Guarded(server, reviews, clock)
        finally:
            reviews.answers.set()
            await server.stop()
            await upstream.stop()


ODD_REVIEWS = {
    "nothing": b"",
    "no object": b"[]",
    "no status": b"{}",
    "a text for true": b'{"status": {"authenticated": "true", "allowed": "true"}}',
    "a number for true": b'{"status": {"authenticated": 1, "allowed": 1}}',
    "a list of users": b'{"status": {"authenticated": true, "user": []}}',
    "deep": b'{"status": ' + b"[" * 100_000,
    "no UTF-8": b'{"status": {"authenticated": true, "user": {"username": "\xff"}}}',
    "half a character": b'{"status": {"authenticated": true, "user": {"username": "\\ud800"}}}',
    "a large number": b'{"status": {"authenticated": true, "user": {"uid": ' + b"9" * 5_000 + b"}}}",
    "a proxy's page": b"<html>",
}


@pytest.mark.req("R-401")
@pytest.mark.req("R-413")
@pytest.mark.parametrize("review", ODD_REVIEWS.values(), ids=ODD_REVIEWS)
@pytest.mark.parametrize("which", ["token", "access"])
async def test_an_odd_review_lets_nobody_pass_and_is_no_bug(
    which: str, review: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with guarded() as guard:
        if which == "token":
            guard.reviews.token, guard.reviews.access = review, b'{"status": {"allowed": false}}'
        else:
            guard.reviews.access = review
        assert await guard.ask() in (401, 403, 503)
    assert "Traceback" not in caplog.text


async def test_a_failure_of_the_api_server_is_not_remembered() -> None:
    async with guarded() as guard:
        guard.reviews.code = 403
        assert await guard.ask() == 503
        guard.reviews.code = 201
        assert await guard.ask() == 200


async def test_a_verdict_is_remembered_for_a_minute_and_no_longer() -> None:
    async with guarded() as guard:
        assert await guard.ask() == 200
        guard.reviews.token = b'{"status": {}}'
        await guard.clock.advance(59)
        assert await guard.ask() == 200
        await guard.clock.advance(2)
        assert await guard.ask() == 401


@pytest.mark.req("R-701")
async def test_few_reviews_are_under_way_at_a_time_however_many_peers_ask() -> None:
    async with guarded() as guard:
        guard.reviews.answers.clear()
        asking = [asyncio.create_task(guard.ask(f"t-{n}", f"127.0.0.{2 + n}")) for n in range(20)]
        await eventually(lambda: guard.reviews.under_way == REVIEWS)
        guard.reviews.answers.set()
        assert set(await asyncio.gather(*asking)) == {200}
        assert guard.reviews.most_under_way == REVIEWS


@pytest.mark.req("R-701")
async def test_a_peer_gets_a_part_of_the_reviews() -> None:
    async with guarded() as guard:
        guard.reviews.answers.clear()
        asking = [asyncio.create_task(guard.ask(f"t-{n}", "127.0.0.2")) for n in range(8)]
        refused = 8 - PEER_REVIEWS
        await eventually(lambda: sum(task.done() for task in asking) == refused)
        other = asyncio.create_task(guard.ask("other", "127.0.0.3"))
        await eventually(lambda: guard.reviews.under_way == PEER_REVIEWS + 1)
        guard.reviews.answers.set()
        assert await other == 200
        assert Counter(await asyncio.gather(*asking)) == {429: refused, 200: PEER_REVIEWS}


@pytest.mark.req("R-701")
async def test_strangers_who_leave_take_no_place() -> None:
    """They hang up before the API server has answered."""
    async with guarded() as guard:
        guard.reviews.answers.clear()
        strangers = [asyncio.create_task(guard.ask(f"t-{n}", f"127.0.0.{2 + n}")) for n in range(REVIEWS)]
        await eventually(lambda: guard.reviews.under_way == REVIEWS)
        for stranger in strangers:
            stranger.cancel()
        await asyncio.wait(strangers)
        await eventually(lambda: guard.reviews.under_way == 0)
        guard.reviews.answers.set()
        assert await guard.ask("known", "127.0.0.100") == 200


@pytest.mark.req("R-401")
@given(some.binary(min_size=1, max_size=200))
def test_any_bytes_for_a_token_are_answered(token: bytes) -> None:
    """By bytes on the wire: libraries refuse to send most of them."""

    async def ask() -> bytes:
        async with guarded() as guard:
            reader, writer = await asyncio.open_connection("127.0.0.1", guard.server.port)
            head = b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer "
            writer.write(head + token + b"\r\n\r\n")
            answer = await reader.read()
            writer.close()
            return answer

    with asyncio.Runner() as runner:
        assert runner.run(ask()).split()[1] in (b"200", b"400", b"401")


@given(some.lists(some.floats(0, 100), min_size=1, max_size=200))
def test_a_peer_may_ask_as_often_as_is_promised(pauses: list[float]) -> None:
    allowance, now, asked = Allowance(since=0.0), 0.0, 0
    for pause in pauses:
        now += pause
        asked += allowance.may_ask(now)
        assert asked <= PEER_BURST + now / PEER_REFILL_SECONDS + 1e-6


@given(some.lists(some.tuples(some.integers(0, 2_000), some.sampled_from([200, 401, 403])), max_size=100))
def test_refusals_push_no_permission_out(verdicts: list[tuple[int, int]]) -> None:
    remembered = Verdicts()
    remembered.add(b"scraper", 200, until=60)
    for number, status in verdicts:
        if status != 200:
            remembered.add(str(number).encode(), status, until=60)
    assert remembered.at(b"scraper", now=0) == 200
