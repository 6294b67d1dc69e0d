"""Why a release is not ready: the objects that it waits for, with the pods of workloads. `explain` is pure."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

from stellwerk.apply.errors import UnreadableStatus
from stellwerk.apply.readiness import readiness
from stellwerk.apply.readiness.kstatus import Readiness, waiting
from stellwerk.apply.set.model.inventory import InventoryEntry
from stellwerk.delivery import workloads
from stellwerk.delivery.workloads import Workload
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.releases.release import Release, ReleaseState
from stellwerk.runtime.insight.diagnosis import AwaitedObject, ClusterReader, Diagnosis, Finding, root_causes

GOES_ON = "run stellwerk apply or delete again: it goes on, and its last lines name what failed"
"""The next step where nothing better is known."""

NAMED = 5
"""How many objects are looked at."""


@dataclass(frozen=True, slots=True)
class Pending:
    """An object that is not settled; `live` is None where it does not exist, or may not be read."""

    ref: ObjectRef
    live: Unstructured | None
    workload: Workload | None = None
    is_hidden: bool = False


async def diagnose(reader: ClusterReader, release: Release, now: datetime) -> Diagnosis:
    """Read the objects that are not settled, and explain."""
    unsettled = [entry for entry in release.inventory if not entry.phase.is_settled]
    pending = await asyncio.gather(*(_pending(reader, entry) for entry in unsettled[:NAMED]))
    return explain(release, pending, reader.hidden, now)


async def _pending(reader: ClusterReader, entry: InventoryEntry) -> Pending:
    try:
        resource = await reader.client.mapper.resource(entry.gvk)
    except NotServed:
        return Pending(entry.ref, None)
    live = await reader.find(resource, entry.key.name, entry.key.namespace)
    if live is None:
        return Pending(entry.ref, None, is_hidden=reader.may_not_see(resource, entry.key.namespace))
    is_workload = (entry.gvk.group, entry.gvk.kind) in workloads.KINDS
    return Pending(entry.ref, live, await workloads.read(reader, live) if is_workload else None)


def explain(release: Release, pending: list[Pending], hidden: tuple[str, ...], now: datetime) -> Diagnosis:
    """Why the release is not ready, and the next step. Pure."""
    if release.state == ReleaseState.Ready:
        return Diagnosis(hidden=hidden)
    found = [_finding(one, now, is_deleting=release.is_deleting) for one in pending]
    below = tuple(finding for finding in found if finding is not None)
    counts = f"{release.ready_objects + release.completed_objects} of {release.objects} objects are ready or completed"
    is_root = next(root_causes(below), None) is None
    advice = next((step for one in pending if one.workload and (step := workloads.advice(one.workload))), "")
    step = advice or GOES_ON
    unready = tuple(AwaitedObject(one.ref, _judged(one.live, now).why) for one in pending if one.live is not None)
    top = Finding(f"revision {release.revision}: {counts}", release.state, below, is_root_cause=is_root)
    return Diagnosis((top,), step, unready=unready, hidden=hidden)


def _finding(one: Pending, now: datetime, *, is_deleting: bool) -> Finding | None:
    if one.is_hidden:
        return Finding(f"{one.ref}: you may not read it")
    if one.live is None:
        return None if is_deleting else Finding(f"{one.ref} does not exist")
    if one.workload is not None and (found := workloads.findings(one.workload, now)):
        return found[0]
    verdict = _judged(one.live, now)
    held = ", ".join(one.live.metadata.finalizers) if one.live.metadata.is_terminating else ""
    why = f"is being deleted, held by finalizer {held}" if held else verdict.why
    return Finding(f"{one.ref}: {why}", is_root_cause=True) if why else None


def _judged(live: Unstructured, now: datetime) -> Readiness:
    try:
        return readiness.assess(live, now=now, hints=readiness.hints_on(live))
    except UnreadableStatus as error:
        return waiting(str(error))
