"""The whole operator, an ingress gateway, and a client that writes as the original does."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cluster.cap.domain.scenario import Given, with_gateway
from tests.cluster.cap.shop import OPERATOR, Shop
from tests.cluster.cap.takeover.original import FIELD_MANAGER, Tree
from tests.cluster.cap.takeover.running import WholeOperator

from stellwerk.api.gardener import GardenerCertificate
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import Kind, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion

HELD: tuple[type[Kind], ...] = (
    CAPApplication,
    CAPApplicationVersion,
    CAPTenant,
    CAPTenantOperation,
    Domain,
    GardenerCertificate,
)
"""The kinds whose objects wait for the operator when they are deleted."""


@pytest.fixture
async def given(admin: Client, home: str) -> AsyncIterator[Given]:
    """An ingress gateway, which runs already."""
    async with with_gateway(admin, home) as given:
        yield given


@pytest.fixture
async def whole(cap_cluster: LocalCluster, admin: Client, home: str) -> AsyncIterator[WholeOperator]:
    """The operator, to be started by the test. What the test leaves concerns no later one."""
    operator = WholeOperator(cap_cluster.kubeconfig_for(OPERATOR))
    yield operator
    await operator.stop()
    free = MergePatch({"metadata": {"finalizers": None}})
    for kind in HELD:
        for obj in (await admin.list(metadata_of(kind), home)).items:
            await admin.patch(metadata_of(kind), obj.metadata.name, home, free)


@pytest.fixture
async def original(cap_cluster: LocalCluster) -> AsyncIterator[Client]:
    """A client that writes under the name of the original."""
    config = ClusterConfig.load(cap_cluster.kubeconfig)
    async with Client.connect(config, field_manager=FIELD_MANAGER, user_agent="tests") as client:
        yield client


@pytest.fixture
async def tree(shop: Shop, given: Given) -> Tree:
    """An application of the original, to be planted; the Secret of its service exists."""
    await shop.bind()
    return Tree(given.namespace, given.ingress, given.selector, f"{given.namespace}.example.com")
