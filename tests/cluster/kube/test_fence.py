"""A leader that loses its lease while a write waits for its next try does not send it."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client import Client
from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.faults import WRITES, Answer, FaultProxy, nth


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
        proxy.on_requests(WRITES, Answer(503), nth(1))
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
