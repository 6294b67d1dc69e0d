"""`stellwerk explain`: the page of one reason, from the catalogues that the operators themselves write from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

import click

from stellwerk.cli import kinds, settings
from stellwerk.cli.errors import Exit, Failure
from stellwerk.cli.text import Style

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Meaning(Protocol):
    """What a catalogue says about a reason. `causes`, `check` and `fix` are a sentence or a command each."""

    @property
    def state(self) -> str: ...
    @property
    def message(self) -> str: ...
    @property
    def meaning(self) -> str: ...
    @property
    def turn(self) -> str: ...
    @property
    def causes(self) -> Sequence[str]: ...
    @property
    def check(self) -> Sequence[str]: ...
    @property
    def fix(self) -> Sequence[str]: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One reason of one kind."""

    kind: str
    reason: str
    meaning: Meaning


def complete_reason(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Reasons that begin so, whatever the case."""
    from click.shell_completion import CompletionItem

    return [
        CompletionItem(entry.reason, help=entry.kind)
        for entry in catalogue()
        if entry.reason.lower().startswith(incomplete.lower())
    ]


@click.command("explain")
@click.argument("reason", required=False, default="", shell_complete=complete_reason)
@settings.general
def command(reason: str) -> None:
    """Explain a reason: meaning, causes, how to check and fix.

    REASON is the word that a condition or an Event shows, such as MissingSecret; its case does not matter. Without it,
    all reasons are listed.
    """
    style = settings.current().style()
    entries = list(catalogue())
    if not reason:
        settings.show(overview(entries))
        return
    found = [entry for entry in entries if entry.reason.lower() == reason.lower()]
    if not found:
        raise _unknown(reason, entries)
    settings.show(["\n\n".join("\n".join(page(entry, style)) for entry in found)])


def catalogue() -> Iterator[Entry]:
    """All reasons of all our kinds."""
    for row in kinds.OWN:
        meanings: Mapping[str, Meaning] = import_module(f"stellwerk.operators.{row.operator}.reasons").MEANINGS
        for reason, meaning in meanings.items():
            yield Entry(row.resource.kind, str(reason), meaning)


def overview(entries: Sequence[Entry]) -> list[str]:
    """A line for each reason."""
    from stellwerk.cli import text

    rows = [[entry.kind, entry.reason, str(entry.meaning.state), entry.meaning.meaning] for entry in entries]
    columns = [text.Column(title) for title in ("KIND", "REASON", "STATE", "MEANING")]
    return text.table(columns, rows)


def page(entry: Entry, style: Style) -> list[str]:
    """All that is known about a reason."""
    meaning = entry.meaning
    lines = [f"{style.painted(entry.reason, 'strong')}  ({entry.kind}, state {meaning.state})", ""]
    lines += [meaning.meaning, meaning.turn]
    if meaning.message:
        lines += ["", f"Message: {meaning.message}"]
    for title, entries in (("Causes", meaning.causes), ("How to check", meaning.check), ("How to fix", meaning.fix)):
        if entries:
            lines += ["", f"{title}:", *(f"  - {one}" for one in entries)]
    return lines


def _unknown(reason: str, entries: Sequence[Entry]) -> Failure:
    from difflib import get_close_matches

    by_lower = {entry.reason.lower(): entry.reason for entry in entries}
    near = [by_lower[word] for word in get_close_matches(reason.lower(), by_lower, n=3, cutoff=0.5)]
    return Failure(
        f"there is no reason {reason!r}",
        cause=f"near to it: {', '.join(near)}" if near else "no operator of ours uses this word",
        fix="stellwerk explain lists all",
        code=Exit.USAGE,
    )
