"""Durations of a spec fall back on each other, and nonsense is named."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.unit.component.given import component

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component.errors import InvalidSpec
from stellwerk.operators.component.intervals import Intervals, spread


def minutes(requeue: float, retry: float, timeout: float, reapply: float = 60) -> Intervals:
    return Intervals(*(timedelta(minutes=one) for one in (requeue, retry, timeout, reapply)))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, minutes(10, 10, 10)),
        ({"requeueInterval": "3m"}, minutes(3, 3, 3)),
        ({"requeueInterval": "0s", "timeout": "0m"}, minutes(10, 10, 10)),
        ({"retryInterval": "1m", "timeout": "1h30m"}, minutes(10, 1, 90)),
        ({"requeueInterval": "1.5h", "reapplyInterval": "4h"}, minutes(90, 90, 90, 240)),
        ({"reapplyInterval": "0"}, minutes(10, 10, 10)),
    ],
)
def test_what_is_unset_or_zero_takes_the_requeue_interval(spec: JsonObject, expected: Intervals) -> None:
    assert Intervals.of(component(spec=spec).spec) == expected


@pytest.mark.req("R-407")
@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"reapplyInterval": "soon"}, r"spec\.reapplyInterval: 'soon' is not a duration"),
        ({"reapplyInterval": "-1h"}, r"spec\.reapplyInterval: '-1h' is negative"),
        ({"timeout": "99999999h"}, r"spec\.timeout: '99999999h' is longer than 292 years"),
    ],
)
def test_a_duration_without_meaning_is_named(spec: JsonObject, why: str) -> None:
    with pytest.raises(InvalidSpec, match=why):
        Intervals.of(component(spec=spec).spec)


def test_components_that_came_together_come_back_one_after_the_other() -> None:
    delays = [spread(timedelta(minutes=10), f"uid-{number}") for number in range(100)]
    assert all(606.0 <= delay <= 630.0 for delay in delays)
    assert max(delays) - min(delays) > 20.0
    assert delays[0] == spread(timedelta(minutes=10), "uid-0")
