"""What can go wrong with a set of objects.

    ApplyError               the tree's root; `str()` is a sentence for people
    ├── UnreadableManifest   text that is not a Kubernetes manifest; knows file, document and line
    ├── InvalidSet           objects that must not be sent; lists every problem, before the first write
    ├── UnreadableStatus     a live object whose status breaks the API conventions
    └── WriteFailed          the API server did not take some objects; lists every failure of the wave

A `Problem` or `WriteFailure` is about one object. The operator decides what it means for a custom resource (reason,
retry); it states only what happened, why, and who can correct it. No text has a value of an object in it: values may
be secret, names and paths are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectRef

_SHOWN = 5
"""How many problems one message lists. Conditions hold 1,024 characters and people read fewer."""


class ApplyError(Exception):
    """Anything that went wrong with a set of objects."""


class UnreadableManifest(ApplyError):
    """A text is not a Kubernetes manifest."""

    def __init__(self, why: str, *, file: str = "", document: int = 0, line: int = 0) -> None:
        self.why = why
        self.file = file
        self.document = document
        """Counted from 1; 0 where the text has none."""
        self.line = line
        """Counted from 1 in the file; 0 where unknown."""
        super().__init__(f"{_place(file, document, line)}: {why}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why one object must not be sent."""

    what: str
    """The object as far as it is known, or where it was found."""
    why: str
    unserved: GroupVersionKind | None = None
    """Its kind, where the API server does not serve it."""

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class InvalidSet(ApplyError):
    """Objects that must not be sent. Nothing was written."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__(_listed([str(problem) for problem in self.problems]))


class UnreadableStatus(ApplyError):
    """A live object's status breaks the API conventions, so that its readiness is unknown."""


class Obstacle(Enum):
    """What stood in the way of a write. The value is the word for metrics and logs."""

    NAMESPACE_TERMINATING = "NamespaceTerminating"
    NAMESPACE_MISSING = "NamespaceMissing"
    QUOTA_EXCEEDED = "QuotaExceeded"
    WEBHOOK_REFUSED = "WebhookRefused"
    WEBHOOK_DOWN = "WebhookDown"
    FORBIDDEN = "Forbidden"
    KIND_NOT_SERVED = "KindNotServed"
    INVALID = "Invalid"
    CHANGED = "Changed"
    """Another client was faster, or the object is no longer the one we saw. The next pass sees the new one."""
    OWNED = "Owned"
    """It belongs to another owner, and may not be taken over."""
    OUTAGE = "Outage"
    """No answer, or the server's own fault; a later pass may succeed unchanged."""
    UNREADABLE = "Unreadable"
    """Its status breaks the API conventions, so that its readiness is unknown."""
    REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class WriteFailure:
    """One object that could not be written."""

    ref: ObjectRef
    verb: str
    """What was tried: apply, reclaim, delete, or read the status of."""
    obstacle: Obstacle
    cause: str
    """A clause without values of the object, stable from try to try."""
    fix: str
    """What a person can do about it; empty where only time helps."""
    error: ApiError = field(repr=False)
    """What the client raised. Its words are the server's, which quotes values: not for showing."""

    def __str__(self) -> str:
        return f"cannot {self.verb} {self.ref}: {self.cause}" + (f" ({self.fix})" if self.fix else "")


class WriteFailed(ApplyError):
    """The API server did not take some objects of a wave. Later waves were not tried."""

    def __init__(self, failures: Sequence[WriteFailure]) -> None:
        self.failures = tuple(failures)
        super().__init__(_listed([str(failure) for failure in self.failures]))


def _place(file: str, document: int, line: int) -> str:
    parts = (file or "manifest", f"document {document}" if document else "", f"line {line}" if line else "")
    return ", ".join(filter(None, parts))


def _listed(sentences: Sequence[str]) -> str:
    shown = "; ".join(sentences[:_SHOWN])
    rest = len(sentences) - _SHOWN
    return f"{shown}; and {rest} more" if rest > 0 else shown
