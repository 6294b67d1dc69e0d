"""Time that a test may set forward: what would take an hour takes as long as the requests that it leads to.

The clock runs as the machine's does, because API servers and their controllers do; what the operator waits for is
skipped. It never goes back.
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import datetime, timedelta

from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.eventually import Signal

_TURNS = 20


class SkippingClock:
    """The machine's clock, set forward by a test. A `stellwerk.runtime.clock.Clock`."""

    def __init__(self) -> None:
        self._machine = SystemClock()
        self._ahead_seconds = 0.0
        self._set = Signal()

    def now(self) -> datetime:
        """The wall clock, in UTC."""
        return self._machine.now() + timedelta(seconds=self._ahead_seconds)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return self._machine.monotonic() + self._ahead_seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until the time has passed, or has been skipped."""
        due = self.monotonic() + seconds
        await asyncio.sleep(0)
        while (left := due - self.monotonic()) > 0:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._set.after(self._set.count)

    async def skip(self, **duration: float) -> None:
        """Set the clock forward. A task that has worked out a delay already begins to wait first."""
        await let_others_run()
        await self.jump(**duration)

    async def jump(self, **duration: float) -> None:
        """Set the clock forward (`minutes=5`) now; a task that has waited long enough wakes.

        When this returns, a task that wakes has begun its work, so that a controller whose time has come does not look
        as if it rested.
        """
        self._ahead_seconds += timedelta(**duration).total_seconds()
        self._set.ring()
        await let_others_run()


async def let_others_run() -> None:
    """Give every task that could go on a few turns."""
    for _ in range(_TURNS):
        await asyncio.sleep(0)
