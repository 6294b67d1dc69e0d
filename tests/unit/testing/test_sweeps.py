"""What one day leaves out of a sweep, the next days try."""

from __future__ import annotations

import pytest

from stellwerk.testing import sweeps


@pytest.mark.skipif(sweeps.IS_WHOLE, reason="a whole sweep has no parts")
def test_the_parts_of_as_many_days_are_the_whole_and_have_nothing_in_common(monkeypatch: pytest.MonkeyPatch) -> None:
    things = [*"abcdefgh"]
    parts = []
    for day in ("740000", "740001", "740002"):
        monkeypatch.setenv("STELLWERK_SWEEP_TURN", day)
        parts.append(sweeps.part(things, 3))
    assert sorted(thing for part in parts for thing in part) == things


def test_a_session_has_one_turn_though_it_runs_over_midnight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STELLWERK_SWEEP_TURN", "")
    kept = sweeps.keep_turn()
    assert kept == f"STELLWERK_SWEEP_TURN={sweeps.turn()}"
    assert kept == sweeps.keep_turn()
