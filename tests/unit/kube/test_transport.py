"""A login that is refused is renewed once, by calls and streams alike; one that cannot be sent is named as that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field

import pytest
from tests.unit.kube.scripted import OK, Server, serving

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.connection_pool import Wish
from stellwerk.kube.http.messages import Answer, RequestMessage
from stellwerk.kube.http.transport import CALL_SECONDS, Request, RequestFacts, Transport
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ApiError, LoginFailed, ServerFault, TooManyRequests, Unauthorized, Unreachable
from stellwerk.kube.types.model import encode_json
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import WatchSuspended
from stellwerk.local.host.ports import free_port
from stellwerk.testing.clock import LoopClock, SimulatedLoop

REFUSED = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\n{}"
Way = Callable[[Transport], Awaitable[bytes]]


@dataclass
class Tokens:
    """Hands out one after the other, the next one when one was refused."""

    tokens: list[str] = field(default_factory=lambda: ["old", "new", "never"])

    async def authorization(self) -> str:
        return f"Bearer {self.tokens[0]}"

    def refresh(self) -> None:
        del self.tokens[0]


async def by_call(transport: Transport) -> bytes:
    return await transport.call(Request("GET", "/", about="look"))


async def by_stream(transport: Transport) -> bytes:
    async with transport.stream(Request("GET", "/", about="look"), silence_seconds=10) as chunks:
        return b"".join([chunk async for chunk in chunks])


both_ways = pytest.mark.parametrize("way", [by_call, by_stream])


@asynccontextmanager
async def speaking(words: Callable[[int, bytes], bytes], tokens: Tokens) -> AsyncIterator[tuple[Server, Transport]]:
    async with serving(words) as (server, _):
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}", credentials=tokens)
        async with Transport(config, user_agent="test") as transport:
            yield server, transport


@both_ways
async def test_a_login_that_is_refused_is_renewed(way: Way) -> None:
    async with speaking(lambda number, request: OK if b"Bearer new" in request else REFUSED, Tokens()) as (
        server,
        transport,
    ):
        assert await way(transport) == b"ok"
    assert len(server.asked) == 2


@both_ways
async def test_a_request_that_gets_no_answer_is_counted_without_a_code(way: Way) -> None:
    counted: list[RequestFacts] = []

    async def at_once(_: float) -> None:
        """No pause between attempts."""

    config = ClusterConfig(server=f"http://127.0.0.1:{free_port()}")
    async with Transport(config, user_agent="test", on_request=counted.append, rest=at_once) as transport:
        with pytest.raises(Unreachable):
            await way(transport)
    assert {facts.code for facts in counted} == {0}


@both_ways
async def test_it_is_renewed_once_and_not_for_ever(way: Way) -> None:
    async with speaking(lambda number, request: REFUSED, Tokens()) as (server, transport):
        with pytest.raises(Unauthorized):
            await way(transport)
    assert len(server.asked) == 2


@both_ways
async def test_a_token_with_a_line_break_is_not_sent_and_not_told(
    way: Way,
) -> None:
    async with speaking(lambda number, request: OK, Tokens(["hush\nX-Other: hush"])) as (server, transport):
        with pytest.raises(LoginFailed, match=r"cannot look: the token.* line break") as told:
            await way(transport)
    assert server.asked == []
    assert "hush" not in str(told.value)


class SlowConnections:
    """Answers each attempt with a refusal, after a time of its own or at its deadline; the last time stays."""

    def __init__(self, *takes_seconds: float, code: int = 503, message: str = "", waits_seconds: float = 0.0) -> None:
        """`waits_seconds`: for how long no connection is free at the first attempt."""
        self.takes_seconds = takes_seconds
        self.answer = Answer(code, body=encode_json({"kind": "Status", "code": code, "message": message}))
        self.waits_seconds = waits_seconds
        self.attempts = 0

    async def exchange(self, request: RequestMessage, wish: Wish, *, seconds: float) -> Answer:
        async with asyncio.timeout(seconds):
            await asyncio.sleep(0 if self.attempts else self.waits_seconds)
            takes_seconds = self.takes_seconds[min(self.attempts, len(self.takes_seconds) - 1)]
            self.attempts += 1
            assert wish.before is not None
            wish.before()
            await asyncio.sleep(takes_seconds)
        return self.answer

    def close(self) -> None:
        pass


@pytest.mark.req("R-602")
@pytest.mark.parametrize(("takes_seconds", "attempts"), [(10.0, 5), (25.0, 2), (35.0, 1), (58.0, 1), (70.0, 1)])
def test_all_attempts_of_a_call_together_take_no_longer_than_a_call_may(takes_seconds: float, attempts: int) -> None:
    async def called() -> tuple[float, int]:
        config = ClusterConfig(server="http://nowhere.invalid")
        async with Transport(config, user_agent="test") as transport:
            connections = SlowConnections(takes_seconds)
            transport._connections = connections  # type: ignore[assignment]
            with pytest.raises((ServerFault, Unreachable)):
                await transport.call(Request("GET", "/", about="look", repeatable=True))
            return asyncio.get_running_loop().time(), connections.attempts

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        seconds, counted = runner.run(called())
    assert seconds <= CALL_SECONDS
    assert counted == attempts


@pytest.mark.req("R-208")
@pytest.mark.parametrize("takes_seconds", [10.0, 12.0, 15.0, 20.0, 30.0, 45.0])
def test_a_refusal_that_takes_long_is_reported_and_not_lost_to_another_attempt(takes_seconds: float) -> None:
    assert isinstance(failure_of_apply(SlowConnections(takes_seconds, code=500)), ServerFault)


@pytest.mark.req("R-208")
@pytest.mark.parametrize("takes_seconds", [(0.1, 61.0), (25.0, 36.0), (10.0, 10.0, 41.0)])
def test_a_refusal_is_reported_where_a_later_attempt_gets_no_answer_in_time(takes_seconds: tuple[float, ...]) -> None:
    assert isinstance(failure_of_apply(SlowConnections(*takes_seconds, code=500)), ServerFault)


@pytest.mark.req("R-208")
def test_a_request_that_was_turned_away_and_then_gets_no_answer_has_an_unknown_outcome() -> None:
    failure = failure_of_apply(SlowConnections(0.1, 61.0, code=429))
    assert isinstance(failure, Unreachable)
    assert failure.outcome_unknown


@pytest.mark.req("R-208")
def test_the_wait_for_a_connection_is_no_time_that_the_server_takes() -> None:
    connections = SlowConnections(5.0, code=500, waits_seconds=35.0)
    assert isinstance(failure_of_apply(connections), ServerFault)
    assert connections.attempts == 4


def failure_of_apply(connections: SlowConnections) -> ApiError:
    """What an apply over these connections ends with."""

    async def called() -> ApiError:
        async with Transport(ClusterConfig(server="http://nowhere.invalid"), user_agent="test") as transport:
            transport._connections = connections  # type: ignore[assignment]
            with pytest.raises(ApiError) as failed:
                await transport.call(Request("PATCH", "/", about="apply", repeatable=True))
            return failed.value

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(called())


@pytest.mark.req("R-208")
@pytest.mark.parametrize(("takes_seconds", "attempts"), [(0.01, 5), (1.0, 1), (10.0, 1)])
def test_a_call_whose_admission_webhook_hangs_is_left_to_the_back_off_of_its_caller(
    takes_seconds: float, attempts: int
) -> None:
    message = 'Internal error occurred: failed calling webhook "hangs.example.org": context deadline exceeded'
    connections = SlowConnections(takes_seconds, code=500, message=message)
    failure = failure_of_apply(connections)
    assert isinstance(failure, ServerFault)
    assert "failed calling webhook" in str(failure)
    assert connections.attempts == attempts


@pytest.mark.req("R-207")
@pytest.mark.parametrize("takes_seconds", [10.0, 15.0, 20.0, 30.0])
def test_a_kind_whose_lists_fail_late_is_suspended_within_a_minute(takes_seconds: float) -> None:
    async def suspended() -> tuple[object, float]:
        transport = Transport(ClusterConfig(server="http://nowhere.invalid"), user_agent="test")
        transport._connections = SlowConnections(takes_seconds, code=500)  # type: ignore[assignment]
        watcher = Watcher(Client(transport, field_manager="test"), ConfigMap, clock=LoopClock())
        async with transport, asyncio.timeout(600.0), aclosing(watcher.changes()) as changes:
            return await anext(changes), asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        change, seconds = runner.run(suspended())
    assert isinstance(change, WatchSuspended)
    assert seconds <= CALL_SECONDS


@pytest.mark.req("R-602")
@pytest.mark.parametrize(
    ("repeatable", "takes_seconds", "attempts"), [(False, 25.0, 2), (False, 35.0, 1), (True, 25.0, 2), (True, 35.0, 1)]
)
def test_a_refused_create_is_sent_again_only_while_there_is_time_for_an_answer(
    repeatable: bool, takes_seconds: float, attempts: int
) -> None:
    connections = SlowConnections(takes_seconds, code=429)

    async def called() -> None:
        config = ClusterConfig(server="http://nowhere.invalid")
        async with Transport(config, user_agent="test") as transport:
            transport._connections = connections  # type: ignore[assignment]
            with pytest.raises(TooManyRequests):
                await transport.call(Request("POST", "/", about="create", repeatable=repeatable))

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(called())
    assert connections.attempts == attempts


class SlowLogin(Tokens):
    """Takes most of a call's time."""

    async def authorization(self) -> str:
        await asyncio.sleep(50.0)
        return await super().authorization()


@pytest.mark.req("R-602")
def test_the_first_login_takes_no_time_from_the_call() -> None:
    async def called() -> None:
        config = ClusterConfig(server="http://nowhere.invalid", credentials=SlowLogin())
        async with Transport(config, user_agent="test") as transport:
            transport._connections = SlowConnections(40.0)  # type: ignore[assignment]
            with pytest.raises(ServerFault):
                await transport.call(Request("POST", "/", about="create", repeatable=False))

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(called())
