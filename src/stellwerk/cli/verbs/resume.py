"""`stellwerk resume`: end a suspension."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import object_argument, options
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.arguments.options import DRY_RUN, TIMEOUT
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import NotReady

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.kube.types.model import Unstructured


@click.command("resume")
@object_argument.many
@click.option("--wait", is_flag=True, help="Return when it is Ready, or failed.")
@TIMEOUT
@DRY_RUN
@options.all_of
def command(choice: tuple[str, ...], is_all: bool, labels: str, wait: bool, timeout: float, dry_run: bool) -> None:
    """Have a suspended object looked after again."""
    from stellwerk.cli.objects.cluster import carry_out

    wanted = object_argument.chosen(choice, is_all=is_all, labels=labels)
    if not carry_out(lambda cluster: _resume(cluster, wanted, wait and not dry_run, timeout, dry_run)):
        raise NotReady


async def _resume(cluster: ClusterSession, choice: ObjectSelection, wait: bool, timeout: float, dry_run: bool) -> bool:
    from stellwerk.cli.objects import object_actions, wait_for

    resumed: list[tuple[object_actions.ActionTarget, Unstructured]] = []
    for one in await object_actions.targets(cluster, choice, "resumption", "resumed"):
        latest = await object_actions.patched(cluster, one.resource, one.obj, one.actions.resumption(), dry_run=dry_run)
        resumed.append((one, latest))
        (settings.say if wait else _show)(f"{one.obj.ref} is resumed{' (dry run)' if dry_run else ''}")
    if not wait:
        return True
    ends = [(one, wait_for.has_ended_since(latest.metadata.generation)) for one, latest in resumed]
    return await wait_for.all_of(cluster, ends, timeout_seconds=timeout)


def _show(line: str) -> None:
    settings.show([line])
