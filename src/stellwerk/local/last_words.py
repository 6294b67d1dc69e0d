"""Why a component ended, from the end of its log (pure).

etcd logs JSON with a stack trace in each line, and a Go program that panics prints the stacks of all goroutines. Of
both, a user needs the message. The data of a cluster is precious, so an end counts as broken data only where the
message itself is about damaged content: a folder that may not be read, a lock or a wrong setting can be mended.
"""

from __future__ import annotations

import json
import re

_SEVERE = ("error", "dpanic", "panic", "fatal")
_FIELDS = ("path", "dir", "environment-variable", "error")
_PANIC = "panic: "
_FAULT = "unexpected fault address"
"""What a Go program prints first where a file that it has mapped is shorter than it was, or cannot be read."""
_STACK = re.compile(r"goroutine \d+ |\t|created by |[\w./*()\[\]-]+\(.*\)$")
_DAMAGE = re.compile(
    r"invalid database|failed to open database|\bcrc\b|checksum|\bproto: |unexpected EOF|\bwal\b|\bsnap(shot)?\b"
    r"|\bbackend\b|cannot use none as id|\bcorrupt|version mismatch|file size too small"
    rf"|\bfreepages\b|page expected to be|reachable pages|{_FAULT}|\bSIGBUS\b",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"permission denied|not permitted|read-only file system|too many open files|cannot allocate memory"
    r"|resource temporarily unavailable|timeout|timed out|input/output error|not a directory|no such file",
    re.IGNORECASE,
)
_PATH = re.compile(r"\"[^\"]*/[^\"]*\"|(?<!\S)[^\s/:]*/(?!output error)[^\s:]*")
"""A path, whose folders have names such as `snap` and `wal`."""


def complaint(log: str, lines: int = 4) -> str:
    """The last failure that a component logged, else its last lines, without JSON and stacks."""
    kept = [_message(line) for line in log.splitlines() if line.strip() and not _STACK.match(line)]
    failures = [text for severe, text in kept if severe]
    if not failures:
        return "\n".join(text for _, text in kept[-lines:])
    last = failures[-1]
    if last.startswith(_PANIC) and len(failures) > 1 and failures[-2].startswith(last.removeprefix(_PANIC)):
        return failures[-2]
    return last


def names_damage(complaint: str) -> bool:
    """Whether the last failure of etcd is about the content of its files, and not about the access to them."""
    last = complaint[complaint.rfind("\n") + 1 :]
    words = _PATH.sub("", last)
    return bool(_DAMAGE.search(words)) and not _REFUSAL.search(words)


def _message(line: str) -> tuple[bool, str]:
    """Whether a line of a log is about a failure, and its text."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line.startswith((_PANIC, _FAULT)), line
    if not isinstance(entry, dict) or "msg" not in entry:
        return False, line
    return entry.get("level") in _SEVERE, ": ".join(str(entry[name]) for name in ("msg", *_FIELDS) if name in entry)
