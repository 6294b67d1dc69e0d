"""A control plane for each test process: the BTP Manager has cluster-wide names, so its tests cannot share one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.module import rehearsal
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from tests.cluster.btp import world
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import Running
from tests.cluster.btp.shown import StatusHistory
from tests.cluster.btp.then import Then
from tests.cluster.own_cluster import own_cluster


@pytest.fixture(scope="package")
def btp_cluster() -> Iterator[LocalCluster]:
    """The control plane of this test process, with what an administrator installs."""
    with own_cluster("btp", world.prepare) as cluster:
        yield cluster


@pytest.fixture(scope="package")
def nursery() -> Iterator[ForkServer]:
    """Where the operators of a sweep, which are killed hundreds of times, start in a moment."""
    with ForkServer(["stellwerk.assembly", "stellwerk.operators.btp.controllers", "uvloop"]) as nursery:
        yield nursery


@pytest.fixture
async def client(btp_cluster: LocalCluster) -> AsyncIterator[Client]:
    """The cluster administrator's client, on a cluster without any trace of a module."""
    async with Client.connect(ClusterConfig.load(btp_cluster.kubeconfig), user_agent="tests") as client:
        await world.clean(client)
        yield client


@pytest.fixture
def module(tmp_path: Path) -> Module:
    """A private copy of the module that we ship, without webhooks that would need a running operand."""
    return Module(rehearsal.copy_module(tmp_path / "module"))


@pytest.fixture
def given(client: Client) -> Given:
    """Makes facts true."""
    return Given(client)


@pytest.fixture
async def then(client: Client) -> AsyncIterator[Then]:
    """Waits for what must become true."""
    history = StatusHistory(client)
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(history.run(), name="history")
        await history.is_open.wait()
        yield Then(client, history)
        writing.cancel()


@pytest.fixture
async def proxy(btp_cluster: LocalCluster) -> AsyncIterator[FaultProxy]:
    """A bad line to the API server, for modules whose `login` leads through it."""
    async with FaultProxy(world.operator_kubeconfig(btp_cluster)) as proxy:
        yield proxy


@pytest.fixture
def login(btp_cluster: LocalCluster) -> Path:
    """The kubeconfig of the operator, with its own least rights."""
    return world.operator_kubeconfig(btp_cluster)


@pytest.fixture
async def running(login: Path, client: Client, module: Module) -> AsyncIterator[Running]:
    """The operator, to be started by the test."""
    running = Running(login, module)
    yield running
    await running.stop()
