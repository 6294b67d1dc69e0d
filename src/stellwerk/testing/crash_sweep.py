"""Crash sweeps: an operator dies, or loses an answer, at every one of its writes, and the end is the same as without.

    sweep = Sweep(process, proxy, parts=[Part("up", create, is_ready), Part("down", delete, is_gone)], end_state=look)
    await sweep.run(killed_before, share=0, shares=4)

A scenario is a life in parts: something is asked for, and at some time it has come to pass. A clean run lists the
writes of each part and what is there at its end; a replay then meets one point in every part: the n-th write of the
first, the n-th of the second, and so on. That makes a third of the lives of a sweep that goes through one part at a
time, and proves more: a life ends as it began, so each replay starts from what the one before has left.

How often a status is written on the way depends on what was seen when, so the last points of the clean run may not come
in a replay. A part that has ended without its fault counts as replayed without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.faults import AnswerInstead, CutConnection, FaultProxy, FaultRule, Kill, RequestFault, nth
from stellwerk.testing.faults.traffic import RecordedRequest
from stellwerk.testing.operator_process import OperatorProcess
from stellwerk.testing.recorder import LASTING_WRITES, Run, difference

FAULT_WITHIN_SECONDS = 60.0
SAME_END_WITHIN_SECONDS = 30.0

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
    """Which of its writes are tried; their number counts, not their names."""
    least_points: int = 1
    """With fewer, something else than what was meant has been swept."""


@dataclass(frozen=True, slots=True)
class CleanRun:
    """What happens without faults: the points of each part, and what is there at its end."""

    points: Sequence[Sequence[str]]
    ends: Sequence[Run]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """Plays one scenario again and again. The operator runs already, and runs on at the end."""

    process: OperatorProcess
    proxy: FaultProxy
    parts: Sequence[SweepStep]
    end_state: Callable[[], Awaitable[Run]]

    async def run(self, fault: MakeFault, *, share: int = 0, shares: int = 1) -> None:
        """Replay every `shares`-th point, so that several tests can share a sweep. Raises AssertionError."""
        clean = await self.clean_run()
        for number in range(1 + share, 1 + max(map(len, clean.points)), shares):
            await self.replay(clean, number, fault)
        self.process.assert_clean_log()

    async def clean_run(self) -> CleanRun:
        """A life without faults, which ends as it began."""
        points, ends = [], []
        beginning = await self.end_state()
        await self._writes()
        for part in self.parts:
            await part.ask()
            await part.done()
            points.append(part.points(await self._writes()))
            ends.append(await self.end_state())
            assert len(points[-1]) >= part.least_points, f"{part.name} has only these points: {points[-1]}"
        assert not (left := difference(beginning, ends[-1])), f"the last part does not clear up: {left}"
        return CleanRun(points, ends)

    async def replay(self, clean: CleanRun, number: int, fault: MakeFault) -> None:
        """A life with a fault at the n-th write of each part. Raises AssertionError naming the write."""
        for part, points, end in zip(self.parts, clean.points, clean.ends, strict=True):
            if number <= len(points):
                await self._asked_with(fault(self.process), number, part)
            else:
                await part.ask()
            await part.done()
            await self._ends_as(end, f"{part.name}, at write {number}")
            await self._writes()

    async def _asked_with(self, fault: RequestFault, number: int, part: SweepStep) -> None:
        """Ask, and return when the fault has happened; a killed operator is started again, as a kubelet would."""
        with self.proxy.on_requests(LASTING_WRITES, fault, nth(number), required=False) as rule:
            await part.ask()
            await self._until_fired(rule, part)
            assert rule.fired or number > part.least_points, f"{part.name} ended without its {number}th write"
            if rule.fired and isinstance(fault, Kill):
                await self.process.wait()
                await self.process.start()

    async def _until_fired(self, rule: FaultRule[RecordedRequest], part: SweepStep) -> None:
        history = self.proxy.history
        async with _meanwhile(part.done()) as done:
            done.add_done_callback(lambda _: history.changed.ring())
            try:
                await eventually(
                    lambda: bool(rule.fired) or done.done(), within=FAULT_WITHIN_SECONDS, on=history.changed
                )
            except StillUntrue:
                raise AssertionError(f"{rule}\n{history}\n{self.process.log_text()}") from None

    async def _ends_as(self, clean: Run, where: str) -> None:
        async def same() -> bool:
            found = difference(clean, await self.end_state())
            assert not found, found
            return True

        await eventually(same, within=SAME_END_WITHIN_SECONDS, describe=f"the same end as without faults; {where}")

    async def _writes(self) -> Sequence[str]:
        """The writes since the last call."""
        await self.proxy.history.settled()
        found = [str(one.request) for one in self.proxy.history.writes(LASTING_WRITES)]
        self.proxy.history.clear()
        return found


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
