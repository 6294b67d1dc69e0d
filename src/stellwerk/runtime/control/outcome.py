"""What a pass can come to, and what can follow from it: the words of the controller's one `match`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from stellwerk.kube.nested import Foreign
from stellwerk.kube.types.errors import ApiError, Conflict, NotFound
from stellwerk.kube.types.object_meta import Record
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity
from stellwerk.runtime.supervision.tasks import ProcessEnds
from stellwerk.runtime.telemetry.metrics import Result

S = TypeVar("S", bound=Record)


class LeadershipLost(ProcessEnds):
    """Another process may lead: nothing may be written any more, and this process must end."""


@dataclass(frozen=True, slots=True)
class Answered(Generic[S]):
    """The reconciler answered."""

    next: Next[S]


@dataclass(frozen=True, slots=True)
class UserError:
    """The reconciler reports a failure to the user."""

    failure: ReconcileError


@dataclass(frozen=True, slots=True)
class Conflicted:
    """The cluster had changed already: Conflict or NotFound. No failure; look again at once."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class ApiFailure:
    """An API server did not do its part, and the reconciler did not handle it."""

    error: ApiError


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug of ours: an unexpected exception, or a pass that took longer than it may."""

    error: Exception


Outcome: TypeAlias = Answered[S] | UserError | Conflicted | ApiFailure | Bug


class PassTimedOut(Exception):
    """A pass took longer than it may, and was cancelled."""


class Unexpected(ReconcileError):
    """A pass ended by an exception that the reconciler does not expect; `str()` names its class and no content of it.

    The message of the exception stays in the log: it may quote anything.
    """

    reason = "UnexpectedError"

    def __init__(self, error: Exception) -> None:
        unexpected = error.__cause__ if isinstance(error, Foreign) else error
        cause = str(error) if isinstance(error, PassTimedOut) else f"unexpected {type(unexpected).__name__}"
        super().__init__(
            f"the operator could not finish its work on this object: {cause}. It tries again later and later; "
            "the operator's log has the details"
        )


@dataclass(frozen=True, slots=True)
class After:
    """Look again after so many seconds; at a change in any case."""

    seconds: float


@dataclass(frozen=True, slots=True)
class BackedOff:
    """Look again after the key's next delay."""

    at_least_seconds: float = 0.0
    at_most_seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class Verdict(Generic[S]):
    """What follows from an outcome. `again` None: look again only at a change."""

    result: Result
    again: After | BackedOff | None = None
    status: S | None = None
    severity: Severity = Severity.NORMAL
    notices: tuple[Notice, ...] = ()
    quiet: bool = False
    failure: ReconcileError | None = None
    """What the status reports."""


def outcome_of(error: Exception) -> UserError | Conflicted | ApiFailure | Bug:
    """What a reconciler's exception means; LeadershipLost has passed before."""
    while isinstance(error, ExceptionGroup):
        if len(error.exceptions) > 1:
            return Bug(error)
        error = error.exceptions[0]
    match error:
        case ReconcileError():
            return UserError(error)
        case Conflict() | NotFound():
            return Conflicted(error)
        case ApiError():
            return ApiFailure(error)
        case _:
            return Bug(error)


def unreported(error: Exception) -> Conflicted | ApiFailure | Bug:
    """What a failed report means: a `report` that raises is a bug, whatever it raises."""
    outcome = outcome_of(error)
    return Bug(outcome.failure) if isinstance(outcome, UserError) else outcome
