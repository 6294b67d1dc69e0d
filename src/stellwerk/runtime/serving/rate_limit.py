"""How often each client may ask: a bucket of tokens for each key, within bounds.

A key that is unknown has a full bucket. So a bucket that is full again need not be kept, and where there are more keys
than may be kept, the one that was used least recently goes: a client with many names gains a burst for each of them,
and takes none from others.
"""

from __future__ import annotations

from collections import OrderedDict

from stellwerk.runtime.clock import Clock

MOST_KEYS = 10_000


class RateLimit:
    """`at_once` requests of a key at once, and then `per_second`; 0 per second: no limit."""

    def __init__(self, *, per_second: float, at_once: float, clock: Clock, most_keys: int = MOST_KEYS) -> None:
        self._per_second = per_second
        self._at_once = at_once
        self._clock = clock
        self._most_keys = most_keys
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens, and when they were counted."""

    def __len__(self) -> int:
        """How many keys are kept."""
        return len(self._buckets)

    def wait_seconds(self, key: str) -> float:
        """Count a request of this key. 0: it is allowed; else it is not, and this is when the next one may be."""
        if not self._per_second:
            return 0.0
        now = self._clock.monotonic()
        tokens, since = self._buckets.get(key, (self._at_once, now))
        tokens = min(self._at_once, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1.0
        self._buckets[key] = (tokens - 1.0 if allowed else tokens, now)
        self._buckets.move_to_end(key)
        while len(self._buckets) > self._most_keys:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1.0 - tokens) / self._per_second
