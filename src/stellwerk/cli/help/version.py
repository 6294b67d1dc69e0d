"""`stellwerk version`: what runs here, and what it talks to."""

from __future__ import annotations

import platform

from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.error_reports import explained
from stellwerk.cli.shell.output import print_result
from stellwerk.cli.shell.own_version import own_version
from stellwerk.kube.types.model import JsonObject


def print_versions(client: bool) -> None:
    """Print our version and the cluster's; with `client` the cluster is not asked."""
    if settings.current().output.form == "short":
        settings.show([own_version()])
        return
    versions: JsonObject = {"version": own_version(), "stellwerk": own_version(), "python": platform.python_version()}
    if not client:
        versions |= _of_the_cluster()
    print_result(lambda _: [f"{name:<12}{version}" for name, version in versions.items()], lambda: versions)


def _of_the_cluster() -> JsonObject:
    """The cluster's version; empty, with a message, where the cluster cannot be asked."""
    try:
        return {"kubernetes": _kubernetes_version()}
    except Exception as error:
        known = explained(error)
        if known is None:
            raise
        settings.say("\n".join(known[0].lines()))
        return {}


@with_cluster
async def _kubernetes_version(cluster: ClusterSession) -> str:
    answer = await cluster.client.document("/version")
    return f"{str(answer.get('gitVersion', '')).removeprefix('v')} at {cluster.client.config.server}"
