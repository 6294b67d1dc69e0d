"""Two clusters for the tests of the lifecycle manager: API servers alone, of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
from tests.cluster.component.kinds import serve
from tests.cluster.own_cluster import own_cluster

from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import DEFINITIONS


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


async def _prepare(cluster: LocalCluster) -> None:
    """Have a control plane serve the kinds of the lifecycle manager."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        await serve(client, *DEFINITIONS)
        await client.apply(Namespace, {"metadata": {"name": labels.KCP_NAMESPACE}})


@pytest.fixture(scope="package")
def home_cluster() -> Iterator[LocalCluster]:
    """The API server of a control plane."""
    with own_cluster("kyma-home", _prepare, Options(durable=False, controllers=False, pods=False)) as cluster:
        yield cluster


@pytest.fixture
async def home_client(home_cluster: LocalCluster) -> AsyncIterator[Client]:
    """A user's, in the control plane."""
    async with Client.connect(ClusterConfig.load(home_cluster.kubeconfig), field_manager="user") as client:
        yield client
