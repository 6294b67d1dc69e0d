"""The verbs that show and reconcile any object, on objects of the CAP Operator."""

from __future__ import annotations

import pytest
from tests.cluster.cap.conftest import Running, Stellwerk
from tests.cluster.cap.shop import Shop, job, router


async def test_every_kind_is_reconciled_on_request_and_says_so(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    (operation,) = await shop.operations()
    subjects = ("ca/shop", "cav/shop-v1", "cat/acme", f"ctop/{operation.metadata.name}")
    done = await stellwerk("reconcile", *subjects, "--wait", "--timeout", "30s")

    assert done.returncode == 0, done
    assert len(done.stdout.splitlines()) == len(subjects)
    tenant = await shop.tenant_shows("ProvisioningCompleted")
    assert tenant.status.last_handled_reconcile_at == tenant.metadata.annotations["reconcile.fluxcd.io/requestedAt"]


async def test_an_upgrade_in_waves_is_seen_in_the_status_of_its_application(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.bind()
    await shop.apply(tenantUpgrade={"canaryTenants": ["acme"], "maxFailurePercent": 0})
    await shop.release("1")
    await shop.version_shows("WorkloadsReady")
    for name in ("acme", "best"):
        await shop.subscribe(name)
    for name in ("acme", "best"):
        await shop.tenant_shows("ProvisioningCompleted", name=name)
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError")
    await running.settled(shop.client)
    status = await stellwerk("status", "ca/shop")
    why = await stellwerk("why", "ca/shop")
    waits = await stellwerk("cap", "upgrade", "shop")

    assert "upgrade to version 2.0.0, phase Paused: 0 upgraded, 0 under way, 1 failed, 1 waiting" in status.stdout
    assert "1 tenant follows to version 2.0.0: acme" in status.stdout
    assert "Last exit code 1" in why.stdout
    assert f"stellwerk cap upgrade shop -n {shop.namespace} --resume" in why.stdout
    assert waits.stdout == ""
    assert "follow in waves (spec.tenantUpgrade, phase Paused)" in waits.stderr
    assert "stellwerk cap upgrade shop" in waits.stderr


@pytest.mark.parametrize("verb", ["get", "tree", "status", "why"])
async def test_an_operation_that_failed_is_not_shown_as_ready(
    running: Running, shop: Shop, stellwerk: Stellwerk, verb: str
) -> None:
    await shop.open(job("mtxs", fate="fail"), follows=False)
    await shop.operate("upgrade")
    await shop.ends()
    words = ("get", "ctop", "--not-ready") if verb == "get" else (verb, "ctop/acme-op")
    shown = await stellwerk(*words)

    assert "acme-op" in shown.stdout
    assert "Failed" in shown.stdout or "is not ready" in shown.stdout
    assert "✔ CAPTenantOperation" not in shown.stdout
    if verb in ("status", "why"):
        assert "Last exit code 1" in shown.stdout
