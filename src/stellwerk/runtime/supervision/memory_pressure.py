"""How near the process is to the memory that its container may have: reported before the kernel ends it without a
message.

What counts is what the kubelet counts and shows as the working set: all that is charged to the control group but files
that the kernel may forget. Near the limit the process is unready, and logs that once; it is not called dead,
because a restart fills the same caches again and ends at the same place. Only a larger limit helps, or less to watch.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

NEAR = 0.95
"""The part of the limit from which on the process is unready."""
_MIB = 1 << 20
_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MemoryUsage:
    """What the process, and whatever shares its container, has taken of its memory."""

    used_bytes: int
    limit_bytes: int

    @property
    def is_near(self) -> bool:
        """Whether little is left."""
        return self.used_bytes > NEAR * self.limit_bytes


class MemoryCheck:
    """Finds out for a probe whether little is left. Without a limit nothing is ever wrong."""

    def __init__(self, group: Path | None = None) -> None:
        self._group = own_group() if group is None else group
        self._was_near = False

    def usage(self) -> tuple[int, int] | None:
        """The bytes in use and the bytes allowed; None without a limit. For `Metrics.memory`."""
        usage = usage_of(self._group)
        return None if usage is None else (usage.used_bytes, usage.limit_bytes)

    def finding(self) -> str | None:
        """One sentence where little is left."""
        usage = usage_of(self._group)
        near = usage is not None and usage.is_near
        finding = _told(usage) if usage is not None and near else None
        if finding and not self._was_near:
            _log.warning("%s: raise the memory limit of the container", finding)
        self._was_near = near
        return finding


def own_group(root: Path = _ROOT, own: Path = _OWN) -> Path:
    """The folder of the control group that this process is in: the root itself, as a container sees it, or below."""
    for line in _text(own).splitlines():
        number, _, path = line.partition("::")
        if number == "0" and (root / path.lstrip("/") / "memory.max").is_file():
            return root / path.lstrip("/")
    return root


def usage_of(group: Path) -> MemoryUsage | None:
    """What is used and what is allowed; None where there is no limit, or no such control group."""
    limit, used = _number(group / "memory.max"), _number(group / "memory.current")
    if limit is None or used is None:
        return None
    return MemoryUsage(max(0, used - _forgettable(group)), limit)


def _forgettable(group: Path) -> int:
    for line in _text(group / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name == "inactive_file":
            return int(value)
    return 0


def _told(usage: MemoryUsage) -> str:
    return f"{usage.used_bytes // _MIB} of {usage.limit_bytes // _MIB} MiB of memory are in use"


def _number(file: Path) -> int | None:
    text = _text(file).strip()
    return int(text) if text.isdigit() else None  # "max": no limit


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
