"""`stellwerk suspend`: have an object left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import object_argument, options
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.arguments.options import DRY_RUN
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession


@click.command("suspend")
@object_argument.many
@click.option("--reason", default="", metavar="TEXT", help="Why; shown wherever the object's state is.")
@DRY_RUN
@options.all_of
def command(choice: tuple[str, ...], is_all: bool, labels: str, reason: str, dry_run: bool) -> None:
    """Have an object left alone until it is resumed. A deletion is still carried out."""
    from stellwerk.cli.objects.cluster import carry_out

    wanted = object_argument.chosen(choice, is_all=is_all, labels=labels)
    carry_out(lambda cluster: _suspend(cluster, wanted, reason, dry_run))


async def _suspend(cluster: ClusterSession, choice: ObjectSelection, reason: str, dry_run: bool) -> None:
    from stellwerk.cli.objects import object_actions

    for one in await object_actions.targets(cluster, choice, "suspension", "suspended"):
        await object_actions.patched(cluster, one.resource, one.obj, one.actions.suspension(reason), dry_run=dry_run)
        settings.show([f"{one.obj.ref} is suspended{' (dry run)' if dry_run else ''}"])
