"""A control plane without pods for these tests alone: they install and remove kinds for the whole cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.cluster.own_cluster import own_cluster

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options


@pytest.fixture(scope="module")
def bare_cluster() -> Iterator[LocalCluster]:
    """The API server alone."""
    with own_cluster("crds", None, Options(durable=False, controllers=False, pods=False)) as cluster:
        yield cluster


@pytest.fixture
async def client(bare_cluster: LocalCluster) -> AsyncIterator[Client]:
    """A cluster administrator's."""
    config = ClusterConfig.load(bare_cluster.kubeconfig_for("crd tests", ["system:masters"]))
    async with Client.connect(config) as client:
        yield client
