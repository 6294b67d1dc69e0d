"""A server that does not answer is left alone and costs nothing; when it answers again, all calls go on at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest
from tests.unit.kube.scripted import OK, serving

from stellwerk.kube.client.client import Client
from stellwerk.kube.http.circuit_breaker import (
    FAILURES,
    FIRST_ANSWER_SECONDS,
    LONGEST_PAUSE_SECONDS,
    TRIAL_SECONDS,
    CircuitBreaker,
)
from stellwerk.kube.http.messages import NotConnected
from stellwerk.kube.http.transport import RequestFacts, ServerBounds
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import (
    AddressForbidden,
    ApiError,
    LoginFailed,
    ServerFault,
    Status,
    StatusError,
    Unauthorized,
    Unreachable,
)
from stellwerk.testing.clock import FakeClock, SimulatedLoop

pytestmark = [pytest.mark.req("R-210"), pytest.mark.req("R-511")]

SILENCE = Unreachable("cannot list pods: far does not answer: no answer in time", cause="no answer in time")


class Breaker:
    """A breaker on a clock of its own, and when it was open."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.said = list[bool]()
        self.breaker = CircuitBreaker(self.clock.monotonic, on_change=lambda breaker: self.said.append(breaker.is_open))

    async def call(self, error: BaseException | None = None) -> None:
        async with self.breaker.call():
            if error is not None:
                raise error

    async def fails(self, times: int = FAILURES, error: ApiError = SILENCE) -> None:
        for _ in range(times):
            with pytest.raises(type(error)):
                await self.call(error)


@pytest.fixture
def made() -> Breaker:
    return Breaker()


async def test_after_some_calls_without_an_answer_none_is_made_and_each_has_the_cause_of_the_last(
    made: Breaker,
) -> None:
    await made.fails(FAILURES - 1)
    await made.call()
    await made.fails(FAILURES - 1)
    assert not made.breaker.is_open, "they were not in a row"
    await made.fails(1)
    with pytest.raises(NotConnected, match="no answer in time"):
        await made.call()
    assert made.said == [True]


async def test_a_refused_login_is_trouble_until_another_answer_and_no_call_is_held_back(made: Breaker) -> None:
    refusal = Unauthorized(Status(code=401, reason="Unauthorized", message="Unauthorized"), "list pods")
    await made.fails(2, refusal)
    assert "Unauthorized" in made.breaker.trouble
    await made.fails()
    assert made.breaker.trouble == "no answer in time"
    await made.clock.advance(1.0)
    await made.call()
    assert made.breaker.trouble == ""
    assert len(made.said) == 2, "it is told when trouble begins and when it ends"


async def test_each_call_that_tries_in_vain_doubles_the_pause_up_to_half_a_minute(made: Breaker) -> None:
    await made.fails()
    for longest in (1.0, 2.0, 4.0, 8.0, 16.0, LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS):
        await made.clock.advance(longest * 0.74)
        with pytest.raises(NotConnected):
            await made.call()
        await made.clock.advance(longest * 0.26 + 0.001)
        await made.fails(1)
    await made.clock.advance(LONGEST_PAUSE_SECONDS)
    await made.call()
    await made.fails(FAILURES - 1)
    await made.call()
    assert made.said == [True, False]


@pytest.mark.parametrize("answer", [None, ServerFault(Status(code=503), "try"), StatusError(Status(code=403), "try")])
async def test_while_one_call_tries_others_wait_and_all_are_made_once_any_answer_came(
    made: Breaker, answer: ApiError | None
) -> None:
    await made.fails()
    await made.clock.advance(1)
    answered, began = asyncio.Event(), list[int]()

    async def call(number: int) -> None:
        async with made.breaker.call():
            began.append(number)
            await answered.wait()
            if answer is not None:
                raise answer

    calls = [asyncio.create_task(call(number)) for number in range(5)]
    await made.clock.advance(0)
    assert began == [0]
    answered.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert sorted(began) == [0, 1, 2, 3, 4]
    assert not made.breaker.is_open


async def test_those_that_wait_are_refused_if_the_call_that_tries_fails(made: Breaker) -> None:
    await made.fails()
    await made.clock.advance(1)
    failing = asyncio.Event()

    async def call() -> None:
        async with made.breaker.call():
            await failing.wait()
            raise SILENCE

    calls = [asyncio.create_task(call()) for _ in range(3)]
    await made.clock.advance(0)
    failing.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [Unreachable, NotConnected, NotConnected]


def test_a_call_that_tries_and_does_not_end_keeps_others_waiting_for_ten_seconds_only() -> None:
    async def waits() -> list[float]:
        made, clock = Breaker(), asyncio.get_running_loop()
        await made.fails()
        await made.clock.advance(1)

        async def hang() -> None:
            async with made.breaker.call():
                await asyncio.sleep(90)
                raise SILENCE

        trying = asyncio.create_task(hang())
        await asyncio.sleep(4)
        ended = list[float]()
        for _ in range(2):
            began = clock.time()
            with pytest.raises(NotConnected, match="no answer in time"):
                await made.call()
            ended.append(clock.time() - began)
        with pytest.raises(Unreachable):
            await trying
        return ended

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        first, next_one = runner.run(waits())
    assert first == pytest.approx(TRIAL_SECONDS - 4, abs=0.1)
    assert next_one == pytest.approx(0, abs=0.1)


async def test_what_is_raised_here_is_no_answer(made: Breaker) -> None:
    await made.fails()
    await made.clock.advance(1)
    with pytest.raises(ZeroDivisionError):
        await made.call(ZeroDivisionError())
    assert made.breaker.is_open


