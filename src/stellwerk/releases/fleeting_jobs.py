"""The Jobs of a release while a run lasts, where Kubernetes removes some of them after their success.

Such a Job can be complete and gone between two passes, and a list does not show that it has been there. So where a
release has one (`ttlSecondsAfterFinished`), its Jobs are watched from before the first write, and a pass reads what the
watch shows: Jobs that were complete when they were removed are shown as they were (`FinishedJobs`).

A run that is interrupted forgets this. If its Job completes and goes before the next run, that run creates it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

from stellwerk.api.batch import Job
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.model.confirmation import Live, live_view
from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import ObjectIdentity
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.plan.plan_input import LiveObject
from stellwerk.apply.set.plan.plan_object import goes_by_itself
from stellwerk.delivery.finished_jobs import FinishedJobs
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock

_PATIENCE_SECONDS = 30.0
"""How long to wait until a watch shows what exists, and what a pass has written. Without a watch, Jobs are listed."""


@dataclass(frozen=True, slots=True)
class WatchedJobs:
    """The Jobs of one release in the namespaces where they are watched."""

    watches: Mapping[str, Informer[Live]] = field(default_factory=dict)
    """By namespace."""
    finished: FinishedJobs = field(default_factory=FinishedJobs)

    def shown(self, resource: Resource, namespace: str) -> dict[ObjectIdentity, LiveObject] | None:
        """The Jobs of a namespace; None for another kind, and where there is no watch."""
        watch = self.watches.get(namespace) if resource.gvk[::2] == Job.resource.gvk[::2] else None
        if watch is None or not watch.has_synced:
            return None
        gone = self.finished.of(lambda live: live.metadata.namespace == namespace)
        addresses = ((Address(resource, obj.key), obj) for obj in watch.store.all())
        return gone | {ObjectIdentity.of(address.ref): LiveObject(address, obj) for address, obj in addresses}

    async def catch_up(self, carried: Iterable[ActionResult]) -> None:
        """Return when the watches show what was written, or show nothing for half a minute."""
        for each in carried:
            address, live = each.address, each.live
            watch = self.watches.get(address.key.namespace) if address.resource == Job.resource else None
            if watch is not None and watch.has_synced and live is not None and each.confirmation is not None:
                with suppress(TimeoutError):
                    await watch.wait_for(address.key, live.metadata.resource_version, _PATIENCE_SECONDS)


@asynccontextmanager
async def watched(
    client: Client, owner: Owner, wanted: Sequence[DesiredObject], clock: Clock
) -> AsyncIterator[WatchedJobs]:
    """Watch the Jobs of a release where one of them goes by itself, and nothing where none does."""
    namespaces = {obj.address.key.namespace for obj in wanted if goes_by_itself(obj.desired.body)}
    if not namespaces:
        yield WatchedJobs()
        return
    labels = f"{owner.mark}={owner.label_value}"
    view = live_view(Job.resource)
    jobs = WatchedJobs(
        {name: Informer(client, view, namespace=name, labels=labels, clock=clock) for name in sorted(namespaces)}
    )
    for watch in jobs.watches.values():
        watch.on_change(jobs.finished.note)
    tasks = [asyncio.create_task(watch.run(), name=f"watch {watch.name}") for watch in jobs.watches.values()]
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await asyncio.gather(*(watch.wait_settled() for watch in jobs.watches.values()))
        yield jobs
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
