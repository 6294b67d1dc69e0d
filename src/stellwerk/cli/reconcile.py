"""`stellwerk reconcile`: have an object looked at now."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from stellwerk.cli import settings
from stellwerk.cli.completion import complete_subject
from stellwerk.cli.errors import NotReady
from stellwerk.cli.options import DRY_RUN, TIMEOUT
from stellwerk.cli.subject import Subject, SubjectType

if TYPE_CHECKING:
    from stellwerk.cli.cluster import Cluster
    from stellwerk.kube.model import Unstructured


@click.command("reconcile")
@click.argument("subject", metavar="KIND/NAME", type=SubjectType(), shell_complete=complete_subject)
@click.option("--with-source", is_flag=True, help="Have its source looked at, too.")
@click.option("--wait", is_flag=True, help="Return when it was looked at and is Ready, or failed.")
@TIMEOUT
@DRY_RUN
@settings.all_of
def command(subject: Subject, with_source: bool, wait: bool, timeout: float, dry_run: bool) -> None:
    """Have an object looked at now."""
    from stellwerk.cli.cluster import carry_out

    ready = carry_out(lambda cluster: _request(cluster, subject, with_source, wait, timeout, dry_run))
    if not ready:
        raise NotReady


async def _request(
    cluster: Cluster, subject: Subject, with_source: bool, wait: bool, timeout: float, dry_run: bool
) -> bool:
    from stellwerk.cli import acting, following, health

    obj = await cluster.object(subject)
    actions = acting.actions(obj, "request", "reconciled on request")
    moment = datetime.now(UTC).isoformat(timespec="microseconds")
    if with_source:
        await _request_source(cluster, obj, moment, dry_run)
    resource = await cluster.resource(subject.kind)
    await acting.patched(cluster, resource, obj, actions.request(moment), dry_run=dry_run)
    if dry_run or not wait:
        settings.show([f"{obj.ref} is asked to reconcile{' (dry run)' if dry_run else ''}"])
        return True

    def settled(seen: Unstructured | None) -> bool:
        return seen is None or (actions.was_handled(seen, moment) and _has_ended(seen))

    seen = await following.until(cluster, resource, obj, settled, wanted="reconciled", timeout_seconds=timeout)
    settings.show([following.last_line(seen) if seen is not None else f"{obj.ref} is gone"])
    return seen is None or health.of(seen).is_ready


def _has_ended(seen: Unstructured) -> bool:
    """Pending is no end: what it needs may still come, and what that is has been told."""
    from stellwerk.cli import health

    says = health.of(seen)
    return says.is_ready or says.ready == "False" or says.state == "Suspended"


async def _request_source(cluster: Cluster, obj: Unstructured, moment: str, dry_run: bool) -> None:
    import msgspec

    from stellwerk.cli import acting
    from stellwerk.kube.model import unstructured
    from stellwerk.operators.component import actions
    from stellwerk.operators.component.api import Component

    source = actions.source_of(msgspec.convert(obj.body, Component)) if obj.gvk.kind == "Component" else None
    if source is None:
        settings.say(f"  {obj.ref} has no source that can be asked")
        return
    resource, key = source
    found = await cluster.client.get(unstructured(resource), key.name, key.namespace)
    await acting.patched(cluster, resource, found, actions.request(moment), dry_run=dry_run)
    settings.say(f"  {found.ref} is asked to reconcile")
