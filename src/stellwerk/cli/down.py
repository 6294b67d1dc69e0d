"""`stellwerk down`: the end of the local system."""

from __future__ import annotations

import click

from stellwerk.cli import settings


@click.command("down")
@click.option("--name", default="local", show_default=True, help="Which local system.")
@click.option("--keep-data", is_flag=True, help="Stop it only; the next `up` goes on where it ended.")
@settings.general
def command(name: str, keep_data: bool) -> None:
    """Stop the local system and remove its data.

    It does not ask: what `up` makes in seconds is not worth a question, and scripts end with this.
    """
    from stellwerk.local.cluster import named

    cluster = named(name)
    if keep_data:
        cluster.stop()
    else:
        cluster.down()
