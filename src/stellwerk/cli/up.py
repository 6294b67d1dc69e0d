"""`stellwerk up`: the local system, from nothing to ready."""

from __future__ import annotations

import sys

import click

from stellwerk.cli.system import Done, Say, Step, carry_out


def control_plane(name: str, port: int) -> Step:
    """The step that brings up Kubernetes, or finds it running."""

    def run(say: Say) -> Done:
        from stellwerk.local.cluster import named
        from stellwerk.local.components import Options

        cluster = named(name, Options(port=port))
        cluster.up(say)
        seen = cluster.status()
        return Done("control plane ready", f"API server {seen.version.removeprefix('v')} on {seen.address}")

    return Step("control plane", run)


@click.command("up")
@click.option("--name", default="local", show_default=True, help="Which local system; several live side by side.")
@click.option("--port", default=0, help="The API server's port; a free one is chosen and kept otherwise.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def command(name: str, port: int, quiet: bool) -> None:
    """Start the local system, or find it running."""
    from stellwerk.local.errors import LocalError

    try:
        carry_out([control_plane(name, port)], quiet=quiet)
    except LocalError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
