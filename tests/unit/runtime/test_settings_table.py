"""A table of settings becomes options of a command line, keys of a ConfigMap and a page; the values become settings."""

from __future__ import annotations

from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import Setting, SettingsTable, from_go


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    workers: int = 5
    name: str = ""
    no_shortcuts: bool = False


TABLE = SettingsTable(
    Settings(),
    (
        Setting(field="workers", key="Workers", read=parsers.number(1, 10), help="How many."),
        Setting(field="name", key="Name", read=parsers.name, help="Which.", has_flag=False),
        Setting(field="no_shortcuts", read=bool, help="Refuse shortcuts.", is_switch=True),
    ),
)


def parsed(*arguments: str) -> Settings:
    """The settings of Go-style arguments, among options that belong to another table."""
    seen: list[Settings] = []
    command = click.Command(
        "x",
        params=[*TABLE.options(), click.Option(["--other"], default="theirs")],
        callback=lambda **values: seen.append(TABLE.from_flags(values)),
    )
    result = CliRunner().invoke(command, from_go(arguments, [TABLE]))
    if result.exit_code:
        raise click.UsageError(result.output)
    return seen[0]


def test_a_setting_without_a_flag_keeps_its_default() -> None:
    assert parsed() == Settings()
    assert parsed("--workers=7", "--other=x") == Settings(workers=7)


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--no-shortcuts", True),
        ("-no-shortcuts=true", True),
        ("-no-shortcuts=false", False),
        ("--shortcuts", False),
        ("-shortcuts=false", True),
    ],
)
def test_a_switch_has_a_negation_without_its_no(argument: str, expected: bool) -> None:
    assert parsed(argument).no_shortcuts is expected


def test_a_bad_value_is_refused_under_the_name_of_its_flag() -> None:
    with pytest.raises(click.UsageError, match=r"(?s)--workers.*whole number from 1 to 10"):
        parsed("--workers=70")


def test_a_setting_without_a_flag_cannot_be_set_by_one() -> None:
    with pytest.raises(click.UsageError, match=r"--name"):
        parsed("--name=x")
    assert TABLE.from_flags({"name": "x"}) == Settings()


def test_help_names_the_default_or_that_there_is_none() -> None:
    workers, switch = TABLE.options()
    assert workers.help == "How many. [default: 5]"
    assert switch.help == "Refuse shortcuts. [default: false]"


def test_the_page_has_a_column_for_keys_only_where_a_config_map_sets_any() -> None:
    assert TABLE.page()[:3] == [
        "| key | flag | default | meaning |",
        "| --- | --- | --- | --- |",
        "| `Workers` | `--workers` | `5` | How many. |",
    ]
    assert SettingsTable(Settings(), (TABLE.rows[2],)).page()[0] == "| flag | default | meaning |"


def test_a_config_map_sets_only_settings_with_a_key() -> None:
    effective = TABLE.overridden(Settings(), Settings(), {"Workers": "9", "no_shortcuts": "true"})
    assert effective.settings == Settings(workers=9)
    assert [rejection.key for rejection in effective.rejections] == ["no_shortcuts"]
