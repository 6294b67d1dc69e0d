"""`stellwerk suspend`: have an object left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli import settings
from stellwerk.cli.completion import complete_subject
from stellwerk.cli.options import DRY_RUN
from stellwerk.cli.subject import Subject, SubjectType

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster


@click.command("suspend")
@click.argument("subject", metavar="KIND/NAME", type=SubjectType(), shell_complete=complete_subject)
@click.option("--reason", default="", metavar="TEXT", help="Why; shown wherever the object's state is.")
@DRY_RUN
@settings.all_of
def command(subject: Subject, reason: str, dry_run: bool) -> None:
    """Have an object left alone until it is resumed. A deletion is still carried out."""
    from stellwerk.cli.cluster import carry_out

    carry_out(lambda cluster: _suspend(cluster, subject, reason, dry_run))


async def _suspend(cluster: Cluster, subject: Subject, reason: str, dry_run: bool) -> None:
    from stellwerk.cli import acting

    obj = await cluster.object(subject)
    patch = acting.actions(obj, "suspension", "suspended").suspension(reason)
    await acting.patched(cluster, await cluster.resource(subject.kind), obj, patch, dry_run=dry_run)
    settings.show([f"{obj.ref} is suspended{' (dry run)' if dry_run else ''}"])
