"""Options that verbs share, and what reads them.

Every verb takes the options of `all_of`, before or after its name, and the later one wins. They travel in click's
context as one frozen `Settings`, so that the signature of a verb has only its own options.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from stellwerk.assembly import OPERATORS
from stellwerk.cli.completion import completers
from stellwerk.cli.shell.settings import FORMATS, FORMATS_OF_SOME, Output, of
from stellwerk.lazy_imports import lazy_imports
from stellwerk.local.host import names

with lazy_imports(__name__):
    from stellwerk.cli.shell import jsonpath
    from stellwerk.kube.types import duration

if TYPE_CHECKING:
    from stellwerk.cli.shell.jsonpath import Node

C = TypeVar("C", bound=Callable[..., object] | click.Command)


class Duration(click.ParamType[float]):
    """Reads `90s`, `5m` or `1h30m`; a bare number is seconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The value in seconds."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value)
        try:
            seconds = float(text) if text.isdecimal() else duration.parse(text).total_seconds()
        except duration.NotADuration as error:
            self.fail(f"{error}.", param, ctx)
        if seconds < 0:
            self.fail(f"{text!r} is negative; a wait is a duration such as 90s, 5m or 1h30m.", param, ctx)
        return seconds


class JsonPath(click.ParamType["tuple[Node, ...]"]):
    """Reads a JSONPath."""

    name = "jsonpath"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Node, ...]:
        """The value as a path."""
        if isinstance(value, tuple):
            return value
        try:
            return jsonpath.parse(str(value))
        except jsonpath.PathError as error:
            self.fail(f"the JSONPath cannot be read: {error}.", param, ctx)


class OutputType(click.ParamType[Output]):
    """Reads `-o`; a JSONPath with a mistake is rejected before the first request."""

    name = "format"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Output:
        """The value as an Output."""
        if isinstance(value, Output):
            return value
        form, _, template = str(value).partition("=")
        if form == "jsonpath" and template:
            return Output(form, JsonPath().convert(template, param, ctx))
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
        return tuple((title, JsonPath().convert(path, param, ctx)) for title, _, path in pairs)


class NamespaceType(click.ParamType[str]):
    """Reads `-n`: the API server answers a name that no namespace can have with a misleading error."""

    name = "namespace"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is; an empty one is none."""
        text = str(value)
        if text and not _NAMESPACE.fullmatch(text):
            self.fail(f"{text!r} cannot be the name of a namespace: lower-case letters, digits and - only.", param, ctx)
        return text


_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class SystemName(click.ParamType[str]):
    """Reads the name of a local system."""

    name = "text"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name as it is."""
        text = str(value)
        if not names.is_name(text):
            self.fail(f"{text!r} cannot be a name; it has {names.RULE}.", param, ctx)
        return text


FILE = click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
"""A file that exists, or `-` for standard input."""


def values_files(help: str) -> Callable[[C], C]:
    """The option with files of values."""
    return click.option("-f", "--values", "files", multiple=True, metavar="FILE", type=FILE, help=help)


def local_name(help: str) -> Callable[[C], C]:
    """The option with the name of a local system."""
    return click.option(
        "--name",
        type=SystemName(),
        default="local",
        show_default=True,
        shell_complete=completers.complete_system,
        help=help,
    )


TIMEOUT = click.option("--timeout", type=Duration(), default="5m", show_default=True, help="How long to wait at most.")
DRY_RUN = click.option("--dry-run", is_flag=True, help="Have the API server check the change, and keep nothing of it.")


OPERATOR_NAMES = click.argument(
    "operators", nargs=-1, metavar=" ".join(f"[{name}]" for name in OPERATORS), type=click.Choice([*OPERATORS])
)
"""Any number of operators; none means all."""


def _kept_as(field: str) -> Callable[[click.Context, click.Parameter, object], object]:
    def keep(context: click.Context, parameter: click.Parameter, value: object) -> object:
        if value:
            context.obj = replace(of(context), **{field: value})  # type: ignore[arg-type]  # checked by a test
        return value

    return keep


def _option(field: str, *names: str, help: str, **more: object) -> Callable[[C], C]:
    return click.option(*names, help=help, expose_value=False, callback=_kept_as(field), **more)  # type: ignore[arg-type]


def general(command: C) -> C:
    """The options that make sense for whatever a verb does."""
    command = _option("verbose", "-v", "--verbose", is_flag=True, help="Show the stack of a fault of our own.")(command)
    command = _option("quiet", "-q", "--quiet", is_flag=True, help="Print the result and errors only.")(command)
    return _option("no_colour", "--no-color", is_flag=True, help="No colours, as with NO_COLOR=1.")(command)


def cluster(command: C) -> C:
    """Which cluster, and as which user."""
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
        shell_complete=completers.complete_context,
        help="The kubeconfig's context to use.",
    )(command)
    return _option(
        "kubeconfig",
        "--kubeconfig",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The kubeconfig to use; else $KUBECONFIG, ~/.kube/config, the pod's own account, or what `stellwerk up` "
        "made.",
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
        shell_complete=completers.complete_namespace,
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
        shell_complete=completers.complete_format,
        help=f"One of {', '.join(FORMATS)}.",
    )(command)


def all_of(command: C) -> C:
    """Every shared option, in the order in which help shows them."""
    return cluster(scope(output(general(command))))
