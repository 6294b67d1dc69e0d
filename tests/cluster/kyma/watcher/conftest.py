"""A control plane for the tests of the watcher: an API server alone, with what Istio and cert-manager define."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.cluster.kyma.conftest import install
from tests.cluster.own_cluster import own_cluster

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import unstructured
from stellwerk.local.build import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options

PUBLISHED = (
    "gateways.networking.istio.io",
    "virtualservices.networking.istio.io",
    "certificates.cert-manager.io",
    "certificates.cert.gardener.cloud",
)


async def prepare(cluster: LocalCluster) -> None:
    """Have the cluster serve our kinds, and what others define."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        target = unstructured(CustomResourceDefinition.resource)
        for body in published_definitions.definitions(PUBLISHED):
            await client.apply(target, body)
        await install(client)


@pytest.fixture(scope="package")
def watcher_cluster() -> Iterator[LocalCluster]:
    """An API server alone."""
    with own_cluster("watchers", prepare, Options(durable=False, controllers=False, pods=False)) as cluster:
        yield cluster


@pytest.fixture
async def client(watcher_cluster: LocalCluster) -> AsyncIterator[Client]:
    """A user's."""
    async with Client.connect(ClusterConfig.load(watcher_cluster.kubeconfig), field_manager="user") as client:
        yield client
