"""`stellwerk unstick`: a deletion that does not end.

A deletion that waits has a reason, and mostly a better remedy than force: without `--force` the verb shows both and
changes nothing. With `--force` it names the consequence, and the user confirms it by typing the object's name.
"""

from __future__ import annotations

from stellwerk.cli.arguments.object_argument import ObjectArgument
from stellwerk.cli.objects import findings, object_actions, object_summary
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import confirm, settings
from stellwerk.cli.shell.errors import Exit, Failure
from stellwerk.delivery.insight import Unstickable
from stellwerk.kube.types.model import Unstructured


@with_cluster
async def unstick(cluster: ClusterSession, subject: ObjectArgument, force: bool, yes: bool, dry_run: bool) -> None:
    """Explain what blocks the deletion; with `force`, end it after a confirmation. Raises Failure."""
    obj = await cluster.object(subject)
    action = object_actions.action(obj, lambda of: of.unstick, "unstuck")
    if not obj.metadata.is_terminating:
        raise Failure(
            f"{obj.ref} is not being deleted",
            cause="only a deletion that waits can be unstuck",
            fix=f"see how it is doing: stellwerk why {_words(obj)}",
            subject=str(obj.ref),
            code=Exit.USAGE,
        )
    if not force:
        await _explain(cluster, obj, action)
        return
    if obstacle := await action.obstacle(cluster.client, obj):
        cause, fix = obstacle
        raise Failure(f"force has no effect on {obj.ref}", cause=cause, fix=fix, subject=str(obj.ref), code=Exit.USAGE)
    confirm.typed(obj.key.name, action.consequence_for(obj), yes=yes or dry_run)
    resource = await cluster.resource(subject.kind)
    await object_actions.patched(cluster, resource, obj, action.force(obj), dry_run=dry_run)
    settings.show([f"The deletion of {obj.ref} is forced{' (dry run)' if dry_run else ''}"])


async def _explain(cluster: ClusterSession, obj: Unstructured, action: Unstickable) -> None:
    """Print what blocks the deletion, the safe next step, and the consequence of force."""
    settings.show(findings.told(await object_summary.reached(cluster, obj), cluster.settings.style()))
    if obstacle := await action.obstacle(cluster.client, obj):
        settings.show([f"Force: has no effect: {obstacle[0]}"])
        return
    settings.show([f"Force: stellwerk unstick {_words(obj)} --force; then {action.consequence_for(obj)}"])


def _words(obj: Unstructured) -> str:
    """The object as it is named on the command line."""
    return f"{obj.gvk.kind.lower()}/{obj.key.name} -n {obj.key.namespace}"
