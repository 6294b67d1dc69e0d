"""How passes over domains with many DNS entries leave room for everything else.

A pass over 20,000 entries computes for a second, and the controller of DNS entries reports about them one after
another. So a change of an entry wakes such a domain only after a pause that follows the last pass and is three times as
long as that one computed: whatever happens, three quarters of the time are left. A change that comes during a pass
waits for the same pause; with a delay from the change itself it would be due when the pass ends. The first change after
a pause wakes at once, and so does each change of a domain with few entries.

All domains with many objects compute in one thread: each further one makes the event loop wait longer for its turn.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from stellwerk.kube import threads
from stellwerk.operators.cap.hashed_objects import OBJECT_BYTES
from stellwerk.runtime.clock import Clock

R = TypeVar("R")

MANY_ENTRIES = 50
"""From how many DNS entries on their changes are gathered."""
GATHERED_SECONDS = 1.0
"""The shortest pause, which gathers the reports about entries that become ready together."""
LONGEST_PAUSE_SECONDS = 10.0
_PAUSE_SHARE = 3.0


@dataclass(slots=True)
class Pace:
    """Of one domain: what its passes cost, and when changes of its entries may wake it."""

    _clock: Clock
    _turn: asyncio.Semaphore
    _has_many: bool = False
    _computed_seconds: float = 0.0
    _calm_until: float = -math.inf
    _is_passing: bool = False
    _is_due: bool = False

    @contextmanager
    def passing(self, entries: int) -> Iterator[None]:
        """A pass over a domain with so many DNS entries."""
        self._has_many = entries >= MANY_ENTRIES
        self._is_passing, self._is_due, self._computed_seconds = True, False, 0.0
        try:
            yield
        finally:
            self._is_passing = False
            pause = min(max(GATHERED_SECONDS, _PAUSE_SHARE * self._computed_seconds), LONGEST_PAUSE_SECONDS)
            self._calm_until = self._clock.monotonic() + pause

    @property
    def was_changed(self) -> bool:
        """Whether entries have changed during the last pass, so that another one must follow."""
        return self._is_due

    def wait_seconds(self) -> float | None:
        """After how long a change of an entry wakes the domain; None: when the pass that is under way has ended."""
        if not self._has_many:
            return 0.0
        if self._is_passing:
            self._is_due = True
            return None
        return self.pause_seconds()

    def pause_seconds(self) -> float:
        """How much of the pause after the last pass is left."""
        return max(0.0, self._calm_until - self._clock.monotonic())

    async def compute(self, objects: int, work: Callable[[], R]) -> R:
        """Return what pure work on so many objects returns; of many, computed in a thread, one after another."""
        size = objects * OBJECT_BYTES
        if size <= threads.LARGE_BYTES:
            return work()
        async with self._turn:
            began = self._clock.monotonic()
            try:
                return await threads.run(work)
            finally:
                self._computed_seconds += self._clock.monotonic() - began


@dataclass(slots=True)
class Paces:
    """Those of all domains, by the label value of their objects."""

    _clock: Clock
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1))
    _known: dict[str, Pace] = field(default_factory=dict[str, Pace])

    def of(self, owner: str) -> Pace:
        """The pace of a domain."""
        if owner not in self._known:
            self._known[owner] = Pace(self._clock, self._turn)
        return self._known[owner]

    def wait_seconds(self, owner: str) -> float | None:
        """As `Pace.wait_seconds`; a domain without a pass so far is woken at once."""
        known = self._known.get(owner)
        return known.wait_seconds() if known is not None else 0.0

    def forget(self, owner: str) -> None:
        """The domain is gone."""
        self._known.pop(owner, None)
