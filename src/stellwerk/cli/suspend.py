"""`stellwerk suspend`: have an object left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli import options, settings, subject
from stellwerk.cli.options import DRY_RUN
from stellwerk.cli.subject import Choice

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster


@click.command("suspend")
@subject.many
@click.option("--reason", default="", metavar="TEXT", help="Why; shown wherever the object's state is.")
@DRY_RUN
@options.all_of
def command(choice: tuple[str, ...], is_all: bool, labels: str, reason: str, dry_run: bool) -> None:
    """Have an object left alone until it is resumed. A deletion is still carried out."""
    from stellwerk.cli.cluster import carry_out

    wanted = subject.chosen(choice, is_all=is_all, labels=labels)
    carry_out(lambda cluster: _suspend(cluster, wanted, reason, dry_run))


async def _suspend(cluster: Cluster, choice: Choice, reason: str, dry_run: bool) -> None:
    from stellwerk.cli import acting

    for one in await acting.targets(cluster, choice, "suspension", "suspended"):
        await acting.patched(cluster, one.resource, one.obj, one.actions.suspension(reason), dry_run=dry_run)
        settings.show([f"{one.obj.ref} is suspended{' (dry run)' if dry_run else ''}"])
