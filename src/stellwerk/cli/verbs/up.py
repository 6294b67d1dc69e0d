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

from stellwerk.cli.arguments import options
from stellwerk.cli.local import operators
from stellwerk.cli.local.system import StartStep, StepResult, carry_out
from stellwerk.cli.shell import settings


def control_plane(name: str, port: int) -> StartStep:
    """The step that brings up Kubernetes, or finds it running."""

    def run(say: Callable[[str], None]) -> StepResult:
        from stellwerk.local.cluster import named
        from stellwerk.local.components import Options

        cluster = named(name, Options(port=port))
        cluster.up(say)
        seen = cluster.status()
        return StepResult("control plane ready", f"API server {seen.version.removeprefix('v')} on {seen.address}")

    return StartStep("control plane", run)


@click.command("up")
@options.local_name("Which local system; several live side by side.")
@click.option(
    "--port",
    type=click.IntRange(1024, 65535),
    help="The API server's port; without it a free one is chosen and kept.",
)
@click.option("--samples", is_flag=True, help="Apply the samples too, and wait until all of them are Ready.")
@click.option("--bare", is_flag=True, help="The control plane alone, without our operators.")
@options.general
def command(name: str, port: int | None, samples: bool, bare: bool) -> None:
    """Start the local system, or find it running."""
    steps = [control_plane(name, port or 0)]
    if not bare:
        steps += [operators.definitions(name), operators.operators(name)]
    if samples:
        steps.append(operators.samples(name))
    if bare:
        steps.append(kubeconfig(name))
    carry_out(steps)
    if not bare:
        settings.say(f"Try:  {'' if samples else f'{_again(name)} --samples    '}stellwerk get -A")
    settings.say("To use it from a shell:")
    click.echo(environment_line(_kubeconfig(name), Path(sys.executable).parent, os.environ.get("PATH", "")))


def kubeconfig(name: str) -> StartStep:
    """The step that names the administrator's kubeconfig."""
    return StartStep("kubeconfig", lambda say: StepResult("kubeconfig", str(_kubeconfig(name)), timed=False))


def environment_line(kubeconfig: Path, programs: Path, path: str) -> str:
    """A line for a POSIX shell, after which `stellwerk` and `kubectl` are found and use this cluster.

    `programs` is the folder with both, which is left out where `path`, the value of PATH, contains it.
    """
    search = "" if str(programs) in path.split(os.pathsep) else f'PATH={shlex.quote(str(programs))}:"$PATH" '
    return f"export {search}KUBECONFIG={shlex.quote(str(kubeconfig))}"


def _again(name: str) -> str:
    from stellwerk.local.cluster import DEFAULT

    return "stellwerk up" if name == DEFAULT else f"stellwerk up --name {name}"


def _kubeconfig(name: str) -> Path:
    from stellwerk.local.cluster import named

    return named(name).kubeconfig
