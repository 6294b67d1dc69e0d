"""What a pass reads of Jobs that Kubernetes removes by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.executor import ActionResult
from stellwerk.apply.set.model.confirmation import Confirmation, Live, live_view
from stellwerk.apply.set.plan.actions import LookUp
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced, WatchSuspended
from stellwerk.releases.fleeting_jobs import WatchedJobs
from stellwerk.runtime.cache.informer import Informer
from stellwerk.testing.clock import FakeClock


@dataclass(frozen=True)
class World:
    watch: Informer[Live]
    jobs: WatchedJobs

    def phases(self) -> list[str] | None:
        """The uids of what a pass would read."""
        shown = self.jobs.shown(Job.resource, "shop")
        return None if shown is None else [seen.live.metadata.uid for seen in shown.values()]


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with Client.connect(ClusterConfig(server="https://nowhere.invalid")) as client:
        watch = Informer(client, live_view(Job.resource), namespace="shop", clock=FakeClock())
        jobs = WatchedJobs({"shop": watch})
        watch.on_change(jobs.finished.note)
        yield World(watch, jobs)


def job(version: int, *, complete: bool = False) -> Unstructured:
    metadata: JsonObject = {"namespace": "shop", "name": "job", "uid": "u1", "resourceVersion": f"{version}"}
    conditions: list[JsonValue] = [{"type": "Complete", "status": "True"}] if complete else []
    return Unstructured.of(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {"ttlSecondsAfterFinished": 0},
            "status": {"conditions": conditions},
        }
    )


async def test_a_job_is_shown_while_it_is_there_and_after_its_success(world: World) -> None:
    assert world.phases() is None, "before the first list, Jobs are listed"
    world.watch.take(Synced((), "1"))
    assert world.phases() == []
    world.watch.take(Changed(job(2)))
    assert world.phases() == ["u1"]
    world.watch.take(Changed(job(3, complete=True)))
    world.watch.take(Removed(job(4, complete=True)))
    assert world.phases() == ["u1"]
    assert world.jobs.shown(ConfigMap.resource, "shop") is None
    assert world.jobs.shown(Job.resource, "elsewhere") is None
    world.watch.take(WatchSuspended("you may not watch it"))
    assert world.phases() is None


async def test_a_pass_begins_when_the_watch_shows_what_the_one_before_has_written(world: World) -> None:
    world.watch.take(Synced((), "1"))
    address = Address(Job.resource, ObjectKey("shop", "job"))
    written = ActionResult(LookUp(address), job(2), confirmation=Confirmation("d", "u1", "2"))
    passing = asyncio.create_task(world.jobs.catch_up([written]))
    await asyncio.sleep(0)
    assert not passing.done()
    world.watch.take(Changed(job(2)))
    await passing
