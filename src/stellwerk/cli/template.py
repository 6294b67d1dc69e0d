"""`stellwerk template`: the manifests of a release, as its first revision would have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stellwerk.cli import releasing, settings

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster


@click.command("template")
@releasing.NAME
@releasing.SOURCES
@releasing.VALUES
@settings.all_of
def command(name: str, sources: tuple[Path, ...], files: tuple[Path, ...]) -> None:
    """Print the manifests of a release as its first revision would have them."""
    from stellwerk.cli.cluster import carry_out

    carry_out(lambda cluster: _print(cluster, name, sources, files))


async def _print(cluster: Cluster, name: str, sources: tuple[Path, ...], files: tuple[Path, ...]) -> None:
    from stellwerk.cli import output
    from stellwerk.operators.clm.release import Release

    key = releasing.key_of(cluster, name)
    with releasing.explained("render", key):
        documents = await releasing.documents(cluster, replace(Release(key=key), revision=1), sources, files)
    output.print_manifests([document.body for document in documents], cluster.settings.output)
