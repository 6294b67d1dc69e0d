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
_STACK = re.compile(r"goroutine \d+ |\t|created by |[\w./*()\[\]-]+\(.*\)$")
_DAMAGE = re.compile(
    r"invalid database|failed to open database|\bcrc\b|checksum|\bproto: |unexpected EOF|\bwal\b|\bsnap(shot)?\b"
    r"|\bbackend\b|cannot use none as id|\bcorrupt|version mismatch|file size too small",
    re.IGNORECASE,
)
_REFUSAL = re.compile(
    r"permission denied|not permitted|read-only file system|too many open files|cannot allocate memory"
    r"|resource temporarily unavailable|timeout|timed out",
    re.IGNORECASE,
)


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
    return bool(_DAMAGE.search(last)) and not _REFUSAL.search(last)


def _message(line: str) -> tuple[bool, str]:
    """Whether a line of a log is about a failure, and its text."""
    try:
        entry = json.loads(line)
    except ValueError:
        return line.startswith(_PANIC), line
    if not isinstance(entry, dict) or "msg" not in entry:
        return False, line
    return entry.get("level") in _SEVERE, ": ".join(str(entry[name]) for name in ("msg", *_FIELDS) if name in entry)
