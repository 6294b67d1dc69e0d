"""`stellwerk export`: custom resources as a user could have written them, to keep or to apply elsewhere.

Status and what the API server sets are left out: another cluster would refuse or ignore them. Finalizers too, since the
operator of the other cluster sets its own. Secrets that the resources refer to are not exported.

Objects that an operator makes are left out, because the operator of the other cluster makes its own. An operation on a
tenant is the reason for this rule: without its status it would be a new one, and its Jobs would run again. Owners do
not decide: a subscribed tenant has an owner too, its application, and no operator would make it again.
"""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.apply.objects.desired import SERVER_OWNED, defined_by
from stellwerk.apply.objects.manifests import Document
from stellwerk.assembly import OPERATORS
from stellwerk.cli.look import object_list
from stellwerk.cli.look.object_list import ObjectQuery
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import output, settings
from stellwerk.cli.shell.errors import Failure
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured

_MADE = {(each.group, each.kind): each for spec in OPERATORS.values() for each in spec.made}


@with_cluster
async def export(cluster: ClusterSession, kind: str) -> None:
    """Print the objects of a kind, or of all kinds of ours, without what belongs to this cluster."""
    query = ObjectQuery((kind,) if kind else ())
    wanted = await object_list.resources(cluster, query)  # raises Failure where no kind of ours is installed
    if not kind:
        wanted = of_users(await cluster.client.mapper.all())
    elif made := [each for each in wanted if _are_all_made(each.group, each.kind)]:
        raise Failure(
            f"objects of kind {made[0].kind} are not exported",
            cause="an operator makes them, and the operator of another cluster makes its own",
            fix=f"to keep a record of them: kubectl get {made[0].plural}.{made[0].group} -o yaml",
        )
    found = [obj for obj in await object_list.read(cluster, wanted) if not is_made(obj)]
    if not found:
        settings.say(object_list.nothing_found(cluster, query, wanted, looked_at=0))
        return
    output.print_manifests([portable(obj) for obj in found], cluster.settings.output)


def of_users(served: Iterable[Resource]) -> list[Resource]:
    """The served kinds of our operators that users write, in the order in which they can be applied. Pure.

    Other products have kinds in the same groups.
    """
    by_name = {(each.group, each.kind): each for each in reversed(list(served))}
    definitions = [Document(each.body()) for spec in OPERATORS.values() for each in spec.installation().definitions]
    ours = dict.fromkeys((each.group, each.kind) for each in defined_by(definitions).values())
    return [by_name[name] for name in ours if name in by_name and not _are_all_made(*name)]


def is_made(obj: Unstructured) -> bool:
    """Whether an operator made the object, and makes it again where it is absent. Pure."""
    made = _MADE.get((obj.gvk.group, obj.gvk.kind))
    return made is not None and (made.label is None or made.label in obj.metadata.labels.items())


def _are_all_made(group: str, kind: str) -> bool:
    made = _MADE.get((group, kind))
    return made is not None and made.label is None


def portable(obj: Unstructured) -> JsonObject:
    """The object without the fields that its cluster sets. Pure."""
    metadata = obj.body.get("metadata")
    own = {*SERVER_OWNED, "finalizers", "ownerReferences"}
    kept = {key: value for key, value in metadata.items() if key not in own} if isinstance(metadata, dict) else {}
    return {**{key: value for key, value in obj.body.items() if key != "status"}, "metadata": kept}
