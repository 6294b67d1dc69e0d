"""A Job that Kubernetes removed after its success is shown as it was, until another one takes its place."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from stellwerk.api.batch import Job
from stellwerk.apply.set.model.owner import mark
from stellwerk.delivery.watched_objects import OwnedObjects, Place
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.operators.component.api import RECONCILER
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.testing.clock import FakeClock


def job(version: int, *, complete: bool, ttl: int | None) -> Unstructured:
    metadata: JsonObject = {
        "namespace": "shop",
        "name": "job",
        "uid": f"u{version}",
        "resourceVersion": f"{version}",
        "labels": {mark(RECONCILER): "owner"},
        "deletionTimestamp": datetime(2026, 1, 1, tzinfo=UTC).isoformat().replace("+00:00", "Z"),
    }
    conditions: JsonObject = {"conditions": [{"type": "Complete", "status": "True"}]} if complete else {}
    spec: JsonObject = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    return Unstructured.of(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": conditions}
    )


@pytest.mark.parametrize(
    ("complete", "ttl", "is_shown"), [(True, 0, True), (True, 60, True), (True, None, False), (False, 0, False)]
)
async def test_a_complete_job_that_goes_by_itself_is_shown_after_it_has_gone(
    complete: bool, ttl: int | None, is_shown: bool
) -> None:
    async with Client.connect(ClusterConfig(server="https://nowhere.invalid")) as client:
        owned = OwnedObjects(Cluster(client, clock=FakeClock()), RECONCILER, lambda label: None, lambda: None)
        covering = asyncio.create_task(owned.cover([Place(Job.resource, "")]))
        while not covering.done():
            for informer in owned.cluster.informers:
                if not informer.has_synced:
                    informer.take(Synced((), "1"))
            await asyncio.sleep(0)
        jobs = owned.cluster.informer(unstructured(Job.resource), labels=mark(RECONCILER))
        gone = job(2, complete=complete, ttl=ttl)
        jobs.take(Changed(gone))
        jobs.take(Removed(gone))
        found = [seen.live for seen in owned.of("owner").values()]
        assert [(one.metadata.uid, one.metadata.is_terminating) for one in found] == [("u2", False)] * is_shown
        jobs.take(Changed(job(3, complete=False, ttl=ttl)))
        assert [seen.live.metadata.uid for seen in owned.of("owner").values()] == ["u3"]
