"""`stellwerk why`: from an object that is not ready down to the root cause, and what to do about it."""

from __future__ import annotations

from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import findings, object_summary
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.output import print_value


@with_cluster
async def why(cluster: ClusterSession, subject: ObjectArgument | str) -> None:
    """Print the diagnosis of an object, or of the release with this name."""
    if isinstance(subject, str):
        seen = await releasing.judged(cluster, await releasing.found(cluster, subject, "explain"))
    else:
        seen = await object_summary.reached(cluster, await cluster.object(subject, shows_unread=True))
    if cluster.settings.output.is_table:
        settings.show(findings.told(seen, cluster.settings.style()))
    else:
        print_value(findings.as_json(seen), cluster.settings.output)
