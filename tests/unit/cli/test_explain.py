"""The page of a reason."""

from __future__ import annotations

import pytest

from stellwerk.cli import explain
from stellwerk.cli.main import run
from stellwerk.cli.text import Style
from stellwerk.operators.btp.reasons import MEANINGS


def test_every_reason_has_a_page_with_its_meaning() -> None:
    pages = {entry.reason: explain.page(entry, Style()) for entry in explain.catalogue()}
    assert set(pages) == {str(reason) for reason in MEANINGS}
    for reason, meaning in MEANINGS.items():
        assert meaning.meaning in pages[reason]
        assert all(f"  - {fix}" in pages[reason] for fix in meaning.fix)


@pytest.mark.parametrize("word", ["MissingSecret", "missingsecret", "MISSINGSECRET"])
def test_a_reason_is_found_whatever_its_case(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", word]) == 0
    assert capsys.readouterr().out.startswith("MissingSecret  (BtpOperator, state Warning)")


def test_without_a_reason_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + len(MEANINGS)


def test_an_unknown_reason_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "MisingSecret"]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[0] == "Error:   there is no reason 'MisingSecret'"
    assert "MissingSecret" in shown[1]
