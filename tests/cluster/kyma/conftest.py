"""Two clusters for the tests of the lifecycle manager: API servers alone, of this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.cluster.component.kinds import serve
from tests.cluster.own_cluster import own_cluster

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.operators.kyma.api import DEFINITIONS
from stellwerk.operators.kyma.installation import INSTALLATION


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


async def install(client: Client) -> None:
    """Install the kinds of the lifecycle manager in a control plane, and its account with its rights."""
    await serve(client, *DEFINITIONS)
    for body in INSTALLATION.objects():
        gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
        if gvk.kind != CustomResourceDefinition.resource.kind:
            await client.apply(unstructured(await client.mapper.resource(gvk)), body)


async def _prepare(cluster: LocalCluster) -> None:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        await install(client)


def login_of_operator(cluster: LocalCluster) -> Path:
    """The kubeconfig of its account."""
    return cluster.kubeconfig_of_account(INSTALLATION.namespace, INSTALLATION.account)


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
