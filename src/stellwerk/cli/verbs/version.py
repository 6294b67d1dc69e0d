"""`stellwerk version`: what runs here, and what it talks to."""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.own_version import own_version

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.kube.types.model import JsonObject


@click.command("version")
@click.option("--client", is_flag=True, help="Do not ask the cluster.")
@options.all_of
def command(client: bool) -> None:
    """Print the versions of stellwerk and of the cluster."""
    known: JsonObject = {"version": own_version(), "stellwerk": own_version(), "python": platform.python_version()}
    if not client and settings.current().output.form != "short":
        known |= _of_the_cluster()
    output = settings.current().output
    if output.form == "short":
        settings.show([own_version()])
        return
    if not output.is_table:
        from stellwerk.cli.shell.output import print_value

        print_value(known, output)
        return
    settings.show(f"{name:<12}{value}" for name, value in known.items())


def _of_the_cluster() -> JsonObject:
    """The cluster's version; none, and a word about it, when it cannot be asked: the rest is still worth printing."""
    from stellwerk.cli.objects.cluster import carry_out
    from stellwerk.cli.shell.errors import explained

    try:
        return {"kubernetes": carry_out(_ask)}
    except Exception as error:
        known = explained(error)
        if known is None:
            raise
        settings.say("\n".join(known[0].lines()))
        return {}


async def _ask(cluster: ClusterSession) -> str:
    answer = await cluster.client.document("/version")
    return f"{str(answer.get('gitVersion', '')).removeprefix('v')} at {cluster.client.config.server}"
