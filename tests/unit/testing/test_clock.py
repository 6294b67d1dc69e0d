"""A test decides what time it is."""

from __future__ import annotations

import asyncio
import time

import pytest

from stellwerk.runtime.clock import Clock
from stellwerk.testing.clock import FakeClock, SimulatedLoop


async def test_sleepers_wake_in_the_order_of_their_due_times() -> None:
    clock = FakeClock()
    woken: list[tuple[str, float]] = []
    start = clock.monotonic()

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic() - start))

    async with asyncio.TaskGroup() as tasks:
        for name, seconds in (("late", 30.0), ("early", 10.0), ("too late", 61.0)):
            tasks.create_task(sleeper(name, seconds), name=name)
        await clock.until_sleeping(3)
        await clock.advance(60)
        assert woken == [("early", 10.0), ("late", 30.0)]
        assert clock.next_wake_seconds == 1.0
        await clock.advance(1)
    assert clock.sleeping == 0


async def test_who_lies_down_again_is_woken_again_within_one_advance() -> None:
    clock = FakeClock()
    ticks: list[float] = []

    async def ticker(clock: Clock) -> None:
        while True:
            await clock.sleep(1)
            ticks.append(clock.monotonic())

    task = asyncio.create_task(ticker(clock))
    await clock.until_sleeping()
    before = clock.monotonic()
    await clock.advance(5.5)
    task.cancel()
    assert ticks == [before + second for second in (1, 2, 3, 4, 5)]


async def test_a_cancelled_sleeper_is_forgotten() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(10))
    await clock.until_sleeping()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert clock.sleeping == 0
    await clock.advance(20)


async def test_both_times_pass_together_and_only_the_wall_clock_jumps() -> None:
    clock = FakeClock()
    wall, steady = clock.now(), clock.monotonic()
    await clock.advance(90)
    assert (clock.now() - wall).total_seconds() == clock.monotonic() - steady == 90
    clock.jump(-3600)
    assert clock.monotonic() - steady == 90
    assert (clock.now() - wall).total_seconds() == 90 - 3600


async def test_waiting_for_sleepers_that_never_come_says_so() -> None:
    with pytest.raises(AssertionError, match=r"0 task\(s\) sleep on the clock, 1 expected"):
        await FakeClock().until_sleeping(within=0.05)


def test_on_a_simulated_loop_an_hour_is_nothing() -> None:
    async def wait_an_hour() -> float:
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3600):
                await asyncio.sleep(7200)
        return loop.time() - start

    began = time.monotonic()
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        assert runner.run(wait_an_hour()) == pytest.approx(3600)
    assert time.monotonic() - began < 60
