"""Work that is done now and then while we lead: polls, sweeps.

What no watch can tell has to be looked at by the clock. A round that fails because a cluster or a server did not answer
is logged, and the next one tries again; any other exception is a bug of ours, told with its stack, and stops nothing
either: a sweep is never worth the process.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from stellwerk.kube.errors import ApiError
from stellwerk.runtime.clock import Clock, happens_within
from stellwerk.runtime.outcomes import LeadershipLost

_log = logging.getLogger(__name__)

JITTER = 0.05
"""The part of a pause that is left to chance: replicas and operators shall not ask in step."""


class Periodic:
    """Does something, waits, does it again. A `manager.Worker`: given to `Manager.add_controller`."""

    def __init__(
        self, name: str, work: Callable[[], Awaitable[None]], *, interval_seconds: float, clock: Clock
    ) -> None:
        self.name = name
        self._work = work
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Go on until stopped or cancelled. The first round comes after the first pause. Raises LeadershipLost."""
        while not await happens_within(self._clock, self._pause_seconds(), self._stopping):
            try:
                await self._work()
            except LeadershipLost:
                raise
            except ApiError as error:
                _log.warning("%s: %s", self.name, error)
            except Exception:
                _log.exception("%s failed: a bug of ours", self.name)

    def stop(self) -> None:
        """Begin no further round."""
        self._stopping.set()

    def _pause_seconds(self) -> float:
        return self._interval_seconds * (1.0 + random.uniform(-JITTER, JITTER))
