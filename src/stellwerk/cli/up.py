"""`stellwerk up`: the local system, from nothing to ready.

Each part is a step; the control plane is the first, and what runs on it joins as further steps. The room `local` knows
none of them.
"""

from __future__ import annotations

from collections.abc import Callable

import click

from stellwerk.cli import operators, options, settings
from stellwerk.cli.system import Done, Step, carry_out


def control_plane(name: str, port: int) -> Step:
    """The step that brings up Kubernetes, or finds it running."""

    def run(say: Callable[[str], None]) -> Done:
        from stellwerk.local.cluster import named
        from stellwerk.local.components import Options

        cluster = named(name, Options(port=port))
        cluster.up(say)
        seen = cluster.status()
        return Done("control plane ready", f"API server {seen.version.removeprefix('v')} on {seen.address}")

    return Step("control plane", run)


@click.command("up")
@options.local_name("Which local system; several live side by side.")
@click.option(
    "--port",
    type=click.IntRange(1024, 65535),
    help="The API server's port; without it a free one is chosen and kept.",
)
@click.option("--samples", is_flag=True, help="Apply the samples too, and wait until all of them are Ready.")
@click.option("--bare", is_flag=True, help="The control plane alone, without our operators.")
@settings.general
def command(name: str, port: int | None, samples: bool, bare: bool) -> None:
    """Start the local system, or find it running."""
    steps = [control_plane(name, port or 0)]
    if not bare:
        steps += [operators.definitions(name), operators.operators(name)]
    if samples:
        steps.append(operators.samples(name))
    carry_out(steps)
    if not bare:
        settings.say(_hint(name, samples=samples))


def _hint(name: str, *, samples: bool) -> str:
    """What to type next. Where another cluster would be looked at by itself, it says how to mean this one."""
    from stellwerk.cli.login import chooses_local
    from stellwerk.local.cluster import DEFAULT, named

    prefix = "" if name == DEFAULT and chooses_local() else f"export KUBECONFIG={named(name).kubeconfig}    "
    more = "" if samples or name != DEFAULT else "stellwerk up --samples    "
    return f"Try:  {more}{prefix}stellwerk get -A"
