"""How much one archive may become, counted where it comes out."""

from __future__ import annotations

import time
from dataclasses import dataclass

from stellwerk.render.errors import BadArchive
from stellwerk.render.files.files import LONGEST_PATH


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """How much one archive may become."""

    bytes: int = 100 * 2**20
    """Content, unpacked."""
    entries: int = 10_000
    ratio: int = 1_000
    """Bytes unpacked for each byte that came."""
    free_bytes: int = 2**20
    """What may always come out, whatever the ratio: small archives are mostly padding, which packs to nothing."""
    name_bytes: int = LONGEST_PATH
    depth: int = 64
    """Folders inside each other."""
    seconds: float = 2.0
    """Of CPU. gzip needs a tenth of it for the largest archive; bzip2 needs a second for every 5 MiB."""


LIMITS = ArchiveLimits()

_FRAMING_BYTES = 2_048
"""What an entry may cost a tar archive besides its content: headers, a long name, padding."""


class Meter:
    """Counts the bytes that come out of an archive, and the time of the thread that takes them out."""

    def __init__(self, limits: ArchiveLimits, packed: int) -> None:
        self.limits = limits
        self._most = limits.bytes + limits.entries * _FRAMING_BYTES
        self._by_ratio = max(limits.free_bytes, packed * limits.ratio)
        self._total = 0
        self._began = time.thread_time()

    def count(self, size: int) -> None:
        """So many bytes more. Raises `BadArchive` where that is too many."""
        self._total += size
        self.check_time()
        if self._total > self._by_ratio:
            raise BadArchive(f"it unpacks to more than {self.limits.ratio} times its size")
        if self._total > self._most:
            raise too_large(self.limits)

    def check_time(self) -> None:
        """Raises `BadArchive` where the thread has worked on it for too long."""
        if time.thread_time() - self._began > self.limits.seconds:
            raise BadArchive(f"unpacking it takes longer than {self.limits.seconds:g} s; pack less, or with gzip")


def too_large(limits: ArchiveLimits) -> BadArchive:
    """The error for content beyond the limit."""
    return BadArchive(f"it unpacks to more than {limits.bytes >> 20} MiB")


def too_many(limits: ArchiveLimits) -> BadArchive:
    """The error for entries beyond the limit."""
    return BadArchive(f"it holds more than {limits.entries} entries")
