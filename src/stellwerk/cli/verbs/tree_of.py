"""`stellwerk tree`: an object with what it owns and manages, and how all of that is doing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import object_argument as subjects
from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession


@click.command("tree")
@subjects.one_or_release()
@click.option("--compact", is_flag=True, help="Tell what is ready as counts.")
@click.option("--depth", type=click.IntRange(min=0), metavar="N", help="Show so many levels below the object.")
@options.all_of
def command(subject: ObjectArgument | str, compact: bool, depth: int | None) -> None:
    """Show the owned and managed objects of an object with their health.

    A word without a slash is a release.
    """
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(lambda cluster: _show(cluster, subject, compact, depth))


async def _show(cluster: ClusterSession, subject: ObjectArgument | str, compact: bool, depth: int | None) -> None:
    from stellwerk.cli.objects import graph
    from stellwerk.cli.objects.object_tree import Family, unread
    from stellwerk.runtime.insight.diagnosis import ClusterReader

    reader = ClusterReader(cluster.client)
    if isinstance(subject, str):
        from stellwerk.cli.releases import releasing

        release = await releasing.found(cluster, subject, "draw")
        top = await Family(reader).of_release(releasing.ref_of(release), releasing.health_of(release), release)
    else:
        top = await Family(reader).of(await cluster.object(subject))
    top = graph.cut(top, depth) if depth is not None else top
    top = graph.compact(top) if compact else top
    for line in unread(reader):
        settings.say(line)
    if cluster.settings.output.is_table:
        settings.show(graph.drawn(top, cluster.settings.style()))
        return
    from stellwerk.cli.shell.output import print_value

    print_value(graph.as_json(top), cluster.settings.output)
