"""`stellwerk why`: from an object that is not ready down to the root cause, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import object_argument as subjects
from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import findings, object_summary
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession


@click.command("why")
@subjects.one_or_release()
@options.all_of
def command(subject: ObjectArgument | str) -> None:
    """Tell why an object is not ready, down to the root cause.

    A word without a slash is a release.
    """
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(lambda cluster: _tell(cluster, subject))


async def _tell(cluster: ClusterSession, subject: ObjectArgument | str) -> None:
    if isinstance(subject, str):
        from stellwerk.cli.releases import releasing

        seen = await releasing.judged(cluster, await releasing.found(cluster, subject, "explain"))
    else:
        seen = await object_summary.reached(cluster, await cluster.object(subject, shows_unread=True))
    if cluster.settings.output.is_table:
        settings.show(findings.told(seen, cluster.settings.style()))
        return
    from stellwerk.cli.shell.output import print_value

    print_value(findings.as_json(seen), cluster.settings.output)
