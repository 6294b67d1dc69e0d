"""`stellwerk reconcile`: reconcile objects now."""

from __future__ import annotations

from datetime import UTC, datetime

from stellwerk.cli.arguments import object_argument
from stellwerk.cli.arguments.object_argument import ObjectSelection
from stellwerk.cli.objects import health, object_actions, wait_for
from stellwerk.cli.objects.cluster import ClusterSession, with_cluster
from stellwerk.cli.objects.object_actions import ActionTarget
from stellwerk.cli.objects.wait_for import Holds
from stellwerk.cli.shell import settings
from stellwerk.cli.shell.errors import Failure, NotReady
from stellwerk.delivery import reconcile_request
from stellwerk.delivery.insight import Reconcilable
from stellwerk.kube.types.model import Unstructured, unstructured


def reconcile(
    choice: tuple[str, ...],
    is_all: bool,
    labels: str,
    with_source: bool,
    force: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
) -> None:
    """Request a reconcile of the chosen objects. With `wait`, raise NotReady where one of them is not ready then."""
    chosen = object_argument.chosen(choice, is_all=is_all, labels=labels)
    if not _request(chosen, with_source, force, wait and not dry_run, timeout, dry_run):
        raise NotReady


@with_cluster
async def _request(
    cluster: ClusterSession,
    choice: ObjectSelection,
    with_source: bool,
    force: bool,
    wait: bool,
    timeout: float,
    dry_run: bool,
) -> bool:
    targets = await object_actions.targets(cluster, choice, lambda of: of.reconcile, "reconciled on request")
    for one in targets if wait else ():
        _check_not_suspended(one.obj)
    moment = datetime.now(UTC).isoformat(timespec="microseconds")
    for one in targets:
        if with_source:
            await _request_source(cluster, one, moment, dry_run)
        forces = force and one.action.defers_drift
        patch = reconcile_request.forced(moment) if forces else one.action.request(moment)
        await object_actions.patched(cluster, one.resource, one.obj, patch, dry_run=dry_run)
        if not wait:
            settings.show([f"{one.obj.ref} is asked to reconcile{' (dry run)' if dry_run else ''}"])
    if not wait:
        return True
    ends = [(target, _is_settled(target, moment, force)) for target in targets]
    return await wait_for.all_of(
        cluster,
        ends,
        timeout_seconds=timeout,
        was_noticed=lambda seen: seen is None or reconcile_request.was_handled(seen, moment),
    )


def _check_not_suspended(obj: Unstructured) -> None:
    """Refuse to wait for what does not happen. Raises Failure."""
    says = health.of(obj)
    if says.state == "Suspended" and not obj.metadata.is_terminating:
        raise Failure(
            f"{obj.ref} is suspended, so that waiting for its reconcile has no end",
            cause=f"reason: {says.reason}" if says.reason else "spec.suspend is true",
            fix=f"resume it: stellwerk resume {obj.gvk.kind.lower()}/{obj.key.name} -n {obj.key.namespace}",
            subject=str(obj.ref),
        )


def _is_settled(one: ActionTarget[Reconcilable], moment: str, force: bool) -> Holds:
    """Whether the request was handled and the object has come to an end. Where it has failed, drift may remain."""
    forces = force and one.action.defers_drift

    def holds(seen: Unstructured | None) -> bool:
        if seen is None:
            return True
        is_done = not forces or not health.of(seen).is_ready or reconcile_request.force_was_handled(seen, moment)
        return is_done and one.action.was_handled(seen, moment) and wait_for.has_ended(seen)

    return holds


async def _request_source(
    cluster: ClusterSession, target: ActionTarget[Reconcilable], moment: str, dry_run: bool
) -> None:
    source = target.action.source(target.obj)
    if source is None:
        settings.say(f"  {target.obj.ref} has no source that can be asked")
        return
    resource, key = source
    found = await cluster.client.get(unstructured(resource), key.name, key.namespace)
    await object_actions.patched(cluster, resource, found, target.action.request(moment), dry_run=dry_run)
    settings.say(f"  {found.ref} is asked to reconcile")
