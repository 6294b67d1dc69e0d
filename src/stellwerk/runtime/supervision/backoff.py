"""How long to wait after failures in a row."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a failing key waits: from `first_seconds`, doubling, to `limit_seconds`.

    `jitter` is the part of a delay that is left to chance: keys that failed together should not come back together.
    """

    first_seconds: float = 0.005
    limit_seconds: float = 1000.0
    jitter: float = 0.1

    def delay_seconds(self, failures: int, chance: float) -> float:
        """The wait after so many failures in a row (1 is the first); `chance` is in [0, 1)."""
        exponent = min(failures - 1, 60)  # 2**60 is over any limit, and floats end at 2**1023
        delay = min(self.first_seconds * 2.0**exponent, self.limit_seconds)
        return delay * (1.0 - self.jitter * chance)
