"""Time, as the engine sees it: one seam, so that a test can run a twenty-minute timeout in milliseconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol


class Clock(Protocol):
    """Where everything in the engine gets the time from and waits."""

    def now(self) -> datetime:
        """The wall clock, in UTC: for what people and certificates read."""
        ...

    def monotonic(self) -> float:
        """Seconds that never jump and that go on while the machine sleeps: for delays, leases and timeouts."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The machine's own clock.

    `monotonic` reads CLOCK_BOOTTIME where there is one: a lease must count the time that a suspended machine slept,
    which CLOCK_MONOTONIC leaves out.
    """

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds since the machine started, suspension included."""
        return time.clock_gettime(_STEADY)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def happens_within(clock: Clock, seconds: float, event: asyncio.Event) -> bool:
    """Wait for the event, at most so long. Whether it is set. Raises what the clock raises."""
    await wait_at_most(clock, seconds, event.wait())
    return event.is_set()


async def wait_at_most(clock: Clock, seconds: float, work: Coroutine[Any, Any, object]) -> None:
    """Wait for the end of work, which is cancelled after so long. Raises what it or the clock raises."""
    sleep, wait = asyncio.ensure_future(clock.sleep(seconds)), asyncio.ensure_future(work)
    try:
        await asyncio.wait((sleep, wait), return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleep.cancel()
        wait.cancel()
    for each in (wait, sleep):  # a clock that fails at once must not make a loop without a pause
        if each.done():
            each.result()


_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
