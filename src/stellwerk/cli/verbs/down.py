"""`stellwerk down`: the end of the local system."""

from __future__ import annotations

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.shell import confirm, settings


@click.command("down")
@options.local_name("Which local system.")
@click.option("--keep-data", is_flag=True, help="Stop it only; the next `up` goes on where it ended.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask whether the data may go.")
@options.general
def command(name: str, keep_data: bool, yes: bool) -> None:
    """Stop the local system and remove its data.

    It asks before data goes, unless --yes is given; without a terminal and without --yes it does nothing.
    """
    from stellwerk.local.cluster import named

    cluster = named(name)
    if keep_data:
        cluster.stop()
        return
    if not cluster.folder.exists():
        settings.say(f"There is no local system {name!r}.")
        return
    confirm.removal(f"the local system {name!r} with all its data", yes=yes)
    cluster.down()
