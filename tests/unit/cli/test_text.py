"""Text for a terminal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.cli.shell import text
from stellwerk.cli.shell.text import Style, TableColumn

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (3599, "59m"), (3600, "1h"), (172_799, "47h"), (172_800, "2d"), (70e6, "2y")],
)
def test_an_age_is_told_in_its_largest_unit(seconds: float, shown: str) -> None:
    assert text.age(NOW - timedelta(seconds=seconds), NOW) == shown


def test_an_age_in_the_future_is_zero_because_clocks_differ() -> None:
    assert text.age(NOW + timedelta(seconds=5), NOW) == "0s"


def test_an_unknown_age_is_a_dash() -> None:
    assert text.age(None, NOW) == "-"


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain", "plain"),
        ("Größe ✔ 値", "Größe ✔ 値"),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("admin\u202egnp.exe", "admin\\u202egnp.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("\x00\x7f", "\\x00\\x7f"),
    ],
)
def test_what_could_steer_a_terminal_is_shown_and_not_obeyed(written: str, shown: str) -> None:
    assert text.escaped(written) == shown


def test_a_table_pads_each_column_to_its_longest_cell() -> None:
    lines = text.table([TableColumn("NAME"), TableColumn("AGE")], [["a-long-name", "1s"], ["b", "2s"]])
    assert lines == ["NAME         AGE", "a-long-name  1s", "b            2s"]


def test_an_empty_cell_is_a_dash() -> None:
    assert text.table([TableColumn("A"), TableColumn("B")], [["", "x"]])[1] == "-  x"


def test_a_cell_longer_than_its_column_allows_is_cut_with_dots() -> None:
    assert text.table([TableColumn("REASON", most=10)], [["ABCDEFGHIJKLM"]])[1] == "ABCDEFG..."


def test_a_cell_with_an_escape_sequence_does_not_break_the_columns() -> None:
    lines = text.table([TableColumn("NAME"), TableColumn("AGE")], [["\x1b[31m", "1s"], ["plain", "2s"]])
    assert lines == ["NAME      AGE", "\\x1b[31m  1s", "plain     2s"]


def test_a_later_row_that_is_wider_than_the_settled_layout_keeps_a_gap() -> None:
    settled = text.layout([TableColumn("A"), TableColumn("B")], [["x", "y"]])
    assert settled.line(["much-longer", "y"]) == "much-longer y"


def test_colour_is_around_the_word_and_not_the_padding() -> None:
    settled = text.layout([TableColumn("A"), TableColumn("B")], [["bad", "y"]])
    assert settled.line(["bad", "y"], {0: "bad"}, Style(colour=True)) == "\x1b[31mbad\x1b[0m  y"


def test_without_colour_nothing_is_painted() -> None:
    assert Style(colour=False).painted("bad", "bad") == "bad"


def test_symbols_have_ascii_forms() -> None:
    assert Style(symbols=False).drawn("✔✗◌⏸ ├─│└─") == "+xo= |-|`-"
    assert Style(symbols=True).drawn("✔") == "✔"
