"""`stellwerk delete`: a release out of a cluster."""

from __future__ import annotations

from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.releases import releasing, revision
from stellwerk.cli.shell import confirm, settings, text
from stellwerk.releases.release import Release


@with_cluster
async def delete(cluster: ClusterSession, name: str, timeout: float, yes: bool, dry_run: bool) -> None:
    """Delete a release after a confirmation, and wait until its objects are gone."""
    key = releasing.key_of(cluster.namespace, name)
    with releasing.explained("delete", key):
        runner = revision.runner(cluster)
        release = await runner.deletable(key)
        if dry_run:
            settings.show([*removal_lines(release), f"Release {key} would be deleted (dry run)"])
            return
        objects = "1 object" if release.objects == 1 else f"{release.objects} objects"
        confirm.removal(f"release {key} with {objects}", yes=yes)
        await runner.delete(key, timeout)
    settings.show([f"Release {key} successfully deleted"])


def removal_lines(release: Release) -> list[str]:
    """The objects that go with a release, a line each. Pure: their names come from its ConfigMap."""
    going = [entry for entry in release.inventory if not entry.delete.orphans_on_delete]
    return [f"- {text.escaped(str(entry.ref))}" for entry in going]
