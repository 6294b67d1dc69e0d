"""`stellwerk suspend` and `stellwerk resume`: suspend the reconciliation of objects, and resume it."""

from __future__ import annotations

from stellwerk.cli.arguments import object_argument
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.objects import object_actions, wait_for
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import NotReady
from stellwerk.delivery.insight import Suspendable
from stellwerk.kube.types.model import Unstructured


def suspend(choice: tuple[str, ...], is_all: bool, labels: str, reason: str, dry_run: bool) -> None:
    """Suspend the chosen objects."""
    _suspend(object_argument.chosen(choice, is_all=is_all, labels=labels), reason, dry_run)


@with_cluster
async def _suspend(cluster: ClusterSession, choice: ObjectSelection, reason: str, dry_run: bool) -> None:
    for target in await object_actions.targets(cluster, choice, lambda of: of.suspend, "suspended"):
        patch = target.action.suspend(reason)
        await object_actions.patched(cluster, target.resource, target.obj, patch, dry_run=dry_run)
        settings.show([f"{target.obj.ref} is suspended{' (dry run)' if dry_run else ''}"])


def resume(choice: tuple[str, ...], is_all: bool, labels: str, wait: bool, timeout: float, dry_run: bool) -> None:
    """Resume the chosen objects. With `wait`, return when they are ready, and raise NotReady where one is not."""
    chosen = object_argument.chosen(choice, is_all=is_all, labels=labels)
    if not _resume(chosen, wait and not dry_run, timeout, dry_run):
        raise NotReady


@with_cluster
async def _resume(cluster: ClusterSession, choice: ObjectSelection, wait: bool, timeout: float, dry_run: bool) -> bool:
    resumed: list[tuple[object_actions.ActionTarget[Suspendable], Unstructured]] = []
    for target in await object_actions.targets(cluster, choice, lambda of: of.suspend, "resumed"):
        patch = target.action.resume()
        latest = await object_actions.patched(cluster, target.resource, target.obj, patch, dry_run=dry_run)
        resumed.append((target, latest))
        line = f"{target.obj.ref} is resumed{' (dry run)' if dry_run else ''}"
        if wait:
            settings.say(line)
        else:
            settings.show([line])
    if not wait:
        return True
    ends = [(target, wait_for.has_ended_since(latest.metadata.generation)) for target, latest in resumed]
    return await wait_for.all_of(cluster, ends, timeout_seconds=timeout)
