"""The work queue: each key once, never two workers on a key, nothing lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.control.queue import Priority, QueueClosed, WorkQueue
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.testing.clock import FakeClock


def key(name: str, namespace: str = "n") -> ObjectKey:
    return ObjectKey(namespace, name)


def namespace_of(key: ObjectKey) -> str:
    return key.namespace


A, B, C = key("a"), key("b"), key("c")


def queue(
    clock: FakeClock, backoff: Backoff | None = None, tenant_of: Callable[[ObjectKey], str] = namespace_of
) -> WorkQueue:
    return WorkQueue(clock=clock, backoff=backoff, tenant_of=tenant_of, chance=lambda: 0.0)


@asynccontextmanager
async def running(work: WorkQueue) -> AsyncIterator[None]:
    """Time passes for the queue's delayed keys."""
    timers = asyncio.create_task(work.run())
    try:
        yield
    finally:
        timers.cancel()
        await asyncio.gather(timers, return_exceptions=True)


async def drained(work: WorkQueue) -> list[ObjectKey]:
    """All ready keys, each done at once."""
    taken = []
    while len(work):
        taken.append(await work.get())
        work.done(taken[-1])
    return taken


async def test_a_key_added_twice_is_given_out_once() -> None:
    work = queue(FakeClock())
    for each in (A, B, A):
        work.add(each)
    assert await drained(work) == [A, B]


async def test_a_key_added_while_it_runs_is_given_out_again_afterwards() -> None:
    work = queue(FakeClock())
    work.add(A)
    assert await work.get() == A
    work.add(A)
    assert len(work) == 0
    assert work.is_running(A)
    work.done(A)
    assert not work.is_running(A)
    assert await drained(work) == [A]


async def test_a_waiting_worker_gets_a_key_when_one_comes() -> None:
    work = queue(FakeClock())
    worker = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add(A)
    assert await worker == A


async def test_a_key_is_not_lost_when_the_worker_it_woke_is_cancelled() -> None:
    work = queue(FakeClock())
    first, second = asyncio.create_task(work.get()), asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.add(A)
    first.cancel()
    assert await asyncio.wait_for(second, 20) == A


async def test_a_delayed_key_comes_at_its_time() -> None:
    clock = FakeClock()
    work = queue(clock)
    async with running(work):
        work.add_after(A, 10)
        await clock.advance(9.9)
        assert len(work) == 0
        await clock.advance(0.2)
        assert await drained(work) == [A]


async def test_an_earlier_delay_overtakes_a_later_one() -> None:
    clock = FakeClock()
    work = queue(clock)
    async with running(work):
        work.add_after(A, 100)
        await clock.advance(1)
        work.add_after(B, 5)
        work.add_after(A, 10)
        await clock.advance(5)
        assert await drained(work) == [B]
        await clock.advance(5)
        assert await drained(work) == [A]
        await clock.advance(1_000)
        assert len(work) == 0


async def test_taking_a_key_drops_its_delay() -> None:
    clock = FakeClock()
    work = queue(clock)
    async with running(work):
        work.add_after(A, 10)
        work.add(A)
        assert await drained(work) == [A]
        await clock.advance(100)
        assert len(work) == 0


async def test_a_failing_key_waits_twice_as_long_each_time_up_to_the_limit() -> None:
    work = queue(FakeClock(), Backoff(first_seconds=1, limit_seconds=10))
    assert [work.add_backed_off(A) for _ in range(6)] == [1, 2, 4, 8, 10, 10]
    work.forget(A)
    assert work.add_backed_off(A) == 1


async def test_a_server_that_asks_for_more_time_gets_it() -> None:
    work = queue(FakeClock(), Backoff(first_seconds=1, limit_seconds=10))
    assert work.add_backed_off(A, at_least_seconds=30) == 30


def test_back_off_never_overflows_and_jitter_only_shortens() -> None:
    backoff = Backoff(first_seconds=0.005, limit_seconds=1000, jitter=0.1)
    assert backoff.delay_seconds(100_000, 0.0) == 1000
    assert backoff.delay_seconds(100_000, 0.999) == pytest.approx(900, rel=0.01)


async def test_a_change_goes_before_resyncs() -> None:
    work = queue(FakeClock())
    work.add(A, Priority.RESYNC)
    work.add(B, Priority.RESYNC)
    work.add(C, Priority.CHANGE)
    assert await drained(work) == [C, A, B]


async def test_what_was_begun_is_finished_before_anything_else_is_begun() -> None:
    work = queue(FakeClock())
    work.add(A, Priority.CHANGE)
    work.add(B, Priority.RESYNC)
    work.add(C, Priority.CONTINUATION)
    assert await drained(work) == [C, A, B]


