"""A tenant is provisioned, follows versions, and is deprovisioned before it goes."""

from __future__ import annotations

from collections import Counter

from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.api.istio import VirtualService
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_tenant import CAPTenant, CAPTenantOperation
from stellwerk.runtime import conditions
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually


def destinations(routes: VirtualService | None) -> list[str]:
    """The hosts that requests are sent to."""
    assert routes is not None
    return [target.destination.host for route in routes.spec.http for target in route.route]


async def test_a_tenant_without_a_version_waits_and_is_released_at_once_when_deleted(
    running: Running, shop: Shop
) -> None:
    await shop.open(ready=False)
    tenant = await shop.tenant_shows("ProcessingStarted", state="")
    assert tenant.metadata.finalizers == (names.TENANT_FINALIZER,)
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)

    async def gone() -> bool:
        return await shop.client.find(metadata_of(CAPTenant), "acme", shop.namespace) is None

    await eventually(gone, within=30)
    assert await shop.operations() == []


async def test_a_tenant_is_provisioned_upgraded_and_deprovisioned(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await shop.open(host="shop.example.com", ready=False)
    await shop.tenant_shows("ProcessingStarted", state="")
    await running.settled(shop.client)
    audit.mark()
    await shop.make_ready()
    tenant = await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)

    assert tenant.status.current_version == "shop-v1"
    assert destinations(await shop.routes()) == [f"shop-v1-app-svc.{shop.namespace}.svc.cluster.local"]
    assert (await shop.routes() or VirtualService()).spec.hosts == ("acme.shop.example.com",)
    (provisioning,) = await shop.operations()
    assert provisioning.metadata.labels["sme.sap.com/tenant-operation-type"] == "provisioning"
    requests = [entry for entry in shop.requests(audit) if entry.verb != "watch"]
    asked = Counter(f"{entry.verb} {entry.resource}" for entry in requests if entry.resource != "capapplications")
    assert asked == {
        "patch captenants": 1,
        "create captenantoperations": 1,
        "create secrets": 1,
        "create jobs": 1,
        "update capapplicationversions": 1,
        "update captenantoperations": 2,
        "patch virtualservices": 1,
        "update captenants": 2,
        "create events": 8,  # one is the application's, and one the version's
    }

    await shop.release("2")
    tenant = await shop.tenant_shows("UpgradeCompleted")
    assert (tenant.status.current_version, tenant.status.previous_versions) == ("shop-v2", ("shop-v1",))
    assert destinations(await shop.routes()) == [f"shop-v2-app-svc.{shop.namespace}.svc.cluster.local"]

    await running.settled(shop.client)
    audit.mark()
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)

    async def gone() -> bool:
        return await shop.client.find(metadata_of(CAPTenant), "acme", shop.namespace) is None

    await eventually(gone, within=30)
    created = [entry.name for entry in shop.requests(audit) if entry.verb == "create"]
    assert len([name for name in created if name.startswith("acme-mtxs-")]) == 1


async def test_a_ready_tenant_that_is_left_alone_is_not_asked_about(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    await running.stop()
    await running.start()
    audit.mark()
    await running.settled(shop.client)

    assert [entry for entry in shop.requests(audit) if entry.is_write] == []


async def test_a_failed_provisioning_shows_its_cause_and_is_repeated_when_its_operation_is_deleted(
    running: Running, shop: Shop
) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    tenant = await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    condition = conditions.find(tenant.status.conditions, "Ready")
    assert condition is not None
    assert "Last exit code 1" in condition.message
    assert "sme.sap.com/retry=true" in condition.message
    await running.settled(shop.client)
    (failed,) = await shop.operations()
    await shop.client.delete(metadata_of(CAPTenantOperation), failed.metadata.name, shop.namespace)

    async def repeated() -> bool:
        return any(each.metadata.uid != failed.metadata.uid for each in await shop.operations())

    await eventually(repeated, within=30)


async def test_a_failed_upgrade_leaves_the_tenant_ready_on_its_former_version(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="fail"), router())
    tenant = await shop.tenant_shows("UpgradeFailed", state="UpgradeError")

    assert conditions.is_true(tenant.status.conditions, "Ready")
    assert tenant.status.current_version == "shop-v1"
    assert destinations(await shop.routes()) == [f"shop-v1-app-svc.{shop.namespace}.svc.cluster.local"]
    await shop.release("3")
    tenant = await shop.tenant_shows("UpgradeCompleted")
    assert tenant.status.current_version == "shop-v3"


async def test_routes_follow_the_host_of_the_domain(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.serve("other.example.com")
    await shop.tenant_shows("TenantNetworkingModified")

    routes = await shop.routes()
    assert routes is not None
    assert routes.spec.hosts == ("acme.other.example.com",)


async def test_a_virtual_service_of_another_owner_is_named_and_left_alone(running: Running, shop: Shop) -> None:
    gateway: JsonObject = {"hosts": ["elsewhere.example.com"]}
    await shop.client.apply(
        VirtualService, {"metadata": {"name": "acme", "namespace": shop.namespace}, "spec": gateway}
    )
    await shop.open(host="shop.example.com")

    async def is_named() -> bool:
        tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
        shown = conditions.find(tenant.status.conditions, "Ready")
        return shown is not None and "invalid owner reference found for VirtualService" in shown.message

    await eventually(is_named, within=30)
    routes = await shop.routes()
    assert routes is not None
    assert routes.spec.hosts == ("elsewhere.example.com",)
