"""A control plane for each test process: a cluster has one CAPOperator, and its kinds come and go with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap, Pod, Service
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.delivery.grants import Grant
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import NotFound, NotServed
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of, unstructured
from stellwerk.local.build import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap.operator import OPERATOR as CAP
from stellwerk.operators.cap_manager import api, controllers, rights
from stellwerk.operators.cap_manager.api import MANAGER, OWNER_ID, CAPOperator
from stellwerk.operators.cap_manager.capoperator import chart
from stellwerk.operators.cap_manager.controllers import CapOperatorManager
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.supervision.tasks import Closing
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.harness import OperatorHarness
from stellwerk.testing.scenarios.skipping_clock import SkippingClock
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster import permissions
from tests.cluster.cap_manager import charts
from tests.cluster.cap_manager.scene import APPLICATIONS, Scene
from tests.cluster.component.kinds import established
from tests.cluster.own_cluster import own_cluster

OPERATOR = "cap-operator-manager"
"""The user that the manager is: it has the rights of its installation and nothing more."""
PUBLISHED = (
    "gateways.networking.istio.io",
    "virtualservices.networking.istio.io",
    "certificates.cert.gardener.cloud",
    "dnsentries.dns.gardener.cloud",
)


@pytest.fixture(scope="package")
def manager_cluster() -> Iterator[LocalCluster]:
    """The control plane of this test process."""
    with own_cluster("cap-manager", _prepare) as cluster:
        yield cluster


async def _prepare(cluster: LocalCluster) -> None:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        target = unstructured(CustomResourceDefinition.resource)
        bodies = [api.DEFINITION.body(), *published_definitions.definitions(PUBLISHED)]
        made = await asyncio.gather(*(client.apply(target, body) for body in bodies))
        for definition in made:
            await eventually(lambda name=definition.metadata.name: established(client, name))  # type: ignore[misc]
        installed = [process.installation() for process in CAP.processes]
        granted = [Grant(rule, "", {}) for rule in rights.granted_rules(installed)]
        await permissions.grant(client, OPERATOR, [*rights.GRANTS, *rights.HOME_GRANTS, *granted])


@pytest.fixture
def home(manager_cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = clusters.create_namespace(manager_cluster)
    yield name
    clusters.leave_namespace(manager_cluster, name)


@pytest.fixture
async def admin(manager_cluster: LocalCluster) -> AsyncIterator[Client]:
    """The cluster administrator's client, on a cluster without any CAPOperator, before the test and after it."""
    config = ClusterConfig.load(manager_cluster.kubeconfig)
    async with Client.connect(config, field_manager="tests", user_agent="tests") as client:
        yield client
        await _remove(client, APPLICATIONS)
        await _remove(client, CAPOperator.resource)
        for name in charts.BROUGHT:
            await _remove(client, CustomResourceDefinition.resource, name)
        for kind in (ClusterRole, ClusterRoleBinding, MutatingWebhookConfiguration, ValidatingWebhookConfiguration):
            for obj in (await client.list(metadata_of(kind), labels=OWNER_ID)).items:
                await client.delete(metadata_of(kind), obj.metadata.name)
        for resource, name, namespace in (
            (ConfigMap.resource, "shoot-info", "kube-system"),
            (Pod.resource, "gateway", "istio-system"),
            (Service.resource, "gateway", "istio-system"),
            (Service.resource, "second", "istio-system"),
        ):
            await client.delete(metadata_of(resource), name, namespace)


async def _remove(client: Client, resource: Resource, name: str = "") -> None:
    """All objects of a kind, or one, whatever finalizers they have."""
    kind = metadata_of(resource)

    async def left() -> list[PartialObjectMetadata]:
        return [obj for obj in (await client.list(kind)).items if name in ("", obj.metadata.name)]

    async def release(obj: PartialObjectMetadata) -> None:
        if obj.metadata.finalizers:
            with suppress(NotFound):
                change = MergePatch({"metadata": {"finalizers": None}})
                await client.patch(kind, obj.metadata.name, obj.metadata.namespace, change)

    try:
        found = await left()
    except NotServed:
        return
    for obj in found:
        await release(obj)
        await client.delete(kind, obj.metadata.name, obj.metadata.namespace)

    async def gone() -> bool:
        # The API server gives each definition that is deleted a finalizer, and was seen to forget one for minutes.
        remaining = await left()
        for obj in remaining:
            await release(obj)
        return not remaining

    await eventually(gone, describe=f"no {resource.plural} are left")


@pytest.fixture
async def scene(admin: Client, home: str) -> Scene:
    """A cluster whose domain is known, with an ingress gateway."""
    scene = Scene(admin, home)
    await scene.shoot_info()
    await scene.gateway("*.ingress.example.com")
    return scene


@dataclass
class Running(OperatorHarness):
    """Starts and stops the CAP Operator Manager."""

    folder: Path
    """That of the chart."""
    image: str = ""
    clock: SkippingClock = field(default_factory=SkippingClock)
    _parts: CapOperatorManager | None = field(default=None, init=False)

    async def start(self) -> None:
        """Start, and return when it leads with full caches."""
        client = Client.connect(
            ClusterConfig.load(self.kubeconfig),
            field_manager=MANAGER,
            user_agent=OPERATOR,
            on_request=self.saboteur.requested,
        )
        manager = self._begin(client, component=MANAGER, grace_seconds=6.0, clock=self.clock)
        renderer = Renderer()
        manager.add_server("renderer", Closing(renderer.close))
        self._parts = controllers.install(
            manager, chart.load(self.folder), self.image, renderer=renderer, recorder=self.recorder
        )
        self._start()
        await self.leads()

    @property
    def parts(self) -> CapOperatorManager:
        """The parts of the running manager."""
        assert self._parts is not None
        return self._parts

    @property
    def controllers(self) -> Sequence[Controller[Any, Any]]:
        """The one that there is."""
        return (self.parts.controller,)


@pytest.fixture
async def running(manager_cluster: LocalCluster, scene: Scene, tmp_path: Path) -> AsyncIterator[Running]:
    """The manager with a chart in the original's form, to be started by the test."""
    running = Running(manager_cluster.kubeconfig_for(OPERATOR), charts.write(tmp_path / "chart"))
    yield running
    await running.stop()


@pytest.fixture
def audit(manager_cluster: LocalCluster) -> AuditLog:
    """What was asked of the API server since the test began."""
    return AuditLog(manager_cluster)


@pytest.fixture
def writes(manager_cluster: LocalCluster, home: str) -> Writes:
    """What the manager has written."""
    return Writes(AuditLog(manager_cluster), OPERATOR, home)
