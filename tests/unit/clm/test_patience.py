"""What a run of a release puts up with, and for how long."""

from __future__ import annotations

import pytest

from stellwerk.apply.errors import Obstacle, WriteFailed, WriteFailure
from stellwerk.apply.set.plan.stage import Unready
from stellwerk.kube.types.errors import Conflict, Status
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.releases.errors import TooLate
from stellwerk.releases.retry_policy import RetryPolicy

KEY = ObjectKey("shop", "web")
REF = ObjectRef(GroupVersionKind("", "v1", "ConfigMap"), ObjectKey("shop", "one"))


def failure(obstacle: Obstacle = Obstacle.CHANGED) -> WriteFailure:
    return WriteFailure(REF, "apply", obstacle, "somebody was faster", "", Conflict(Status(message="x", code=409)))


def test_conflicts_are_told_and_tried_again_fifteen_times_in_a_row() -> None:
    patience = RetryPolicy(0)
    for number in range(1, 16):
        assert patience.judge([failure()]) == [
            f"Error: cannot apply ConfigMap shop/one: somebody was faster (retrying {number}/15)"
        ]
    with pytest.raises(WriteFailed):
        patience.judge([failure()])


def test_a_pass_without_conflicts_makes_them_count_anew() -> None:
    patience = RetryPolicy(0)
    for _ in range(15):
        patience.judge([failure()])
    assert patience.judge([]) == []
    assert patience.judge([failure()])[0].endswith("(retrying 1/15)")


@pytest.mark.parametrize("obstacle", [one for one in Obstacle if one is not Obstacle.CHANGED])
def test_every_other_failure_ends_the_run(obstacle: Obstacle) -> None:
    with pytest.raises(WriteFailed):
        RetryPolicy(0).judge([failure(), failure(obstacle)])


def test_waits_double_up_to_ten_seconds_and_begin_anew_after_a_write() -> None:
    patience = RetryPolicy(0)
    waits = [patience.wait(KEY, 0, (), wrote=False) for _ in range(16)]
    assert waits[:4] == [0.001, 0.002, 0.004, 0.008]
    assert waits[-1] == 10
    assert patience.wait(KEY, 1e9, (), wrote=True) == 0.001


def test_waits_end_with_the_time_that_is_left() -> None:
    patience = RetryPolicy(1)
    assert patience.wait(KEY, 0.9995, (), wrote=False) == pytest.approx(0.0005)
    with pytest.raises(TooLate, match="ConfigMap shop/one: is not ready"):
        patience.wait(KEY, 1, [Unready(REF, "is not ready")], wrote=False)
