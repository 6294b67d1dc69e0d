"""`stellwerk export`: custom resources as somebody could have written them, to keep or to apply elsewhere.

Status and what the API server sets are left out: another cluster would refuse or ignore them. Finalizers too, since the
operator of the other cluster sets its own. Secrets that the resources refer to are not exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from stellwerk.cli.arguments import options
from stellwerk.cli.completion.completers import complete_kind
from stellwerk.cli.shell import settings

if TYPE_CHECKING:
    from stellwerk.cli.objects.cluster import ClusterSession
    from stellwerk.kube.types.identifiers import Resource
    from stellwerk.kube.types.model import JsonObject, Unstructured


@click.command("export")
@click.argument("kind", default="", shell_complete=complete_kind)
@options.all_of
def command(kind: str) -> None:
    """Print custom resources without what belongs to this cluster, ready to be applied again.

    Without KIND, those of every kind of ours. Secrets that they refer to are not among them.
    """
    from stellwerk.cli.objects.cluster import carry_out

    carry_out(lambda cluster: _export(cluster, kind))


async def _export(cluster: ClusterSession, kind: str) -> None:
    from stellwerk.cli.shell import output
    from stellwerk.cli.verbs import get

    query = get.GetQuery((kind,) if kind else ())
    wanted = await get.resources(cluster, query) if kind else await _of_ours(cluster)
    found = await get.read(cluster, wanted)
    if not found:
        settings.say(get.nothing_found(cluster, query, wanted, looked_at=0))
        return
    output.print_manifests([portable(obj) for obj in found], cluster.settings.output)


_MADE_BY_OPERATORS = ("blueprintversions",)


async def _of_ours(cluster: ClusterSession) -> list[Resource]:
    """What people write of the groups of our operators."""
    from stellwerk.cli import kinds
    from stellwerk.cli.verbs import get

    await get.resources(cluster, get.GetQuery())  # says so where nothing is installed
    groups = {row.resource.group for row in kinds.OWN}
    served = [resource for resource in await cluster.client.mapper.all() if resource.group in groups]
    return [resource for resource in served if resource.plural not in _MADE_BY_OPERATORS]


def portable(obj: Unstructured) -> JsonObject:
    """The object without what only its cluster can know. Pure."""
    from stellwerk.apply.objects.desired import SERVER_OWNED

    metadata = obj.body.get("metadata")
    own = {*SERVER_OWNED, "finalizers", "ownerReferences"}
    kept = {key: value for key, value in metadata.items() if key not in own} if isinstance(metadata, dict) else {}
    return {**{key: value for key, value in obj.body.items() if key != "status"}, "metadata": kept}
