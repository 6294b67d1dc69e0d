"""Condition arithmetic (pure), by the rules of the Kubernetes API conventions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from stellwerk.kube.types.model import JsonObject, Unstructured, dig
from stellwerk.kube.types.object_meta import Condition, kubernetes_time

MESSAGE_LIMIT = 1024
"""Characters we let a message have: what an Event can carry, so that both are the same. The schema allows 32,768."""

READY = "Ready"
STALLED = "Stalled"
"""A user has to act: kstatus takes it for a failure."""
RECONCILING = "Reconciling"
"""The operator works, or waits for what may come by itself: kstatus takes it for progress."""
SUPERSEDED = "Superseded"
"""A failure that nothing waits for any more: history."""
CAUSES = (STALLED, RECONCILING)
"""The two conditions of kstatus. Each is there only while it is true, and never both."""

_ELLIPSIS = "..."
_NO_REASON = "Unknown"
"""The reason of a condition of another client that gives none: metav1.Condition requires one."""


def listed_in(body: JsonObject) -> tuple[Condition, ...]:
    """The conditions of an object's status; none where the object has none or has them in another shape."""
    try:
        return msgspec.convert(dig(body, "status", "conditions") or [], tuple[Condition, ...])
    except msgspec.ValidationError:
        return ()


def find(conditions: Iterable[Condition], condition_type: str) -> Condition | None:
    """The condition of a type, or None."""
    return next((condition for condition in conditions if condition.type == condition_type), None)


def is_true(conditions: Iterable[Condition], condition_type: str) -> bool:
    """Whether the condition is there and holds."""
    condition = find(conditions, condition_type)
    return condition is not None and condition.is_true


def shows_deletion(obj: Unstructured, ready: Condition) -> bool:
    """Whether the status of an object that is being deleted is about its deletion, which has raised the generation."""
    return obj.at("status", "state") == "Deleting" or ready.observed_generation >= obj.metadata.generation > 0


def set_condition(conditions: tuple[Condition, ...], new: Condition, now: datetime) -> tuple[Condition, ...]:
    """The conditions with `new` in the place of the one of its type, or at the end.

    `lastTransitionTime` is `now` when the status flips and stays otherwise, whatever `new` contains. Setting an equal
    condition returns an equal tuple, so an unchanged object is never written again. The others stay; what a schema
    requires of them and they lack is added, because one incomplete condition would have the whole status refused.
    """
    old = find(conditions, new.type)
    settled = msgspec.structs.replace(
        new, message=truncated(new.message), last_transition_time=_transition_time(old, new, now)
    )
    kept = [settled if condition is old else _complete(condition, now) for condition in conditions]
    return (*kept, settled) if old is None else tuple(kept)


def _complete(condition: Condition, now: datetime) -> Condition:
    if condition.reason and condition.last_transition_time is not None:
        return condition
    since = condition.last_transition_time or kubernetes_time(now)
    return msgspec.structs.replace(condition, reason=condition.reason or _NO_REASON, last_transition_time=since)


def with_cause(conditions: tuple[Condition, ...], cause: Condition | None, now: datetime) -> tuple[Condition, ...]:
    """The conditions with this one of kstatus' two and without the other; with neither where `cause` is None.

    Another reason is another cause. So `lastTransitionTime` shows how long the object has been as it is shown, which
    that of `Ready` does not: an object that is Ready through an upgrade and its failure has never changed that one.
    """
    old = find(conditions, cause.type) if cause is not None else None
    is_same = cause is not None and old is not None and (old.status, old.reason) == (cause.status, cause.reason)
    kept = tuple(each for each in conditions if each.type not in CAUSES or (is_same and each is old))
    return set_condition(kept, cause, now) if cause is not None else kept


def true_cause(conditions: Iterable[Condition]) -> Condition | None:
    """The one of kstatus' two conditions that is true, or None."""
    return next((each for each in conditions if each.type in CAUSES and each.is_true), None)


def without(conditions: tuple[Condition, ...], condition_type: str) -> tuple[Condition, ...]:
    """The conditions less the one of a type."""
    return tuple(condition for condition in conditions if condition.type != condition_type)


def truncated(message: str, limit: int = MESSAGE_LIMIT) -> str:
    """The message in at most `limit` characters; a cut one ends in an ellipsis."""
    if len(message) <= limit:
        return message
    return message[: limit - len(_ELLIPSIS)] + _ELLIPSIS


def first_of(things: Sequence[object], most: int = 5, separator: str = ", ") -> str:
    """The first few things, and how many more there are, for messages."""
    shown, rest = separator.join(map(str, things[:most])), len(things) - most
    joint = " " if separator == ", " else separator
    return f"{shown}{joint}and {rest} more" if rest > 0 else shown


def _transition_time(old: Condition | None, new: Condition, now: datetime) -> datetime:
    if old is not None and old.status == new.status and old.last_transition_time is not None:
        return old.last_transition_time
    return kubernetes_time(now)
