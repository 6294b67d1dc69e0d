"""A remote cluster for the tests of the lifecycle manager: an API server alone, of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.cluster.own_cluster import own_cluster

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options


@pytest.fixture(scope="package")
def remote_cluster() -> Iterator[LocalCluster]:
    """The API server of a remote cluster."""
    with own_cluster("kyma-remote", None, Options(durable=False, controllers=False, pods=False)) as cluster:
        yield cluster


@pytest.fixture
async def remote_client(remote_cluster: LocalCluster) -> AsyncIterator[Client]:
    """A cluster administrator's, in the remote cluster."""
    config = ClusterConfig.load(remote_cluster.kubeconfig_for("kyma tests", ["system:masters"]))
    async with Client.connect(config) as client:
        yield client
