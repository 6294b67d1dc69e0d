"""Measures for how long the event loop was blocked (R-412).

A timer fires every two milliseconds. Between two of its calls the loop can be late for two reasons: our code computes,
or the machine runs something else. Only the first one is a stall of ours. So what the loop's thread waited for a
processor is taken off a gap, where the system shows it, and a gap counts for no more than this process computed
meanwhile: a test on a busy machine measures what a quiet machine measures.
A machine that shares its processors computes at half its speed for minutes. So a fixed piece of work is timed before
and after the block, and stalls are given as a machine would have them that does this work in `_REFERENCE_SECONDS`.
The cycle collector does as little as in the process (`runtime.supervision.collector`): other tests have left hundreds
of thousands of objects.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from stellwerk.runtime.supervision import collector

LONGEST_STALL_SECONDS = 0.1
"""R-412."""
_TICK_SECONDS = 0.002
_REFERENCE = json.dumps([{f"key{number}": str(number) for number in range(20)} for _ in range(400)])
_REFERENCE_SECONDS = 0.0006
"""For reading it once, on the machine for which the promises of time were made."""
_REFERENCE_RUNS = 9
_SLOWEST = 1.5
"""More is not taken off: a stall that is twice as long as promised is one on any machine."""
_SCHEDULING = Path("/proc/thread-self/schedstat")
"""Of the thread that reads it: nanoseconds on a processor, nanoseconds in wait for one, and turns."""


@dataclass(slots=True)
class LoopStalls:
    """The longest time for which the event loop called no timer."""

    longest_seconds: float = 0.0
    """Waiting for a processor does not count."""
    longest_gap_seconds: float = 0.0
    """As it passed, whatever the cause."""
    slowness: float = 1.0
    """How much slower than the reference the machine was; `longest_seconds` is divided by it at the end."""

    def note(self, gap_seconds: float, computed_seconds: float, waited_seconds: float = 0.0) -> None:
        """Record the time between two ticks. `waited_seconds`: for how long the loop's thread had no processor."""
        self.longest_gap_seconds = max(self.longest_gap_seconds, gap_seconds)
        self.longest_seconds = max(self.longest_seconds, min(gap_seconds - waited_seconds, computed_seconds))


@dataclass(frozen=True, slots=True)
class _Clocks:
    """What has passed so far, in seconds."""

    passed: float
    computed: float
    waited: float

    @classmethod
    def now(cls) -> _Clocks:
        return cls(time.perf_counter(), time.process_time(), _waited_seconds())


def _slowness() -> float:
    """How much longer this thread computes now than on the machine of the promises; at least 1."""
    taken = []
    for _ in range(_REFERENCE_RUNS):
        began = time.thread_time()
        json.loads(_REFERENCE)
        taken.append(time.thread_time() - began)
    return min(max(statistics.median(taken) / _REFERENCE_SECONDS, 1.0), _SLOWEST)


def _waited_seconds() -> float:
    """For how long this thread was ready to run and had no processor; 0 where the system does not show it."""
    try:
        return int(_SCHEDULING.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextmanager
def measured_stalls() -> Iterator[LoopStalls]:
    """Measure the running event loop during the block. A stall that ends with the block is included."""
    loop = asyncio.get_running_loop()
    stalls = LoopStalls(slowness=_slowness())
    last = _Clocks.now()

    def note() -> None:
        nonlocal last
        now = _Clocks.now()
        stalls.note(now.passed - last.passed, now.computed - last.computed, now.waited - last.waited)
        last = now

    def tick() -> None:
        note()
        timers[0] = loop.call_later(_TICK_SECONDS, tick)

    with collector.short_pauses():
        last = _Clocks.now()
        timers = [loop.call_later(_TICK_SECONDS, tick)]
        try:
            yield stalls
        finally:
            timers[0].cancel()
            note()
            stalls.slowness = min(stalls.slowness, _slowness())
            stalls.longest_seconds /= stalls.slowness


async def least_stall(work: Callable[[], Awaitable[object]], *, tries: int = 3) -> float:
    """The longest stall while `work` runs, in seconds; one that is too long is measured again, and the least counts.

    What blocks the loop blocks it each time; a machine that gives memory or time late does not.
    """
    least = float("inf")
    for _ in range(tries):
        with measured_stalls() as stalls:
            await work()
        least = min(least, stalls.longest_seconds)
        if least < LONGEST_STALL_SECONDS:
            break
    return least
