"""Crash sweeps: an operator dies, or loses an answer, at every one of its writes, and the end is the same as without.

    sweep = Sweep(process, proxy, parts=[SweepStep("up", create, is_ready), SweepStep("down", delete, is_gone)], ...)
    await sweep.run(at_odd(killed_before), at_odd(killed_after), at_every(reply_cut))

A scenario is a life in parts: something is asked for, and at some time it has come to pass. A clean run lists the
writes of each part, its points, and what is there at its end. A replay is a life with faults: one happens at a point
that it has met in no life before, `GAP` writes pass, the next one happens, and so on through all parts; a killed
operator starts again each time. After each part the cluster is as after the clean run. Lives are played until every
fault has met each of its points once.

A point is a write by its text, without the digits that a uid has put into a name, and how often the part has had this
write before. So it is the same in every life, although an operator that starts again writes a status more, and workers
side by side change the order. How often a status is written depends on what was seen when, so a point may come in no
replay: it is waited for in two lives. `least_points` is the least number of them.

What several crashes in one life could hide is an error that the next start mends by itself. The last crash of a part is
followed by none, and the later lives, with few points left, have few crashes; they need no gap. Short sweeps are
`alone`: one fault in a part of a life. What is proved in addition is that an operator may die while it recovers.

A life is expensive and a crash is not: of the sweep of an application, which has 75 points in eight parts, a life takes
9 s and a crash adds 0.2 s. So all faults of a scenario share its lives.

An ordinary run lets each fault happen at every third of its points, another third each day: writes of a part are alike,
and the sweeps of all operators are a tenth of the whole run. `make sweep` lets them happen at all.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence, Set
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace

from stellwerk.kube.client.client import Client
from stellwerk.testing import sweeps
from stellwerk.testing.eventually import Signal, StillUntrue, eventually
from stellwerk.testing.faults import AnswerInstead, ChangedBefore, CutConnection, FaultProxy, Kill, RequestFault, When
from stellwerk.testing.faults.traffic import WRITING, RecordedRequest
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.recorder import LASTING_WRITES, Run, difference

FAULT_WITHIN_SECONDS = 60.0
SAME_END_WITHIN_SECONDS = 30.0
GAP = 2
"""How many writes pass between two faults of a life."""
ALONE = 1_000_000
"""The gap where one fault happens in each part of a life."""
PARTS = 3
"""A sweep that is not whole has one of so many of its faults."""
_LIVES_WITH_GAP = 1
"""After so many lives, what is left is sparse: of 48 faults, the first life meets 37."""
_DERIVED = re.compile(r"(?<=-)[0-9a-f]{5,}\b|(?=[a-f]*[0-9])[0-9a-f]{8,}")
"""What a name has of a uid."""

MakeFault = Callable[[OperatorProcess], RequestFault]


def every_write(writes: Sequence[str]) -> Sequence[str]:
    """All writes of a part are points."""
    return writes


def each_once(writes: Sequence[str]) -> Sequence[str]:
    """Writes that are alike are one point: a delete is asked for again while a cache is behind."""
    return [*dict.fromkeys(writes)]


@dataclass(frozen=True, slots=True)
class At:
    """A fault, and the points of each part at which it happens: every `step`-th, from the one with number `first`."""

    fault: MakeFault
    first: int = 0
    step: int = 1

    def of(self, points: Sequence[Point]) -> set[Point]:
        """Those of a part at which it happens."""
        return set(points[self.first :: self.step])

    def part(self, turn: int) -> At:
        """The fault at one of `PARTS` parts of these points; as many turns together have all of them."""
        return At(self.fault, self.first + self.step * (turn % PARTS), self.step * PARTS)

    def least(self, points: int) -> int:
        """How often it happens at least in a part with at least so many points.

        Half of them: a late write of the part before may be the only one that a clean run has here, and no other life.
        """
        return len(range(self.first, points, self.step)) // 2


@dataclass(frozen=True, slots=True)
class AtEachKind(At):
    """A fault, and the first write of each kind in each part, of every `step`-th kind from that with number `first`.

    It has to meet half of these kinds at least.

    `verbs`: those of the writes that the fault can happen to.
    """

    verbs: Collection[str] = WRITING

    def of(self, points: Sequence[Point]) -> set[Point]:
        """Those of a part at which it happens."""
        firsts: dict[str, Point] = {}
        for point in points:
            if point.verb in self.verbs and not point.is_chance:
                firsts.setdefault(point.kind, point)
        return {*[*firsts.values()][self.first :: self.step]}

    def part(self, turn: int) -> At:
        """The fault at one of `PARTS` parts of the kinds."""
        return replace(self, first=self.first + self.step * (turn % PARTS), step=self.step * PARTS)

    def never_met(self, clean: Sequence[Sequence[Point]], left: Sequence[Set[Point]]) -> set[str]:
        """The kinds of all parts of which every point is left."""
        met = {point.kind for points, rest in zip(clean, left, strict=True) for point in self.of(points) - rest}
        return {point.kind for points in clean for point in self.of(points)} - met

    def least(self, points: int) -> int:
        """None in each part: what is met is looked at over all of them."""
        return 0


def at_every(fault: MakeFault) -> At:
    """The fault at each point."""
    return At(fault)


def at_odd(fault: MakeFault) -> At:
    """The fault at the first, third, ... point of each part.

    What is killed before a write leaves the same behind as what is killed after the one before it. So both, at every
    odd write, meet every gap between two writes once.
    """
    return At(fault, first=0, step=2)


def at_even(fault: MakeFault) -> At:
    """The fault at the points between those."""
    return At(fault, first=1, step=2)


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

    @property
    def verb(self) -> str:
        """What is asked for."""
        return self.write.split(" ", 1)[0]

    @property
    def kind(self) -> str:
        """What is asked for, of which resource."""
        return " ".join(self.write.split(" ")[:2])

    @property
    def is_chance(self) -> bool:
        """Whether it depends on chance which lives have this kind: a process patches a status instead of replacing it
        if it has written none before, or if the API server has refused that."""
        return self.verb == "patch" and self.kind.endswith("/status")

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """A fault, and the points of a part that it has not met yet. It loses what is met."""

    fault: RequestFault
    points: set[Point]

    @property
    def kills(self) -> bool:
        """Whether nothing can happen afterwards until the operator is started again."""
        return isinstance(self.fault, Kill)

    @property
    def is_lost(self) -> bool:
        """Whether the write does not happen, and comes again as the same point."""
        return isinstance(self.fault, Kill) and not self.fault.after_forwarding

    def __str__(self) -> str:
        return f"{self.fault}: {[*map(str, self.points)]}"


@dataclass(kw_only=True)
class Aim:
    """Chooses the writes of one part of a life at which a fault happens: points that it has met in no life."""

    points: Callable[[Sequence[str]], Sequence[str]]
    wanted: Sequence[Wanted]
    gap: int
    met: list[tuple[Wanted, Point]] = field(default_factory=list)
    seen: set[Point] = field(default_factory=set)
    """Points that have come, whether a fault happened at them or not."""
    changed: Signal = field(default_factory=Signal)
    """Rings at each fault, and when the part is over."""
    _is_held: bool = False
    _writes: list[str] = field(default_factory=list)
    _passed: int | None = None
    _last: tuple[RecordedRequest, Wanted | None] | None = None

    @property
    def is_met(self) -> bool:
        """Whether no fault is left."""
        return not any(one.points for one in self.wanted)

    def chosen(self, request: RecordedRequest) -> Wanted | None:
        """What happens at this write, if anything. Each rule asks for it, one directly after the other."""
        if self._last is None or self._last[0] is not request:
            self._last = request, self._choose(request)
        return self._last[1]

    def _choose(self, request: RecordedRequest) -> Wanted | None:
        writes = [*self._writes, str(request)]
        point = next(iter(points_of(self.points(writes))[len(self.points(self._writes)) :]), None)
        if point is not None:
            self.seen.add(point)
            if found := self._due(point):
                found.points.discard(point)
                self.met.append((found, point))
                self.changed.ring()
                self._passed, self._is_held = 0, found.kills
                self._writes = self._writes if found.is_lost else writes
                return found
        if self._passed is not None:
            self._passed += 1
        self._writes = writes
        return None

    def _due(self, point: Point) -> Wanted | None:
        """The fault that happens at a point now: of several, the one with most points left."""
        if self._is_held or (self._passed is not None and self._passed < self.gap):
            return None
        waiting = [one for one in self.wanted if point in one.points]
        return max(waiting, key=lambda one: len(one.points), default=None)

    def go_on(self) -> None:
        """The operator runs again: the next fault may happen after `gap` of its writes."""
        self._passed, self._is_held = 0, False

    def __str__(self) -> str:
        return f"with {[f'{one.fault} at {point}' for one, point in self.met]}"


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
    other_proxies: Sequence[FaultProxy] = ()
    """Between the operator and other clusters, whose writes are points as well."""

    async def run(self, *faults: At, alone: bool = False) -> None:
        """Let each of the faults happen once at each of its points, or of today's points. Raises AssertionError."""
        if not sweeps.IS_WHOLE:  # not two faults at the same point, which would need a life each
            faults = tuple(at.part(sweeps.turn() + number) for number, at in enumerate(faults))
        clean = await self.clean_run()
        wanted = [[Wanted(at.fault(self.process), at.of(points)) for at in faults] for points in clean.points]
        total = sum(len(one.points) for part in wanted for one in part)
        awaited = [{*points} for points in clean.points]
        lives = 0
        while any(one.points & part for part, left in zip(awaited, wanted, strict=True) for one in left):
            gap = ALONE if alone else GAP if lives < _LIVES_WITH_GAP else 0
            for part, aim in zip(awaited, await self.replay(clean, wanted, gap), strict=True):
                part &= aim.seen
            lives += 1
        self._assert_met(faults, clean, wanted, total)
        self.process.assert_clean_log()

    def _assert_met(self, faults: Sequence[At], clean: CleanRun, left: Sequence[Sequence[Wanted]], total: int) -> None:
        for part, points, unmet in zip(self.parts, clean.points, left, strict=True):
            for at, one in zip(faults, unmet, strict=True):
                met = len(at.of(points)) - len(one.points)
                assert met >= at.least(part.least_points), f"{part.name} ended each time without {one}"
        for number, at in enumerate(faults):
            if isinstance(at, AtEachKind):
                kinds = {point.kind for points in clean.points for point in at.of(points)}
                lacking = at.never_met(clean.points, [part[number].points for part in left])
                # A late write of the part before may be in no other life, and it may be the only one of today.
                assert len(lacking) <= max(1, len(kinds) // 2), (
                    f"{left[0][number].fault} has never met {sorted(lacking)}"
                )
        met = total - sum(len(one.points) for part in left for one in part)
        assert met >= total / 2, f"only {met} faults have happened, not {[str(one) for part in left for one in part]}"

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

    async def replay(self, clean: CleanRun, wanted: Sequence[Sequence[Wanted]], gap: int) -> Sequence[Aim]:
        """A life with faults, and what they have met in each part. Raises AssertionError naming it."""
        aims = []
        for part, left, end in zip(self.parts, wanted, clean.ends, strict=True):
            aim = Aim(points=part.points, wanted=left, gap=gap)
            await self._asked_with(aim, part)
            await part.done()
            await self._ends_as(end, f"{part.name}, {aim}")
            await self._writes()
            aims.append(aim)
        return aims

    async def _asked_with(self, aim: Aim, part: SweepStep) -> None:
        """Ask, and return when the part is over; a killed operator is started again, as a kubelet would."""
        if aim.is_met:
            await part.ask()
            return
        with ExitStack() as rules:
            for one in aim.wanted:
                for proxy in self._proxies:
                    rules.enter_context(proxy.on_requests(self._moments(aim, one), one.fault, required=False))
            await part.ask()
            handled = 0
            async with _meanwhile(part.done()) as done:
                done.add_done_callback(lambda _: aim.changed.ring())
                while await self._another_fault(aim, handled, done, part):
                    happened, handled = aim.met[handled:], len(aim.met)
                    if any(one.kills for one, _ in happened):
                        await self._start_again(aim)
                rules.close()  # at once: a process that is killed from here on would not be started again

    def _moments(self, aim: Aim, one: Wanted) -> When[RecordedRequest]:
        return When(lambda request: self.writes(request) and aim.chosen(request) is one, "the points that are left")

    async def _another_fault(self, aim: Aim, handled: int, done: asyncio.Future[object], part: SweepStep) -> bool:
        """Wait until a fault more has happened, or the part is over. Returns whether it is the first."""
        try:
            await eventually(lambda: len(aim.met) > handled or done.done(), within=FAULT_WITHIN_SECONDS, on=aim.changed)
        except StillUntrue:
            asked = "\n".join(str(each.history) for each in self._proxies)
            raise AssertionError(f"{part.name} does not end, {aim}\n{asked}\n{self.process.log_text()}") from None
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
        found: list[RecordedRequest] = []
        for proxy in self._proxies:
            await proxy.history.settled()
            found += [one.request for one in proxy.history.writes(self.writes)]
            proxy.history.clear()
        return [str(each) for each in sorted(found, key=lambda each: each.seconds)]

    @property
    def _proxies(self) -> Sequence[FaultProxy]:
        return (self.proxy, *self.other_proxies)


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


def without_cause(_: OperatorProcess) -> RequestFault:
    """The server answers with a conflict although nothing has changed: it had no free moment."""
    return AnswerInstead(409)


def conflicts(client: Client, *others: Client) -> Sequence[At]:
    """What may happen to a write without a crash, at each kind of write: a conflict without a cause, a lost answer, and
    a real change, which `client` makes just before. `others`: the clients of further clusters."""
    return (
        AtEachKind(without_cause),
        AtEachKind(reply_cut),
        AtEachKind(lambda _: ChangedBefore(client, others), verbs=WRITING - {"create"}),
    )


def timed_out(_: OperatorProcess) -> RequestFault:
    """The server does the work, and something in between gives up waiting for it."""
    return AnswerInstead(504, after_forwarding=True)
