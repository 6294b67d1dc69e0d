"""The objects of an inventory that are not settled, as a user of `why` sees them: live, and of workloads the pods."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from stellwerk.apply.errors import UnreadableStatus
from stellwerk.apply.readiness import readiness
from stellwerk.apply.readiness.kstatus import Readiness, waiting
from stellwerk.delivery import workloads
from stellwerk.delivery.sets import holds
from stellwerk.delivery.sets.holds import Hold
from stellwerk.delivery.workloads import Workload
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.runtime.insight.diagnosis import ClusterReader

NAMED = 5
"""How many objects that are not ready are looked at; the inventory has all."""


@dataclass(frozen=True, slots=True)
class UnsettledObject:
    """An object of the inventory that is not settled; `live` is None where it does not exist or is not read."""

    ref: ObjectRef
    live: Unstructured | None
    workload: Workload | None = None
    is_elsewhere: bool = False
    """Whether it is in another cluster, which is not read."""
    is_hidden: bool = False
    """Whether the user may not read it."""
    hold: Hold | None = None
    """What it waits for without an end of its own."""
    odd: str = ""
    """Why it cannot be read, where it exists and is not what its kind promises."""

    def is_done(self, now: datetime) -> bool:
        """Whether there is nothing to wait for any more: the inventory shows it a moment later."""
        return self.live is not None and not self.live.metadata.is_terminating and judged(self.live, now).is_ready


async def read(
    reader: ClusterReader, refs: Sequence[ObjectRef], later: Sequence[ObjectRef] = ()
) -> tuple[UnsettledObject, ...]:
    """Read the first few of these objects; `later` are those whose wave has not begun."""
    return tuple(await asyncio.gather(*(_read(reader, ref, later) for ref in refs[:NAMED])))


async def _read(reader: ClusterReader, ref: ObjectRef, later: Sequence[ObjectRef]) -> UnsettledObject:
    try:
        resource = await reader.client.mapper.resource(ref.gvk)
    except NotServed:
        return UnsettledObject(ref, None)
    live = await reader.find(resource, ref.key.name, ref.key.namespace)
    if live is None:
        is_hidden = reader.may_not_see(resource, ref.key.namespace)
        return UnsettledObject(ref, None, is_hidden=is_hidden, odd=reader.why_unreadable(resource, ref.key))
    is_workload = (ref.gvk.group, ref.gvk.kind) in workloads.OWNERS_OF_PODS
    workload = await workloads.read(reader, live) if is_workload else None
    hold = await holds.read(reader, live, later)
    return UnsettledObject(ref, live, workload, hold=hold)


def judged(live: Unstructured, now: datetime) -> Readiness:
    """As the engine judges it, with the hints of its author."""
    try:
        return readiness.assess(live, now=now, hints=readiness.hints_on(live))
    except UnreadableStatus as error:
        return waiting(str(error))
