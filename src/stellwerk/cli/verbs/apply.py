"""`stellwerk apply`: charts, kustomizations and manifests into a cluster as one release, without a controller."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.arguments.options import DRY_RUN
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import settings, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stellwerk.apply.set.model.desired_set import DesiredObject
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.releases.release import Release


@click.command("apply")
@releasing.NAME
@releasing.SOURCES
@releasing.VALUES
@releasing.DELETE_HOOKS
@click.option("--create-namespace", is_flag=True, help="Create namespaces that are missing.")
@releasing.TIMEOUT
@DRY_RUN
@options.all_of
def command(
    name: str,
    sources: tuple[Path, ...],
    files: tuple[Path, ...],
    delete_hooks: str,
    create_namespace: bool,
    timeout: float,
    dry_run: bool,
) -> None:
    """Bring charts, kustomizations and manifests into the cluster as one release, and return when it is ready."""
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(lambda cluster: _apply(cluster, name, sources, files, delete_hooks, create_namespace, timeout, dry_run))


async def _apply(
    cluster: ClusterSession,
    name: str,
    sources: tuple[Path, ...],
    files: tuple[Path, ...],
    delete_hooks: str,
    create_namespace: bool,
    timeout: float,
    dry_run: bool,
) -> None:
    from stellwerk.cli.shell import progress_line
    from stellwerk.releases.errors import TooLate

    key = releasing.key_of(cluster.namespace, name)
    with releasing.explained("apply", key):
        async with progress_line.line(cluster.settings) as say:
            engine = releasing.engine(
                cluster, creates_namespaces=create_namespace, report=lambda words: say(text.escaped(words))
            )
            release = await engine.next_revision(key)
            documents = await releasing.documents(cluster.client, release, sources, files, delete_hooks)
            if not dry_run:
                try:
                    await engine.apply(release, documents, timeout)
                except TooLate as error:
                    raise await releasing.too_late(cluster, "apply", key, error) from None
        if dry_run:
            wanted = await engine.wanted(release, documents)
            await _preview(cluster, await engine.taken_over(release, wanted), wanted)
            return
    settings.show([f"Release {key} successfully applied"])


async def _preview(cluster: ClusterSession, release: Release, wanted: Sequence[DesiredObject]) -> None:
    from stellwerk.cli.releases import dry_run

    found = await dry_run.of_set(cluster.client, wanted, release.owner.prefix, release.inventory)
    found.warn()
    same = dry_run.unchanged(found.lines, wanted)
    settings.show(dry_run.shown(found.lines, same, cluster.settings.style())[:-1])
    settings.show([f"Release {release.key} would become revision {release.revision} (dry run)"])
