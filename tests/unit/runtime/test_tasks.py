"""What a task raises stays inside its border: it is counted, logged with its stack, and the task starts again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from stellwerk.kube.nested import Foreign
from stellwerk.runtime.clock import SystemClock, happens_within
from stellwerk.runtime.control.outcome import LeadershipLost
from stellwerk.runtime.serving.http import CannotListen
from stellwerk.runtime.supervision.tasks import CALM_SECONDS, Border, background
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.surprises import SURPRISES, Panic
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.req("R-512")
surprising = pytest.mark.parametrize("raised", SURPRISES.values(), ids=SURPRISES)


@dataclass
class Watch:
    """A task that fails in its first runs, and then runs on."""

    failures: list[Callable[[], BaseException]]
    runs: int = 0
    parked: list[Exception] = field(default_factory=list)

    async def run(self) -> None:
        self.runs += 1
        if self.failures:
            raise self.failures.pop(0)()
        await asyncio.Event().wait()


@dataclass
class Kept:
    """A task inside its border."""

    watch: Watch
    clock: FakeClock = field(default_factory=FakeClock)
    metrics: Metrics = field(default_factory=Metrics)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        border = Border(self.metrics, self.clock)
        keeping = border.keep("watch", "the watch of stones", self.watch.run, parked=self.watch.parked.append)
        task = asyncio.create_task(keeping)
        yield task
        task.cancel()
        await asyncio.wait([task])

    @property
    def count(self) -> float | None:
        return self.metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": "watch"})


@surprising
async def test_a_task_that_raises_anything_is_counted_and_logged_and_starts_again(
    raised: Callable[[], BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    kept = Kept(Watch([raised]))
    async with kept.running() as task:
        await kept.clock.until_sleeping()
        assert (kept.watch.runs, kept.count, len(kept.watch.parked)) == (1, 1, 1)
        await kept.clock.advance(1)
        assert kept.watch.runs == 2
        assert not task.done()
    assert "the watch of stones" in caplog.text
    assert "Traceback" in caplog.text
    assert "raise self.failures.pop(0)()" in caplog.text


@surprising
async def test_what_is_done_once_leaves_nothing_but_a_report(raised: Callable[[], BaseException]) -> None:
    metrics = Metrics()
    border = Border(metrics, SystemClock())
    async with background() as tasks:
        failing = tasks.start(border.once("poll", "a poll", Watch([raised]).run), "poll")
        await asyncio.wait([failing])
        assert failing.result() is False
    assert metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": "poll"}) == 1


@pytest.mark.req("R-304")
async def test_a_task_that_ends_by_the_cancellation_of_another_does_not_end_in_silence() -> None:
    shared: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def work() -> None:
        await shared

    async def block() -> None:
        async with asyncio.timeout(20), background() as tasks:
            tasks.start(work(), "work")
            await asyncio.sleep(0)
            shared.cancel()
            await asyncio.Event().wait()

    with pytest.raises(ExceptionGroup) as failure:
        await block()
    assert failure.group_contains(Foreign, match="CancelledError")


async def test_a_task_that_is_cancelled_before_it_begins_leaves_nothing_behind() -> None:
    async with background() as tasks:
        tasks.start(asyncio.Event().wait(), "never begun")


async def test_pauses_grow_until_a_run_was_calm() -> None:
    kept = Kept(Watch([ValueError] * 6))
    pauses = []
    async with kept.running():
        for _ in range(6):
            await kept.clock.until_sleeping()
            pause = kept.clock.next_wake_seconds
            assert pause is not None
            pauses.append(pause)
            await kept.clock.advance(pause)
    assert all(later > former * 1.4 for former, later in pairwise(pauses))
    assert 0.3 < pauses[0] <= 0.5


async def test_a_task_that_ran_for_long_starts_again_soon() -> None:
    clock, fails = FakeClock(), asyncio.Event()

    async def work() -> None:
        await fails.wait()
        fails.clear()
        raise ValueError

    running = asyncio.create_task(Border(Metrics(), clock).keep("watch", "watch", work))
    for _ in range(5):
        await clock.advance(CALM_SECONDS + 1)
        fails.set()
        await clock.until_sleeping()
        assert (clock.next_wake_seconds or 0) <= 0.5
        await clock.advance(0.5)
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.req("R-301")
@pytest.mark.parametrize(
    "raised",
    [
        LeadershipLost("the lease is over"),
        ExceptionGroup("several", [KeyError("k"), ExceptionGroup("inner", [LeadershipLost("the lease is over")])]),
    ],
    ids=["alone", "in groups"],
)
async def test_the_loss_of_leadership_passes_every_border(raised: Exception) -> None:
    border = Border(Metrics(), FakeClock())
    async with asyncio.timeout(20):
        with pytest.raises(LeadershipLost):
            await border.keep("watch", "watch", Watch([lambda: raised]).run)
        with pytest.raises(LeadershipLost):
            await border.once("watch", "watch", Watch([lambda: raised]).run)


async def test_a_server_that_cannot_start_ends_the_process_and_one_that_cannot_start_again_does_not() -> None:
    with pytest.raises(CannotListen):
        await Border(Metrics(), FakeClock()).keep("probes", "probes", Watch([lambda: CannotListen("taken")]).run)
    kept = Kept(Watch([ValueError, lambda: CannotListen("taken")]))
    async with kept.running():
        await kept.clock.until_sleeping()
        await kept.clock.advance(5)
        assert kept.watch.runs == 3


async def test_a_cancelled_task_ends_though_its_end_raises(caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError("a file cannot be closed")

    task = asyncio.create_task(Border(Metrics(), FakeClock()).keep("watch", "watch", work))
    await asyncio.sleep(0)
    task.cancel()
    async with asyncio.timeout(20):
        await asyncio.wait([task])
    assert task.cancelled()
    assert "a file cannot be closed" in caplog.text


async def test_a_callback_that_fails_too_does_not_keep_the_task_from_starting_again() -> None:
    clock, watch = FakeClock(), Watch([ValueError])

    def parked(_: Exception) -> None:
        raise Panic("in the callback")

    running = asyncio.create_task(Border(Metrics(), clock).keep("watch", "watch", watch.run, parked=parked))
    await clock.until_sleeping()
    await clock.advance(1)
    assert watch.runs == 2
    running.cancel()
    await asyncio.wait([running])


class BrokenClock(FakeClock):
    """Fails at once instead of waiting."""

    async def sleep(self, seconds: float) -> None:
        raise OverflowError("timeout value is too large")


async def test_a_clock_that_fails_makes_no_loop_without_a_pause() -> None:
    watch = Watch([ValueError] * 1_000)
    running = asyncio.create_task(Border(Metrics(), BrokenClock()).keep("watch", "watch", watch.run))
    await eventually(lambda: watch.runs >= 2, within=20)
    assert watch.runs < 10
    running.cancel()
    await asyncio.wait([running])
    with pytest.raises(OverflowError):
        await happens_within(BrokenClock(), 5, asyncio.Event())
