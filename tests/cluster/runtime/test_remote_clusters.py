"""A remote server that is silent, slow, lying or endless slows only itself: real connections through fault proxies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.circuit_breaker import FAILURES
from stellwerk.kube.http.transport import LARGEST_FOREIGN_ANSWER_BYTES, ServerBounds
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.memory_budget import FOREIGN_BYTES, SERVER_BYTES, MemoryBudget
from stellwerk.kube.types.errors import ApiError, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import Kubeconfig, RemoteClusters
from stellwerk.runtime.supervision.tasks import Border, background
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    ANYTHING,
    AnswerInstead,
    CutConnection,
    Delay,
    Drop,
    FaultProxy,
    RequestFault,
)

pytestmark = [pytest.mark.req("R-210"), pytest.mark.req("R-511"), pytest.mark.req("R-942")]

FAULTS: Mapping[str, RequestFault] = {
    "silent": Drop(),
    "slow": Delay(5),
    "lying": AnswerInstead(200, raw=b"<html>maintenance</html>"),
    "endless": AnswerInstead(200, raw=b" " * (LARGEST_FOREIGN_ANSWER_BYTES + 1)),
}
CALLS = 10
PROMPT_SECONDS = 10


@dataclass
class Remotes:
    """Remote clusters, each behind a proxy of its own, all of them the same API server."""

    clusters: RemoteClusters[Cluster]
    proxies: Mapping[str, FaultProxy]
    clock: FakeClock
    foreign: MemoryBudget

    def __getitem__(self, name: str) -> Cluster:
        key = ObjectKey("tenant", name)
        return self.clusters.remote(key, Kubeconfig(key, self.proxies[name].kubeconfig.read_bytes()))


@asynccontextmanager
async def remotes(cluster: LocalCluster, *names: str) -> AsyncIterator[Remotes]:
    clock, foreign = FakeClock(), MemoryBudget(FOREIGN_BYTES)

    def connect(config: ClusterConfig, bounds: ServerBounds) -> Client:
        return Client.connect(
            config,
            bounds,
            largest_answer_bytes=LARGEST_FOREIGN_ANSWER_BYTES,
            budget=foreign.part(SERVER_BYTES),
        )

    async with AsyncExitStack() as stack:
        home = await stack.enter_async_context(Client.connect(ClusterConfig.load(cluster.kubeconfig)))
        proxies = {name: await stack.enter_async_context(FaultProxy(cluster.kubeconfig)) for name in names}
        tasks = await stack.enter_async_context(background())
        clusters = RemoteClusters[Cluster](
            Cluster(home, clock=clock),
            connect=connect,
            build=lambda cluster, secret: cluster,
            clock=clock,
            border=Border(Metrics(), clock),
            field_manager="tests",
        )
        tasks.start(clusters.run(), "remote clusters")
        await asyncio.sleep(0)
        yield Remotes(clusters, proxies, clock, foreign)


async def test_a_silent_a_slow_a_lying_and_an_endless_cluster_slow_only_themselves(cluster: LocalCluster) -> None:
    async with remotes(cluster, *FAULTS, "good") as seen:
        for name, fault in FAULTS.items():
            seen.proxies[name].on_requests(ANYTHING, fault)
        calls = {
            name: [
                asyncio.create_task(seen[name].client.list(ConfigMap, "default"))
                for _ in range(2 if name == "endless" else CALLS)
            ]
            for name in FAULTS
        }
        await eventually(lambda: seen.proxies["silent"].history.count() == CALLS)
        async with asyncio.timeout(PROMPT_SECONDS):
            for _ in range(3 * CALLS):
                await seen["good"].client.get(metadata_of(Namespace), "default")
        assert not any(call.done() for call in calls["silent"])
        failed = await asyncio.gather(*calls["lying"], *calls["endless"], return_exceptions=True)
        assert all(isinstance(each, ApiError) for each in failed)
        assert seen.foreign.bytes == 0, "nothing of their answers is left in memory"
        for call in (each for of in calls.values() for each in of):
            call.cancel()
        await asyncio.wait([each for of in calls.values() for each in of])


async def test_a_cluster_that_was_left_alone_serves_its_watches_and_calls_again(
    cluster: LocalCluster, namespace: str
) -> None:
    async with remotes(cluster, "far") as seen:
        proxy, far = seen.proxies["far"], seen["far"]
        cut = proxy.on_requests(ANYTHING, CutConnection())
        for _ in range(FAILURES):
            with pytest.raises(Unreachable, match="the connection was cut"):
                await far.client.create(ConfigMap, {"metadata": {"name": "one", "namespace": namespace}})
        asked = proxy.history.count()
        with pytest.raises(Unreachable, match=f"cannot get Namespace {namespace}.*: the connection was cut"):
            await far.client.get(metadata_of(Namespace), namespace)
        assert proxy.history.count() == asked
        cut.end()
        informer = far.informer(ConfigMap, namespace=namespace)
        await seen.clock.advance(60)
        await eventually(lambda: informer.has_synced)
        await far.client.create(ConfigMap, {"metadata": {"name": "one", "namespace": namespace}})
        await eventually(lambda: ObjectKey(namespace, "one") in informer.store)


async def test_the_fingerprint_of_a_cluster_is_the_same_by_every_kubeconfig(cluster: LocalCluster) -> None:
    async with remotes(cluster, "one", "other") as seen:
        home = await seen.clusters.home.fingerprint.read()
        assert await seen["one"].fingerprint.read() == await seen["other"].fingerprint.read() == home
