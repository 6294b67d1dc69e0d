"""All that an operator author must learn: a reconciler, what it answers, and how it fails.

A reconciler is given one object as the cache holds it, brings the world one step closer to what the object asks for,
and answers with `Next`: which status to show and when to look again. It never writes its own status, never raises an
Event, never sleeps: the engine does these once, on the way out of the pass. What must be written down before the world
is touched is saved on the way, at a checkpoint (`runtime.control.status_checkpoint`). A failure that means something to
the user is raised as a `ReconcileError`, and the pass that raised it returns the status that reports it. Any other
exception is a bug of ours: it is counted, logged with its stack, and tried again with back-off.

Model: controller-runtime's Reconciler and Result. The difference is the status, which travels in the answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, Protocol, TypeVar

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata
from stellwerk.kube.types.object_meta import Record

T_contra = TypeVar("T_contra", bound=HasMetadata, contravariant=True)
S = TypeVar("S", bound=Record)


class Retry(Enum):
    """When a failed pass is worth another."""

    BACKOFF = "backoff"
    """Soon, then later and later: the system may mend itself."""

    WHEN_CHANGED = "when changed"
    """When a watched object changes: only a user can fix it. Still retried now and then."""


class Severity(Enum):
    """The type of an Event."""

    NORMAL = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class Notice:
    """An Event to send about the object: `reason` in CamelCase, `message` at most 1,024 characters.

    `annotations` go onto the Event, for programs that read it.
    """

    reason: str
    message: str
    severity: Severity = Severity.NORMAL
    action: str = "Reconcile"
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Next(Generic[S]):
    """What a pass answers.

    `status`: the new `.status` after this pass; None leaves it alone. An equal status is not written again.
    `delay_seconds`: when to look again without a change; None waits for a change.
    `notices`: Events beyond the one that the engine sends by itself when the status changes.
    `quiet`: the change of the status is not worth an Event.
    `severity`: the type of the Event that the engine sends when the status changes.
    """

    status: S | None = None
    delay_seconds: float | None = None
    notices: tuple[Notice, ...] = ()
    quiet: bool = False
    severity: Severity = Severity.NORMAL

    @classmethod
    def done(cls, status: S | None = None) -> Next[S]:
        """Nothing more to do until something changes."""
        return cls(status)

    @classmethod
    def after(cls, seconds: float, status: S | None = None) -> Next[S]:
        """Look again after this many seconds, or at the first change."""
        return cls(status, seconds)

    @classmethod
    def now(cls, status: S | None = None) -> Next[S]:
        """Look again at once: there is a further step that no watch will announce."""
        return cls(status, 0.0)

    def without_event(self) -> Next[S]:
        """The same answer without an Event about the status."""
        return replace(self, quiet=True)

    def with_events(self, *notices: Notice) -> Next[S]:
        """The same answer with further Events."""
        return replace(self, notices=(*self.notices, *notices))


class ReconcileError(Exception):
    """A failure that the user should read about. Raise a subclass that names its `reason` and its `retry`.

    `str(error)` is the message that the condition shows: it names the object, the cause and the next step, holds
    nothing secret, and is the same for the same failure, so that conditions do not flap.
    """

    reason: str = ""
    retry: Retry = Retry.BACKOFF
    event_reason: str = ""
    """Of the Event where the condition shows another reason; then each new message is worth an Event."""
    action: str = "Reconcile"
    """Of the Event."""
    notices: tuple[Notice, ...] = ()
    """Events about what the pass did before it failed."""
    retry_after_seconds: float | None = None
    """A delay that the reconciler chose itself, in the place of the queue's back-off."""


class Pass(Protocol[S]):
    """One pass over one object. What it learns on the way, such as a draft of the status, are its attributes."""

    async def run(self) -> Next[S]:
        """Bring the object one step closer to its spec. Raises ReconcileError for failures the user should read."""
        ...

    def report(self, failure: ReconcileError) -> S | None:
        """Return the status that reports this failure of the pass to the user; None leaves the status alone.

        `failure` is what `run` raised, or an `outcome.Unexpected` for an exception that is a bug, after `run` as well.
        """
        ...


class Reconciler(Protocol[T_contra, S]):
    """One kind's logic. One instance serves all objects of the kind; no two passes on one object overlap."""

    def begin(self, obj: T_contra) -> Pass[S]:
        """Return a new pass over the object. It does no work yet."""
        ...

    async def forget(self, key: ObjectKey) -> None:
        """The object is gone from the cluster: drop what is remembered about it."""
        ...


class SimpleReconciler(ABC, Generic[T_contra, S]):
    """A reconciler whose passes keep nothing: one method reconciles an object, another reports a failure."""

    @abstractmethod
    async def reconcile(self, obj: T_contra) -> Next[S]:
        """As `Pass.run`."""

    def report(self, obj: T_contra, failure: ReconcileError) -> S | None:
        """As `Pass.report`. This one leaves the status alone."""
        return None

    async def forget(self, key: ObjectKey) -> None:
        """As `Reconciler.forget`. Nothing is remembered here."""

    def begin(self, obj: T_contra) -> Pass[S]:
        """As `Reconciler.begin`."""
        return _SimplePass(self, obj)


@dataclass(frozen=True, slots=True)
class _SimplePass(Generic[T_contra, S]):
    reconciler: SimpleReconciler[T_contra, S]
    obj: T_contra

    async def run(self) -> Next[S]:
        return await self.reconciler.reconcile(self.obj)

    def report(self, failure: ReconcileError) -> S | None:
        return self.reconciler.report(self.obj, failure)
