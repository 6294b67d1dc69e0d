"""A control plane for each test process: the controllers work on all domains that they see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.cluster import permissions
from tests.cluster.cap.domain.running import OPERATOR, RunningDomains
from tests.cluster.cap.domain.scenario import Given, Then, with_gateway

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.gardener import GardenerCertificate
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import Kind, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap.domain.rights import GRANTS
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.scenarios.writes import Writes

OWN = (Domain, ClusterDomain, CAPApplication)


@pytest.fixture(scope="package")
def domain_cluster(cap_cluster: LocalCluster) -> LocalCluster:
    """The control plane, where the user that the controllers are may do what their rights list, and nothing more."""
    asyncio.run(_grant(cap_cluster))
    return cap_cluster


async def _grant(cluster: LocalCluster) -> None:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        await permissions.grant(client, OPERATOR, GRANTS)


@pytest.fixture
async def admin(cap_cluster: LocalCluster) -> AsyncIterator[Client]:
    """The cluster administrator's client, on a cluster without any domain or application."""
    config = ClusterConfig.load(cap_cluster.kubeconfig)
    async with Client.connect(config, field_manager="tests", user_agent="tests") as client:
        yield client
        for kind in (*OWN, GardenerCertificate, CertManagerCertificate):
            await _remove_all(client, kind)


async def _remove_all(client: Client, kind: type[Kind]) -> None:
    for obj in (await client.list(metadata_of(kind))).items:
        name, namespace = obj.metadata.name, obj.metadata.namespace
        if obj.metadata.finalizers:
            await client.patch(metadata_of(kind), name, namespace, MergePatch({"metadata": {"finalizers": None}}))
        await client.delete(metadata_of(kind), name, namespace)


@pytest.fixture
async def given(admin: Client, home: str) -> AsyncIterator[Given]:
    """Makes facts true; an ingress gateway runs already."""
    async with with_gateway(admin, home) as given:
        yield given


@pytest.fixture
def then(admin: Client) -> Then:
    """Waits for what must become true."""
    return Then(admin)


@pytest.fixture
async def running(domain_cluster: LocalCluster, given: Given) -> AsyncIterator[RunningDomains]:
    """The controllers, to be started by the test."""
    kubeconfig = domain_cluster.kubeconfig_for(OPERATOR)
    running = RunningDomains(kubeconfig, namespace=given.namespace)
    yield running
    await running.stop()


@pytest.fixture
def writes(cap_cluster: LocalCluster, home: str) -> Writes:
    """What the controllers have written."""
    return Writes(AuditLog(cap_cluster), OPERATOR, home)
