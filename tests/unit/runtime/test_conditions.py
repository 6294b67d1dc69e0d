"""Conditions follow the API conventions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from stellwerk.kube.types.object_meta import Condition
from stellwerk.runtime import conditions

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def ready(status: str, reason: str = "Because", message: str = "") -> Condition:
    return Condition(type="Ready", status=status, reason=reason, message=message)


def test_a_new_condition_gets_the_time_of_its_arrival() -> None:
    (condition,) = conditions.set_condition((), ready("True"), NOON)
    assert condition.last_transition_time == NOON


def test_the_transition_time_stays_while_the_status_stays() -> None:
    before = conditions.set_condition((), ready("True", "Old"), NOON)
    (after,) = conditions.set_condition(before, ready("True", "New", "other words"), LATER)
    assert (after.reason, after.message, after.last_transition_time) == ("New", "other words", NOON)


def test_the_transition_time_moves_when_the_status_flips() -> None:
    before = conditions.set_condition((), ready("True"), NOON)
    (after,) = conditions.set_condition(before, ready("False"), LATER)
    assert after.last_transition_time == LATER


def test_setting_the_same_condition_again_changes_nothing() -> None:
    before = conditions.set_condition((), ready("True"), NOON)
    assert conditions.set_condition(before, ready("True"), LATER) == before


def test_other_conditions_keep_their_place() -> None:
    other = Condition(type="A", status="True", reason="Because", last_transition_time=NOON)
    others = (other, ready("False"), msgspec.structs.replace(other, type="Z"))
    after = conditions.set_condition(others, ready("True"), NOON)
    assert [condition.type for condition in after] == ["A", "Ready", "Z"]
    assert (after[0], after[2]) == (others[0], others[2])


def test_a_kept_condition_gets_what_its_schema_requires_once() -> None:
    before = (Condition(type="Other", status="True"), Condition(type="Old", status="True", last_transition_time=NOON))
    after = conditions.set_condition(before, ready("True"), LATER)
    assert [(each.reason, each.last_transition_time) for each in after] == [
        ("Unknown", LATER),
        ("Unknown", NOON),
        ("Because", LATER),
    ]
    assert conditions.set_condition(after, ready("True"), LATER + timedelta(hours=1)) == after


def test_an_empty_message_is_written() -> None:
    assert msgspec.to_builtins(ready("True"))["message"] == ""


def test_times_are_whole_seconds_as_kubernetes_keeps_them() -> None:
    (condition,) = conditions.set_condition((), ready("True"), NOON.replace(microsecond=123_456))
    assert condition.last_transition_time == NOON


def test_a_long_message_is_cut_and_says_so() -> None:
    (condition,) = conditions.set_condition((), ready("False", message="x" * 5_000), NOON)
    assert len(condition.message) == 1_024
    assert condition.message.endswith("x...")
    assert conditions.truncated("x" * 1_024) == "x" * 1_024


def test_a_condition_can_be_asked_for() -> None:
    held = (ready("True"), Condition(type="Stalled", status="False"))
    assert conditions.is_true(held, "Ready")
    assert not conditions.is_true(held, "Stalled")
    assert not conditions.is_true(held, "Absent")
    assert conditions.find(held, "Absent") is None
    assert conditions.without(held, "Ready") == held[1:]
