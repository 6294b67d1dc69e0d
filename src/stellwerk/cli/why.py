"""`stellwerk why`: from an object that is not ready down to the root cause, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli import findings, options, settings, verdict
from stellwerk.cli import subject as subjects
from stellwerk.cli.subject import Subject

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster


@click.command("why")
@subjects.one_or_release()
@options.all_of
def command(subject: Subject | str) -> None:
    """Tell why an object is not ready, down to the root cause.

    A word without a slash is a release.
    """
    from stellwerk.cli.cluster import carry_out

    carry_out(lambda cluster: _tell(cluster, subject))


async def _tell(cluster: Cluster, subject: Subject | str) -> None:
    if isinstance(subject, str):
        from stellwerk.cli import releasing

        seen = await releasing.judged(cluster, await releasing.found(cluster, subject, "explain"))
    else:
        seen = await verdict.reached(cluster, await cluster.object(subject, shows_unread=True))
    if cluster.settings.output.is_table:
        settings.show(findings.told(seen, cluster.settings.style()))
        return
    from stellwerk.cli.output import print_value

    print_value(findings.as_json(seen), cluster.settings.output)
