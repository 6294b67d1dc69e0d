"""How long a run waits between passes, and which failures it retries (pure).

Waits double from one millisecond to ten seconds, and start from the beginning after a write: an applied object is
often ready at once, or takes minutes. A conflict with another writer is retried, up to fifteen times in a row: with a
second user or a controller that writes the same object, conflicts are usual. Any other failure ends the run, because
no later run retries it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.apply.errors import Obstacle, WriteFailed, WriteFailure
from stellwerk.apply.set.plan.stage import Unready
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.releases.errors import TooLate

FIRST_WAIT, LONGEST_WAIT = 0.001, 10.0
MOST_CONFLICTS = 15
"""In a row."""


@dataclass(slots=True)
class RetryPolicy:
    """That of one run. 0 seconds: for ever."""

    timeout_seconds: float
    _wait: float = FIRST_WAIT
    _conflicts: int = 0

    def judge(self, failures: Sequence[WriteFailure]) -> list[str]:
        """Messages about the failures that are retried. Raises WriteFailed."""
        if not failures:
            self._conflicts = 0
            return []
        self._conflicts += 1
        if self._conflicts > MOST_CONFLICTS or any(each.obstacle is not Obstacle.CHANGED for each in failures):
            raise WriteFailed(failures)
        return [f"Error: {each} (retrying {self._conflicts}/{MOST_CONFLICTS})" for each in failures]

    def wait(self, key: ObjectKey, passed_seconds: float, waits: Sequence[Unready], *, wrote: bool) -> float:
        """How long to wait, within the time that is left. Raises TooLate where none is."""
        if self.timeout_seconds and passed_seconds >= self.timeout_seconds:
            raise TooLate(key, self.timeout_seconds, waits)
        now = FIRST_WAIT if wrote else self._wait
        self._wait = min(2 * now, LONGEST_WAIT)
        return min(now, self.timeout_seconds - passed_seconds) if self.timeout_seconds else now
