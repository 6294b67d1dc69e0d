"""`stellwerk up`: the local system, from nothing to ready.

Each part is a step; the control plane is the first, and what runs on it joins as further steps. The room `local` knows
none of them.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import click

from stellwerk.cli.local import operators
from stellwerk.cli.local.system import StartStep, StepResult, carry_out
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.local.cluster import command_line, named
from stellwerk.local.components import Options


def control_plane(name: str, port: int) -> StartStep:
    """The step that brings up Kubernetes, or finds it running."""

    def run(say: Callable[[str], None]) -> StepResult:
        cluster = named(name, Options(port=port))
        cluster.up(say)
        seen = cluster.status()
        return StepResult("control plane ready", f"API server {seen.version.removeprefix('v')} on {seen.address}")

    return StartStep("control plane", run)


def up(name: str, port: int | None, samples: bool, bare: bool) -> None:
    """Start the parts of the local system `name` that do not run, and print a line for each."""
    if bare and samples:
        raise Failure(
            "--bare and --samples exclude each other",
            cause="the samples become Ready only where the operators run",
            fix=f"{command_line('up', name)} --samples",
            code=Exit.USAGE,
        )
    steps = [control_plane(name, port or 0)]
    if not bare:
        steps += [operators.definitions(name), operators.operators(name)]
    if samples:
        steps += [operators.other_clusters(name), operators.samples(name)]
    if bare:
        steps.append(kubeconfig(name))
    carry_out(steps)
    if not bare:
        again = "" if samples else f"{command_line('up', name)} --samples    "
        settings.say(f"Try:  {again}stellwerk get -A")
    settings.say("To use it from a shell:")
    click.echo(environment_line(named(name).kubeconfig, Path(sys.executable).parent, os.environ.get("PATH", "")))


def kubeconfig(name: str) -> StartStep:
    """The step that names the administrator's kubeconfig."""
    return StartStep("kubeconfig", lambda say: StepResult("kubeconfig", str(named(name).kubeconfig), timed=False))


def environment_line(kubeconfig: Path, programs: Path, path: str) -> str:
    """A line for a POSIX shell, after which `stellwerk` and `kubectl` are found and use this cluster.

    `programs` is the folder with both, which is left out where `path`, the value of PATH, contains it.
    """
    search = "" if str(programs) in path.split(os.pathsep) else f'PATH={shlex.quote(str(programs))}:"$PATH" '
    return f"export {search}KUBECONFIG={shlex.quote(str(kubeconfig))}"
