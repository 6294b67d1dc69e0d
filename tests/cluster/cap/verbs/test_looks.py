"""The verbs that show and reconcile any object, on objects of the CAP Operator."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest
from tests.cluster.cap.conftest import Running, Stellwerk
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.api.istio import VirtualService
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, metadata_of, owner_reference, unstructured
from stellwerk.operators.cap.kinds.tenant import CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually


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

    owner = msgspec.to_builtins(owner_reference(tenant))
    metadata: JsonObject = {"name": "route", "namespace": shop.namespace, "ownerReferences": [owner]}
    route = VirtualService.resource
    head: JsonObject = {"apiVersion": route.api_version, "kind": route.kind, "metadata": metadata}
    await shop.client.create(VirtualService, {**head, "spec": {"hosts": ["a.example.com"]}})
    assert f"VirtualService {shop.namespace}/route" in (await stellwerk("tree", "ca/shop")).stdout


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


async def test_failures_that_a_tenant_has_left_behind_are_history_for_all_verbs(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError")
    failed = await shop.upgrade()
    name, version = failed.metadata.name, metadata_of(CAPApplicationVersion)
    counts = await stellwerk("get", "ctop", "--not-ready")
    assert name in counts.stdout

    await shop.client.delete(version, "shop-v2", shop.namespace)
    await shop.tenant_shows("ProvisioningCompleted", saying="CAPApplicationVersion shop-v1 is in use")

    async def shows_superseded(kind: type[Kind], name: str) -> bool:
        found: Unstructured = await shop.client.get(unstructured(kind.resource), name, shop.namespace)
        return conditions.is_true(conditions.listed_in(found.body), "Superseded")

    await eventually(partial(shows_superseded, CAPTenantOperation, name))
    await shop.release("3", job("load", "Content", fate="fail"), job("mtxs"), router(), ready=False)
    await shop.version_shows("ErrorInWorkloadStatus", "3", state="Error")
    await running.settled(shop.client)
    status, asked = await stellwerk("status", f"ctop/{name}"), await stellwerk("cap", "retry", f"ctop/{name}")
    assert status.returncode == 0, status
    assert "is superseded: nothing waits for it" in status.stdout
    assert (asked.stdout, "is not run again" in asked.stderr) == ("", True), asked
    left = await stellwerk("get", "ctop,cat", "--not-ready")
    assert left.stdout == "", "the failed content job of the newest version is no matter of the tenant"
    assert "shop-v3" in (await stellwerk("get", "cav", "--not-ready")).stdout

    await shop.release("4")
    await shop.tenant_shows("UpgradeCompleted")
    await eventually(partial(shows_superseded, CAPApplicationVersion, "shop-v3"))
    await running.settled(shop.client)
    nothing, why = await stellwerk("get", "--not-ready"), await stellwerk("why")
    assert (nothing.stdout, why.stdout) == ("", "")


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
