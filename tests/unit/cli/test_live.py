"""Progress while a verb waits."""

from __future__ import annotations

import io

import pytest

from stellwerk.cli.shell import progress_line
from stellwerk.cli.shell.progress_line import Spinner
from stellwerk.cli.shell.settings import CallSettings, style_of
from stellwerk.cli.shell.text import Style


async def test_a_log_gets_a_line_for_each_thing_that_is_new(capsys: pytest.CaptureFixture[str]) -> None:
    async with progress_line.line(CallSettings()) as say:
        for words in ("Pending", "Pending", "Processing"):
            say(words)
    assert capsys.readouterr().err == "  Pending\n  Processing\n"


async def test_a_quiet_call_gets_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    async with progress_line.line(CallSettings(quiet=True)) as say:
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


class Terminal(io.StringIO):
    """A terminal that takes UTF-8."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def test_a_dumb_terminal_gets_plain_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert style_of(Terminal()) == Style(colour=True, symbols=True)
    monkeypatch.setenv("TERM", "dumb")
    assert style_of(Terminal()) == Style(colour=False, symbols=False)


async def test_a_dumb_terminal_gets_lines_and_nothing_that_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "dumb")
    async with progress_line.line(CallSettings()) as say:
        say("Pending")
    assert terminal.getvalue() == "  Pending\n"


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "cp1252"])
def test_a_locale_without_utf_8_gets_plain_text(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert style_of(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) == Style(colour=False, symbols=False)
