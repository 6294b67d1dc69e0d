"""`stellwerk cap upgrade` on a running operator."""

from __future__ import annotations

from tests.cluster.cap.conftest import Running, Stellwerk
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.testing.eventually import eventually


async def two_tenants(shop: Shop, **spec: object) -> None:
    """The application with two tenants on version 1."""
    await shop.bind()
    await shop.apply(**spec)  # type: ignore[arg-type]
    await shop.release("1")
    await shop.version_shows("WorkloadsReady")
    for name in ("acme", "best"):
        await shop.subscribe(name)
    for name in ("acme", "best"):
        await shop.tenant_shows("ProvisioningCompleted", name=name)


async def test_a_tenant_that_never_follows_a_version_is_provisioned_with_one_and_left_alone_then(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open(follows=False)
    await shop.release("2")
    await shop.version_shows("WorkloadsReady", "2")
    begun = await stellwerk("cap", "upgrade", "shop", "acme", "--to", "shop-v1", "--wait")
    same = await stellwerk("cap", "upgrade", "shop", "acme", "--to", "1.0.0")
    left = await stellwerk("cap", "upgrade", "shop")

    assert begun.returncode == 0, begun.stderr
    assert begun.stdout.splitlines()[0] == f"CAPTenant {shop.namespace}/acme follows from version none to 1.0.0"
    assert (await shop.tenant_shows("ProvisioningCompleted")).status.current_version == "shop-v1"
    assert "has version 1.0.0 already" in same.stderr
    assert "never follows a version. Change that with: kubectl patch cat acme" in left.stderr
    assert left.stdout == ""


async def test_tenants_that_wait_for_their_wave_follow_when_they_are_named(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await two_tenants(shop, tenantUpgrade={"canaryTenants": ["acme"], "maxFailurePercent": 0})
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError")
    await running.settled(shop.client)
    paused = await stellwerk("status", "ca/shop")
    all_of_them = await stellwerk("cap", "upgrade", "shop", "--wait", "--timeout", "60s")
    await shop.mend(job("mtxs"), "2")
    named = await stellwerk("cap", "upgrade", "shop", "best", "--wait")

    assert "Paused" in paused.stdout
    assert all_of_them.returncode == 1, all_of_them
    assert f"stellwerk cap upgrade shop -n {shop.namespace} --resume" in all_of_them.stdout
    assert named.returncode == 0, named.stderr
    assert (await shop.tenant_shows("UpgradeCompleted", name="best")).status.current_version == "shop-v2"


async def test_an_upgrade_that_is_paused_goes_on(running: Running, shop: Shop, stellwerk: Stellwerk) -> None:
    await two_tenants(shop, tenantUpgrade={"canaryTenants": ["acme"], "maxFailurePercent": 0})
    early = await stellwerk("cap", "upgrade", "shop", "--resume")
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError")
    await running.settled(shop.client)
    await shop.mend(job("mtxs"), "2")
    done = await stellwerk("cap", "upgrade", "shop", "--resume", "--wait")
    retried = await stellwerk("cap", "retry", "ca/shop", "--wait")

    assert early.returncode == 2
    assert "no upgrade of CAPApplication" in early.stderr
    assert done.returncode == 1, "the canary has failed still"
    assert "goes on" in done.stdout.splitlines()[0]
    assert (await shop.tenant_shows("UpgradeCompleted", name="best")).status.current_version == "shop-v2"
    assert retried.returncode == 0, retried.stdout
    assert (await shop.tenant_shows("UpgradeCompleted")).status.current_version == "shop-v2"


async def test_a_version_that_tenants_cannot_have_is_refused(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", ready=False)
    unknown = await stellwerk("cap", "upgrade", "shop", "--to", "9.9.9")
    unready = await stellwerk("cap", "upgrade", "shop", "--to", "2.0.0")
    await shop.make_ready("2")
    await shop.tenant_shows("UpgradeCompleted")
    former = await stellwerk("cap", "upgrade", "shop", "--to", "1.0.0")

    assert (unknown.returncode, unready.returncode, former.returncode) == (2, 2, 2)
    assert "choose one of its versions: 1.0.0, 2.0.0" in unknown.stderr
    assert "shop-v2 is not Ready" in unready.stderr
    assert "the application would bring it back to the newest one" in former.stderr


async def test_tenants_of_a_version_that_is_being_deleted_move_only_when_a_user_names_another_one(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await two_tenants(shop)
    await shop.release("2")
    for name in ("acme", "best"):
        await shop.tenant_shows("UpgradeCompleted", name=name)
    await shop.client.delete(metadata_of(CAPApplicationVersion), "shop-v2", shop.namespace)
    await shop.version_shows("DeleteTriggered", "2", state="Deleting")
    await running.settled(shop.client)
    kept = await shop.tenant_shows("UpgradeCompleted")
    application = await shop.shows_application("VersionExists", state="Consistent")
    asked = await stellwerk("cap", "upgrade", "shop")
    moved = await stellwerk("cap", "upgrade", "shop", "--to", "1.0.0", "--wait")

    assert (kept.spec.version, kept.status.current_version) == ("2.0.0", "shop-v2")
    assert f"stellwerk cap upgrade shop --to 1.0.0 -n {shop.namespace}" in application.status.conditions[0].message
    assert asked.stdout == ""
    assert (
        f"acme stays above version 1.0.0: CAPApplicationVersion {shop.namespace}/shop-v2 is being deleted"
        in asked.stderr
    )
    assert moved.returncode == 0, moved.stderr
    for name in ("acme", "best"):
        assert (await shop.tenant_shows("UpgradeCompleted", name=name)).status.current_version == "shop-v1"

    async def is_gone() -> bool:
        return await shop.client.find(metadata_of(CAPApplicationVersion), "shop-v2", shop.namespace) is None

    await eventually(is_gone, within=30, describe="the version is gone")