async def test_a_change_lifts_a_key_that_waits_for_a_resync() -> None:
    work = queue(FakeClock())
    work.add(A, Priority.RESYNC)
    work.add(B, Priority.RESYNC)
    work.add(B, Priority.CHANGE)
    assert await drained(work) == [B, A]


async def test_resyncs_are_not_starved_by_changes() -> None:
    work = queue(FakeClock())
    work.add(key("resync"), Priority.RESYNC)
    for number in range(100):
        work.add(key(f"change-{number}"))
    assert (await drained(work)).index(key("resync")) < 10


@pytest.mark.req("R-507")
@pytest.mark.req("R-507")
async def test_a_tenant_that_floods_and_flips_its_objects_takes_every_second_turn_at_most() -> None:
    """Each key of the flood comes back as soon as it is done, as a step of a chain or as a change."""
    work = queue(FakeClock())
    flood = [key(f"flood-{number}", "loud") for number in range(1_000)]
    for one in flood:
        work.add(one)
    for number in range(100):
        work.add(key(f"{number}", "quiet"))
    turns, quiet = 0, 0
    while quiet < 100:
        taken = await work.get()
        turns += 1
        quiet += taken.namespace == "quiet"
        if taken.namespace == "loud":
            work.add(taken)
        work.done(taken)
    assert turns <= 2 * 100


async def test_a_tenant_that_floods_delays_others_by_one_key_each() -> None:
    work = queue(FakeClock())
    for number in range(1_000):
        work.add(key(f"flood-{number}", "loud"))
    work.add(key("one", "quiet"))
    work.add(key("two", "quiet"))
    order = await drained(work)
    assert order.index(key("one", "quiet")) <= 1
    assert order.index(key("two", "quiet")) <= 3


@pytest.mark.req("R-507")
async def test_a_tenant_with_slow_keys_leaves_the_last_worker_to_others() -> None:
    clock = FakeClock()
    work = WorkQueue(clock=clock, tenant_of=namespace_of, workers=3)
    for number in range(5):
        work.add(key(f"slow-{number}", "loud"))
    first, second = await work.get(), await work.get()
    await clock.advance(2.0)

    taker = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    assert not taker.done(), "two of three workers are the loud tenant's already"
    work.add(A)
    assert await taker == A
    work.done(A)
    waiting = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    work.done(first)
    work.done(second)
    assert (await waiting).namespace == "loud", "nothing of his is slow any more"


@pytest.mark.req("R-507")
@pytest.mark.req("R-511")
async def test_keys_that_run_without_a_worker_are_bounded_by_tenant_and_leave_workers_to_others() -> None:
    work = WorkQueue(clock=FakeClock(), tenant_of=namespace_of, workers=2)
    for number in range(30):
        work.add(key(f"slow-{number}", "loud"))
    taken = []
    for _ in range(8):
        taken.append(await work.get())
        work.leave(taken[-1])
    taker = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    assert not taker.done(), "four keys per worker are under way already"
    work.add(A)
    assert await taker == A

    waiting = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    assert not waiting.done()
    work.done(taken[0])
    assert (await waiting).namespace == "loud"


@pytest.mark.req("R-511")
async def test_where_many_tenants_are_slow_a_tenant_without_a_key_under_way_still_gets_one() -> None:
    work = WorkQueue(clock=FakeClock(), tenant_of=namespace_of, workers=1)
    for number in range(60):
        work.add(key("first", f"loud-{number}"))
        work.add(key("second", f"loud-{number}"))
    taken = []
    for _ in range(60):
        taken.append(await work.get())
        work.leave(taken[-1])
    assert {one.name for one in taken} == {"first"}
    taker = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    assert not taker.done(), "each of them has one key under way, and all together have more than fifty"
    work.add(A)
    assert await taker == A


async def test_a_key_whose_writes_are_not_visible_yet_counts_for_nobody() -> None:
    work = WorkQueue(clock=FakeClock(), tenant_of=namespace_of, workers=1)
    for number in range(10):
        work.add(key(f"written-{number}"))
    for _ in range(10):
        work.land(await work.get())
    work.add(A)
    assert await work.get() == A
    for number in range(10):
        work.done(key(f"written-{number}"), landed=True)
    assert work.running == 1


async def test_tenants_whose_keys_are_quick_may_have_all_workers() -> None:
    work = WorkQueue(clock=FakeClock(), tenant_of=namespace_of, workers=2)
    work.add(A)
    work.add(B)
    assert [await work.get(), await work.get()] == [A, B]


async def test_a_closed_queue_tells_its_workers_and_takes_nothing_more() -> None:
    work = queue(FakeClock())
    worker = asyncio.create_task(work.get())
    await asyncio.sleep(0)
    work.close()
    with pytest.raises(QueueClosed):
        await worker
    work.add(A)
    assert len(work) == 0


