"""Time under a test's control: a twenty-minute timeout in milliseconds.

Two means, for two kinds of code. Code that takes a `stellwerk.runtime.clock.Clock` gets a `FakeClock`, which stops
still until the test advances it. Code that waits with asyncio's own timers (`asyncio.timeout`, `asyncio.sleep`) and
touches no network runs on a `SimulatedLoop`, on which an idle moment is skipped instead of waited for.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import selectors
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stellwerk.testing.eventually import Signal

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_START = datetime(2030, 1, 1, tzinfo=UTC)
# How many turns of the event loop the woken get before time goes on. A chain of so many awaits without I/O inside one
# sleeper is not seen in practice, and a turn costs a microsecond.
_TURNS = 100


class FakeClock:
    """A Clock that moves only on request."""

    def __init__(self, start: datetime = _START) -> None:
        self._wall = start
        self._steady = 1_000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._lay_down = Signal()

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return self._wall

    def monotonic(self) -> float:
        """Seconds that only `advance` moves."""
        return self._steady

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was advanced so far. Zero or less yields once, as asyncio.sleep does."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._steady + seconds, next(self._numbers), waiter))
        self._lay_down.ring()
        await waiter

    @property
    def sleeping(self) -> int:
        """How many wait for this clock."""
        return sum(not waiter.done() for _, _, waiter in self._sleepers)

    @property
    def next_wake_seconds(self) -> float | None:
        """Seconds until the first sleeper wakes, or None when nothing sleeps."""
        return min((due - self._steady for due, _, waiter in self._sleepers if not waiter.done()), default=None)

    async def until_sleeping(self, count: int = 1, *, within: float = 30.0) -> None:
        """Wait until at least `count` tasks sleep, so that `advance` finds them. `within` is real seconds."""
        try:
            async with asyncio.timeout(within):
                while self.sleeping < count:
                    await self._lay_down.after(self._lay_down.count)
        except TimeoutError:
            raise AssertionError(f"{self.sleeping} task(s) sleep on the clock, {count} expected") from None

    async def advance(self, seconds: float) -> None:
        """Let time pass. Sleepers wake in the order of their due times, each at its own time, and run until they rest.

        A sleeper that sleeps again inside the span is woken again. Work that waits for I/O is not waited for.
        """
        target = self._steady + seconds
        await _let_others_run()
        while self._sleepers and self._sleepers[0][0] <= target:
            due, _, waiter = heapq.heappop(self._sleepers)
            self._move_to(due)
            if not waiter.done():
                waiter.set_result(None)
                await _let_others_run()
        self._move_to(target)
        await _let_others_run()

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP does; no sleeper wakes."""
        self._wall += timedelta(seconds=seconds)

    def _move_to(self, moment: float) -> None:
        passed = max(0.0, moment - self._steady)
        self._steady += passed
        self._wall += timedelta(seconds=passed)


async def _let_others_run() -> None:
    for _ in range(_TURNS):
        await asyncio.sleep(0)


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time skips to the next timer whenever nothing else is to do.

    For code without network and threads: a reply that is under way would look like nothing to do. Give it to pytest by
    an `event_loop_policy` fixture, or run `asyncio.Runner(loop_factory=SimulatedLoop)`.
    """

    def __init__(self) -> None:
        self._skipping = _SkippingSelector()
        super().__init__(self._skipping)

    def time(self) -> float:
        """Simulated seconds."""
        return self._skipping.seconds


class LoopClock:
    """The Clock of code that takes one and runs on a `SimulatedLoop`."""

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return _START + timedelta(seconds=self.monotonic())

    def monotonic(self) -> float:
        """The seconds of the event loop."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


class _SkippingSelector(selectors.BaseSelector):
    """Looks at the file descriptors without waiting, and counts the wait that was asked for as passed."""

    def __init__(self) -> None:
        self._real = selectors.DefaultSelector()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # No timer at all: only I/O can wake the loop, so this is a true wait.
        ready = self._real.select(None if timeout is None else 0)
        if not ready and timeout:
            self.seconds += timeout
        return ready

    def register(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: FileDescriptorLike, events: int, data: object = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
