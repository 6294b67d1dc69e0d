"""Places that strangers share: none of them can take what others need.

A claimant may have as many places as are free, or a few times as many. So one that claims without end gets half of the
places, a second one a quarter, and so on: there is always a place for a claimant that has none. A fixed number for each
claimant was refused: it would be too small for the only one, or too large for many.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager


class NoPlace(Exception):
    """A claimant has its share already."""


class Shares:
    """`places` in all."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._taken = 0
        self._held: Counter[str] = Counter()

    def __len__(self) -> int:
        """How many places are taken."""
        return self._taken

    def least(self, claimants: Collection[str]) -> str:
        """The claimant that has the fewest places; empty if there is none."""
        return min(claimants, key=lambda each: (self._held[each], each), default="")

    @contextmanager
    def place(self, claims: Mapping[str, int]) -> Iterator[None]:
        """Hold one place for all these claimants. Raises NoPlace.

        Each comes with how many times the free places it may have.
        """
        free = self._places - self._taken
        if free <= 0 or any(self._held[name] >= times * free for name, times in claims.items()):
            raise NoPlace
        self._taken += 1
        self._held.update(claims.keys())
        try:
            yield
        finally:
            self._taken -= 1
            for name in claims:
                self._held[name] -= 1
                if not self._held[name]:
                    del self._held[name]
