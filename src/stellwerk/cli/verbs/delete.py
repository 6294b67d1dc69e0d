"""`stellwerk delete`: a release out of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.options import DRY_RUN
from stellwerk.cli.completion.completers import complete_release
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import confirm, settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession


@click.command("delete")
@click.argument("name", metavar="NAME", shell_complete=complete_release)
@releasing.TIMEOUT
@click.option("--yes", is_flag=True, help="Do not ask.")
@DRY_RUN
@options.all_of
def command(name: str, timeout: float, yes: bool, dry_run: bool) -> None:
    """Take a release with all its objects out of the cluster, and return when they are gone."""
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(lambda cluster: _delete(cluster, name, timeout, yes, dry_run))


async def _delete(cluster: ClusterSession, name: str, timeout: float, yes: bool, dry_run: bool) -> None:
    key = releasing.key_of(cluster.namespace, name)
    with releasing.explained("delete", key):
        engine = releasing.engine(cluster)
        release = await engine.deletable(key)
        if dry_run:
            going = [entry for entry in release.inventory if not entry.delete.orphans_on_delete]
            settings.show([*(f"- {entry.ref}" for entry in going), f"Release {key} would be deleted (dry run)"])
            return
        objects = "1 object" if release.objects == 1 else f"{release.objects} objects"
        confirm.removal(f"release {key} with {objects}", yes=yes)
        await engine.delete(key, timeout)
    settings.show([f"Release {key} successfully deleted"])
