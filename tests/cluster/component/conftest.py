"""A control plane for each test process: an operator works on all Components that it sees, so two cannot share one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import dig
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.writes import Writes
from stellwerk.testing.servers.artifacts import ArtifactServer
from tests.cluster.component import kinds, world
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import RELIC, RELIC_REMARK
from tests.cluster.component.rights import Rights
from tests.cluster.component.running import Running
from tests.cluster.component.shown import StatusHistory
from tests.cluster.component.then import Then
from tests.cluster.own_cluster import own_cluster

OPERATOR = "component-operator"
"""The user that the operator is."""


@pytest.fixture(scope="package")
def component_cluster() -> Iterator[LocalCluster]:
    """The control plane of this test process, with what an administrator installs."""
    with own_cluster("component", world.prepare) as cluster:
        yield cluster


@pytest.fixture
def home(component_cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own, for its Components."""
    name = clusters.create_namespace(component_cluster)
    yield name
    clusters.leave_namespace(component_cluster, name)


@pytest.fixture
async def admin(component_cluster: LocalCluster) -> AsyncIterator[Client]:
    """The cluster administrator's client, on a cluster without any Component."""
    config = ClusterConfig.load(component_cluster.kubeconfig)
    async with Client.connect(config, field_manager="tests", user_agent="tests") as client:
        await world.clean(client)
        yield client
        await world.clean(client)


@pytest.fixture
async def artifacts() -> AsyncIterator[ArtifactServer]:
    """Where sources lie."""
    async with ArtifactServer() as server:
        yield server


@pytest.fixture
async def given(admin: Client, artifacts: ArtifactServer, home: str) -> AsyncIterator[Given]:
    """Makes facts true."""
    given = Given(admin, artifacts, home)
    yield given
    await given.tidy()


@pytest.fixture
async def then(admin: Client, home: str) -> AsyncIterator[Then]:
    """Waits for what must become true."""
    history = StatusHistory(admin, namespace=home)
    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(history.run(), name="history")
        await history.is_open.wait()
        yield Then(admin, history, home)
        writing.cancel()


@pytest.fixture
def writes(component_cluster: LocalCluster, admin: Client, home: str) -> Writes:
    """What the operator has written."""
    return Writes(AuditLog(component_cluster), OPERATOR, home)


@pytest.fixture
async def running(component_cluster: LocalCluster, admin: Client) -> AsyncIterator[Running]:
    """The operator, to be started by the test."""
    running = Running(component_cluster.kubeconfig_for(OPERATOR, ["system:masters"]))
    yield running
    await running.stop()


@pytest.fixture
async def may(admin: Client) -> AsyncIterator[Rights]:
    """A user who may do what the test grants."""
    may = Rights(admin, f"modest-{secrets.token_hex(4)}")
    yield may
    await may.end()


@pytest.fixture
async def proxy(component_cluster: LocalCluster) -> AsyncIterator[FaultProxy]:
    """A line to the control plane that can be made bad."""
    async with FaultProxy(component_cluster.kubeconfig_for(OPERATOR, ["system:masters"])) as made:
        yield made


@pytest.fixture
async def behind(proxy: FaultProxy, given: Given) -> AsyncIterator[Running]:
    """The operator: all that it says and hears passes the proxy."""
    behind = Running(proxy.kubeconfig)
    yield behind
    await behind.stop()


@pytest.fixture
async def remote(remote_cluster: LocalCluster) -> AsyncIterator[Client]:
    """The other cluster's administrator."""
    config = ClusterConfig.load(remote_cluster.kubeconfig)
    async with Client.connect(config, field_manager="tests") as client:
        yield client


@pytest.fixture
def login(remote_cluster: LocalCluster) -> str:
    """A kubeconfig as it stands in a Secret."""
    return remote_cluster.kubeconfig_for("component-operator-from-afar", ["system:masters"]).read_text()


@pytest.fixture
async def relics(admin: Client) -> AsyncIterator[None]:
    """A kind of which the API server says that it is deprecated."""
    body = world.free_definition(RELIC)
    versions = dig(body, "spec", "versions")
    assert isinstance(versions, list)
    (version,) = versions
    assert isinstance(version, dict)
    version |= {"deprecated": True, "deprecationWarning": RELIC_REMARK}
    await admin.apply(CustomResourceDefinition, body)
    await eventually(lambda: kinds.established(admin, RELIC.group_resource))
    await eventually(lambda: kinds.is_listed(admin, RELIC))
    yield
    await kinds.removed(admin, RELIC.group_resource)


@pytest.fixture(scope="package")
def nursery() -> Iterator[ForkServer]:
    """Where the operators of a sweep start in a moment."""
    with ForkServer(["stellwerk.assembly", "stellwerk.operators.component.controllers", "uvloop"]) as nursery:
        yield nursery
