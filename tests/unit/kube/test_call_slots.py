"""A tenant whose calls hang keeps the calls of no other tenant waiting; fast calls are as many as they were."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Coroutine
from typing import TypeVar

import pytest

from stellwerk.kube.http.call_slots import SLOW_SECONDS, CallSlots
from stellwerk.testing.clock import SimulatedLoop

LIMIT = 32
HANGS_SECONDS = 10.0
T = TypeVar("T")


def simulated(work: Coroutine[None, None, T]) -> T:
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)


class Calls:
    """Calls that take a while, and how many are under way."""

    def __init__(self) -> None:
        self.slots = CallSlots(LIMIT)
        self.under_way = 0
        self.most = 0
        self.begun: list[str] = []

    async def call(self, tenant: str, takes_seconds: float) -> float:
        """Returns when it ended."""
        slot = self.slots.take(tenant) or await self.slots.wait(tenant)
        self.begun.append(tenant)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(takes_seconds)
        finally:
            self.under_way -= 1
            self.slots.give_back(slot)
        return asyncio.get_running_loop().time()


def started(calls: list[Awaitable[float]]) -> asyncio.Future[list[float]]:
    return asyncio.gather(*calls)


@pytest.mark.req("R-507")
def test_a_tenant_whose_calls_hang_delays_another_ones_by_a_second_at_most() -> None:
    async def work() -> float:
        calls = Calls()
        hanging = started([calls.call("a", HANGS_SECONDS) for _ in range(320)])
        longest, loop = 0.0, asyncio.get_running_loop()
        while not hanging.done():
            asked = loop.time()
            longest = max(longest, await calls.call("b", 0.01) - asked)
        return longest

    assert simulated(work()) <= SLOW_SECONDS + 0.02


@pytest.mark.req("R-507")
def test_three_tenants_whose_calls_hang_leave_the_slots_to_others() -> None:
    async def work() -> float:
        calls = Calls()
        hanging = [started([calls.call(tenant, 30.0) for _ in range(100)]) for tenant in "abc"]
        await asyncio.sleep(5.0)
        ended = await calls.call("d", 0.01)
        for each in hanging:
            each.cancel()
        return ended

    assert simulated(work()) == pytest.approx(5.01)


@pytest.mark.parametrize("takes_seconds", [0.01, HANGS_SECONDS])
def test_a_tenant_that_is_alone_has_as_many_calls_as_there_are_slots_however_slow(takes_seconds: float) -> None:
    async def work() -> tuple[int, float]:
        calls = Calls()
        ends = await started([calls.call("a", takes_seconds) for _ in range(10 * LIMIT)])
        return calls.most, max(ends)

    most, seconds = simulated(work())
    assert most == LIMIT
    assert seconds == pytest.approx(10 * takes_seconds)


def test_fast_calls_of_any_tenants_together_are_no_more_than_the_slots_and_use_them_all() -> None:
    async def work() -> tuple[int, float]:
        calls = Calls()
        ends = await started([calls.call(f"tenant-{n % 50}", 0.01) for n in range(100 * LIMIT)])
        return calls.most, max(ends)

    most, seconds = simulated(work())
    assert most == LIMIT
    assert seconds == pytest.approx(1.0)


def test_slow_calls_are_bounded_over_all_tenants() -> None:
    async def work() -> int:
        calls = Calls()
        await started([calls.call(f"tenant-{n % 50}", HANGS_SECONDS) for n in range(100 * LIMIT)])
        return calls.most

    assert simulated(work()) == 4 * LIMIT


@pytest.mark.req("R-507")
def test_tenants_whose_calls_wait_take_turns() -> None:
    async def work() -> list[str]:
        calls = Calls()
        await started([*(calls.call("a", 0.01) for _ in range(5 * LIMIT)), *(calls.call("b", 0.01) for _ in range(3))])
        return calls.begun

    assert [number for number, tenant in enumerate(simulated(work())) if tenant == "b"] == [33, 35, 37]


def test_calls_that_are_cancelled_at_any_moment_lose_no_slot_and_leave_none_over() -> None:
    async def work(chance: random.Random) -> tuple[int, float]:
        calls = Calls()
        tasks = [
            asyncio.create_task(calls.call(chance.choice("abc"), chance.choice((0.0, 0.01, 3.0)))) for _ in range(300)
        ]
        loop = asyncio.get_running_loop()
        for task in chance.sample(tasks, 200):
            loop.call_later(chance.choice((0.0, 0.01, 0.02, 1.0, 1.01)), task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        calls.most, began = 0, loop.time()
        ends = await started([calls.call("d", 0.5) for _ in range(2 * LIMIT)])
        return calls.most, max(ends) - began

    for seed in range(20):
        most, seconds = simulated(work(random.Random(seed)))
        assert most == LIMIT
        assert seconds == pytest.approx(1.0)
