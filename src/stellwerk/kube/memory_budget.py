"""What answers of servers take in memory while they are read: a bound for all of them together.

Each answer claims its bytes as they come, for as long as they are in memory. If all claims are more than the budget,
the largest one ends, not the next: a server that answers without end does not displace the small answers of others.

A failed answer must be gone, too. An exception keeps the frames that it passed, and these keep the answer in their
variables, for as long as anybody remembers the exception. Often that is a reference cycle, which only the collector
ends. `forget_variables` empties the frames; their lines remain for the log.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FOREIGN_BYTES = 96 << 20
"""Of all servers together that users name: several of the largest answers, and many of the usual size."""
SERVER_BYTES = 64 << 20
"""Of one such server: as much as is held of the objects of one cluster, and never all that there is."""


class Claim:
    """The bytes of one answer."""

    def __init__(self, budget: MemoryBudget, give_way: Callable[[], None]) -> None:
        self._budget = budget
        self.give_way = give_way
        self.bytes = 0
        self.gave_way = False
        """Whether it has to end, because it was the largest of too many."""
        self.may_give_way = True
        """False while a thread works on the bytes: to give up waiting for it would not free them."""

    def add(self, size: int) -> None:
        """So many bytes more are in memory. The largest claim gives way if all are too many."""
        self.bytes += size
        self._budget.make_room()

    def hold(self, size: int) -> None:
        """So many bytes are in memory now. The largest claim gives way if all are too many."""
        self.bytes = size
        self._budget.make_room()

    def release(self) -> None:
        """Its bytes are not in memory any more."""
        self._budget.forget(self)


class MemoryBudget:
    """The claims under way, and how many bytes they may be together."""

    def __init__(self, most_bytes: int, whole: MemoryBudget | None = None) -> None:
        self.most_bytes = most_bytes
        self._whole = whole
        self._claims: set[Claim] = set()

    def part(self, most_bytes: int) -> MemoryBudget:
        """A budget whose claims are claims of this one, too: one server must not make all others give way."""
        return MemoryBudget(most_bytes, self)

    @property
    def bytes(self) -> int:
        """What all claims are together, those that end just now included."""
        return sum(claim.bytes for claim in self._claims)

    def claim(self, give_way: Callable[[], None]) -> Claim:
        """A claim without bytes, to be released. `give_way` is called at most once, and ends it soon."""
        claim = Claim(self, give_way)
        self._add(claim)
        return claim

    def _add(self, claim: Claim) -> None:
        self._claims.add(claim)
        if self._whole is not None:
            self._whole._add(claim)

    @contextmanager
    def claimed(self, give_way: Callable[[], None]) -> Iterator[Claim]:
        """A claim for a block."""
        claim = self.claim(give_way)
        try:
            yield claim
        finally:
            claim.release()

    def forget(self, claim: Claim) -> None:
        """A claim has ended."""
        self._claims.discard(claim)
        if self._whole is not None:
            self._whole.forget(claim)

    def make_room(self) -> None:
        """End the largest claim if all that go on are too many."""
        going_on = [claim for claim in self._claims if not claim.gave_way]
        if sum(claim.bytes for claim in going_on) > self.most_bytes:
            candidates = (claim for claim in going_on if claim.may_give_way)
            if (largest := max(candidates, key=lambda claim: claim.bytes, default=None)) is not None:
                largest.gave_way = True
                largest.give_way()
        if self._whole is not None:
            self._whole.make_room()


def forget_variables(error: BaseException) -> None:
    """Empty the ended frames of an exception, and of those that it followed."""
    known: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in known:
            continue
        known.add(id(each))
        traceback.clear_frames(each.__traceback__)
        waiting += (each.__cause__, each.__context__)
