"""What waits to be written as Events: a bounded number, namespaces by turns, warnings first.

A burst in one namespace must neither delay the Events of another one nor push them out. So each namespace has its own
turn, and a full queue drops the newest of the namespace with the most: the first ones name the cause. A warning takes
the place of what is none.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(slots=True)
class _Turn(Generic[T]):
    """What waits of one namespace."""

    warnings: deque[T] = field(default_factory=deque)
    others: deque[T] = field(default_factory=deque)

    def __len__(self) -> int:
        return len(self.warnings) + len(self.others)


class EventQueue(Generic[T]):
    """Holds at most `limit` items."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._turns: OrderedDict[str, _Turn[T]] = OrderedDict()
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def add(self, namespace: str, item: T, *, is_warning: bool) -> T | None:
        """Add an item of a namespace. Returns the item that is dropped for it, which may be the item itself."""
        dropped = None
        if self._length >= self._limit:
            dropped = self._make_room(namespace, is_warning=is_warning)
            if dropped is None:
                return item
        turn = self._turns.setdefault(namespace, _Turn())
        (turn.warnings if is_warning else turn.others).append(item)
        self._length += 1
        return dropped

    def take(self) -> T | None:
        """Remove and return the next item; None if there is none."""
        if not self._turns:
            return None
        namespace, turn = next(iter(self._turns.items()))
        item = (turn.warnings or turn.others).popleft()
        self._length -= 1
        self._turns.move_to_end(namespace)
        self._forget_empty(namespace, turn)
        return item

    def _make_room(self, namespace: str, *, is_warning: bool) -> T | None:
        own = self._turns.get(namespace)
        longest = max(self._turns, key=lambda each: len(self._turns[each]))
        turn = self._turns[longest]
        if own is not None and len(turn) <= len(own):
            longest, turn = namespace, own
        may_take = bool(turn.others) and is_warning if turn is own else bool(turn.others) or is_warning
        if not may_take:
            return None
        item = (turn.others or turn.warnings).pop()
        self._length -= 1
        self._forget_empty(longest, turn)
        return item

    def _forget_empty(self, namespace: str, turn: _Turn[T]) -> None:
        if not turn:
            del self._turns[namespace]
