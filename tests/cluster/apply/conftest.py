"""A set of objects of one's own on the shared cluster, and all that happens to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cluster.apply.base_objects import Ground
from tests.cluster.apply.object_sets import Place, R

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.faults import FaultProxy


@pytest.fixture
async def ground(cluster: LocalCluster, namespace: str) -> AsyncIterator[Ground]:
    """An operator under a name of its own, in a namespace of its own."""
    user = f"operator of {namespace}"
    config = ClusterConfig.load(cluster.kubeconfig_for(user, ["system:masters"]))
    async with Client.connect(config, field_manager="btp-manager") as client:
        ground = Ground(client, cluster, namespace, user, AuditLog(cluster))
        yield ground
        await ground.clean_up()


@pytest.fixture
async def place(cluster: LocalCluster, namespace: str) -> AsyncIterator[Place]:
    """A part of the cluster in which sets with an inventory are kept, and others meddle."""
    user = f"rollout of {namespace}"
    config = ClusterConfig.load(cluster.kubeconfig_for(user, ["system:masters"]))
    admin = ClusterConfig.load(cluster.kubeconfig)
    async with Client.connect(config, field_manager=R) as client, Client.connect(admin, field_manager="x") as others:
        place = Place(client, others, cluster, namespace, user, AuditLog(cluster))
        yield place
        await place.clean_up()


@pytest.fixture
async def behind(proxy: FaultProxy) -> AsyncIterator[Client]:
    """The operator's client: all that it sends and receives passes the proxy."""
    async with Client.connect(ClusterConfig.load(proxy.kubeconfig), field_manager=R) as made:
        yield made
