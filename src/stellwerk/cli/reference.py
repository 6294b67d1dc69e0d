"""The reference page of the command line, made from the verbs themselves: `python -m stellwerk.cli.reference`.

A test compares the page with what this makes, so that it cannot go stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from inspect import cleandoc
from pathlib import Path

import click

from stellwerk.cli import verb_tree
from stellwerk.cli.arguments import options
from stellwerk.cli.shell.errors import Exit

PAGE = Path("docs/reference/cli.md")

_EXITS = {
    Exit.DONE: "done",
    Exit.FAILED: "failed, or what was asked about is not ready",
    Exit.USAGE: "wrong usage",
    Exit.DIFFERENT: "`diff` found differences, or `check` has warnings",
    Exit.TIMEOUT: "it took too long",
    Exit.FORBIDDEN: "not permitted",
    Exit.INTERRUPTED: "interrupted",
}


def page() -> str:
    """The whole page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# The command line"
    yield ""
    yield "For everybody who uses `stellwerk` in a terminal or a script. Ten minutes; look up what you need."
    yield ""
    yield "Results go to standard output, everything else to standard error. This page is made from the program."
    yield from _shared()
    yield from _exits()
    for name, verb in verb_tree.VERBS.items():
        yield from _verb(name, verb.load(name))


def _shared() -> Iterator[str]:
    yield from ("", "## Shared options", "")
    yield "Verbs that look into a cluster take them all, before or after the verb. The others take the last three."
    yield ""
    yield from _options(reversed(_with_shared_options().params))


def _exits() -> Iterator[str]:
    yield from ("", "## Exit codes", "", "| code | meaning |", "| --- | --- |")
    yield from (f"| {code:d} | {meaning} |" for code, meaning in _EXITS.items())


def _verb(name: str, command: click.Command) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=click.Context(verb_tree.command, info_name="stellwerk"))
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("", f"## stellwerk {name}", "", f"`stellwerk {name} {usage}`", "")
    yield cleandoc(command.help or "")
    shared = {parameter.name for parameter in _with_shared_options().params}
    own = [parameter for parameter in command.params if parameter.name not in shared]
    rows = list(_options(own))
    if len(rows) > _HEADER_LINES:
        yield from ("", *rows)
    if isinstance(command, click.Group) and name != "run":  # its flags have pages of their own
        for inner, below in command.commands.items():
            yield from _verb(f"{name} {inner}", below)


_HEADER_LINES = 2


def _options(parameters: Iterable[click.Parameter]) -> Iterator[str]:
    yield from ("| option | meaning |", "| --- | --- |")
    for parameter in parameters:
        if isinstance(parameter, click.Option):
            yield f"| {_spelling(parameter)} | {_meaning(parameter)} |"


def _spelling(option: click.Option) -> str:
    value = "" if option.is_flag else f" {option.metavar or option.type.name.upper()}"
    return ", ".join(f"`{name}{value}`" for name in [*option.opts, *option.secondary_opts])


def _meaning(option: click.Option) -> str:
    default = f" Default: `{option.default}`." if option.show_default and not option.is_flag else ""
    return (option.help or "").replace("|", "\\|") + default


def _with_shared_options() -> click.Command:
    return options.all_of(click.Command("shared"))


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page())
