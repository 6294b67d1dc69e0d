"""The local system as a whole: the output of its start, step by step, and its status."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import click

from stellwerk.cli.objects import served_addresses
from stellwerk.cli.shell import output, settings
from stellwerk.cli.shell.text import Style
from stellwerk.kube.types.model import JsonObject
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
        settings.say(f"There is no local system {name!r}. Start it: {cluster.command_line('up', name)}")
        return 1
    parts = [part_of(component) for component in seen.components]
    form = settings.current().output
    if form.is_table:
        click.echo("\n".join(status_lines(seen, parts, settings.current().style())))
    else:
        output.print_value(as_json(seen, parts), form)
    return 0 if is_well(seen, parts) else 1


@dataclass(frozen=True, slots=True)
class SystemProcess:
    """One process of the local system as `status` shows it; `serves` has the addresses of an operator by purpose."""

    component: ProcessStatus
    is_well: bool
    detail: str
    serves: Mapping[str, str] = field(default_factory=dict)


def part_of(component: ProcessStatus) -> SystemProcess:
    """The state of a process: an operator is well when its readiness probe succeeds, any other process when it runs.

    What runs elsewhere is not well, because nothing is known of it.
    """
    if component.runs_elsewhere:
        return SystemProcess(component, False, f"runs in another container or on another machine, see {component.log}")
    if component.pid is None:
        return SystemProcess(component, False, f"not running, see {component.log}")
    operator = served_addresses.served(component.arguments)
    if operator is None:
        return SystemProcess(component, True, f"process {component.pid}")
    ports = ", ".join(f"{purpose} on {address}" for purpose, address in operator.addresses.items())
    if operator.is_ready:
        return SystemProcess(component, True, f"process {component.pid}, {ports}", operator.addresses)
    detail = f"process {component.pid} is not ready, {ports}, see {component.log}"
    return SystemProcess(component, False, detail, operator.addresses)


def is_well(seen: ClusterStatus, parts: Sequence[SystemProcess]) -> bool:
    """Whether all of the system runs and is ready."""
    return seen.ready and all(part.is_well for part in parts)


def as_json(seen: ClusterStatus, parts: Sequence[SystemProcess]) -> JsonObject:
    """The same for programs."""
    return {
        "ready": is_well(seen, parts),
        "controlPlaneReady": seen.ready,
        "version": seen.version,
        "url": seen.url,
        "folder": str(seen.folder),
        "logs": str(seen.logs),
        "processes": [
            {
                "name": part.component.name,
                "pid": part.component.pid,
                "ready": part.is_well,
                "log": str(part.component.log),
                "serves": dict(part.serves),
            }
            for part in parts
        ],
    }


def status_lines(seen: ClusterStatus, parts: Sequence[SystemProcess], style: Style) -> list[str]:
    """The control plane, its processes and the folder with their logs, a line each."""
    title = "control plane ready" if seen.ready else "control plane not ready"
    version = f"API server {seen.version.removeprefix('v')} on {seen.address}" if seen.version else str(seen.folder)
    lines = [f"{mark(ok=seen.ready, style=style)} {title:{_TITLE_WIDTH}}{version}"]
    lines += [
        f"{mark(ok=part.is_well, style=style)} {part.component.name:{_TITLE_WIDTH}}{part.detail}" for part in parts
    ]
    return [*lines, f"  {'logs':{_TITLE_WIDTH}}{seen.logs}"]
