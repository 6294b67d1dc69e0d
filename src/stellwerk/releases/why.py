"""Why a release is not ready: the objects that it waits for, with the pods of workloads. `explain` is pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from stellwerk.apply.set.model.inventory import Phase
from stellwerk.delivery import workloads
from stellwerk.delivery.sets import unsettled_objects
from stellwerk.delivery.sets.unsettled_objects import UnsettledObject, judged
from stellwerk.releases.release import Release, ReleaseState
from stellwerk.runtime.insight.diagnosis import AwaitedObject, ClusterReader, Diagnosis, Finding, root_causes

GOES_ON = "run stellwerk apply or delete again: it goes on, and its last lines name what failed"
"""The next step where nothing better is known."""


async def diagnose(reader: ClusterReader, release: Release, now: datetime) -> Diagnosis:
    """Read the objects that are not settled, and explain."""
    unsettled = [entry.ref for entry in release.inventory if not entry.phase.is_settled]
    later = [entry.ref for entry in release.inventory if entry.phase is Phase.SCHEDULED_FOR_APPLICATION]
    pending = await unsettled_objects.read(reader, unsettled, later)
    return explain(release, pending, reader.hidden, now)


def explain(release: Release, pending: Sequence[UnsettledObject], hidden: tuple[str, ...], now: datetime) -> Diagnosis:
    """Why the release is not ready, and the next step. Pure."""
    if release.state == ReleaseState.Ready:
        return Diagnosis(hidden=hidden)
    found = [_finding(one, now, is_deleting=release.is_deleting) for one in pending]
    below = tuple(finding for finding in found if finding is not None)
    if release.error and not any(root.text in release.error for root in root_causes(below)):
        below = (Finding(release.error.removesuffix("."), is_root_cause=not below), *below)
    counts = f"{release.ready_objects + release.completed_objects} of {release.objects} objects are ready or completed"
    is_root = next(root_causes(below), None) is None
    advice = next((step for one in pending if one.workload and (step := workloads.advice(one.workload))), "")
    held = next((one.hold.step for one in pending if one.hold is not None and not release.is_deleting), "")
    step = advice or held or GOES_ON
    unready = tuple(AwaitedObject(one.ref, judged(one.live, now).why) for one in pending if one.live is not None)
    top = Finding(f"revision {release.revision}: {counts}", release.state, below, is_root_cause=is_root)
    return Diagnosis((top,), step, unready=unready, hidden=hidden)


def _finding(one: UnsettledObject, now: datetime, *, is_deleting: bool) -> Finding | None:
    if one.is_hidden:
        return Finding(f"{one.ref}: you may not read it")
    if one.odd:
        return Finding(f"{one.ref} cannot be read: {one.odd}")
    if one.live is None:
        return None if is_deleting else Finding(f"{one.ref} does not exist")
    if one.hold is not None and not is_deleting:
        return Finding(f"{one.ref}: {one.hold.what}", is_root_cause=True)
    if one.workload is not None and (found := workloads.findings(one.workload, now)):
        return found[0]
    verdict = judged(one.live, now)
    held = ", ".join(one.live.metadata.finalizers) if one.live.metadata.is_terminating else ""
    why = f"is being deleted, held by finalizer {held}" if held else verdict.why
    return Finding(f"{one.ref}: {why}", is_root_cause=True) if why else None
