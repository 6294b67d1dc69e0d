"""How long a run waits between passes, and what it puts up with (pure).

Waits double from a millisecond to ten seconds, and begin anew when something was written: what is applied is often
ready at once, and what is not may take minutes. A write that met somebody else's is tried again, up to fifteen times in
a row: between two people at one release, or beside a controller that is writing, that is ordinary. Every other failure
ends the run, because nobody is there who would come back to it later.
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
        """What is said about failures that are tried again. Raises WriteFailed."""
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
