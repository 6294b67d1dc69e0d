"""The reference page of the command line."""

from __future__ import annotations

from pathlib import Path

from stellwerk.cli import reference, verb_tree

PAGE = Path(__file__).parents[3] / reference.PAGE


def test_the_page_is_what_the_program_says_of_itself() -> None:
    assert PAGE.read_text() == reference.page(), "make it anew: python -m stellwerk.cli.reference"


def test_every_verb_and_every_option_is_on_the_page() -> None:
    page = reference.page()
    for name, verb in verb_tree.VERBS.items():
        assert f"## stellwerk {name}" in page
        options = [option for parameter in verb.load(name).params for option in parameter.opts if option[0] == "-"]
        assert [option for option in options if f"`{option}" not in page] == []
