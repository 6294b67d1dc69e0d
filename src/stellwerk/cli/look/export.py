"""`stellwerk export`: custom resources as a user could have written them, to keep or to apply elsewhere.

Status and what the API server sets are left out: another cluster would refuse or ignore them. Finalizers too, since the
operator of the other cluster sets its own. Secrets that the resources refer to are not exported.
"""

from __future__ import annotations

from stellwerk.apply.objects.desired import SERVER_OWNED
from stellwerk.cli import kinds
from stellwerk.cli.look import object_list
from stellwerk.cli.look.object_list import ObjectQuery
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import output, settings
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured


@with_cluster
async def export(cluster: ClusterSession, kind: str) -> None:
    """Print the objects of a kind, or of all kinds of ours, without what belongs to this cluster."""
    query = ObjectQuery((kind,) if kind else ())
    wanted = await object_list.resources(cluster, query) if kind else await _of_ours(cluster)
    found = await object_list.read(cluster, wanted)
    if not found:
        settings.say(object_list.nothing_found(cluster, query, wanted, looked_at=0))
        return
    output.print_manifests([portable(obj) for obj in found], cluster.settings.output)


_MADE_BY_OPERATORS = ("blueprintversions",)


async def _of_ours(cluster: ClusterSession) -> list[Resource]:
    """The kinds of our operators' groups that users write."""
    await object_list.resources(cluster, ObjectQuery())  # raises Failure where no kind is installed
    groups = {row.resource.group for row in kinds.OWN}
    served = [resource for resource in await cluster.client.mapper.all() if resource.group in groups]
    return [resource for resource in served if resource.plural not in _MADE_BY_OPERATORS]


def portable(obj: Unstructured) -> JsonObject:
    """The object without the fields that its cluster sets. Pure."""
    metadata = obj.body.get("metadata")
    own = {*SERVER_OWNED, "finalizers", "ownerReferences"}
    kept = {key: value for key, value in metadata.items() if key not in own} if isinstance(metadata, dict) else {}
    return {**{key: value for key, value in obj.body.items() if key != "status"}, "metadata": kept}
