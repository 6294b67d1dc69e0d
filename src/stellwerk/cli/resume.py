"""`stellwerk resume`: end a suspension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli import settings
from stellwerk.cli.completion import complete_subject
from stellwerk.cli.options import DRY_RUN
from stellwerk.cli.subject import Subject, SubjectType

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster


@click.command("resume")
@click.argument("subject", metavar="KIND/NAME", type=SubjectType(), shell_complete=complete_subject)
@DRY_RUN
@settings.all_of
def command(subject: Subject, dry_run: bool) -> None:
    """Have a suspended object looked after again."""
    from stellwerk.cli.cluster import carry_out

    carry_out(lambda cluster: _resume(cluster, subject, dry_run))


async def _resume(cluster: Cluster, subject: Subject, dry_run: bool) -> None:
    from stellwerk.cli import acting

    obj = await cluster.object(subject)
    patch = acting.actions(obj, "resumption", "resumed").resumption()
    await acting.patched(cluster, await cluster.resource(subject.kind), obj, patch, dry_run=dry_run)
    settings.show([f"{obj.ref} is resumed{' (dry run)' if dry_run else ''}"])
