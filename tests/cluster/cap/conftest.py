"""The CAP Operator on a real control plane, whose pods do what their annotations ask for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.cluster import permissions
from tests.cluster.cap.shop import OPERATOR, Shop
from tests.cluster.component.kinds import established

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import unstructured
from stellwerk.local import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import api, controllers, names
from stellwerk.operators.cap.controllers import ApplicationControllers
from stellwerk.operators.cap.installation import NAMESPACE
from stellwerk.operators.cap.rights import GRANTS
from stellwerk.operators.cap.settings import Settings
from stellwerk.runtime.control.controller import Controller
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.harness import OperatorHarness

PUBLISHED = (
    "gateways.networking.istio.io",
    "virtualservices.networking.istio.io",
    "destinationrules.networking.istio.io",
    "certificates.cert-manager.io",
    "certificates.cert.gardener.cloud",
    "dnsentries.dns.gardener.cloud",
)


@pytest.fixture(scope="session")
def cap_cluster() -> LocalCluster:
    """The control plane of this test process, with the kinds of CAP and of the projects that it uses."""
    cluster = clusters.started(f"cap-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}")
    asyncio.run(_prepare(cluster))
    return cluster


async def _prepare(cluster: LocalCluster) -> None:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        target = unstructured(CustomResourceDefinition.resource)
        bodies = [definition.body() for definition in api.DEFINITIONS]
        bodies += published_definitions.definitions(PUBLISHED)
        made = await asyncio.gather(*(client.apply(target, body) for body in bodies))
        for definition in made:
            await eventually(lambda name=definition.metadata.name: established(client, name))  # type: ignore[misc]
        await permissions.grant(client, OPERATOR, GRANTS)


@pytest.fixture
def home(cap_cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = clusters.create_namespace(cap_cluster)
    yield name
    clusters.delete_namespace(cap_cluster, name)


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
    """Starts and stops the CAP Operator, without the controllers of domains: tests play these."""

    settings: dict[str, Any] = field(default_factory=dict)
    _cap: ApplicationControllers | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start, and return when it leads with full caches."""
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig), user_agent=OPERATOR, on_request=self.saboteur.requested
        )
        manager = self._begin(client, component=names.OPERATOR_NAME, grace_seconds=6.0)
        self._cap = controllers.install_applications(
            manager, Settings(**self.settings), NAMESPACE, recorder=self.recorder
        )
        self._start()
        await self.leads()

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """All that the operator has."""
        assert self._cap is not None
        return (self._cap.operations, self._cap.tenants, self._cap.versions, self._cap.applications)


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
