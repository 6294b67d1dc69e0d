"""A cluster with the kinds of SAP BTP and of the Component operator, and the charts that the CAP tooling generates."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml
from tests.cluster.cap.bookshop.shop import FIXTURES, Bookshop
from tests.cluster.cap.domain.scenario import DNS_TARGET, Given
from tests.cluster.cap.shop import OPERATOR
from tests.cluster.cap.takeover.conftest import HELD
from tests.cluster.cap.takeover.running import WholeOperator
from tests.cluster.component import world
from tests.cluster.component.conftest import OPERATOR as COMPONENT_OPERATOR
from tests.cluster.component.given import Given as Components
from tests.cluster.component.kinds import established
from tests.cluster.component.running import Running as ComponentOperator
from tests.cluster.program import CommandLine, Ended

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import Kind, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.artifacts import ArtifactServer
from stellwerk.testing.servers.service_broker import ServiceBroker

DEFINITIONS = FIXTURES.parent / "btp" / "module-resources" / "apply" / "crd.yml"


@pytest.fixture(scope="package")
def bookshop_cluster(cap_cluster: LocalCluster) -> LocalCluster:
    """The control plane, which serves services of SAP BTP and Components as well."""
    asyncio.run(_prepare(cap_cluster))
    return cap_cluster


async def _prepare(cluster: LocalCluster) -> None:
    await world.prepare(cluster)
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        target = unstructured(CustomResourceDefinition.resource)
        for body in yaml.safe_load_all(DEFINITIONS.read_text()):
            made = await client.apply(target, body)
            await eventually(lambda name=made.metadata.name: established(client, name))  # type: ignore[misc]


@pytest.fixture
async def given(bookshop_cluster: LocalCluster, admin: Client, home: str) -> AsyncIterator[Given]:
    """An ingress gateway, which runs already."""
    given = Given(admin, home, f"{home}-ingress")
    await given.a_namespace("ingress")
    await given.a_gateway_pod()
    yield given
    for name in given.namespaces:
        await admin.delete(metadata_of(Namespace), name)


@pytest.fixture
async def whole(bookshop_cluster: LocalCluster, admin: Client, home: str) -> AsyncIterator[WholeOperator]:
    """The CAP Operator, started."""
    operator = WholeOperator(bookshop_cluster.kubeconfig_for(OPERATOR), dns_target=DNS_TARGET)
    await operator.start()
    yield operator
    await operator.stop()
    free = MergePatch({"metadata": {"finalizers": None}})
    kinds: tuple[type[Kind], ...] = (*HELD, ServiceBinding, ServiceInstance)
    for kind in kinds:
        for obj in (await admin.list(metadata_of(kind), home)).items:
            await admin.patch(metadata_of(kind), obj.metadata.name, home, free)


@pytest.fixture
async def bookshop(
    bookshop_cluster: LocalCluster,
    whole: WholeOperator,
    admin: Client,
    given: Given,
    tmp_path: Path,
    command_line: CommandLine,
) -> AsyncIterator[Bookshop]:
    """The bookshop, not deployed yet, on a cluster where services are provided."""

    async def run(*arguments: str) -> Ended:
        options = ["--kubeconfig", str(bookshop_cluster.kubeconfig), "-n", given.namespace]
        return await asyncio.to_thread(command_line.run, [*arguments, *options])

    values = tmp_path / "values.yaml"
    made = Bookshop(admin, given, run, values)
    values.write_text(json.dumps(made.values()))
    async with ServiceBroker(admin, given.namespace, made.credentials):
        yield made


@pytest.fixture
async def components(bookshop_cluster: LocalCluster, admin: Client, home: str) -> AsyncIterator[Components]:
    """The Component operator, started, and a server of artifacts."""
    await world.clean(admin)
    operator = ComponentOperator(bookshop_cluster.kubeconfig_for(COMPONENT_OPERATOR, ["system:masters"]))
    async with ArtifactServer() as server:
        await operator.start()
        yield Components(admin, server, home)
        await operator.stop()
    await world.clean(admin)
