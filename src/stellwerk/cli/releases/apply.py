"""`stellwerk apply`: charts, kustomizations and manifests into a cluster as one release, without a controller."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from stellwerk.apply.objects.manifests import Document
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.releases import dry_run as dry_runs
from stellwerk.cli.releases import releasing, revision
from stellwerk.cli.releases.set_values import GivenValues
from stellwerk.cli.shell import progress_line, settings, text
from stellwerk.cli.shell.errors import NotReady
from stellwerk.releases.errors import TooLate
from stellwerk.releases.release import Release
from stellwerk.releases.release_runner import Engine


@with_cluster
async def apply(
    cluster: ClusterSession,
    name: str,
    sources: tuple[Path, ...],
    files: tuple[Path, ...],
    json: tuple[str, ...],
    words: tuple[str, ...],
    strings: tuple[str, ...],
    contents: tuple[str, ...],
    delete_hooks: str,
    create_namespace: bool,
    timeout: float,
    dry_run: bool,
) -> None:
    """Apply the next revision of a release and wait for it; with `dry_run`, print what it would change.

    A dry run fails where the apply would fail before its first write, or where the API server would refuse an object.
    """
    key = releasing.key_of(cluster.namespace, name)
    with releasing.explained("apply", key):
        async with progress_line.line(cluster.settings) as say:
            runner = revision.runner(
                cluster, creates_namespaces=create_namespace, report=lambda words: say(text.escaped(words))
            )
            release = await runner.next_revision(key)
            given = GivenValues(files, json, words, strings, contents)
            documents = await revision.documents(cluster.client, release, sources, given, delete_hooks)
            if not dry_run:
                try:
                    with releasing.interruptible(key):
                        await runner.apply(release, documents, timeout)
                except TooLate as error:
                    raise await releasing.too_late(cluster, "apply", key, error) from None
        if dry_run:
            await _preview(cluster, runner, release, documents)
            return
    settings.show([f"Release {key} successfully applied"])


async def _preview(cluster: ClusterSession, runner: Engine, begun: Release, documents: Sequence[Document]) -> None:
    """Print what the revision would change. Raises NotReady where the API server would refuse an object."""
    wanted = await runner.wanted(begun, documents)
    release = await runner.taken_over(begun, wanted)
    await runner.check(release, wanted)
    compared = await dry_runs.of_set(
        cluster.client,
        wanted,
        release.owner.prefix,
        release.inventory,
        creates_namespaces=runner.creates_namespaces,
    )
    compared.warn()
    same = dry_runs.unchanged(compared.lines, wanted)
    settings.show(dry_runs.shown(compared.lines, same, cluster.settings.style())[:-1])
    if any(line.is_refused for line in compared.lines):
        settings.show([f"Release {release.key} cannot become revision {release.revision} (dry run)"])
        raise NotReady
    settings.show([f"Release {release.key} would become revision {release.revision} (dry run)"])
