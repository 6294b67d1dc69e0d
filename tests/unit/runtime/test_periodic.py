"""What no watch tells is looked at by the clock, and a round that fails is not the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from stellwerk.kube.types.errors import Unreachable
from stellwerk.runtime.control.outcome import LeadershipLost
from stellwerk.runtime.control.periodic import Periodic
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock


class Rounds:
    """Counts rounds, some of which fail."""

    def __init__(self, failing: Callable[[int], Exception | None] = lambda _: None) -> None:
        self.count = 0
        self._failing = failing

    async def __call__(self) -> None:
        self.count += 1
        if (error := self._failing(self.count)) is not None:
            raise error


async def ended(periodic: Periodic, running: asyncio.Task[None]) -> None:
    periodic.stop()
    async with asyncio.timeout(20):
        await running


async def test_a_round_comes_after_each_pause_until_it_is_stopped() -> None:
    clock, rounds = FakeClock(), Rounds()
    periodic = Periodic("poll", rounds, interval_seconds=10, border=Border(Metrics(), clock))
    running = asyncio.create_task(periodic.run())

    for expected in (0, 1, 2):
        assert rounds.count == expected
        await clock.until_sleeping()
        await clock.advance(10.6)
    await ended(periodic, running)
    assert rounds.count == 3


@pytest.mark.parametrize("error", [Unreachable("refused"), ValueError("a bug")])
async def test_a_failed_round_is_told_and_followed_by_the_next(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    clock, rounds = FakeClock(), Rounds(lambda number: error if number == 1 else None)
    periodic = Periodic("poll", rounds, interval_seconds=10, border=Border(Metrics(), clock))
    running = asyncio.create_task(periodic.run())

    for _ in range(2):
        await clock.until_sleeping()
        await clock.advance(10.6)
    await ended(periodic, running)

    assert rounds.count == 2
    assert str(error) in caplog.text


@pytest.mark.req("R-301")
async def test_who_has_lost_the_lead_ends() -> None:
    clock, rounds = FakeClock(), Rounds(lambda _: LeadershipLost("the lease is over"))
    running = asyncio.create_task(Periodic("poll", rounds, interval_seconds=10, border=Border(Metrics(), clock)).run())

    await clock.until_sleeping()
    await clock.advance(10.6)

    with pytest.raises(LeadershipLost):
        await running
