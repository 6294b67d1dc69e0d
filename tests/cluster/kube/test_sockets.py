"""A client that is closed has closed everything, whatever was under way."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable

import pytest

from stellwerk.api.core import ConfigMap, Pod, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import CALLS
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Unreachable
from stellwerk.kube.types.model import Kind
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually


def open_sockets() -> set[str]:
    """The sockets of this process."""
    links = [f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd")]
    return {target for link in links if os.path.lexists(link) and (target := os.readlink(link)).startswith("socket:")}


async def watch(client: Client, kind: type[Kind]) -> None:
    listed = await client.list(kind)
    async for _ in client.watch(kind, resource_version=listed.resource_version):
        pass


async def call(client: Client, kind: type[Kind]) -> None:
    while True:
        await client.list(kind)


@pytest.mark.parametrize("work", [watch, call])
async def test_a_client_that_is_closed_leaves_no_socket_behind(
    cluster: LocalCluster, work: Callable[[Client, type[Kind]], Awaitable[None]]
) -> None:
    before = open_sockets()
    client = Client.connect(ClusterConfig.load(cluster.kubeconfig))
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_run(work, client, kind)) for kind in (ConfigMap, Pod, Secret) * 4]
        await eventually(lambda: len(open_sockets() - before) >= len(running), describe="all are connected")
        for task in running:
            task.cancel()

    await client.close()

    assert open_sockets() - before == set()


async def _run(work: Callable[[Client, type[Kind]], Awaitable[None]], client: Client, kind: type[Kind]) -> None:
    """Work until cancelled. A machine that is busy for seconds costs a connection, and its user tries again."""
    while True:
        with contextlib.suppress(Unreachable):
            await work(client, kind)


async def test_many_calls_at_once_share_a_few_connections_and_watches_have_their_own(cluster: LocalCluster) -> None:
    before = open_sockets()
    kinds = (ConfigMap, Pod, Secret) * 12
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client, asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(_run(watch, client, kind)) for kind in kinds]
        await eventually(lambda: len(open_sockets() - before) >= len(kinds), describe="all are watching")
        await asyncio.gather(*(client.list(kind) for kind in kinds * 4))
        assert len(open_sockets() - before) <= len(kinds) + CALLS
        for task in watching:
            task.cancel()
