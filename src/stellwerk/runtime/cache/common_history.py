"""When a cluster is set back: etcd was restored from a backup, and history goes on from there.

Each watch finds that out for itself, seconds apart: its next list has an older version, or, where the restored etcd
counts on from far ahead, shows an object at an older version. In between some caches show what was restored, and others
a future that is none any more; a pass over both would act on what never was: upgrade a restored tenant to a version
that was created after the backup. So the first cache that finds out has all others list again, and no pass begins until
they have.

A version that runs backwards is the word of one server, and behind an APIService that may be anybody's. So passes wait
for half a minute at most, and not again for ten.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from stellwerk.runtime.clock import Clock, happens_within

HELD_SECONDS = 30.0
"""How long passes wait at most for caches that do not list again. A new API server needs seconds to read its roles."""
AGAIN_SECONDS = 600.0
"""How soon passes may have to wait once more."""

_log = logging.getLogger(__name__)


class ListsAgain(Protocol):
    """A cache; `Informer` is one."""

    @property
    def is_filled(self) -> bool:
        """Whether it shows anything, however outdated."""
        ...

    def list_again(self) -> None:
        """Replace all it shows by a new list, as soon as possible."""
        ...


class CommonHistory:
    """Whether the caches of a cluster show one history."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._caches: list[ListsAgain] = []
        self._behind: set[ListsAgain] = set()
        self._set_back_at = float("-inf")
        self._is_common = asyncio.Event()
        self._is_common.set()

    def join(self, cache: ListsAgain) -> None:
        """One cache more."""
        self._caches.append(cache)

    def leave(self, cache: ListsAgain) -> None:
        """One cache less."""
        if cache in self._caches:
            self._caches.remove(cache)
        self.caught_up(cache)

    def set_back(self, finder: ListsAgain, name: str) -> None:
        """A cache is about to show a past that is older than what it showed before. `name` is for the log."""
        now = self._clock.monotonic()
        if finder in self._behind or now - self._set_back_at < AGAIN_SECONDS:
            return
        _log.warning("%s has an older version than before: the cluster was restored from a backup", name)
        self._set_back_at = now
        self._behind = {cache for cache in self._caches if cache is not finder and cache.is_filled}
        for cache in self._behind:
            cache.list_again()
        if self._behind:
            self._is_common.clear()

    def caught_up(self, cache: ListsAgain) -> None:
        """A cache has listed again, or its kind is no longer served."""
        self._behind.discard(cache)
        if not self._behind:
            self._is_common.set()

    async def common(self) -> None:
        """Return when no cache shows another history than the others, or when that takes too long."""
        if not self._is_common.is_set():
            left = max(0.0, self._set_back_at + HELD_SECONDS - self._clock.monotonic())
            await happens_within(self._clock, left, self._is_common)
            self._is_common.set()
