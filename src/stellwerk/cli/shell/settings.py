"""The settings of one call: its cluster, namespace and form of output."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from stellwerk.cli.shell import closed_streams
from stellwerk.cli.shell.errors import ReaderLeft
from stellwerk.cli.shell.text import Style

if TYPE_CHECKING:
    from stellwerk.cli.shell.jsonpath import Node


FORMATS = ("table", "wide", "json", "yaml", "name", "jsonpath=TEMPLATE", "custom-columns=SPEC")
FORMATS_OF_SOME = ("short", "yamlstream")
"""What `clm` calls the short version, and one YAML document for each release."""


@dataclass(frozen=True, slots=True)
class Output:
    """The form in which a result is printed. `template` is set for `jsonpath`, `columns` for `custom-columns`."""

    form: str = "table"
    template: tuple[Node, ...] = ()
    columns: tuple[tuple[str, tuple[Node, ...]], ...] = ()
    """Titles, and where the cells below them come from."""

    @property
    def is_table(self) -> bool:
        """Whether people read it, not programs."""
        return self.form in ("table", "wide")


@dataclass(frozen=True, slots=True)
class CallSettings:
    """The options that all verbs share."""

    kubeconfig: Path | None = None
    context: str | None = None
    user: str | None = None
    groups: tuple[str, ...] = ()
    server: str | None = None
    token: str | None = field(default=None, repr=False)
    request_timeout: float | None = None
    namespace: str | None = None
    all_namespaces: bool = False
    output: Output = Output()
    no_colour: bool = False
    quiet: bool = False
    verbose: bool = False

    def style(self, stream: TextIO | None = None) -> Style:
        """What this stream (by default standard output) can show."""
        return style_of(stream or sys.stdout, no_colour=self.no_colour)


def of(context: click.Context) -> CallSettings:
    """The settings that were read so far in this context."""
    return context.obj if isinstance(context.obj, CallSettings) else CallSettings()


def current() -> CallSettings:
    """The settings of the call that is being carried out."""
    return of(click.get_current_context())


def style_of(stream: TextIO, *, no_colour: bool = False) -> Style:
    """Colours on a terminal only, unless NO_COLOR is set (no-color.org); symbols where the encoding is UTF-8.

    A dumb terminal gets neither.
    """
    encoding = (stream.encoding or "").lower().replace("-", "")
    colour = stream.isatty() and not no_colour and not os.environ.get("NO_COLOR")
    return Style(colour=colour and not is_dumb(), symbols=encoding == "utf8" and not is_dumb())


def is_terminal() -> bool:
    """Whether a person reads the standard output, and not a program or a file."""
    return sys.stdout.isatty()


def is_dumb() -> bool:
    """Whether the terminal can show plain lines only."""
    return os.environ.get("TERM") == "dumb"


def show(lines: Iterable[str]) -> None:
    """The result, or a part of it, to standard output at once. No lines are no result.

    Not by `click.echo`: on an ASCII terminal that writes UTF-8 all the same.
    """
    if text := "\n".join(lines):
        _write(text + "\n")


def show_exactly(text: str) -> None:
    """Print a result for programs: UTF-8 in every locale, and nothing added."""
    _write(text.encode())


def _write(text: str | bytes) -> None:
    try:
        if isinstance(text, bytes):
            sys.stdout.buffer.write(text)
        else:
            sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderLeft from None


def say(text: str) -> None:
    """Print a message that is not part of the result: to standard error, unless `-q`."""
    if not current().quiet:
        tell(text)


def tell(text: str) -> None:
    """Print to standard error; in silence where its reader has left."""
    try:
        print(text, file=sys.stderr, flush=True)
    except BrokenPipeError:
        closed_streams.abandon(sys.stderr)
