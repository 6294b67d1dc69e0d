"""The authorities of client certificates: a file that may change."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from stellwerk.runtime.certificates import certs
from stellwerk.runtime.clock import Clock

CHECK_SECONDS = 10.0
MOST_BYTES = 1024 * 1024
MOST_AUTHORITIES = 32

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Authorities:
    """Reads the file when it is needed, at most every ten seconds. No path: no authority."""

    path: str
    clock: Clock
    _found: list[bytes] = field(default_factory=list)
    _checked: float | None = None

    def current(self) -> list[bytes]:
        """The authorities as PEM, as the file had them last. A file that cannot be read changes nothing."""
        now = self.clock.monotonic()
        if self.path and (self._checked is None or now - self._checked >= CHECK_SECONDS):
            self._checked = now
            try:
                with Path(self.path).open("rb") as file:
                    self._found = certs.split(file.read(MOST_BYTES))[:MOST_AUTHORITIES]
            except OSError as error:
                _log.warning("the authorities of client certificates cannot be read: %s", error)
        return self._found
