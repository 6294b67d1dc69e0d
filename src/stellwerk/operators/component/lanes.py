"""How many passes may be at work on other clusters at the same time.

A cluster that is slow or silent holds whoever asks it, up to a minute for each request. Without a bound its Components
would soon have all workers, and nobody else would get one. So a cluster has at most half of the workers, one that has
just failed to answer has one, and all of them together leave one for the home cluster. Whoever comes too late gives his
worker back at once and is woken when there is room: nobody waits in a worker's seat.

We refused workers of their own for each cluster: there may be hundreds, most of them idle, and a bound on the whole
would still be needed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stellwerk.kube.names import ObjectKey

HOME = ""
"""The lane of the operator's own cluster, which has no bound."""


class Full(Exception):
    """There is no room now; the Component is woken when there is."""


@dataclass(slots=True, kw_only=True)
class Lanes:
    """Who is at work on which cluster. `wake` is called with those for whom there is room."""

    workers: int
    wake: Callable[[Iterable[ObjectKey]], None]
    _inside: dict[ObjectKey, str] = field(default_factory=dict)
    _waiting: dict[ObjectKey, str] = field(default_factory=dict)
    """In the order of their coming."""
    _silent: set[str] = field(default_factory=set)

    @contextmanager
    def passing(self, key: ObjectKey, silence: type[Exception]) -> Iterator[None]:
        """A pass on a Component, which may `enter` a lane. `silence` is what a cluster that does not answer raises."""
        answers = True
        try:
            yield
        except (asyncio.CancelledError, silence):
            answers = False
            raise
        finally:
            self._leave(key, answers=answers)

    def enter(self, key: ObjectKey, lane: str) -> None:
        """Take a place in a lane until the pass ends. Raises `Full`."""
        self._waiting.pop(key, None)
        if lane == HOME:
            return
        if not self._has_room(lane, Counter()):
            self._waiting[key] = lane
            raise Full
        self._inside[key] = lane

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self._waiting.pop(key, None)

    def _leave(self, key: ObjectKey, *, answers: bool) -> None:
        lane = self._inside.pop(key, HOME)
        if lane == HOME:
            return
        (self._silent.discard if answers else self._silent.add)(lane)
        self.wake(self._next())

    def _has_room(self, lane: str, promised: Counter[str]) -> bool:
        taken = Counter(self._inside.values()) + promised
        return taken[lane] < self._bound(lane) and taken.total() < max(1, self.workers - 1)

    def _bound(self, lane: str) -> int:
        return 1 if lane in self._silent else max(1, self.workers // 2)

    def _next(self) -> list[ObjectKey]:
        """Take out of the waiting those who find room even if all of them come."""
        promised: Counter[str] = Counter()
        found: list[ObjectKey] = []
        for key, lane in self._waiting.items():
            if self._has_room(lane, promised):
                promised[lane] += 1
                found.append(key)
        for key in found:
            del self._waiting[key]
        return found
