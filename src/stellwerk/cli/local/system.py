"""The local system as a whole: the output of its start, step by step, and its status."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from stellwerk.cli.local import operator_processes
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.text import Style
from stellwerk.local import cluster
from stellwerk.local.cluster import ClusterStatus, ProcessStatus

_TITLE_WIDTH = 33


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step achieved: `title` names it, `detail` is what the user takes away, `timed` shows how long it took."""

    title: str
    detail: str = ""
    timed: bool = True


@dataclass(frozen=True, slots=True)
class StartStep:
    """One part of a start. `title` names it when it fails; `run` does it, and prints its progress to standard error."""

    title: str
    run: Callable[[Callable[[str], None]], StepResult]


def carry_out(steps: Sequence[StartStep]) -> None:
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


def done_line(done: StepResult, seconds: float, style: Style) -> str:
    """The line for a finished step: its title, its duration, and its detail."""
    taken = f"{seconds:.1f} s   " if done.timed else ""
    return f"{mark(ok=True, style=style)} {done.title:{_TITLE_WIDTH}}{taken}{done.detail}".rstrip()


def mark(*, ok: bool, style: Style) -> str:
    """A tick or a cross."""
    return style.painted(style.drawn("✔" if ok else "✗"), "good" if ok else "bad")


def status(name: str) -> int:
    """Print what runs of the local system; 0 when all of it does and is ready, else 1. Raises LocalError."""
    seen = cluster.named(name).status()
    if not seen.folder.exists():
        settings.say("There is no local system. Start one: stellwerk up")
        return 1
    parts = [part_of(component) for component in seen.components]
    click.echo("\n".join(status_lines(seen, parts, settings.current().style())))
    return 0 if seen.ready and all(part.is_well for part in parts) else 1


@dataclass(frozen=True, slots=True)
class SystemProcess:
    """One process of the local system as `status` shows it."""

    name: str
    is_well: bool
    detail: str


def part_of(component: ProcessStatus) -> SystemProcess:
    """The state of a process: an operator is well when its readiness probe succeeds, any other process when it runs."""
    if component.pid is None:
        return SystemProcess(component.name, False, f"not running, see {component.log}")
    operator = operator_processes.served(component.arguments)
    if operator is None:
        return SystemProcess(component.name, True, f"process {component.pid}")
    ports = f"probes on {operator.probes}, metrics on {operator.metrics}"
    if operator.is_ready:
        return SystemProcess(component.name, True, f"process {component.pid}, {ports}")
    return SystemProcess(component.name, False, f"process {component.pid} is not ready, {ports}, see {component.log}")


def status_lines(seen: ClusterStatus, parts: Sequence[SystemProcess], style: Style) -> list[str]:
    """The control plane, its processes and the folder with their logs, a line each."""
    title = "control plane ready" if seen.ready else "control plane not ready"
    version = f"API server {seen.version.removeprefix('v')} on {seen.address}" if seen.version else str(seen.folder)
    lines = [f"{mark(ok=seen.ready, style=style)} {title:{_TITLE_WIDTH}}{version}"]
    lines += [f"{mark(ok=part.is_well, style=style)} {part.name:{_TITLE_WIDTH}}{part.detail}" for part in parts]
    return [*lines, f"  {'logs':{_TITLE_WIDTH}}{seen.logs}"]
