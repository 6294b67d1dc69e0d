"""Clusters of kubeconfigs are opened on demand and closed when idle, and leave nothing behind, in metrics neither."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.unit.kube.scripted import Server, Words, serving

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.circuit_breaker import FAILURES
from stellwerk.kube.http.transport import ServerBounds
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import Kubeconfig, RemoteClusters, RemoteLimits
from stellwerk.runtime.supervision.tasks import Border, background
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

pytestmark = [pytest.mark.req("R-210"), pytest.mark.req("R-707")]

BODY = b'{"metadata": {"resourceVersion": "5"}, "items": []}'
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)
SECRET = ObjectKey("shop", "there")


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

    def __init__(self, limits: RemoteLimits) -> None:
        self.metrics, self.clock = Metrics(), FakeClock()
        self.woken = list[ObjectKey]()
        self.built = list[ObjectKey]()
        self.home = Cluster(
            self.connect(ClusterConfig(server="http://home.invalid"), ServerBounds()), clock=FakeClock()
        )
        self.clusters = RemoteClusters[Cluster](
            self.home,
            connect=self.connect,
            build=self.build,
            clock=self.clock,
            border=Border(self.metrics, self.clock),
            field_manager="tests",
            limits=limits,
            wake=self.woken.append,
            restrict=lambda config: replace(config, server=config.server.replace("https:", "http:")),
            on_gone=self.metrics.forget_host,
        )

    def build(self, cluster: Cluster, secret: ObjectKey) -> Cluster:
        self.built.append(secret)
        return cluster

    def remote(self, user: str, server: Server, *, login: str = "", secret: ObjectKey = SECRET) -> Cluster:
        """The cluster of a user; `login` makes its kubeconfig another one."""
        content = f"{kubeconfig(server)}# {login}" if login else kubeconfig(server)
        return self.clusters.remote(ObjectKey("shop", user), Kubeconfig(secret, content.encode()))

    def connect(self, config: ClusterConfig, bounds: ServerBounds) -> Client:
        return Client.connect(
            config, bounds, on_request=lambda facts: self.metrics.requested(facts.method, facts.host, facts.code)
        )

    def series(self, server: Server) -> int:
        """How many series there are of requests to this server."""
        return self.metrics.exposition().decode().count(f'host="127.0.0.1:{server.port}"')


@asynccontextmanager
async def running(
    words: Words | bytes = EMPTY,
    limits: RemoteLimits = RemoteLimits(),  # noqa: B008  # immutable
) -> AsyncIterator[tuple[Remotes, Server]]:
    remotes = Remotes(limits)
    async with serving(words) as (server, _), remotes.home.client, background() as tasks:
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
        cluster = remotes.remote("web", server)
        await cluster.client.list(ConfigMap, "shop")
        async with remotes.clusters.client(kubeconfig(server)) as client:
            await client.list(ConfigMap, "shop")
        assert remotes.series(server)


async def test_a_pass_that_still_uses_a_cluster_that_was_closed_brings_no_series_back() -> None:
    async with running() as (remotes, server):
        cluster = remotes.remote("web", server)
        await cluster.client.list(ConfigMap, "shop")
        remotes.clusters.leave(ObjectKey("shop", "web"))
        await eventually(lambda: not remotes.series(server))
        async with cluster.client as client:
            await client.list(ConfigMap, "shop")
        assert not remotes.series(server)


async def test_a_cluster_is_opened_once_for_all_users_of_a_kubeconfig_and_closed_after_the_last() -> None:
    async with running() as (remotes, server):
        cluster = remotes.remote("a", server)
        assert remotes.remote("b", server, secret=ObjectKey("shop", "copy")) is cluster
        assert remotes.built == [SECRET]
        await cluster.client.list(ConfigMap, "shop")
        remotes.clusters.leave(ObjectKey("shop", "a"))
        assert remotes.remote("b", server) is cluster
        other = remotes.remote("b", server, login="renewed")
        assert other is not cluster
        assert len(remotes.clusters) == 1, "the former one had no other user"
        remotes.clusters.leave(ObjectKey("shop", "b"))
        remotes.clusters.leave(ObjectKey("shop", "b"))
        assert not len(remotes.clusters)
        await eventually(lambda: not server.open, describe="its connections are closed")


async def test_an_idle_cluster_is_closed_and_opened_again_on_demand() -> None:
    async with running() as (remotes, server):
        cluster = remotes.remote("a", server)
        await cluster.client.list(ConfigMap, "shop")
        assert server.open == 1
        await remotes.clock.advance(800)
        assert remotes.remote("a", server) is cluster
        await remotes.clock.advance(800)
        await cluster.client.list(ConfigMap, "shop")
        await remotes.clock.advance(800)
        assert server.open == 1, "it was asked for, and called, in the last quarter of an hour"
        await remotes.clock.advance(400)
        await eventually(lambda: not server.open, describe="its connection is closed")
        assert not remotes.series(server)
        assert len(remotes.clusters) == 1, "its user stays noted"
        again = remotes.remote("a", server)
        assert again is not cluster
        await again.client.list(ConfigMap, "shop")


async def test_a_cluster_with_a_watch_is_never_idle() -> None:
    """The server begins the watch and sends nothing more, so that no call is under way."""
    begun = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    words: Words = lambda number, request: begun if b"watch=" in request else EMPTY  # noqa: E731
    async with running(words, RemoteLimits(idle_seconds=30)) as (remotes, server):
        cluster = remotes.remote("a", server)
        watch = cluster.informer(ConfigMap)
        await eventually(lambda: watch.has_synced and b"watch=" in server.asked[-1])
        await remotes.clock.advance(50)
        assert remotes.remote("a", server) is cluster
        cluster.release(watch)
        await remotes.clock.advance(50)
        assert remotes.remote("a", server) is not cluster


async def test_a_call_under_way_keeps_its_cluster_open() -> None:
    async with running(lambda number, request: None) as (remotes, server):
        cluster = remotes.remote("a", server)
        calling = asyncio.create_task(cluster.client.list(ConfigMap, "shop"))
        await eventually(lambda: server.asked)
        await remotes.clock.advance(5_000)
        assert remotes.remote("a", server) is cluster
        calling.cancel()
        await asyncio.wait([calling])


async def test_a_silent_cluster_is_left_alone_and_its_users_are_woken_when_it_answers() -> None:
    """Another login at the same server is another breaker: a tenant must not shut out the logins of others."""
    silent = True

    def words(number: int, request: bytes) -> bytes:
        return b"nonsense" if silent and b"bad" in request else EMPTY

    async with running(words) as (remotes, server):
        bad, good = remotes.remote("a", server), remotes.remote("b", server, login="other")
        for _ in range(FAILURES):
            with pytest.raises(Unreachable):
                await bad.client.raw("POST", "/bad")
        asked = len(server.asked)
        with pytest.raises(Unreachable):
            await bad.client.raw("POST", "/bad")
        assert len(server.asked) == asked
        await good.client.raw("POST", "/good")
        silent = False
        remotes.woken.clear()
        await remotes.clock.advance(1)
        await bad.client.raw("POST", "/bad")
        assert remotes.woken == [ObjectKey("shop", "a")]


async def test_calls_at_one_cluster_are_bounded_and_those_at_another_do_not_wait_for_them() -> None:
    words: Words = lambda number, request: None if b"hang" in request else EMPTY  # noqa: E731
    async with running(words, RemoteLimits(calls=3)) as (remotes, server):
        loud, quiet = remotes.remote("a", server), remotes.remote("b", server, login="other")
        calls = [asyncio.create_task(loud.client.for_tenant("x").raw("GET", "/hang")) for _ in range(9)]
        await eventually(lambda: len(server.asked) == 3)
        await quiet.client.for_tenant("x").raw("GET", "/good")
        assert len(server.asked) == 4
        for call in calls:
            call.cancel()
        await asyncio.wait(calls)


async def test_two_kubeconfigs_of_one_cluster_share_its_fingerprint_alone_and_one_may_lead_to_another_cluster() -> None:
    uid = "first"

    def words(number: int, request: bytes) -> bytes:
        body = b'{"metadata": {"name": "kube-system", "uid": "%b"}}' % uid.encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)

    async with running(words) as (remotes, server):
        one, other = remotes.remote("a", server), remotes.remote("b", server, login="other")
        assert one is not other
        assert await one.fingerprint.read() == await other.fingerprint.read() == "first"
        uid = "second"
        assert await one.fingerprint.read("first") == "first", "it is believed for a minute"
        await remotes.clock.advance(61)
        assert await one.fingerprint.read("first") == "second"


async def test_an_open_cluster_that_has_nothing_to_do_takes_one_connection_and_little_memory() -> None:
    """What OpenSSL and the kernel take is not counted here, but by bench/clusters.py."""
    count = 20
    async with running() as (remotes, server):
        await remotes.remote("first", server).client.list(ConfigMap, "shop")
        tracemalloc.start()
        try:
            for number in range(count):
                await remotes.remote(f"{number}", server, login=f"{number}").client.list(ConfigMap, "shop")
            gc.collect()
            taken = tracemalloc.get_traced_memory()[0] / count
        finally:
            tracemalloc.stop()
        assert server.open == count + 1
        assert taken < 100_000
