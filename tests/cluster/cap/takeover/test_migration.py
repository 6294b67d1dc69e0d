"""Objects of the first releases get the present identity, one write each, and again whenever one appears."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop
from tests.cluster.cap.takeover import legacy

from stellwerk.api.batch import Job
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of, unstructured
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually


async def ready(running: Running, shop: Shop, **fields: str) -> None:
    """An application with a tenant that is Ready."""
    await shop.bind()
    await shop.apply(host="shop.example.com", **fields)
    await shop.release("1")
    await shop.subscribe()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.shows_application("AllTenantsReady", state="Consistent", condition="AllTenantsReady")
    await running.settled(shop.client)


@pytest.mark.req("R-306")
async def test_each_object_is_migrated_by_one_write_and_nothing_runs_again(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await ready(running, shop, globalAccountId=legacy.ACCOUNT)
    await running.stop()
    await legacy.put_back(shop)
    jobs = {job.metadata.uid for job in await shop.all_jobs()}
    audit.mark()

    await running.start()
    await eventually(lambda: legacy.is_migrated(shop), describe="all objects are migrated")
    await running.settled(shop.client)

    written = Counter(f"{each.verb} {each.resource}" for each in shop.requests(audit) if each.is_write)
    assert written.pop("patch captenantoperations") in (1, 2), "twice where it comes before its tenant"
    assert written == {
        "patch capapplications": 1,
        "patch capapplicationversions": 1,
        "patch captenants": 1,
        "patch secrets": 1,
        "patch virtualservices": 1,
    }
    assert {job.metadata.uid for job in await shop.all_jobs()} == jobs

    await legacy.put_back(shop)
    await eventually(lambda: legacy.is_migrated(shop), describe="they are migrated without a restart, too")


@pytest.mark.req("R-306")
async def test_an_application_with_a_global_account_alone_is_migrated_as_soon_as_it_names_its_subaccount(
    running: Running, shop: Shop
) -> None:
    await ready(running, shop, providerSubaccountId="", globalAccountId=legacy.ACCOUNT)
    async for kind, metadata in legacy.objects(shop):
        assert metadata.labels[legacy.FORMER_LABEL] == legacy.identity(legacy.ACCOUNT), kind
        assert legacy.LABEL not in metadata.labels
    (job,) = (await shop.client.list(unstructured(Job.resource), shop.namespace)).items
    assert "CAPOP_GLOBAL_ACCOUNT_ID" in str(job.at("spec", "template"))

    named = MergePatch({"spec": {"providerSubaccountId": "subaccount"}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, named)

    await eventually(lambda: legacy.is_migrated(shop), describe="all objects are migrated")
    await shop.tenant_shows("ProvisioningCompleted")


async def test_a_deletion_takes_the_consumers_along_where_the_application_asks_for_it(
    running: Running, shop: Shop
) -> None:
    await ready(running, shop)
    asked = MergePatch({"metadata": {"annotations": {"sme.sap.com/delete-tenants": "true"}}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, asked)
    await shop.client.delete(metadata_of(CAPApplication), "shop", shop.namespace)

    async def gone() -> bool:
        left = [await shop.client.list(metadata_of(kind), shop.namespace) for kind in (CAPTenant, CAPApplication)]
        return not any(each.items for each in left)

    await eventually(gone, describe="the tenant is deprovisioned, and both are gone")
