"""A leader that loses its lease while a write waits for its next try does not send it."""

from __future__ import annotations

import asyncio

import pytest

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import CALLS
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.process.leader import Fence, LeadershipLost
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.faults import WRITES, AnswerInstead, Drop, FaultProxy, nth, requests


class Closed(Exception):
    """The fence is closed."""


@pytest.mark.req("R-301")
async def test_a_write_is_not_tried_again_after_the_fence_has_closed(cluster: LocalCluster, namespace: str) -> None:
    asked: list[str] = []

    def fence() -> None:
        asked.append("may I")
        if len(asked) > 1:
            raise Closed

    async with FaultProxy(cluster.kubeconfig) as proxy:
        proxy.on_requests(WRITES, AnswerInstead(503), nth(1))
        async with Client.connect(ClusterConfig.load(proxy.kubeconfig), before_write=fence) as client:
            body: JsonObject = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "one", "namespace": namespace},
            }
            with pytest.raises(Closed):
                await client.apply(ConfigMap, body)

        assert len(proxy.history.writes()) == 1
        assert [write.reached_server for write in proxy.history.writes()] == [False]


@pytest.mark.req("R-301")
async def test_a_write_that_waited_for_a_connection_is_not_sent_after_the_lease_has_ended(
    cluster: LocalCluster, namespace: str
) -> None:
    clock = FakeClock()
    fence = Fence(clock)
    fence.open_until(clock.monotonic() + 7.5)

    async with FaultProxy(cluster.kubeconfig) as proxy:
        proxy.on_requests(requests("get", "secrets"), Drop())
        async with Client.connect(ClusterConfig.load(proxy.kubeconfig), before_write=fence.check) as client:
            body: JsonObject = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "late", "namespace": namespace},
            }
            await client.apply(ConfigMap, {**body, "metadata": {"name": "in-time", "namespace": namespace}})
            slow = [asyncio.create_task(client.get(Secret, f"slow-{number}", namespace)) for number in range(CALLS)]
            await proxy.history.seen(CALLS, requests("get", "secrets"))
            waiting = asyncio.create_task(client.apply(ConfigMap, body))
            await asyncio.sleep(0)
            await clock.advance(8)
            for task in slow:
                task.cancel()
            with pytest.raises(LeadershipLost):
                await waiting
            await asyncio.gather(*slow, return_exceptions=True)

        assert [write.request.name for write in proxy.history.writes()] == ["in-time"]
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
        assert await client.find(ConfigMap, "late", namespace) is None
