"""How far a cache has come, in a number: what makes it possible to wait for one's own writes.

Versions of one resource are ordered integers (KEP-5504) and a watch delivers in that order, so a write is visible when
the cache has reached the version that the server answered to it; also when the written object itself is not selected by
the watch and never shows. When the order runs backwards (etcd was restored from a backup) all waiting ends, and nothing
is expected any more.

The end of an object has no such version: the answer to the patch that removes its last finalizer shows the version from
before. So an end is visible when the cache no longer shows this very object.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from dataclasses import dataclass
from typing import TypeAlias

from stellwerk.kube.types.identifiers import ObjectKey

_FEW = 1_000
"""Up to this number, writes that the cache shows are kept until their key is asked about."""


class CacheProgress:
    """How far a cache has come, as a number, what is expected of it, and who waits for it to come further."""

    def __init__(self) -> None:
        self._reached = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._order = itertools.count()
        self._expected: dict[ObjectKey, int] = {}
        self._ends: dict[ObjectKey, OwnEnd] = {}
        self._given_up = 0
        self._most_expected = _FEW

    def has_reached(self, version: int) -> bool:
        """Whether the cache shows everything up to this version."""
        return version <= self._reached

    def is_at_most(self, version: int) -> bool:
        """Whether the cache has shown nothing beyond this version."""
        return self._reached <= version

    def advance(self, version: int) -> None:
        """The cache shows everything up to this version."""
        if version > self._reached:
            self._reached = version
            while self._waiting and self._waiting[0][0] <= version:
                _finish(heapq.heappop(self._waiting)[2])

    def restart(self, version: int) -> None:
        """The cache was filled again at this version. At an older one, the awaited version may never come."""
        if version >= self._reached:
            self.advance(version)
            return
        self.give_up()
        self._reached = version

    def give_up(self) -> None:
        """End all waiting: what is expected so far may never show."""
        self._given_up += 1
        for _, _, waiter in self._waiting:
            _finish(waiter)
        self._waiting.clear()
        self._expected.clear()
        for end in self._ends.values():
            end.show()
        self._ends.clear()

    def expect(self, key: ObjectKey, version: int) -> OwnWrite | None:
        """Note a write to this key; None where the cache shows it already."""
        if self.has_reached(version):
            return None
        self._expected[key] = max(version, self._expected.get(key, 0))
        if len(self._expected) > self._most_expected:
            self._drop_reached()
        return OwnWrite(self, version, self._given_up)

    def _drop_reached(self) -> None:
        """Many keys are asked about only once, such as those of Jobs that are gone. All are looked at when their number
        has doubled, so a write pays for two on average."""
        self._expected = {key: version for key, version in self._expected.items() if not self.has_reached(version)}
        self._most_expected = max(_FEW, 2 * len(self._expected))

    def expect_end(self, key: ObjectKey, uid: str) -> OwnEnd:
        """Note that this process has ended the object, which the cache still shows."""
        return self._ends.setdefault(key, OwnEnd(uid))

    def ended(self, key: ObjectKey, uid: str) -> None:
        """The cache no longer shows this object."""
        if key in self._ends and self._ends[key].uid == uid:
            self._ends.pop(key).show()

    def expected(self, key: ObjectKey) -> OwnChange | None:
        """The write to this key that the cache does not show yet, or None."""
        if key in self._ends:
            return self._ends[key]
        version = self._expected.get(key)
        if version is None:
            return None
        if self.has_reached(version):
            del self._expected[key]
            return None
        return OwnWrite(self, version, self._given_up)

    def has_given_up_since(self, count: int) -> bool:
        """Whether waiting has ended since it had ended so often."""
        return self._given_up > count

    async def reach(self, version: int) -> None:
        """Return when the version is reached, or when history was rewritten."""
        if self.has_reached(version):
            return
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (version, next(self._order), waiter))
        await waiter


class OwnEnd:
    """The end of an object, which the cache must show before the next pass on its key."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self._shown = asyncio.Event()

    def show(self) -> None:
        """The cache does not show the object any more, or has ended all waiting."""
        self._shown.set()

    @property
    def is_visible(self) -> bool:
        """Whether the cache does not show the object any more, or has ended all waiting since."""
        return self._shown.is_set()

    async def visible(self) -> None:
        """Return when it is so."""
        await self._shown.wait()


@dataclass(frozen=True, slots=True)
class OwnWrite:
    """A write that the cache must show before the next pass on its key."""

    progress: CacheProgress
    version: int
    given_up: int
    """How often the cache had ended all waiting when this was written."""

    @property
    def is_visible(self) -> bool:
        """Whether the cache has come so far, or has ended all waiting since."""
        return self.progress.has_reached(self.version) or self.progress.has_given_up_since(self.given_up)

    async def visible(self) -> None:
        """Return when it has."""
        if not self.is_visible:
            await self.progress.reach(self.version)


OwnChange: TypeAlias = OwnWrite | OwnEnd
"""A change of this process that a cache must show before the next pass on its key."""


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
