"""Crash sweeps: an operator dies, or loses an answer, at every one of its writes, and the end is the same as without.

    sweep = Sweep(process, proxy, parts=[SweepStep("up", create, is_ready), SweepStep("down", delete, is_gone)], ...)
    await sweep.run(killed_before, share=0, shares=2)

A scenario is a life in parts: something is asked for, and at some time it has come to pass. A clean run lists the
writes of each part, its points, and what is there at its end. A replay is a life with faults: it meets a point that no
life before has met, lets `GAP` writes pass, meets the next one, and so on through all parts; a killed operator starts
again each time. After each part the cluster is as after the clean run. Lives are played until every point was met once.

A point is a write by its text, without the digits that a uid has put into a name, and how often the part has had this
write before. So it is the same in every life, although an operator that starts again writes a status more, and workers
side by side change the order. How often a status is written depends on what was seen when, so a point may come in no
replay: it is waited for in two lives. `least_points` is the least number of them.

What several crashes in one life could hide is an error that the next start mends by itself. The last crash of a part is
followed by none, and the later lives, with few points left, have single crashes. Short sweeps have `gap=ALONE`: one
fault in a part of a life. What is proved in addition is that an operator may die while it recovers.

A life is expensive and a crash is not: of the sweep of an application, which has 75 points in eight parts, a life takes
9 s and a crash adds 0.2 s. With a gap of 4 it takes five lives, instead of the 13 that meet one point in each part.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.faults import AnswerInstead, CutConnection, FaultProxy, Kill, RequestFault, When
from stellwerk.testing.faults.traffic import RecordedRequest
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.recorder import LASTING_WRITES, Run, difference

FAULT_WITHIN_SECONDS = 60.0
SAME_END_WITHIN_SECONDS = 30.0
GAP = 4
"""How many writes pass between two faults of a life."""
ALONE = 1_000_000
"""The gap of a sweep with one fault in each part of a life."""
_MISSING_LIVES = 2
"""In how many lives a point may not come until it is no longer waited for."""
_DERIVED = re.compile(r"(?<=-)[0-9a-f]{5,}\b|(?=[a-f]*[0-9])[0-9a-f]{8,}")
"""What a name has of a uid."""

MakeFault = Callable[[OperatorProcess], RequestFault]


def every_write(writes: Sequence[str]) -> Sequence[str]:
    """All writes of a part are points."""
    return writes


def each_once(writes: Sequence[str]) -> Sequence[str]:
    """Writes that are alike are one point: a delete is asked for again while a cache is behind."""
    return [*dict.fromkeys(writes)]


def odd(shares: int) -> range:
    """The shares with the first, third, ... point; `shares` is even.

    What is killed before a write leaves the same behind as what is killed after the one before it. So both, at every
    odd write, meet every gap between two writes once.
    """
    return range(0, shares, 2)


def even(shares: int) -> range:
    """The shares with the points between those."""
    return range(1, shares, 2)


@dataclass(frozen=True, slots=True)
class SweepStep:
    """One request of a user. `done` waits until it has come to pass, and raises AssertionError in time."""

    name: str
    ask: Callable[[], Awaitable[object]]
    done: Callable[[], Awaitable[object]]
    points: Callable[[Sequence[str]], Sequence[str]] = every_write
    """Which of its writes are points, in their order. A further write only appends: it may add a point, and keeps the
    earlier ones."""
    least_points: int = 1
    """With fewer, something else than what was meant has been swept."""


@dataclass(frozen=True, slots=True)
class Point:
    """A write at which a fault can happen: its text without what differs from life to life, and its number."""

    write: str
    number: int

    def __str__(self) -> str:
        return self.write if self.number == 1 else f"{self.write} ({self.number})"


def points_of(writes: Sequence[str]) -> Sequence[Point]:
    """The points that these writes are, in their order."""
    counts: Counter[str] = Counter()
    points = []
    for write in (_DERIVED.sub("*", text) for text in writes):
        counts[write] += 1
        points.append(Point(write, counts[write]))
    return points


@dataclass(kw_only=True)
class Aim:
    """Chooses the writes of one part of a life at which the fault happens: points that nothing has met yet.

    `wanted` loses what is met. With `is_lost` the write does not happen, and comes again as the same point.
    """

    points: Callable[[Sequence[str]], Sequence[str]]
    wanted: set[Point]
    gap: int
    kills: bool = False
    """Whether nothing can happen after a fault until `go_on`: there is no operator."""
    is_lost: bool = False
    met: list[Point] = field(default_factory=list)
    seen: set[Point] = field(default_factory=set)
    """Points that have come, whether the fault happened at them or not."""
    _is_held: bool = False
    _writes: list[str] = field(default_factory=list)
    _passed: int | None = None

    def takes(self, request: RecordedRequest) -> bool:
        """Whether the fault happens at this write. Asked once for each of them."""
        writes = [*self._writes, str(request)]
        point = next(iter(points_of(self.points(writes))[len(self.points(self._writes)) :]), None)
        is_met = point in self.wanted and not self._is_held and (self._passed is None or self._passed >= self.gap)
        if point is not None:
            self.seen.add(point)
        if point is not None and is_met:
            self.wanted.discard(point)
            self.met.append(point)
            self._passed, self._is_held = 0, self.kills
        elif self._passed is not None:
            self._passed += 1
        if not (is_met and self.is_lost):
            self._writes = writes
        return is_met

    def go_on(self) -> None:
        """The operator runs again: the next fault may happen after `gap` of its writes."""
        self._passed, self._is_held = 0, False


@dataclass(frozen=True, slots=True)
class CleanRun:
    """What happens without faults: the points of each part, and what is there at its end."""

    points: Sequence[Sequence[Point]]
    ends: Sequence[Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Plays one scenario again and again. The operator runs already, and runs on at the end."""

    process: OperatorProcess
    proxy: FaultProxy
    parts: Sequence[SweepStep]
    end_state: Callable[[], Awaitable[Run]]
    writes: When[RecordedRequest] = LASTING_WRITES
    """Those that are points; an operator of the whole cluster may also write what other tests have left."""

    async def run(self, fault: MakeFault, *, share: int = 0, shares: int = 1, gap: int = GAP) -> None:
        """Meet every `shares`-th point of each part, so that several tests can share a sweep. Raises AssertionError."""
        clean = await self.clean_run()
        chosen = [set(points[share::shares]) for points in clean.points]
        wanted = [set(points) for points in chosen]
        missing: Counter[tuple[int, Point]] = Counter()
        while any(missing[part, point] < _MISSING_LIVES for part, points in enumerate(wanted) for point in points):
            for part, aim in enumerate(await self.replay(clean, wanted, fault, gap)):
                missing.update((part, point) for point in aim.wanted - aim.seen)
        self._assert_met(chosen, wanted, share, shares)
        self.process.assert_clean_log()

    def _assert_met(self, chosen: Sequence[set[Point]], unmet: Sequence[set[Point]], share: int, shares: int) -> None:
        for part, points, left in zip(self.parts, chosen, unmet, strict=True):
            # A late write of the part before may be the only one that a clean run has here, and no other life.
            least = len(range(share, part.least_points, shares)) // 2
            assert len(points) - len(left) >= least, f"{part.name} ended each time without {[*map(str, left)]}"
        met = sum(map(len, chosen)) - sum(map(len, unmet))
        assert met >= sum(map(len, chosen)) / 2, (
            f"only {met} faults have happened, not {[*map(str, set().union(*unmet))]}"
        )

    async def clean_run(self) -> CleanRun:
        """A life without faults, which ends as it began."""
        points, ends = [], []
        beginning = await self.end_state()
        await self._writes()
        for part in self.parts:
            await part.ask()
            await part.done()
            points.append(points_of(part.points(await self._writes())))
            ends.append(await self.end_state())
            assert len(points[-1]) >= part.least_points, f"{part.name} has only these points: {[*map(str, points[-1])]}"
        assert not (left := difference(beginning, ends[-1])), f"the last part does not clear up: {left}"
        return CleanRun(points, ends)

    async def replay(self, clean: CleanRun, wanted: Sequence[set[Point]], fault: MakeFault, gap: int) -> Sequence[Aim]:
        """A life with faults, and what they have met in each part. Raises AssertionError naming it."""
        aims = []
        for part, points, end in zip(self.parts, wanted, clean.ends, strict=True):
            misfortune = fault(self.process)
            kills = isinstance(misfortune, Kill)
            is_lost = isinstance(misfortune, Kill) and not misfortune.after_forwarding
            aim = Aim(points=part.points, wanted=points, gap=gap, kills=kills, is_lost=is_lost)
            await self._asked_with(misfortune, aim, part)
            await part.done()
            await self._ends_as(end, f"{part.name}, with faults at {[*map(str, aim.met)]}")
            await self._writes()
            aims.append(aim)
        return aims

    async def _asked_with(self, fault: RequestFault, aim: Aim, part: SweepStep) -> None:
        """Ask, and return when the part is over; a killed operator is started again, as a kubelet would."""
        if not aim.wanted:
            await part.ask()
            return
        when: When[RecordedRequest] = When(
            lambda request: self.writes(request) and aim.takes(request), "the points that are left"
        )
        with self.proxy.on_requests(when, fault, required=False) as rule:
            await part.ask()
            handled = 0
            async with _meanwhile(part.done()) as done:
                done.add_done_callback(lambda _: self.proxy.history.changed.ring())
                while await self._another_fault(aim, handled, done, part):
                    handled = len(aim.met)
                    if isinstance(fault, Kill):
                        await self._start_again(aim)
                rule.end()

    async def _another_fault(self, aim: Aim, handled: int, done: asyncio.Future[object], part: SweepStep) -> bool:
        """Wait until a fault more has happened, or the part is over. Returns whether it is the first."""
        history = self.proxy.history
        try:
            await eventually(
                lambda: len(aim.met) > handled or done.done(), within=FAULT_WITHIN_SECONDS, on=history.changed
            )
        except StillUntrue:
            raise AssertionError(
                f"{part.name} does not end, with faults at {[*map(str, aim.met)]}\n{history}\n{self.process.log_text()}"
            ) from None
        return len(aim.met) > handled

    async def _start_again(self, aim: Aim) -> None:
        """The next process may meet its fault before it is ready."""
        assert await self.process.wait() == -signal.SIGKILL
        await self.process.start(awaits_readiness=False)
        aim.go_on()

    async def _ends_as(self, clean: Run, where: str) -> None:
        async def same() -> bool:
            found = difference(clean, await self.end_state())
            assert not found, found
            return True

        await eventually(same, within=SAME_END_WITHIN_SECONDS, describe=f"the same end as without faults; {where}")

    async def _writes(self) -> Sequence[str]:
        """The writes since the last call."""
        await self.proxy.history.settled()
        found = [str(one.request) for one in self.proxy.history.writes(self.writes)]
        self.proxy.history.clear()
        return found


def lasting_writes_in(namespace: str) -> When[RecordedRequest]:
    """The writes of a scenario that has a namespace of its own."""
    return LASTING_WRITES & When(lambda request: request.namespace == namespace, f"in {namespace}")


@asynccontextmanager
async def _meanwhile(waiting: Awaitable[object]) -> AsyncIterator[asyncio.Future[object]]:
    """Something that is waited for, as long as the block lasts. How it fails is found out by who waits for it again."""
    running = asyncio.ensure_future(waiting)
    try:
        yield running
    finally:
        running.cancel()
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()


# ---- the faults of a sweep


def killed_before(process: OperatorProcess) -> RequestFault:
    """The operator dies before its write reaches the server."""
    return Kill(process)


def killed_after(process: OperatorProcess) -> RequestFault:
    """The server does the work, and the operator dies before it gets the answer."""
    return Kill(process, after_forwarding=True)


def reply_cut(_: OperatorProcess) -> RequestFault:
    """The server does the work, and the connection breaks before the operator gets the answer."""
    return CutConnection(after_forwarding=True)


def timed_out(_: OperatorProcess) -> RequestFault:
    """The server does the work, and something in between gives up waiting for it."""
    return AnswerInstead(504, after_forwarding=True)
