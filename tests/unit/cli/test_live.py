"""Progress while a verb waits."""

from __future__ import annotations

import io

import pytest

from stellwerk.cli import live
from stellwerk.cli.live import Spinner
from stellwerk.cli.settings import Settings
from stellwerk.cli.text import Style


async def test_a_log_gets_a_line_for_each_thing_that_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    async with live.line(Settings()) as say:
        for words in ("Pending", "Pending", "Processing"):
            say(words)
    assert capsys.readouterr().err == "  Pending\n  Processing\n"


async def test_a_quiet_call_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    async with live.line(Settings(quiet=True)) as say:
        say("Pending")
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_one_line_that_fits_and_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = io.StringIO()
    spinner = Spinner(stream, Style(symbols=False))
    spinner.say("Processing: waits for many objects")
    assert stream.getvalue() == "\r\x1b[K| 0s  Processing..."
    spinner.erase()
    assert stream.getvalue().endswith("\r\x1b[K")
