"""`stellwerk down`: the end of the local system."""

from __future__ import annotations

import sys

import click


@click.command("down")
@click.option("--name", default="local", show_default=True, help="Which local system.")
@click.option("--keep-data", is_flag=True, help="Stop it only; the next `up` goes on where it ended.")
def command(name: str, keep_data: bool) -> None:
    """Stop the local system and remove its data.

    It does not ask: what `up` makes in seconds is not worth a question, and scripts end with this.
    """
    from stellwerk.local.cluster import named
    from stellwerk.local.errors import LocalError

    cluster = named(name)
    try:
        cluster.stop() if keep_data else cluster.down()
    except LocalError as error:
        click.echo(str(error), err=True)
        sys.exit(1)
