"""The large answers of a server that their clients have not read yet, and which of them give way.

Such an answer stays in memory, and its handler has ended, so that the number of requests at a time does not bound it.
A new answer is always sent. Where all of them together are too large, those of the client with the most unread bytes
are given up for it, the oldest first.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

_SMALL_BYTES = 64 << 10
"""Smaller answers are bounded by the number of connections."""


class CuttableConnection(Protocol):
    """What an answer can be sent on."""

    def cut(self) -> None:
        """Close at once, whatever is still to be sent."""
        ...


class UnreadAnswers:
    """The large answers that are being sent, at most so many bytes; a single one may have more."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._unread: dict[CuttableConnection, tuple[str, int]] = {}

    @property
    def bytes(self) -> int:
        """How many bytes they have together."""
        return sum(size for _, size in self._unread.values())

    def begin(self, connection: CuttableConnection, peer: str, size: int) -> None:
        """Count an answer until `end`, and close the connections that give way for it."""
        if size <= _SMALL_BYTES or connection in self._unread:
            return
        self._unread[connection] = (peer, size)
        while len(self._unread) > 1 and self.bytes > self._most_bytes:
            victim = self._victim(connection)
            self.end(victim)
            victim.cut()

    def end(self, connection: CuttableConnection) -> None:
        """The answer of this connection is read, or given up; does nothing where it has none."""
        self._unread.pop(connection, None)

    def _victim(self, newest: CuttableConnection) -> CuttableConnection:
        others = {connection: peer for connection, (peer, _) in self._unread.items() if connection is not newest}
        unread_bytes: Counter[str] = Counter()
        for peer, size in self._unread.values():
            unread_bytes[peer] += size
        return max(others, key=lambda connection: unread_bytes[others[connection]])  # the first of equals: the oldest
