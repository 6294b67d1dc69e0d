"""`stellwerk tree`: an object with what it owns and manages, and how all of that is doing."""

from __future__ import annotations

from contextlib import AsyncExitStack

from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import graph, object_summary
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.object_tree import Family
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.output import print_result
from stellwerk.runtime.insight.diagnosis import ClusterReader


@with_cluster
async def tree(cluster: ClusterSession, subject: ObjectArgument | str, compact: bool, depth: int | None) -> None:
    """Print an object, or the release with this name, with its dependents."""
    reader = ClusterReader(cluster.client)
    async with AsyncExitStack() as others:
        family = Family(reader, others)
        if isinstance(subject, str):
            release = await releasing.found(cluster, subject, "draw")
            top = await family.of_release(releasing.ref_of(release), releasing.health_of(release), release)
        else:
            top = await family.of(await cluster.object(subject))
    top = graph.cut(top, depth) if depth is not None else top
    top = graph.compact(top) if compact else top
    for line in object_summary.left_out(reader.hidden):
        settings.say(line)
    print_result(lambda style: graph.drawn(top, style), lambda: graph.as_json(top))
