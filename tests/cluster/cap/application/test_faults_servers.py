"""etcd and the API server go down, come back, or wake up in the past: applications need no hand and lose nothing.

The control plane is one of their own, because they break it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from tests.cluster import outages
from tests.cluster.cap import world
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import OPERATOR, Shop, job, router
from tests.cluster.outages import BACK_WITHIN_SECONDS
from tests.cluster.own_cluster import own_cluster

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog, restore_data, save_data
from stellwerk.testing.eventually import eventually


@pytest.fixture(scope="module")
def frail() -> Iterator[LocalCluster]:
    """A control plane that may be broken."""
    with own_cluster("cap-frail", world.prepare) as cluster:
        yield cluster


@dataclass(frozen=True, slots=True)
class Scene:
    """A tenant that is Ready on the frail cluster, and who looks after it."""

    cluster: LocalCluster
    shop: Shop
    running: Running

    async def tenant(self) -> CAPTenant:
        """As the API server has it."""
        return await self.shop.client.get(CAPTenant, "acme", self.shop.namespace)

    async def jobs(self) -> set[str]:
        """The uids of all Jobs."""
        return {each.metadata.uid for each in await self.shop.all_jobs()}

    async def has(self, version: str) -> CAPTenant:
        """Wait for the tenant to be Ready with a version."""

        async def is_so() -> CAPTenant:
            tenant = await self.tenant()
            shown = tenant.status.state, tenant.status.current_version
            assert shown == ("Ready", version), tenant.status
            return tenant

        return await eventually(is_so, within=BACK_WITHIN_SECONDS, describe=f"the tenant has {version}")

    def deletions(self, audit: AuditLog) -> list[str]:
        """What the operator has deleted."""
        return outages.deletions(audit, OPERATOR, self.shop.namespace)


@pytest.fixture
async def scene(frail: LocalCluster) -> AsyncIterator[Scene]:
    namespace = clusters.create_namespace(frail)
    async with Client.connect(
        ClusterConfig.load(frail.kubeconfig), field_manager="tests", user_agent="tests"
    ) as client:
        running = Running(frail.kubeconfig_for(OPERATOR))
        await running.start()
        shop = Shop(client, namespace)
        await shop.open(job("mtxs"), router(), host=f"{shop.namespace}.example.com")
        scene = Scene(frail, shop, running)
        await scene.has("shop-v1")
        await running.settled(client)
        yield scene
        await running.stop()


@pytest.mark.req("R-204")
async def test_etcd_killed_and_started_again_costs_a_tenant_nothing(scene: Scene) -> None:
    before, jobs, audit = await scene.tenant(), await scene.jobs(), AuditLog(scene.cluster)
    async with outages.without_etcd(scene.cluster):
        await scene.running.rests()
        await scene.running.clock.skip(minutes=61)
    await scene.shop.release("2", job("mtxs"), router())
    after = await scene.has("shop-v2")
    assert after.metadata.uid == before.metadata.uid
    assert len(await scene.jobs() - jobs) == 1, "the upgrade ran once, and nothing else"
    assert not scene.deletions(audit)


@pytest.mark.req("R-205")
async def test_a_restarted_api_server_with_another_certificate_lets_an_upgrade_go_on(scene: Scene) -> None:
    before, jobs, audit = await scene.tenant(), await scene.jobs(), AuditLog(scene.cluster)
    await scene.shop.release("2", job("mtxs"), router())
    await outages.restart_with_another_certificate(scene.cluster)
    after = await scene.has("shop-v2")
    assert after.metadata.uid == before.metadata.uid
    assert len(await scene.jobs() - jobs) == 1, "the upgrade ran once, and nothing else"
    assert not scene.deletions(audit)


@pytest.mark.req("R-204")
async def test_in_a_cluster_that_wakes_up_in_the_past_no_tenant_goes_and_nothing_of_the_future_runs(
    scene: Scene,
) -> None:
    before, jobs = await scene.tenant(), await scene.jobs()
    await asyncio.to_thread(save_data, scene.cluster, "backup")
    await scene.shop.release("2", job("mtxs"), router())
    await scene.has("shop-v2")
    # An API server writes some versions at its start: whoever resumes a watch after as many sees no past.
    for version in range(500):
        body: JsonObject = {"metadata": {"name": "elsewhere", "namespace": "default"}, "data": {"n": str(version)}}
        await scene.shop.client.apply(ConfigMap, body)
    await scene.running.settled(scene.shop.client)

    audit = AuditLog(scene.cluster)
    await asyncio.to_thread(restore_data, scene.cluster, "backup")
    past = await scene.has("shop-v1")
    assert past.metadata.uid == before.metadata.uid
    await scene.running.settled(scene.shop.client, within=BACK_WITHIN_SECONDS)
    assert await scene.jobs() == jobs
    assert not [each for each in scene.deletions(audit) if not each.startswith("captenantoperations ")]

    await scene.shop.release("2", job("mtxs"), router())
    after = await scene.has("shop-v2")
    assert after.metadata.uid == before.metadata.uid
    assert len(await scene.jobs() - jobs) == 1, "the upgrade ran once, and nothing else"
