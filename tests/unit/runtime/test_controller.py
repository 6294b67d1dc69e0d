"""A controller whose passes find everything in order: nothing is sent, so no API server is needed."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import msgspec
import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Conflict, Forbidden, Status, TooManyRequests, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef, Resource
from stellwerk.kube.types.model import HasMetadata, Kind, Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta, Record
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.outcome import After, BackedOff, LeadershipLost
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity, SimpleReconciler
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.supervision.watchdog import Watchdog
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.surprises import SURPRISES
from stellwerk.testing.clock import FakeClock, SimulatedLoop
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.heavy


class Stone(Kind, frozen=True, kw_only=True):
    """A kind that is always in order."""

    resource: ClassVar[Resource] = Resource("engine.test", "v1", "Stone", "stones", namespaced=True)


@dataclass
class Watcher(SimpleReconciler[Stone, Record]):
    """Looks and finds nothing to do."""

    enough: int
    names: list[str] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def reconcile(self, stone: Stone) -> Next[Record]:
        self.names.append(stone.metadata.name)
        if len(self.names) == self.enough:
            self.done.set()
        return Next.done()


def stone(number: int, version: int = 1) -> Stone:
    metadata = ObjectMeta(namespace="here", name=f"stone-{number}", uid=str(number), resource_version=str(version))
    return Stone(metadata=metadata)


def nowhere() -> Client:
    """A client that never sends anything."""
    return Client.connect(ClusterConfig(server="http://nowhere.invalid"))


@pytest.mark.req("R-304")
async def test_a_sweep_over_many_objects_leaves_the_loop_to_others() -> None:
    client, watcher = nowhere(), Watcher(enough=2_000)
    stones = Informer(client, Stone)
    stones.take(Synced(tuple(stone(number) for number in range(2_000)), "1"))
    controller = Controller("stones", stones, watcher, write_status=StatusWriter(client=client))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while not watcher.done.is_set():
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(controller.run())
    async with asyncio.timeout(30):
        await others()
    controller.stop()
    await running
    assert turns > 1_000


@dataclass
class Complainer(SimpleReconciler[Stone, Record]):
    """Reports the same in each pass."""

    passes: int = 0

    async def reconcile(self, stone: Stone) -> Next[Record]:
        self.passes += 1
        return Next[Record].done().with_events(Notice("Fight", "a stranger changes it", Severity.WARNING))


async def test_what_each_pass_reports_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    client, complainer, clock = nowhere(), Complainer(), FakeClock()
    stones = Informer(client, Stone, clock=clock)
    stones.take(Synced((stone(0), stone(1)), "1"))
    writer = StatusWriter(client=client)
    controller = Controller("stones", stones, complainer, write_status=writer, clock=clock)
    running = asyncio.create_task(controller.run())

    async def passes(number: int) -> None:
        controller.queue.add(stone(0).key)
        await eventually(lambda: complainer.passes == number, describe=f"pass {number}")

    def lines() -> int:
        return sum(record.levelno == logging.WARNING and "Fight" in record.getMessage() for record in caplog.records)

    await eventually(lambda: complainer.passes == 2, describe="a pass on each")
    for number in range(3, 9):
        await passes(number)
    assert lines() == 2, "one for each object"
    await clock.advance(61)
    await passes(9)
    controller.stop()
    await running
    assert lines() == 3


@dataclass
class Speaker(SimpleReconciler[Stone, Record]):
    """Logs a line about each object."""

    log: logging.Logger
    done: asyncio.Event = field(default_factory=asyncio.Event)

    async def reconcile(self, stone: Stone) -> Next[Record]:
        self.log.info("looks")
        self.done.set()
        return Next.done()


@pytest.fixture
def log_stream() -> Iterator[io.StringIO]:
    """The log of this process, while a test looks at it."""
    root, stream = logging.getLogger(), io.StringIO()
    handlers, level = [*root.handlers], root.level
    logs.configure(logs.LogSettings(), stream=stream)
    yield stream
    root.handlers, root.level = handlers, level


async def test_lines_of_a_pass_show_the_fields_of_its_object(log_stream: io.StringIO) -> None:
    client, speaker = nowhere(), Speaker(logging.getLogger("stellwerk.test"))
    stones = Informer(client, Stone)
    stones.take(Synced((stone(1),), "1"))
    controller = Controller(
        "stones",
        stones,
        speaker,
        write_status=StatusWriter(client=client),
        log_fields=lambda each: {"weight": int(each.metadata.uid), "colour": ""},
    )
    running = asyncio.create_task(controller.run())
    await speaker.done.wait()
    controller.stop()
    await running

    line = json.loads(log_stream.getvalue().splitlines()[0])
    assert (line["msg"], line["name"], line["weight"]) == ("looks", "stone-1", 1)
    assert "colour" not in line, "a field without a value is left out"


@dataclass
class Refused(SimpleReconciler[Stone, Record]):
    """May not do what it must, until it may."""

    forbidden: bool = True
    passes: int = 0

    async def reconcile(self, stone: Stone) -> Next[Record]:
        self.passes += 1
        if self.forbidden:
            raise Forbidden(Status(code=403))
        return Next.done()


@asynccontextmanager
async def refused(clock: FakeClock) -> AsyncIterator[tuple[Refused, Controller[Stone, Record]]]:
    """A controller of one stone whose passes are refused, under way."""
    client, reconciler = nowhere(), Refused()
    stones = Informer(client, Stone)
    stones.take(Synced((stone(1),), "1"))
    backoff = Backoff(first_seconds=500)
    controller = Controller(
        "stones", stones, reconciler, write_status=StatusWriter(client=client), backoff=backoff, clock=clock
    )
    running = asyncio.create_task(controller.run())
    await eventually(lambda: reconciler.passes == 1, within=20)
    yield reconciler, controller
    controller.stop()
    await running


@pytest.mark.req("R-206")
async def test_what_fails_for_want_of_a_right_is_tried_again_after_a_minute_at_the_latest() -> None:
    clock = FakeClock()
    async with refused(clock) as (reconciler, _):
        for passes in (2, 3):
            await clock.advance(61)
            assert reconciler.passes == passes


@pytest.mark.req("R-206")
async def test_what_has_failed_is_tried_again_in_a_moment_once_it_may_work() -> None:
    clock = FakeClock()
    manager = Manager(nowhere(), clock=clock)
    async with refused(clock) as (reconciler, controller):
        manager.add_controller(controller)
        reconciler.forbidden = False
        manager.try_again()
        await clock.advance(1.1)
        assert reconciler.passes == 2

        manager.try_again()
        await clock.advance(10)
        assert reconciler.passes == 2, "it works, so there is nothing to try"


async def test_a_change_is_looked_at_before_the_objects_found_at_start() -> None:
    client, watcher = nowhere(), Watcher(enough=100)
    stones = Informer(client, Stone)
    stones.take(Synced(tuple(stone(number) for number in range(100)), "1"))
    controller = Controller("stones", stones, watcher, write_status=StatusWriter(client=client))
    running = asyncio.create_task(controller.run())
    await asyncio.sleep(0)
    stones.take(Changed(stone(99, version=2)))
    async with asyncio.timeout(30):
        await watcher.done.wait()
    controller.stop()
    await running
    assert watcher.names.index("stone-99") < 10


@dataclass
class Hanging(SimpleReconciler[Stone, Record]):
    """Hangs on the objects of some namespaces until it may go on."""

    hanging: int = 0
    served: list[str] = field(default_factory=list)
    may_go_on: asyncio.Event = field(default_factory=asyncio.Event)

    async def reconcile(self, stone: Stone) -> Next[Record]:
        if stone.metadata.namespace.startswith("slow"):
            self.hanging += 1
            await self.may_go_on.wait()
        self.served.append(stone.metadata.namespace)
        return Next.done()


def stone_in(namespace: str, number: int, version: int = 1) -> Stone:
    name = f"{namespace}-{number}"
    return Stone(metadata=ObjectMeta(namespace=namespace, name=name, uid=name, resource_version=str(version)))


def leaving_seats(
    stones: Informer[Stone], reconciler: Hanging, client: Client, workers: int = 1
) -> Controller[Stone, Record]:
    """A controller whose passes give up the seat of their worker after two milliseconds."""
    return Controller(
        "stones",
        stones,
        reconciler,
        write_status=StatusWriter(client=client),
        workers=workers,
        tenant_of=lambda key: key.namespace,
        seat_seconds=0.002,
    )


@pytest.mark.req("R-507")
@pytest.mark.req("R-511")
async def test_passes_that_hang_hold_no_worker_and_are_bounded_by_tenant() -> None:
    client, reconciler = nowhere(), Hanging()
    stones = Informer(client, Stone)
    slow = [stone_in(f"slow-{number % 3}", number) for number in range(60)]
    stones.take(Synced((*slow, stone_in("quiet", 1)), "1"))
    controller = leaving_seats(stones, reconciler, client, workers=2)
    running = asyncio.create_task(controller.run())
    await eventually(lambda: reconciler.served == ["quiet"] and reconciler.hanging == 3 * 4 * 2, within=20)

    stones.take(Changed(stone_in("quiet", 2, version=2)))
    await eventually(lambda: reconciler.served == ["quiet"] * 2, within=20)
    assert reconciler.hanging == 24, "four for each worker and tenant"

    reconciler.may_go_on.set()
    await eventually(lambda: len(reconciler.served) == 62, within=20)
    controller.stop()
    async with asyncio.timeout(20):
        await running


async def test_a_controller_that_is_stopped_waits_for_passes_without_a_worker() -> None:
    client, reconciler = nowhere(), Hanging()
    stones = Informer(client, Stone)
    stones.take(Synced(tuple(stone_in("slow", number) for number in range(3)), "1"))
    controller = leaving_seats(stones, reconciler, client)
    running = asyncio.create_task(controller.run())
    await eventually(lambda: reconciler.hanging == 3, within=20)
    controller.stop()
    await asyncio.sleep(0)
    assert not running.done()
    reconciler.may_go_on.set()
    async with asyncio.timeout(20):
        await running
    assert reconciler.served == ["slow"] * 3


@pytest.mark.req("R-512")
async def test_a_controller_that_runs_again_works_on_the_keys_that_were_under_way() -> None:
    """One pass is cut short, and one has ended and waits until its write is visible."""
    client = nowhere()
    stones, others = Informer(client, Stone), Informer(client, Stone)
    for each in (stones, others):
        each.take(Synced((stone(1), stone(2)), "10"))
    names: list[str] = []
    is_cut = False

    class Cut(SimpleReconciler[Stone, Record]):
        async def reconcile(self, obj: Stone) -> Next[Record]:
            names.append(obj.metadata.name)
            if not is_cut and obj == stone(1):
                await asyncio.Event().wait()
            if not is_cut:
                others.expect(obj.key, "11")
            return Next.done()

    controller = Controller("stones", stones, Cut(), write_status=StatusWriter(client=client), workers=2)
    running = asyncio.create_task(controller.run())
    await eventually(lambda: sorted(names) == ["stone-1", "stone-2"], within=20)
    running.cancel()
    await asyncio.wait([running])
    names.clear()
    is_cut = True

    running = asyncio.create_task(controller.run())
    await eventually(lambda: names == ["stone-1"], within=20)
    stones.take(Changed(stone(2, version=11)))
    await eventually(lambda: names == ["stone-1", "stone-2"], within=20)
    controller.stop()
    async with asyncio.timeout(20):
        await running


async def test_losing_the_lead_ends_passes_without_a_worker() -> None:
    class Loses(Hanging):
        async def reconcile(self, stone: Stone) -> Next[Record]:
            if stone.metadata.namespace == "quiet":
                raise LeadershipLost
            return await super().reconcile(stone)

    client, reconciler = nowhere(), Loses()
    stones = Informer(client, Stone)
    stones.take(Synced(tuple(stone_in("slow", number) for number in range(3)), "1"))
    controller = leaving_seats(stones, reconciler, client)
    running = asyncio.create_task(controller.run())
    await eventually(lambda: reconciler.hanging == 3, within=20)
    stones.take(Changed(stone_in("quiet", 1, version=2)))
    with pytest.raises(LeadershipLost):
        async with asyncio.timeout(20):
            await running


@pytest.mark.req("R-203")
@pytest.mark.parametrize("own_seconds", [None, 10.0, 90.0])
async def test_a_failure_waits_for_as_long_as_the_server_behind_it_asks_for(own_seconds: float | None) -> None:
    client = nowhere()
    controller = Controller("stones", Informer(client, Stone), Hanging(), write_status=StatusWriter(client=client))
    failure = ReconcileError("cannot apply")
    failure.retry_after_seconds = own_seconds
    failure.__cause__ = ValueError("wrapped")
    failure.__cause__.__cause__ = TooManyRequests(Status(code=429), "apply", retry_after=60.0)
    expected = BackedOff(60.0) if own_seconds is None else After(max(60.0, own_seconds))
    assert controller._retry(failure) == expected


# ---- passes that do not cooperate


@dataclass
class Unruly(SimpleReconciler[Stone, Record]):
    """Does with one stone what the test says, and counts passes on the others."""

    act: Callable[[], Awaitable[None]]
    passes: Counter[str] = field(default_factory=Counter)
    explained: list[ReconcileError] = field(default_factory=list)
    running: int = 0
    most_at_once: int = 0
    failing_words: Callable[[], BaseException] | None = None

    async def reconcile(self, stone: Stone) -> Next[Record]:
        self.passes[stone.metadata.name] += 1
        if stone.metadata.name == "stone-0":
            self.running += 1
            self.most_at_once = max(self.most_at_once, self.running)
            try:
                await self.act()
            finally:
                self.running -= 1
        return Next.done()

    def report(self, stone: Stone, failure: ReconcileError) -> Record | None:
        self.explained.append(failure)
        if self.failing_words is not None:
            raise self.failing_words()
        return None

    async def forget(self, key: ObjectKey) -> None:
        if key.name == "stone-0":
            await self.act()


@dataclass
class Works:
    """A controller of ten stones with one worker."""

    reconciler: Unruly
    stones: Informer[Stone]
    controller: Controller[Stone, Record]
    metrics: Metrics
    bell: list[Notice] = field(default_factory=list)

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        self.bell.append(notice)

    def number(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(name, labels) or 0.0

    async def serves_the_others(self, passes: int = 1) -> None:
        """Return when each other stone had so many passes."""
        await eventually(
            lambda: all(self.reconciler.passes[f"stone-{number}"] >= passes for number in range(1, 10)), within=20
        )

    def change_the_others(self) -> None:
        for number in range(1, 10):
            self.controller.queue.add(ObjectKey("here", f"stone-{number}"))


@asynccontextmanager
async def works(act: Callable[[], Awaitable[None]], *, timeout_seconds: float = 300.0) -> AsyncIterator[Works]:
    client, reconciler, metrics = nowhere(), Unruly(act), Metrics()
    stones = Informer(client, Stone)
    stones.take(Synced(tuple(stone(number) for number in range(10)), "1"))
    found: list[Works] = []

    class Bell:
        def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
            found[0].send(obj, notice, related)

    controller = Controller(
        "stones",
        stones,
        reconciler,
        write_status=StatusWriter(client=client),
        pass_timeout_seconds=timeout_seconds,
        stuck_seconds=0.1,
        metrics=metrics,
        recorder=Bell(),
    )
    found.append(Works(reconciler, stones, controller, metrics))
    running = asyncio.create_task(controller.run())
    yield found[0]
    controller.stop()
    async with asyncio.timeout(20):
        await running


surprising = pytest.mark.parametrize("raised", SURPRISES.values(), ids=SURPRISES)


@pytest.mark.req("R-304")
@pytest.mark.req("R-512")
@surprising
async def test_whatever_a_pass_raises_its_worker_goes_on_and_the_object_is_told_and_tried_again(
    raised: Callable[[], BaseException],
) -> None:
    failing = True

    async def act() -> None:
        if failing:
            raise raised()

    async with works(act) as stones:
        await stones.serves_the_others()
        await eventually(lambda: stones.reconciler.passes["stone-0"] >= 2, within=20)
        failing = False
        stones.change_the_others()
        await stones.serves_the_others(passes=2)
        await eventually(lambda: not stones.controller.queue.failures(ObjectKey("here", "stone-0")), within=20)
        if not isinstance(raised(), Unreachable):  # a class of ApiError is no surprise
            assert stones.number("controller_runtime_reconcile_panics_total", controller="stones") >= 2
            assert stones.number("stellwerk_task_failures_total", kind="pass") >= 2
            first = stones.reconciler.explained[0]
            assert (first.reason, type(raised()).__name__ in str(first)) == ("UnexpectedError", True)


@pytest.mark.req("R-304")
@pytest.mark.req("R-512")
@surprising
async def test_words_for_a_failure_that_cannot_be_found_cost_only_that_object(
    raised: Callable[[], BaseException],
) -> None:
    class Wrong(ReconcileError):
        reason = "Wrong"

    async def act() -> None:
        raise Wrong("the user should read this")

    async with works(act) as stones:
        stones.reconciler.failing_words = raised
        await stones.serves_the_others()
        stones.change_the_others()
        await stones.serves_the_others(passes=2)
        await eventually(lambda: stones.reconciler.passes["stone-0"] >= 3, within=20)


@pytest.mark.req("R-304")
@pytest.mark.req("R-512")
@surprising
async def test_an_object_that_cannot_be_forgotten_is_tried_again_and_harms_no_other(
    raised: Callable[[], BaseException],
) -> None:
    failing, tries = True, 0

    async def act() -> None:
        nonlocal tries
        tries += 1
        if failing and tries > 1:
            raise raised()

    async with works(act) as stones:
        await eventually(lambda: stones.reconciler.passes["stone-0"] == 1, within=20)
        stones.stones.take(Removed(stone(0, version=2)))
        await eventually(lambda: tries >= 3, within=20)
        stones.change_the_others()
        await stones.serves_the_others(passes=2)
        failing = False
        # On a busy machine many tries have failed by now, and the pause before the next is as long as all before it.
        await eventually(lambda: not stones.controller.queue.failures(ObjectKey("here", "stone-0")), within=60)


@pytest.mark.req("R-304")
def test_a_pass_has_five_minutes_and_is_tried_again_later() -> None:
    """On simulated time, with the default timeout."""

    async def wait_for_the_timeouts() -> list[tuple[float, float]]:
        loop, passes, twice = asyncio.get_running_loop(), list[tuple[float, float]](), asyncio.Event()

        async def act() -> None:
            began = loop.time()
            try:
                await asyncio.Event().wait()
            finally:
                passes.append((began, loop.time()))
                if len(passes) == 2:
                    twice.set()

        client = nowhere()
        stones = Informer(client, Stone)
        stones.take(Synced((stone(0),), "1"))
        controller = Controller("stones", stones, Unruly(act), write_status=StatusWriter(client=client))
        running = asyncio.create_task(controller.run())
        await twice.wait()
        running.cancel()
        await asyncio.wait([running])
        return passes

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        (first_began, first_ended), (second_began, second_ended) = runner.run(wait_for_the_timeouts())
    assert first_ended - first_began == pytest.approx(300, abs=1)
    assert second_ended - second_began == pytest.approx(300, abs=1)
    assert second_began > first_ended, "it backs off"


@pytest.mark.req("R-304")
async def test_a_pass_that_blocks_the_loop_is_reported_with_its_stack_and_others_go_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act() -> None:
        time.sleep(1.5)  # noqa: ASYNC251  # a reconcile that really blocks

    async with works(act) as stones:
        watchdog = Watchdog(stones.metrics)
        watching = asyncio.create_task(watchdog.run())
        await stones.serves_the_others()
        await eventually(lambda: stones.number("stellwerk_event_loop_stalls_total") >= 1, within=20)
        watching.cancel()
        await asyncio.wait([watching])
    stalled = [record for record in caplog.records if "event loop is blocked" in record.getMessage()]
    assert any("time.sleep(1.5)" in str(getattr(record, "fields", {}).get("stack")) for record in stalled)


@pytest.mark.req("R-304")
async def test_a_pass_that_swallows_its_cancellation_loses_its_worker_and_keeps_its_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    goes_on, began = True, time.monotonic()

    async def act() -> None:
        while goes_on and time.monotonic() - began < 60:  # where the test fails, the event loop still ends
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    async with works(act, timeout_seconds=0.1) as stones:
        await stones.serves_the_others()
        stuck = {"controller": "stones"}
        await eventually(lambda: stones.number("stellwerk_stuck_passes", **stuck) == 1, within=20)
        stones.controller.queue.add(ObjectKey("here", "stone-0"))
        stones.change_the_others()
        await stones.serves_the_others(passes=2)
        assert stones.reconciler.passes["stone-0"] == 1, "the stuck pass may still write"
        assert [notice.reason for notice in stones.bell] == ["PassStuck"]
        told = next(record for record in caplog.records if "does not end although" in record.getMessage())
        assert "in act" in getattr(told, "fields", {})["stack"]

        goes_on = False
        await eventually(lambda: stones.reconciler.passes["stone-0"] >= 2, within=20)
        await eventually(lambda: stones.number("stellwerk_stuck_passes", **stuck) == 0, within=20)
        assert stones.reconciler.most_at_once == 1
        assert stones.number("controller_runtime_active_workers", **stuck) == 0


@pytest.mark.req("R-303")
@pytest.mark.req("R-304")
async def test_a_stuck_pass_holds_up_no_stop() -> None:
    goes_on, began = True, time.monotonic()

    async def act() -> None:
        while goes_on and time.monotonic() - began < 60:  # where the test fails, the event loop still ends
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    async with works(act, timeout_seconds=0.1) as stones:
        await eventually(lambda: stones.number("stellwerk_stuck_passes", controller="stones") == 1, within=20)
    goes_on = False


@pytest.mark.req("R-304")
async def test_a_pass_that_cancels_its_own_task_does_not_take_the_worker_along() -> None:
    failing = True

    async def act() -> None:
        task = asyncio.current_task()
        if failing and task is not None:
            task.cancel()
            await asyncio.sleep(0)

    async with works(act) as stones:
        await stones.serves_the_others()
        await eventually(lambda: stones.reconciler.passes["stone-0"] >= 2, within=20)
        failing = False
        stones.change_the_others()
        await stones.serves_the_others(passes=2)
        await eventually(lambda: not stones.controller.queue.failures(ObjectKey("here", "stone-0")), within=20)


@pytest.mark.req("R-512")
async def test_an_update_that_cannot_be_compared_is_looked_at() -> None:
    async with works(lambda: asyncio.sleep(0)) as stones:
        await stones.serves_the_others()

        def compares(old: Stone, new: Stone) -> bool:
            raise RecursionError

        stones.controller.ignore_updates(compares)
        stones.stones.take(Changed(stone(5, version=2)))
        await eventually(lambda: stones.reconciler.passes["stone-5"] >= 2, within=20)


@pytest.mark.req("R-303")
@pytest.mark.req("R-304")
async def test_a_worker_whose_pass_swallowed_the_cancellation_ends_with_the_pass() -> None:
    swallowed = asyncio.Event()

    async def act() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()

    client, reconciler = nowhere(), Unruly(act)
    stones = Informer(client, Stone)
    stones.take(Synced((stone(0),), "1"))
    controller = Controller("stones", stones, reconciler, write_status=StatusWriter(client=client))
    running = asyncio.create_task(controller.run())
    await eventually(lambda: reconciler.running == 1, within=20)
    workers = [task for task in asyncio.all_tasks() if task.get_name() == "stones worker"]
    running.cancel()
    await asyncio.wait([running], timeout=20)
    assert swallowed.is_set()
    await eventually(lambda: all(worker.done() for worker in workers), within=5)


async def test_a_memo_ends_with_its_object_and_a_successor_of_the_name_gets_a_new_one() -> None:
    client, memos = nowhere(), Memos(list[str])
    stones = Informer(client, Stone)
    successor = msgspec.structs.replace(stone(1, 3), metadata=msgspec.structs.replace(stone(1, 3).metadata, uid="new"))

    class Remembering(Watcher):
        async def reconcile(self, stone: Stone) -> Next[Record]:
            memos.of(stone.key).append(stone.metadata.uid)
            return await super().reconcile(stone)

    reconciler = Remembering(enough=0)
    stones.take(Synced((stone(1),), "1"))
    controller = Controller("stones", stones, reconciler, write_status=StatusWriter(client=client), memos=memos)
    running = asyncio.create_task(controller.run())
    await eventually(lambda: memos.of(stone(1).key) == ["1"], within=20)
    stones.take(Changed(stone(1, 2)))
    await eventually(lambda: memos.of(stone(1).key) == ["1", "1"], within=20)
    stones.take(Changed(successor))
    await eventually(lambda: memos.of(stone(1).key) == ["new"], within=20)
    controller.stop()
    await running


@pytest.mark.req("R-510")
async def test_that_an_object_cannot_be_read_is_reported_again_after_a_conflict_that_no_change_has_caused() -> None:
    reports: list[str] = []

    class Busy:
        async def patch(self, _: object, name: str, *__: object, **___: object) -> None:
            reports.append(name)
            if len(reports) == 1:
                raise Conflict(Status(code=409, reason="Conflict"))

    stones = Informer(nowhere(), Stone)
    odd = Unreadable(Stone.resource, stone(1).metadata, "spec: invalid")
    stones.take(Synced((), "1", (odd,)))
    controller = Controller(
        "stones",
        stones,
        Watcher(enough=0),
        write_status=StatusWriter(client=cast(Any, Busy())),
        explain_unreadable=lambda each: {"message": each.why},
        backoff=Backoff(first_seconds=0.01, limit_seconds=0.1),
    )
    running = asyncio.create_task(controller.run())
    await eventually(lambda: not controller.queue.failures(odd.key) and len(reports) == 2, within=20)
    controller.stop()
    await running
