"""What a person chose for one call: which cluster, which namespace, which form of output.

Every verb takes these options, before or after its name, and the later one wins. They travel in click's context as one
frozen value, so a verb's own signature holds only what is its own.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, TypeVar

import click

from stellwerk.cli.errors import ReaderLeft
from stellwerk.cli.text import Style

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from stellwerk.cli.jsonpath import Node

C = TypeVar("C", bound=Callable[..., object] | click.Command)

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
class Settings:
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
        """What this stream (standard output unless told) can show."""
        return style_of(stream or sys.stdout, no_colour=self.no_colour)


def current() -> Settings:
    """The settings of the call that is being carried out."""
    return of(click.get_current_context())


def style_of(stream: TextIO, *, no_colour: bool = False) -> Style:
    """Colours on a terminal only, unless NO_COLOR is set (no-color.org); symbols where the encoding is UTF-8.

    A terminal that says it is dumb gets neither.
    """
    encoding = (stream.encoding or "").lower().replace("-", "")
    colour = stream.isatty() and not no_colour and not os.environ.get("NO_COLOR")
    return Style(colour=colour and not is_dumb(), symbols=encoding == "utf8" and not is_dumb())


def is_dumb() -> bool:
    """Whether the terminal says that it can show plain lines only."""
    return os.environ.get("TERM") == "dumb"


def show(lines: Iterable[str]) -> None:
    """The result, or a part of it, to standard output at once. No lines are no result.

    Not by `click.echo`: on an ASCII terminal that writes UTF-8 all the same.
    """
    if text := "\n".join(lines):
        _write(text + "\n")


def show_exactly(text: str) -> None:
    """A result for programs: UTF-8 whatever the locale says, and nothing added."""
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
    """A message beside the result: to standard error, unless `-q`."""
    if not current().quiet:
        print(text, file=sys.stderr, flush=True)


class Duration(click.ParamType[float]):
    """Reads `90s`, `5m` or `1h30m`; a bare number is seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value in seconds."""
        if isinstance(value, int | float):
            return float(value)
        from stellwerk.kube.types import duration

        text = str(value)
        try:
            seconds = float(text) if text.isdecimal() else duration.parse(text).total_seconds()
        except duration.NotADuration as error:
            self.fail(f"{error}.", param, ctx)
        if seconds < 0:
            self.fail(f"{text!r} is negative; a wait is a duration such as 90s, 5m or 1h30m.", param, ctx)
        return seconds


class OutputType(click.ParamType[Output]):
    """Reads `-o`; a JSONPath with a mistake in it is refused before anything is asked of the cluster."""

    name = "format"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        """The value as an Output."""
        if isinstance(value, Output):
            return value
        form, _, template = str(value).partition("=")
        if form == "jsonpath" and template:
            return Output(form, self._template(template, param, ctx))
        if form == "custom-columns" and template:
            return Output(form, columns=self._columns(template, param, ctx))
        if form not in (*FORMATS, *FORMATS_OF_SOME) or template:
            self.fail(f"{value!r} is none of {', '.join(FORMATS)}.", param, ctx)
        return Output(form)

    def _columns(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[str, tuple[Node, ...]], ...]:
        pairs = [part.partition(":") for part in text.split(",")]
        if not all(title and path for title, _, path in pairs):
            self.fail(f"{text!r} is no list of TITLE:JSONPATH, for example NAME:.metadata.name.", param, ctx)
        return tuple((title, self._template(path, param, ctx)) for title, _, path in pairs)

    def _template(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Node, ...]:
        from stellwerk.cli import jsonpath

        try:
            return jsonpath.parse(text)
        except jsonpath.PathError as error:
            self.fail(f"the JSONPath cannot be read: {error}.", param, ctx)


class NamespaceType(click.ParamType[str]):
    """Reads `-n`: what cannot be the name of a namespace would be answered by the API server with a riddle."""

    name = "namespace"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is; an empty one is none."""
        text = str(value)
        if text and not _NAMESPACE.fullmatch(text):
            self.fail(f"{text!r} cannot be the name of a namespace: lower-case letters, digits and - only.", param, ctx)
        return text


_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def of(context: click.Context) -> Settings:
    """The settings that were read so far in this context."""
    return context.obj if isinstance(context.obj, Settings) else Settings()


def _kept_as(field: str) -> Callable[[click.Context, click.Parameter, object], object]:
    def keep(context: click.Context, parameter: click.Parameter, value: object) -> object:
        if value:
            context.obj = replace(of(context), **{field: value})  # type: ignore[arg-type]  # checked by a test
        return value

    return keep


def _option(field: str, *names: str, help: str, **more: object) -> Callable[[C], C]:
    return click.option(*names, help=help, expose_value=False, callback=_kept_as(field), **more)  # type: ignore[arg-type]


def _completing(what: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """What completes an option; `completion` imports this module, and is imported when a shell asks."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from stellwerk.cli import completion

        return completion.OPTIONS[what](context, incomplete)

    return complete


def general(command: C) -> C:
    """The options that make sense for whatever a verb does."""
    command = _option("verbose", "-v", "--verbose", is_flag=True, help="Show the stack of a fault of our own.")(command)
    command = _option("quiet", "-q", "--quiet", is_flag=True, help="Print the result and errors only.")(command)
    return _option("no_colour", "--no-color", is_flag=True, help="No colours, as with NO_COLOR=1.")(command)


def cluster(command: C) -> C:
    """Which cluster, and as whom."""
    command = _option(
        "request_timeout",
        "--request-timeout",
        type=Duration(),
        metavar="DURATION",
        help="Give up a single request after this time; 0 for never.",
    )(command)
    command = _option(
        "groups", "--as-group", metavar="GROUP", multiple=True, help="Act as a member of this group; may be repeated."
    )(command)
    command = _option("user", "--as", metavar="USER", help="Act as this user (needs the right to impersonate).")(
        command
    )
    command = _option("token", "--token", metavar="TOKEN", help="Log in with this bearer token.")(command)
    command = _option("server", "-s", "--server", metavar="URL", help="The API server to use, of the same cluster.")(
        command
    )
    command = _option(
        "context",
        "--context",
        metavar="NAME",
        shell_complete=_completing("contexts"),
        help="The kubeconfig's context to use.",
    )(command)
    return _option(
        "kubeconfig",
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The kubeconfig to use; else $KUBECONFIG, ~/.kube/config, or what `stellwerk up` made.",
    )(command)


def scope(command: C) -> C:
    """Which namespaces."""
    command = _option("all_namespaces", "-A", "--all-namespaces", is_flag=True, help="Look in all namespaces.")(command)
    return _option(
        "namespace",
        "-n",
        "--namespace",
        type=NamespaceType(),
        metavar="NAME",
        shell_complete=_completing("namespaces"),
        help="Look in this namespace.",
    )(command)


def output(command: C) -> C:
    """Which form of output."""
    return _option(
        "output",
        "-o",
        "--output",
        type=OutputType(),
        metavar="FORMAT",
        shell_complete=_completing("formats"),
        help=f"One of {', '.join(FORMATS)}.",
    )(command)


def all_of(command: C) -> C:
    """Every shared option, in the order in which help shows them."""
    return cluster(scope(output(general(command))))
