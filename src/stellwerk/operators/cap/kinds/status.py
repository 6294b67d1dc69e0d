"""What the kinds of the CAP Operator share: their group, the fields of every status, and the printer columns."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, TypeVar

import msgspec

from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Kind, Unreadable
from stellwerk.kube.types.object_meta import Condition, Record, rfc3339
from stellwerk.runtime import conditions

GROUP = "sme.sap.com"
API_VERSION = "v1alpha1"
READY = conditions.READY
"""The type of the condition that every kind with a status has."""
SUPERSEDED = conditions.SUPERSEDED
"""The type of the condition of a failure that nothing waits for any more. It is absent if there is none."""
UNREADABLE = "ObjectUnreadable"
"""The reason of the condition Stalled of an object that cannot be read."""


GRANT_SECRETS = "Grant the right with: stellwerk install cap"
"""What helps where the operator may not read Secrets."""


def see_why(short_name: str, key: ObjectKey) -> str:
    """The next step of a message that names an object which cannot be read; `short_name` is that of its kind."""
    place = f" -n {key.namespace}" if key.namespace else ""
    return f"next: stellwerk why {short_name}/{key.name}{place}"


class ReconciledStatus(Record, frozen=True, kw_only=True):
    """The fields that every status has besides its state."""

    observed_generation: Annotated[int, documented("The metadata.generation that was last looked at.")] = 0
    conditions: Annotated[tuple[Condition, ...], documented("Observations; Ready comes first.")] = ()
    last_handled_reconcile_at: Annotated[
        str,
        documented(
            "The value of the annotation reconcile.fluxcd.io/requestedAt that was last acted on.",
            example="2026-01-31T09:30:00Z",
        ),
    ] = ""


S = TypeVar("S", bound=ReconciledStatus)


class TimedStatus(ReconciledStatus, frozen=True, kw_only=True):
    """A status that also shows when the object has last become what it has to be."""

    last_full_reconciliation_time: Annotated[
        datetime | None, documented("When the object last became complete.", example="2026-01-31T09:30:00Z")
    ] = None


HandledRetry = Annotated[
    str,
    documented("The value of the annotation sme.sap.com/retry that was last acted on.", example="2026-01-31T09:30:00Z"),
]


class RetryProgress(Record, frozen=True, kw_only=True):
    """A failed Job that runs again."""

    attempts: Annotated[
        int, documented("How often the Job was started, this time included.", format="int32", example="2")
    ]
    job: Annotated[str, documented("The uid of the failed Job; empty where it was gone already.")] = ""
    next_attempt_time: Annotated[
        datetime | None, documented("Not before this moment.", otherwise="at once", example="2026-01-31T09:30:00Z")
    ] = None


def condition(obj: Kind, holds: bool, reason: str, message: str, *, type: str = READY) -> Condition:
    """A condition of an object, about its spec as it is now."""
    return Condition(
        type=type,
        status="True" if holds else "False",
        reason=reason,
        message=message,
        observed_generation=obj.metadata.generation,
    )


def observed(obj: Kind, status: S, now: datetime, *changed: Condition) -> S:
    """The status with these conditions, as one of the object as it is now."""
    settled = status.conditions
    for each in changed:
        settled = conditions.set_condition(settled, each, now)
    return msgspec.structs.replace(status, observed_generation=obj.metadata.generation, conditions=settled)


def unreadable(obj: Unreadable) -> JsonObject:
    """The fields of the status that report an object that cannot be decoded. Equal for an equal cause.

    The state is for an object that has none. State and Ready stay as they are: they show what became of the object, and
    others act on them. A completed operation that lost its Ready would run its Jobs again.
    """
    return {"state": "", "conditions": [unreadable_condition(obj, conditions.STALLED, "True", UNREADABLE)]}


def unreadable_condition(obj: Unreadable, type: str, status: str, reason: str) -> JsonObject:
    """The condition of an object that cannot be decoded.

    When it became unreadable is not known, so the time of its creation is given.
    """
    since = obj.metadata.creation_timestamp or datetime.fromtimestamp(0, UTC)
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": f"object cannot be read: {obj.why}; {obj.fix}",
        "lastTransitionTime": rfc3339(since),
        "observedGeneration": obj.metadata.generation,
    }
