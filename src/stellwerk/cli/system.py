"""The local system as a whole: how its start is told step by step, and what runs of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from stellwerk.cli import settings

if TYPE_CHECKING:
    from stellwerk.cli.text import Style
    from stellwerk.local.cluster import ClusterStatus

_TITLE_WIDTH = 33


@dataclass(frozen=True, slots=True)
class Done:
    """What a step achieved: `title` names it, `detail` is what the user takes away, `timed` shows how long it took."""

    title: str
    detail: str = ""
    timed: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """One part of a start. `title` names it when it fails; `run` does it, telling its progress to standard error."""

    title: str
    run: Callable[[Callable[[str], None]], Done]


def carry_out(steps: Sequence[Step]) -> None:
    """Do the steps in order and print a line for each. A step that raises is named, and nothing follows it."""
    for step in steps:
        began = time.monotonic()
        try:
            done = step.run(lambda text: settings.say(f"  {text}"))
        except Exception:
            style = settings.current().style(sys.stderr)
            click.echo(f"{mark(ok=False, style=style)} {step.title}", err=True)
            raise
        click.echo(done_line(done, time.monotonic() - began, settings.current().style()))


def done_line(done: Done, seconds: float, style: Style) -> str:
    """A finished step as a person sees it: what, how long, and what to take away."""
    taken = f"{seconds:.1f} s   " if done.timed else ""
    return f"{mark(ok=True, style=style)} {done.title:{_TITLE_WIDTH}}{taken}{done.detail}".rstrip()


def mark(*, ok: bool, style: Style) -> str:
    """A tick or a cross."""
    return style.painted(style.drawn("✔" if ok else "✗"), "good" if ok else "bad")


def status(name: str) -> int:
    """Print what runs of the local system; 0 when all of it does and is ready, else 1. Raises LocalError."""
    from stellwerk.local import cluster

    seen = cluster.named(name).status()
    if not seen.folder.exists():
        settings.say("There is no local system. Start one: stellwerk up")
        return 1
    click.echo("\n".join(status_lines(seen, settings.current().style())))
    return 0 if seen.ready and seen.is_complete else 1


def status_lines(seen: ClusterStatus, style: Style) -> list[str]:
    """The control plane and its processes, a line each."""
    title = "control plane ready" if seen.ready else "control plane not ready"
    version = f"API server {seen.version.removeprefix('v')} on {seen.address}" if seen.version else str(seen.folder)
    lines = [f"{mark(ok=seen.ready, style=style)} {title:{_TITLE_WIDTH}}{version}"]
    for part in seen.components:
        detail = f"process {part.pid}" if part.pid else f"not running, see {part.log}"
        lines.append(f"{mark(ok=part.pid is not None, style=style)} {part.name:{_TITLE_WIDTH}}{detail}")
    return lines
