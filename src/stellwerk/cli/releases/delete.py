"""`stellwerk delete`: a release out of a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.releases import releasing, revision
from stellwerk.cli.shell import confirm, settings, text
from stellwerk.releases.removal import Departure


@with_cluster
async def delete(cluster: ClusterSession, name: str, timeout: float, yes: bool, dry_run: bool) -> None:
    """Delete a release after a confirmation, and wait until its objects are gone."""
    key = releasing.key_of(cluster.namespace, name)
    with releasing.explained("delete", key):
        runner = revision.runner(cluster)
        release = await runner.deletable(key)
        if dry_run:
            lines = removal_lines(await runner.departures(release))
            settings.show([*lines, f"Release {key} would be deleted (dry run)"])
            return
        objects = "1 object" if release.objects == 1 else f"{release.objects} objects"
        confirm.removal(f"release {key} with {objects}", yes=yes)
        with releasing.interruptible(key):
            await runner.delete(key, timeout)
    settings.show([f"Release {key} successfully deleted"])


def removal_lines(departures: Iterable[Departure]) -> list[str]:
    """What becomes of the objects of a release, a line each. Pure: their names come from its ConfigMap."""
    return [text.escaped(f"= {one.ref} will stay: {one.stays}" if one.stays else f"- {one.ref}") for one in departures]
