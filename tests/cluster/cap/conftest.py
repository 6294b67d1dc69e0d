"""The CAP Operator on a real control plane, whose pods do what their annotations ask for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import unstructured
from stellwerk.local.build import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import controllers, names
from stellwerk.operators.cap.controllers import ApplicationControllers
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.settings import Settings
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.queue import WorkQueue
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.harness import OperatorHarness
from stellwerk.testing.scenarios.skipping_clock import SkippingClock
from tests.cluster.cap import world
from tests.cluster.cap.shop import OPERATOR, Shop
from tests.cluster.component.kinds import established, removed
from tests.cluster.own_cluster import own_cluster
from tests.cluster.program import CommandLine, Ended

MONITORS = "servicemonitors.monitoring.coreos.com"


@pytest.fixture(scope="package")
def cap_cluster() -> Iterator[LocalCluster]:
    """The control plane of this test process, with the kinds of CAP and of the projects that it uses."""
    with own_cluster("cap", world.prepare) as cluster:
        clusters.collects_new_kinds(cluster)
        yield cluster


@pytest.fixture(scope="package")
def nursery() -> Iterator[ForkServer]:
    """Where the processes of a sweep start in a moment."""
    programs = ("program", "domain.program", "subscription.program")
    with ForkServer([f"tests.cluster.cap.{program}" for program in programs]) as nursery:
        yield nursery


@pytest.fixture
def home(cap_cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = clusters.create_namespace(cap_cluster)
    yield name
    world.leave_namespace(cap_cluster, name)


@pytest.fixture
async def admin(cap_cluster: LocalCluster) -> AsyncIterator[Client]:
    """The cluster administrator's client."""
    config = ClusterConfig.load(cap_cluster.kubeconfig)
    async with Client.connect(config, field_manager="tests", user_agent="tests") as client:
        yield client


@pytest.fixture
def audit(cap_cluster: LocalCluster) -> AuditLog:
    """What was asked of the API server since the test began."""
    return AuditLog(cap_cluster)


@dataclass
class Running(OperatorHarness):
    """Starts and stops the CAP Operator, without the controllers of domains: tests play these.

    A test may skip what it waits for with `clock`.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    clock: SkippingClock = field(default_factory=SkippingClock)
    _cap: ApplicationControllers | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start, and return when it leads with full caches."""
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig), user_agent=OPERATOR, on_request=self.saboteur.requested
        )
        manager = self._begin(client, component=names.OPERATOR_NAME, grace_seconds=6.0, clock=self.clock)
        settings = Settings(**self.settings)
        counts = CapMetrics(manager.metrics, detailed=settings.detailed_operational_metrics)
        self._cap = controllers.install_applications(
            manager, settings, NAMESPACE, counts=counts, recorder=self.recorder
        )
        self._start()
        await self.leads()

    @property
    def caches(self) -> Caches:
        """What the operator knows."""
        assert self._cap is not None
        return self._cap.caches

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """All that the operator has."""
        assert self._cap is not None
        return (self._cap.operations, self._cap.tenants, self._cap.versions, self._cap.applications)

    @property
    def queues(self) -> Sequence[WorkQueue]:
        """Those of the controllers, and what is being loaded."""
        assert self._cap is not None
        return (*super().queues, self._cap.loads.queue)


@pytest.fixture
async def running(cap_cluster: LocalCluster) -> AsyncIterator[Running]:
    """The operator, started."""
    running = Running(cap_cluster.kubeconfig_for(OPERATOR))
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
def shop(admin: Client, home: str) -> Shop:
    """An application, as soon as it is opened."""
    return Shop(admin, home)


@pytest.fixture
def neighbour(admin: Client, cap_cluster: LocalCluster) -> Iterator[Shop]:
    """An application in another namespace."""
    name = clusters.create_namespace(cap_cluster, "neighbour")
    yield Shop(admin, name)
    world.leave_namespace(cap_cluster, name)


@pytest.fixture
async def monitors(admin: Client) -> AsyncIterator[None]:
    """The kind of the Prometheus operator is there for a while."""
    view = unstructured(CustomResourceDefinition.resource)
    for body in published_definitions.definitions([MONITORS]):
        await admin.apply(view, body)
    await eventually(lambda: established(admin, MONITORS))
    yield
    await removed(admin, MONITORS)


Stellwerk = Callable[..., Coroutine[None, None, Ended]]


@pytest.fixture
def stellwerk(cap_cluster: LocalCluster, home: str, command_line: CommandLine) -> Stellwerk:
    """Runs the program as administrator, in the test's namespace; the operator of the test goes on meanwhile."""

    async def run(*arguments: str, kubeconfig: Path | None = None) -> Ended:
        options = ["--kubeconfig", str(kubeconfig or cap_cluster.kubeconfig), "-n", home]
        return await asyncio.to_thread(command_line.run, [*arguments, *options])

    return run
