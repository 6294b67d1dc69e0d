"""How long and how often, from the durations of a spec (pure)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import timedelta

from stellwerk.kube.types import duration
from stellwerk.operators.component.api_spec import ComponentSpec
from stellwerk.operators.component.errors import InvalidSpec

REQUEUE = timedelta(minutes=10)
REAPPLY = timedelta(minutes=60)

_SHORTEST_SPREAD, _LONGEST_SPREAD = 0.01, 0.05
"""The part of a delay that is added to it, so that Components that came together do not come back together."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """The durations in force. A spec's zero counts as unset."""

    requeue: timedelta = REQUEUE
    """How often a ready Component is looked at without a change."""
    retry: timedelta = REQUEUE
    """How soon it is tried again when something is not there yet."""
    timeout: timedelta = REQUEUE
    """How long objects may take to become ready."""
    reapply: timedelta = REAPPLY
    """How often unchanged objects are applied again."""

    @classmethod
    def of(cls, spec: ComponentSpec) -> Intervals:
        """The intervals of a spec. Raises `InvalidSpec`: the schema checks three of them by a pattern, and one not."""
        requeue = _read("requeueInterval", spec.requeue_interval) or REQUEUE
        return cls(
            requeue=requeue,
            retry=_read("retryInterval", spec.retry_interval) or requeue,
            timeout=_read("timeout", spec.timeout) or requeue,
            reapply=_read("reapplyInterval", spec.reapply_interval) or REAPPLY,
        )


def spread(delay: timedelta, uid: str) -> float:
    """A delay in seconds, longer by 1 to 5 %: always by the same part for a Component, by another for its neighbours.

    Not random, because the caller would have to provide the randomness, without a benefit.
    """
    share = zlib.crc32(uid.encode()) / 2**32
    return delay.total_seconds() * (1.0 + _SHORTEST_SPREAD + share * (_LONGEST_SPREAD - _SHORTEST_SPREAD))


def _read(field: str, text: str) -> timedelta:
    try:
        found = duration.parse(text) if text else timedelta()
    except duration.NotADuration as error:
        raise InvalidSpec(field, str(error)) from None
    if found < timedelta():
        raise InvalidSpec(field, f"{text!r} is negative; expected a duration such as 90s, 5m or 1h30m")
    return found
