"""Work that is done now and then while we lead: polls, sweeps.

What no watch can show is polled. A round that fails because a cluster or a server did not answer
is logged, and the next one tries again. So does the next one after any other exception, which the border reports.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from stellwerk.kube.types.errors import ApiError
from stellwerk.runtime.clock import happens_within
from stellwerk.runtime.supervision.tasks import Border

_log = logging.getLogger(__name__)

JITTER = 0.05
"""The part of a pause that is left to chance: replicas and operators should not ask in step."""


class Periodic:
    """Does something, waits, does it again. A `manager.Worker`: given to `Manager.add_controller`."""

    def __init__(
        self, name: str, work: Callable[[], Awaitable[None]], *, interval_seconds: float, border: Border
    ) -> None:
        self.name = name
        self._work = work
        self._interval_seconds = interval_seconds
        self._border = border
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        """Go on until stopped or cancelled. The first round comes after the first pause. Raises LeadershipLost."""
        while not await happens_within(self._border.clock, self._pause_seconds(), self._stopping):
            await self._border.once(self.name, self.name, self._round)

    async def _round(self) -> None:
        try:
            await self._work()
        except ApiError as error:
            _log.warning("%s: %s", self.name, error)

    def stop(self) -> None:
        """Begin no further round."""
        self._stopping.set()

    def _pause_seconds(self) -> float:
        return self._interval_seconds * (1.0 + random.uniform(-JITTER, JITTER))
