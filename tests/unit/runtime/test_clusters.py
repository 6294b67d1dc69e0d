"""A watch that is not needed any more leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock

SECRETS = metadata_of(Secret)


@asynccontextmanager
async def running(metrics: Metrics) -> AsyncIterator[Cluster]:
    async with Client.connect(ClusterConfig(server="http://127.0.0.1:1")) as client:
        cluster = Cluster(client, clock=FakeClock(), metrics=metrics)
        task = asyncio.create_task(cluster.run())
        await asyncio.sleep(0)
        try:
            yield cluster
        finally:
            task.cancel()
            await asyncio.wait([task])


async def test_namespaces_that_come_and_go_leave_no_watch_and_no_series() -> None:
    metrics = Metrics()
    async with running(metrics) as cluster:
        before = asyncio.all_tasks()
        for number in range(20):
            informer = cluster.informer(SECRETS, namespace=f"team-{number}", required=True)
            await asyncio.sleep(0)
            metrics.watch_restarted(informer.name)
            cluster.release(informer)
            cluster.release(informer)
        for _ in range(20):
            await asyncio.sleep(0)
        assert asyncio.all_tasks() == before
        assert (cluster.informers, cluster.unready()) == ((), [])
        assert "team-" not in metrics.exposition().decode()


async def test_nothing_waits_for_a_cache_that_was_released() -> None:
    async with running(Metrics()) as cluster:
        released, other = (cluster.informer(SECRETS, namespace=name) for name in ("one", "two"))
        other.take(Synced((), "50"))
        settling = asyncio.create_task(released.wait_settled())
        released.take(Synced((), "50"))
        released.expect(ObjectKey("one", "a"), "60")
        other.take(Synced((), "30"))
        beginning = asyncio.create_task(released.history.common())
        await asyncio.sleep(0)
        assert not beginning.done(), "one cache has still to list again"
        cluster.release(released)
        async with asyncio.timeout(20):
            await asyncio.gather(settling, beginning)
        assert released.expected(ObjectKey("one", "a")) is None


async def test_a_watch_that_is_asked_for_again_is_a_new_one() -> None:
    async with running(Metrics()) as cluster:
        former = cluster.informer(SECRETS, namespace="one")
        cluster.release(former)
        assert cluster.informer(SECRETS, namespace="one") is not former
