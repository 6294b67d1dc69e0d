"""A control plane without pods for these tests alone: they install and remove kinds for the whole cluster."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.testing import cluster as clusters


@pytest.fixture(scope="module")
def bare_cluster() -> Iterator[LocalCluster]:
    """The API server alone."""
    cluster = clusters.started(f"crds-{secrets.token_hex(4)}", Options(durable=False, controllers=False, pods=False))
    yield cluster
    cluster.down()


@pytest.fixture
async def client(bare_cluster: LocalCluster) -> AsyncIterator[Client]:
    """A cluster administrator's."""
    config = ClusterConfig.load(bare_cluster.kubeconfig_for("crd tests", ["system:masters"]))
    async with Client.connect(config) as client:
        yield client
