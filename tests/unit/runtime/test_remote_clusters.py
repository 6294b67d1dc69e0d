"""Servers of kubeconfigs come and go without bound, and leave nothing in the metrics."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.unit.kube.scripted import Server, serving

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import RemoteClusters
from stellwerk.runtime.supervision.tasks import Border, background
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.req("R-707")

BODY = b'{"metadata": {"resourceVersion": "5"}, "items": []}'
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
USER = ObjectKey("shop", "web")


def kubeconfig(server: Server) -> str:
    return f"""
apiVersion: v1
kind: Config
clusters: [{{name: far, cluster: {{server: "https://127.0.0.1:{server.port}"}}}}]
users: [{{name: me, user: {{token: abc}}}}]
contexts: [{{name: far, context: {{cluster: far, user: me}}}}]
current-context: far
"""


class Remotes:
    """Remote clusters of a process, whose metrics count their requests."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.home = Cluster(self.connect(ClusterConfig(server="http://home.invalid")), clock=FakeClock())
        self.clusters = RemoteClusters[Cluster](
            self.home,
            connect=self.connect,
            build=lambda cluster, origin: cluster,
            clock=FakeClock(),
            border=Border(self.metrics, FakeClock()),
            field_manager="tests",
            restrict=lambda config: replace(config, server=config.server.replace("https:", "http:")),
            on_gone=self.metrics.forget_host,
        )

    def connect(self, config: ClusterConfig) -> Client:
        return Client.connect(
            config, on_request=lambda facts: self.metrics.requested(facts.method, facts.host, facts.code)
        )

    def series(self, server: Server) -> int:
        """How many series there are of requests to this server."""
        return self.metrics.exposition().decode().count(f'host="127.0.0.1:{server.port}"')


@asynccontextmanager
async def running() -> AsyncIterator[tuple[Remotes, Server]]:
    remotes = Remotes()
    async with serving(EMPTY) as (server, _), remotes.home.client, background() as tasks:
        tasks.start(remotes.clusters.run(), "remote clusters")
        await eventually(lambda: remotes.clusters._tasks is not None)
        yield remotes, server


async def test_a_server_that_was_asked_once_leaves_no_series() -> None:
    async with running() as (remotes, server):
        async with remotes.clusters.client(kubeconfig(server)) as client:
            await client.list(ConfigMap, "shop")
            assert remotes.series(server)
        assert not remotes.series(server)


async def test_the_series_of_a_cluster_stay_when_it_was_asked_once_more_by_the_way() -> None:
    async with running() as (remotes, server):
        cluster = remotes.clusters.use(USER, kubeconfig(server).encode(), "here")
        await cluster.client.list(ConfigMap, "shop")
        async with remotes.clusters.client(kubeconfig(server)) as client:
            await client.list(ConfigMap, "shop")
        assert remotes.series(server)


async def test_a_pass_that_still_uses_a_cluster_that_was_closed_brings_no_series_back() -> None:
    async with running() as (remotes, server):
        cluster = remotes.clusters.use(USER, kubeconfig(server).encode(), "here")
        await cluster.client.list(ConfigMap, "shop")
        remotes.clusters.leave(USER)
        await eventually(lambda: not remotes.series(server))
        async with cluster.client as client:
            await client.list(ConfigMap, "shop")
        assert not remotes.series(server)
