"""`stellwerk template`: the manifests of a release, as its first revision would have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.releases import releasing
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.kube.client.client import Client
    from stellwerk.kube.types.model import JsonObject
    from stellwerk.render.request.request import ClusterApis as Facts


@click.command("template")
@releasing.NAME
@releasing.SOURCES
@releasing.VALUES
@releasing.DELETE_HOOKS
@click.option("--offline", is_flag=True, help="Ask no cluster: whatever templates look up is not there.")
@click.option("--kube-version", metavar="VERSION", default="", help="The Kubernetes that charts see; with --offline.")
@click.option(
    "--api-versions",
    multiple=True,
    metavar="LIST",
    help="What it serves besides its own, as example.com/v1 or example.com/v1/Kind; with --offline.",
)
@options.all_of
def command(
    name: str,
    sources: tuple[Path, ...],
    files: tuple[Path, ...],
    delete_hooks: str,
    offline: bool,
    kube_version: str,
    api_versions: tuple[str, ...],
) -> None:
    """Print the manifests of a release as its first revision would have them."""
    if offline:
        _print_offline(name, sources, files, delete_hooks, _assumed(kube_version, api_versions))
        return
    if kube_version or api_versions:
        raise click.UsageError("--kube-version and --api-versions describe a cluster that is not asked: add --offline.")
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(lambda cluster: _print(cluster, name, sources, files, delete_hooks))


def _assumed(kube_version: str, api_versions: Sequence[str]) -> Facts:
    from stellwerk.render.request import offline_capabilities

    listed = [word.strip() for words in api_versions for word in words.split(",")]
    try:
        return offline_capabilities.cluster(kube_version, [word for word in listed if word])
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--kube-version") from None


def _print_offline(name: str, sources: Sequence[Path], files: Sequence[Path], delete_hooks: str, facts: Facts) -> None:
    import asyncio

    found = settings.current()
    bodies = asyncio.run(_rendered(facts, found.namespace, name, sources, files, delete_hooks))
    from stellwerk.cli.shell import output

    output.print_manifests(bodies, found.output)


async def _print(
    cluster: ClusterSession, name: str, sources: Sequence[Path], files: Sequence[Path], delete_hooks: str
) -> None:
    from stellwerk.cli.shell import output

    bodies = await _rendered(cluster.client, cluster.namespace, name, sources, files, delete_hooks)
    output.print_manifests(bodies, cluster.settings.output)


async def _rendered(
    place: Client | Facts,
    namespace: str | None,
    name: str,
    sources: Sequence[Path],
    files: Sequence[Path],
    delete_hooks: str,
) -> list[JsonObject]:
    from stellwerk.releases.release import Release

    key = releasing.key_of(namespace, name)
    with releasing.explained("render", key):
        first = replace(Release(key=key), revision=1)
        documents = await releasing.documents(place, first, sources, files, delete_hooks)
    return [document.body for document in documents]
