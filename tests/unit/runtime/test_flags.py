"""A table of settings becomes options of a command line, and its answers become settings."""

from __future__ import annotations

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from stellwerk.runtime.settings import flags, parsers


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    workers: int = 5
    name: str = ""


def parsed(*arguments: str) -> Settings:
    """What the command line makes of arguments, among options that belong to others."""
    seen: list[Settings] = []
    command = click.Command(
        "x",
        params=[
            flags.option("workers", parsers.number(1, 10), help="How many.", default="5"),
            click.Option(["--other"], default="theirs"),
        ],
        callback=lambda **values: seen.append(flags.chosen(Settings, values)),
    )
    result = CliRunner().invoke(command, list(arguments))
    if result.exit_code:
        raise click.UsageError(result.output)
    return seen[0]


def test_what_nobody_says_stays_as_it_is() -> None:
    assert parsed() == Settings()
    assert parsed("--workers=7", "--other=x") == Settings(workers=7)


def test_a_bad_value_is_refused_under_the_name_of_its_flag() -> None:
    with pytest.raises(click.UsageError, match=r"(?s)--workers.*whole number from 1 to 10"):
        parsed("--workers=70")


def test_help_names_the_default_or_that_there_is_none() -> None:
    option = flags.option("workers", parsers.number(1, 10), help="How many.", default="5")
    assert option.help == "How many. [default: 5]"
    assert flags.option("name", parsers.name, help="Which.", default="").help == "Which. [default: none]"
