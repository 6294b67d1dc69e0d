"""The command line of the Component operator, and the reference page of all that can be set."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from stellwerk.operators.component.settings import (
    FLAGS,
    NO_CROSS_NAMESPACE_REFS,
    NO_CROSS_NAMESPACE_REFS_HELP,
    Settings,
)
from stellwerk.runtime.settings import flags, process_flags
from stellwerk.runtime.settings.flags import code

_REVERSE = NO_CROSS_NAMESPACE_REFS.removeprefix("no-")


def options() -> list[click.Option]:
    """One click option for each flag of the operator; those of the process are `process_flags.options`."""
    valued = [flags.option(flag.name, flag.read, help=flag.help, default=flag.default()) for flag in FLAGS]
    switch = click.Option(
        [f"--{NO_CROSS_NAMESPACE_REFS}/--{_REVERSE}"], default=False, help=NO_CROSS_NAMESPACE_REFS_HELP
    )
    return [*valued, switch]


def from_flags(values: Mapping[str, object]) -> Settings:
    """The settings that click's parameters ask for; a parameter that is None or not ours is left out."""
    return flags.chosen(Settings, values)


def normalised_arguments(arguments: Sequence[str]) -> list[str]:
    """Arguments of the original operator's command line, `-events-address=x` and `--leader-elect=false`, for click."""
    found = process_flags.normalised(
        arguments, names={flag.name for flag in FLAGS}, switches={NO_CROSS_NAMESPACE_REFS, _REVERSE}
    )
    return [f"--{_REVERSE}" if argument == f"--no-{NO_CROSS_NAMESPACE_REFS}" else argument for argument in found]


def page() -> str:
    """The reference page, as Markdown."""
    rows = [f"| `--{flag.name}` | {code(flag.default())} | {flag.help} |" for flag in FLAGS]
    switch = f"| `--{NO_CROSS_NAMESPACE_REFS}` | `false` | {NO_CROSS_NAMESPACE_REFS_HELP} |"
    return "\n".join([_HEAD, *rows, switch, process_flags.page()])


_HEAD = """# Settings of the Component operator

All of them are flags of `stellwerk run component`. Durations are written as in Go: `90s`, `5m`, `1h30m`. Lists are
separated by commas. What Components set themselves is described in their CustomResourceDefinition
(`kubectl explain component.spec`).

| flag | default | meaning |
| --- | --- | --- |"""
