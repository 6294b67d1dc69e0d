"""The local system as a whole: how its start is told step by step, and what runs of it."""

from __future__ import annotations

import locale
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

import click

if TYPE_CHECKING:
    from stellwerk.local.cluster import ClusterStatus

Say = Callable[[str], None]
"""Where a step tells what it is doing, a line at a time."""

_TITLE_WIDTH = 33


@dataclass(frozen=True, slots=True)
class Done:
    """What a step achieved: `title` names it, `detail` is what the user takes away, `timed` shows how long it took."""

    title: str
    detail: str = ""
    timed: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a start. `title` names it while it runs; `run` does it, and raises to stop the rest."""

    title: str
    run: Callable[[Say], Done]


def carry_out(steps: Sequence[Step], *, quiet: bool = False) -> None:
    """Do the steps in order and print a line for each; progress goes to standard error.

    A step that raises is named there too, and the exception goes on to the caller.
    """
    for step in steps:
        began = time.monotonic()
        try:
            done = step.run(_progress(quiet))
        except Exception:
            click.echo(f"{symbol(ok=False, stream=sys.stderr)} {step.title}", err=True)
            raise
        if not quiet:
            click.echo(f"{symbol(ok=True, stream=sys.stdout)} {_line(done, time.monotonic() - began)}")


def symbol(*, ok: bool, stream: TextIO) -> str:
    """A tick or a cross, in letters where the locale cannot write it and in colour where the stream shows it."""
    unicode, ascii_form, colour = ("✔", "+", "green") if ok else ("✗", "x", "red")
    text = unicode if _speaks_utf8(stream) else ascii_form
    return click.style(text, fg=colour) if _shows_colour(stream) else text


def status(name: str) -> int:
    """Print what runs of the local system; 0 when it is ready, 1 when it is not or is not there."""
    from stellwerk.local import cluster
    from stellwerk.local.errors import LocalError

    try:
        seen = cluster.named(name).status()
    except LocalError as error:
        click.echo(str(error), err=True)
        return 1
    if not seen.components or not seen.folder.exists():
        click.echo("There is no local system. Start one: stellwerk up", err=True)
        return 1
    for line in _lines(seen):
        click.echo(line)
    return 0 if seen.ready and seen.is_complete else 1


def _lines(seen: ClusterStatus) -> list[str]:
    title = "control plane ready" if seen.ready else "control plane not ready"
    detail = f"API server {seen.version.removeprefix('v')} on {seen.address}" if seen.version else str(seen.folder)
    head = f"{symbol(ok=seen.ready, stream=sys.stdout)} {title:{_TITLE_WIDTH}}{detail}"
    parts = [
        f"{symbol(ok=part.pid is not None, stream=sys.stdout)} {part.name:{_TITLE_WIDTH}}"
        + (f"process {part.pid}" if part.pid else f"not running, see {part.log}")
        for part in seen.components
    ]
    return [head, *parts]


def _line(done: Done, seconds: float) -> str:
    taken = f"{seconds:.1f} s   " if done.timed else ""
    return f"{done.title:{_TITLE_WIDTH}}{taken}{done.detail}".rstrip()


def _progress(quiet: bool) -> Say:
    return lambda text: None if quiet else click.echo(f"  {text}", err=True)


def _speaks_utf8(stream: TextIO) -> bool:
    encoding = getattr(stream, "encoding", None) or locale.getpreferredencoding(False)
    return encoding.lower().replace("-", "") == "utf8"


def _shows_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR")
