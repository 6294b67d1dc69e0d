"""`stellwerk template`: the manifests of a release, as its first revision would have them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.releases import releasing, revision
from stellwerk.cli.releases.set_values import GivenValues
from stellwerk.cli.shell import output, settings
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject
from stellwerk.releases.release import Release
from stellwerk.render.request import offline_capabilities
from stellwerk.render.request.request import ClusterApis


def template(
    name: str,
    sources: tuple[Path, ...],
    files: tuple[Path, ...],
    json: tuple[str, ...],
    words: tuple[str, ...],
    strings: tuple[str, ...],
    contents: tuple[str, ...],
    delete_hooks: str,
    offline: bool,
    kube_version: str,
    api_versions: tuple[str, ...],
) -> None:
    """Print the manifests that the sources render to, for the cluster or for an assumed one."""
    if not offline and (kube_version or api_versions):
        raise click.UsageError("--kube-version and --api-versions describe a cluster that is not asked: add --offline.")
    given = GivenValues(files, json, words, strings, contents)
    if not offline:
        _print(name, sources, given, delete_hooks)
        return
    call, apis = settings.current(), _assumed(kube_version, api_versions)
    namespace = "" if call.all_namespaces else call.namespace
    bodies = asyncio.run(_rendered(apis, namespace, name, sources, given, delete_hooks))
    output.print_manifests(bodies, call.output)


def _assumed(kube_version: str, api_versions: Sequence[str]) -> ClusterApis:
    listed = [word.strip() for words in api_versions for word in words.split(",")]
    try:
        return offline_capabilities.cluster(kube_version, [word for word in listed if word])
    except ValueError as error:
        raise click.BadParameter(f"{error}.", param_hint="--kube-version") from None


@with_cluster
async def _print(
    cluster: ClusterSession, name: str, sources: Sequence[Path], given: GivenValues, delete_hooks: str
) -> None:
    bodies = await _rendered(cluster.client, cluster.namespace, name, sources, given, delete_hooks)
    output.print_manifests(bodies, cluster.settings.output)


async def _rendered(
    place: Client | ClusterApis,
    namespace: str | None,
    name: str,
    sources: Sequence[Path],
    given: GivenValues,
    delete_hooks: str,
) -> list[JsonObject]:
    key = releasing.key_of(namespace, name)
    with releasing.explained("render", key):
        first = replace(Release(key=key), revision=1)
        documents = await revision.documents(place, first, sources, given, delete_hooks)
    return [document.body for document in documents]
