"""A watch that is not needed any more leaves nothing behind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

import pytest

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ApiError, ServerFault, Status, Unexplained, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Listing, PartialObjectMetadata, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.runtime.cache.clusters import STALE_SECONDS, Cluster
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock


class OneList:
    """Lists these objects, and then nothing happens."""

    config = ClusterConfig(server="http://127.0.0.1:1")

    def __init__(self, listing: Listing[PartialObjectMetadata]) -> None:
        self.listing = listing
        self.on_list: Callable[[], None] = lambda: None

    async def list(self, *_: object, **__: object) -> Listing[PartialObjectMetadata]:
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_soon(self.on_list)
        return self.listing

    async def watch(self, *_: object, **__: object) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield


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


@pytest.mark.parametrize("after_calls", [0, 5], ids=["before its handlers are called", "while they are called"])
async def test_a_cache_that_is_released_while_it_takes_over_a_list_calls_no_handler_and_stays_ended(
    after_calls: int,
) -> None:
    metrics = Metrics()
    many = 200 if after_calls else 50_000  # several slices
    server = OneList(
        Listing(
            [PartialObjectMetadata(metadata=ObjectMeta(namespace="one", name=str(n), uid=str(n))) for n in range(many)],
            "5",
        )
    )
    cluster = Cluster(cast(Client, server), clock=FakeClock(), metrics=metrics)
    running = asyncio.create_task(cluster.run())
    try:
        await asyncio.sleep(0)
        released = cluster.informer(SECRETS)
        calls, calls_before_release = 0, -1

        def release() -> None:
            nonlocal calls_before_release
            calls_before_release = calls
            cluster.release(released)

        def handler(_: object) -> None:
            nonlocal calls
            calls += 1
            time.sleep(0.001)
            if calls == after_calls:
                asyncio.get_running_loop().call_soon(release)

        released.on_change(handler)
        released.on_served(lambda: handler(None))
        released.on_parked(lambda: handler(None))
        if not after_calls:
            server.on_list = release
        await asyncio.wait([*cluster._watches.values()])
        assert calls == calls_before_release < many
        assert released.parked is not None
        released.take(Synced((), "6"))
        assert released.parked is not None
        assert released.name not in metrics.exposition().decode()
    finally:
        running.cancel()
        await asyncio.wait([running])


class Failing(OneList):
    """Lists once, and fails from then on."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(Listing([], "5"))
        self.error = error
        self.lists = 0

    async def list(self, *_: object, **__: object) -> Listing[PartialObjectMetadata]:
        self.lists += 1
        if self.lists > 1:
            raise self.error
        return self.listing


@pytest.mark.req("R-202")
@pytest.mark.parametrize(
    ("error", "required", "is_unready"),
    [
        (ServerFault(Status(code=500, message="the conversion webhook failed")), False, False),
        (ServerFault(Status(code=500, message="the conversion webhook failed")), True, True),
        (Unreachable("no answer"), False, True),
        (Unexplained(Status(code=502)), False, True),
    ],
    ids=["another kind is refused", "a needed kind is refused", "no answer", "an answer of a proxy"],
)
async def test_a_stale_cache_makes_unready_unless_only_a_kind_that_is_not_needed_is_refused(
    error: ApiError, required: bool, is_unready: bool
) -> None:
    clock, server = FakeClock(), Failing(error)
    cluster = Cluster(cast(Client, server), clock=clock)
    running = asyncio.create_task(cluster.run())
    try:
        informer = cluster.informer(SECRETS, required=required)
        await asyncio.wait_for(informer.wait_synced(), 20)
        informer.list_again()
        for _ in range(int(STALE_SECONDS) // 2 + 10):
            for _ in range(20):
                await asyncio.sleep(0)
            await clock.advance(2.0)
        assert server.lists > 5
        assert ("is stale" in str(cluster.unready())) is is_unready
    finally:
        running.cancel()
        await asyncio.wait([running])