async def test_keys_under_way_when_the_queue_closes_can_be_finished() -> None:
    work = queue(FakeClock())
    work.add(A)
    await work.get()
    work.close()
    work.done(A)
    assert work.running == 0


class Counts:
    """Writes down what the queue tells."""

    def __init__(self) -> None:
        self.told: list[tuple[str, float, float]] = []

    def added(self, depth: int) -> None:
        self.told.append(("added", depth, 0))

    def taken(self, depth: int, waited: float) -> None:
        self.told.append(("taken", depth, waited))

    def finished(self, worked: float) -> None:
        self.told.append(("finished", 0, worked))

    def retried(self) -> None:
        self.told.append(("retried", 0, 0))


async def test_the_observer_hears_depth_waiting_and_working_time() -> None:
    clock, counts = FakeClock(), Counts()
    work = WorkQueue(clock=clock, observer=counts)
    work.add(A)
    work.add(A)
    await clock.advance(3)
    await work.get()
    await clock.advance(4)
    assert list(work.running_seconds()) == [4]
    work.add_backed_off(A)
    work.done(A)
    assert counts.told == [("added", 1, 0), ("taken", 0, 3), ("retried", 0, 0), ("finished", 0, 4)]


NAMES = st.sampled_from([A, B, C, key("a", "other")])


async def a_few_turns() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class QueueModel(RuleBasedStateMachine):
    """Any history of adds, delays, failures and passes, against a model that is a few sets."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.work = queue(self.clock)
        self.timers = self.loop.create_task(self.work.run())
        self.wanted: set[ObjectKey] = set()  # must be given out sooner or later
        self.held: set[ObjectKey] = set()
        self.due: dict[ObjectKey, float] = {}
        self.turn()

    def turn(self, seconds: float = 0.0) -> None:
        # The timers need a turn of the loop to see what was added; to advance the clock takes some hundred.
        self.loop.run_until_complete(self.clock.advance(seconds) if seconds else a_few_turns())
        now = self.clock.monotonic()
        for late in [each for each, due in self.due.items() if due <= now]:
            del self.due[late]
            self.wanted.add(late)

    @rule(each=NAMES, priority=st.sampled_from(Priority))
    def add(self, each: ObjectKey, priority: Priority) -> None:
        self.work.add(each, priority)
        self.wanted.add(each)

    @rule(each=NAMES, seconds=st.sampled_from([1.0, 5.0, 60.0]))
    def add_after(self, each: ObjectKey, seconds: float) -> None:
        self.work.add_after(each, seconds)
        due = self.clock.monotonic() + seconds
        self.due[each] = min(due, self.due.get(each, due))
        self.turn()

    @rule(each=NAMES)
    def fail(self, each: ObjectKey) -> None:
        due = self.clock.monotonic() + self.work.add_backed_off(each)
        self.due[each] = min(due, self.due.get(each, due))
        self.turn()

    @rule(seconds=st.sampled_from([0.5, 2.0, 100.0]))
    def pass_time(self, seconds: float) -> None:
        self.turn(seconds)

    @precondition(lambda self: len(self.work) > 0)
    @rule()
    def take(self) -> None:
        taken = self.loop.run_until_complete(self.work.get())
        assert taken not in self.held, "two workers on one key"
        assert taken in self.wanted, "given out without need"
        self.held.add(taken)
        self.wanted.discard(taken)
        self.due.pop(taken, None)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(sorted(self.held)))
        self.held.discard(done)
        self.work.done(done)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.work) == len(self.wanted - self.held)
        assert self.work.running == len(self.held)
        assert self.work.delayed == len(self.due)

    def teardown(self) -> None:
        self.timers.cancel()
        self.loop.run_until_complete(asyncio.gather(self.timers, return_exceptions=True))
        self.loop.close()


TestQueueModel = QueueModel.TestCase
TestQueueModel.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


async def test_a_failure_that_may_not_wait_for_long_does_not() -> None:
    work = queue(FakeClock(), Backoff(first_seconds=10, limit_seconds=1_000, jitter=0))
    assert [work.add_backed_off(A, at_most_seconds=60) for _ in range(5)] == [10, 20, 40, 60, 60]
    assert work.add_backed_off(A, at_least_seconds=90, at_most_seconds=60) == 90, "what the server asks for counts"


async def test_only_a_change_that_is_due_soon_is_gathered_and_no_resync_or_failed_key() -> None:
    work = queue(FakeClock())
    work.add_after(A, 1.0, Priority.RESYNC)
    work.add_after(B, 60.0, Priority.CHANGE)
    work.add_backed_off(C, at_most_seconds=1.0)
    assert work.gathering(2.0) == 0
    work.add_after(B, 1.0, Priority.CHANGE)
    assert work.gathering(2.0) == 1