async def test_a_call_that_tries_and_is_cancelled_leaves_the_trial_to_the_next(made: Breaker) -> None:
    await made.fails()
    await made.clock.advance(1)

    async def forever() -> None:
        async with made.breaker.call():
            await asyncio.Event().wait()

    trying = asyncio.create_task(forever())
    await made.clock.advance(0)
    next_one = asyncio.create_task(made.call())
    await made.clock.advance(0)
    trying.cancel()
    await next_one
    assert not made.breaker.is_open


async def test_failures_of_calls_that_began_before_do_not_lengthen_the_pause_and_an_answer_ends_it(
    made: Breaker,
) -> None:
    failing, answered = asyncio.Event(), asyncio.Event()

    async def call(ends: asyncio.Event, error: ApiError | None) -> None:
        async with made.breaker.call():
            await ends.wait()
            if error is not None:
                raise error

    failures = [asyncio.create_task(call(failing, SILENCE)) for _ in range(20)]
    answer = asyncio.create_task(call(answered, None))
    await made.clock.advance(0)
    await made.fails()
    failing.set()
    await asyncio.wait(failures)
    await made.clock.advance(1)
    await made.fails(1)
    with pytest.raises(NotConnected):
        await made.call()
    answered.set()
    await answer
    await made.call()


@pytest.mark.parametrize("error", [AddressForbidden("no"), LoginFailed("no")])
async def test_what_is_refused_before_any_call_says_nothing_about_the_server(made: Breaker, error: ApiError) -> None:
    await made.fails(FAILURES - 1)
    await made.fails(10, error)
    assert (made.breaker.trouble, made.said) == ("no", [False]), "but it is shown, once, until an answer"
    await made.fails(1)
    assert made.breaker.is_open
    await made.clock.advance(1)
    await made.call()
    assert (made.breaker.trouble, len(made.said)) == ("", 2)


async def test_a_server_is_idle_since_the_end_of_its_last_call(made: Breaker) -> None:
    ended = asyncio.Event()

    async def call() -> None:
        async with made.breaker.call():
            await ended.wait()

    calling = asyncio.create_task(call())
    await made.clock.advance(100)
    assert made.breaker.idle_seconds == 0
    ended.set()
    await calling
    await made.clock.advance(7)
    assert made.breaker.idle_seconds == 7


async def test_a_client_sends_nothing_to_a_server_that_is_left_alone_and_says_why_as_before() -> None:
    made, facts = Breaker(), list[RequestFacts]()
    async with serving(lambda number, request: b"nonsense" if number <= FAILURES else OK) as (server, _):
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}")
        bounds = ServerBounds(breaker=made.breaker)
        async with Client.connect(config, bounds, on_request=facts.append) as client:
            said = set[str]()
            for _ in range(FAILURES):
                with pytest.raises(Unreachable) as failed:
                    await client.raw("POST", "/anything", accept="text/plain")
                said.add(str(failed.value))
            counted = len(facts)
            with pytest.raises(Unreachable) as refused:
                await client.raw("POST", "/anything", accept="text/plain")
            assert said == {str(refused.value)}
            assert not refused.value.outcome_unknown
            assert (len(server.asked), len(facts)) == (FAILURES, counted)
            await made.clock.advance(1)
            assert await client.raw("POST", "/anything", accept="text/plain") == b"ok"


def simulated(work: Awaitable[None]) -> None:
    """Do something in a loop whose time skips."""

    async def done() -> None:
        await work

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(done())


async def _silent_from_the_first_call() -> None:
    said = list[tuple[float, str]]()
    loop = asyncio.get_running_loop()
    breaker = CircuitBreaker(loop.time, on_change=lambda each: said.append((round(loop.time() - began), each.trouble)))
    began = loop.time()

    async def call(seconds: float, error: ApiError | None) -> None:
        async with breaker.call():
            await asyncio.sleep(seconds)
            if error is not None:
                raise error

    late = f"it has not answered within {FIRST_ANSWER_SECONDS:g} s"
    outcomes = await asyncio.gather(*(call(60 + each, SILENCE) for each in range(FAILURES)), return_exceptions=True)
    assert [*map(type, outcomes)] == [Unreachable] * FAILURES
    assert said == [(10, late), (62, "no answer in time")]
    await asyncio.sleep(LONGEST_PAUSE_SECONDS)
    await call(1, None)
    assert said[2:] == [(93, "")]
    await call(50, None)
    assert len(said) == 3, "a server that has answered before is given the time of a call"


def test_a_server_that_has_never_answered_is_in_trouble_after_ten_seconds_until_its_first_answer() -> None:
    """Its calls go on; when they have failed, their cause is told."""
    simulated(_silent_from_the_first_call())


async def _slow_and_cancelled() -> None:
    said = list[str]()
    breaker = CircuitBreaker(asyncio.get_running_loop().time, on_change=lambda each: said.append(each.trouble))

    async def call(seconds: float) -> None:
        async with breaker.call():
            await asyncio.sleep(seconds)

    given_up = asyncio.create_task(call(20))
    await asyncio.sleep(9)
    given_up.cancel()
    await asyncio.sleep(30)
    assert not said, "nobody waits for an answer any more"
    await asyncio.gather(call(15), call(11))
    assert said == [f"it has not answered within {FIRST_ANSWER_SECONDS:g} s", ""]


def test_a_first_answer_that_is_late_ends_the_trouble_and_a_call_that_was_given_up_is_none() -> None:
    simulated(_slow_and_cancelled())
