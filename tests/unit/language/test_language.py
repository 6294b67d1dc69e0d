"""The check of the word list finds what it is meant to find."""

from __future__ import annotations

import re

import pytest
from tests.language.check import Allowed, Word, files, of_text, over, words

WORDS = [Word(re.compile(r"\b(?:nobody)\b", re.IGNORECASE), "no client")]


def lines_of(path: str, text: str, allowed: tuple[Allowed, ...] = ()) -> list[int]:
    return [finding.line for finding in of_text(path, text, WORDS, allowed)]


def test_docstrings_comments_and_messages_of_python_are_checked() -> None:
    text = '"""A page.\n\nNobody reads it."""\n# nobody\nnobody = f"{1}: nobody"\nkey = "nobody"\n'
    assert sorted(lines_of("a.py", text)) == [3, 4, 5]


def test_markdown_is_checked_but_for_its_code() -> None:
    assert lines_of("a.md", "Nobody\n```\nnobody\n```\n`nobody` is a user\nnobody\n") == [1, 6]


def test_comments_of_go_are_checked() -> None:
    assert lines_of("a.go", "// Nobody\nnobody := 1 //nobody\n") == [1, 2]


@pytest.mark.parametrize(("where", "found"), [("", []), ("a", []), ("b", [2])])
def test_a_phrase_is_allowed_where_its_exception_says(where: str, found: list[int]) -> None:
    assert lines_of("a.py", '"""The user\nnobody."""\n', (Allowed("user nobody", where),)) == found


def test_a_pending_place_may_have_no_more_findings_and_its_bound_follows_the_fewer() -> None:
    found = list(of_text("src/a.md", "nobody\nnobody\n", WORDS, ()))
    assert over(found, {"src/": 2}) == []
    assert over(found, {"src/": 3}) == [
        "src/: 2 avoided words; set its number in tests/language/pending.toml to 2",
    ]
    assert over(found, {"src/": 1})[-1] == "src/: 2 avoided words, where pending.toml allows 1"
    assert over(found, {}) == ['src/a.md:1: "nobody": write: no client', 'src/a.md:2: "nobody": write: no client']


def test_the_check_reads_the_texts_of_the_project() -> None:
    """What it finds in them is told by `make check`, in 15 seconds of a processor."""
    assert len(files()) > 400
    assert words()
