"""A control plane for each test process: the controllers work on all domains that they see."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

import pytest
from tests.cluster import permissions
from tests.cluster.cap.domain.running import OPERATOR, RunningDomains
from tests.cluster.cap.domain.scenario import Given, Then
from tests.cluster.component.kinds import established

from stellwerk.api import rbac
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Namespace
from stellwerk.api.gardener import GardenerCertificate
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.delivery.grants import OperatorAccount, cluster_role
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of, unstructured
from stellwerk.local import published_definitions
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import api
from stellwerk.operators.cap.api_application import CAPApplication
from stellwerk.operators.cap.api_domain import ClusterDomain, Domain
from stellwerk.operators.cap.domain.rights import GRANTS
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.writes import Writes

PUBLISHED = (
    "gateways.networking.istio.io",
    "certificates.cert-manager.io",
    "certificates.cert.gardener.cloud",
    "dnsentries.dns.gardener.cloud",
)
OWN = (Domain, ClusterDomain, CAPApplication)


@pytest.fixture(scope="session")
def cap_cluster() -> LocalCluster:
    """The control plane of this test process, with the kinds of CAP and of the projects that it uses."""
    cluster = clusters.started(f"cap-{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}")
    asyncio.run(_prepare(cluster))
    return cluster


async def _prepare(cluster: LocalCluster) -> None:
    bodies = [definition.body() for definition in api.DEFINITIONS]
    bodies += published_definitions.definitions(PUBLISHED)
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        target = unstructured(CustomResourceDefinition.resource)
        made = await asyncio.gather(*(client.apply(target, body) for body in bodies))
        for definition in made:
            await eventually(lambda name=definition.metadata.name: established(client, name))  # type: ignore[misc]
        await client.apply(ClusterRole, cluster_role(OPERATOR, [each.rule for each in GRANTS]))
        binding = OperatorAccount(OPERATOR, "").is_given_everywhere(OPERATOR, OPERATOR)
        subject: JsonObject = {"kind": "User", "name": OPERATOR, "apiGroup": rbac.GROUP}
        await client.apply(ClusterRoleBinding, {**binding, "subjects": [subject]})
        await permissions.count(client, OPERATOR, permissions.on("events", "patch", group="events.k8s.io"))


@pytest.fixture
def home(cap_cluster: LocalCluster) -> Iterator[str]:
    """A namespace of the test's own."""
    name = clusters.create_namespace(cap_cluster)
    yield name
    clusters.delete_namespace(cap_cluster, name)


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
    given = Given(admin, home, f"{home}-ingress")
    await given.a_namespace("ingress")
    await given.a_gateway_pod()
    yield given
    for name in given.namespaces:
        await admin.delete(metadata_of(Namespace), name)


@pytest.fixture
def then(admin: Client) -> Then:
    """Waits for what must become true."""
    return Then(admin)


@pytest.fixture
async def running(cap_cluster: LocalCluster, given: Given) -> AsyncIterator[RunningDomains]:
    """The controllers, to be started by the test."""
    kubeconfig = cap_cluster.kubeconfig_for(OPERATOR)
    running = RunningDomains(kubeconfig, namespace=given.namespace)
    yield running
    await running.stop()


@pytest.fixture
def writes(cap_cluster: LocalCluster, home: str) -> Writes:
    """What the controllers have written."""
    return Writes(AuditLog(cap_cluster), OPERATOR, home)
