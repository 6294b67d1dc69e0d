"""`stellwerk cap retry` on a running operator."""

from __future__ import annotations

import pytest
from tests.cluster.cap.conftest import Running, Stellwerk
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.local.cluster import LocalCluster


async def test_a_failed_tenant_runs_again_and_is_waited_for(running: Running, shop: Shop, stellwerk: Stellwerk) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    still = await stellwerk("cap", "retry", "cat/acme", "--wait")
    await shop.mend(job("mtxs"))
    await running.settled(shop.client)
    done = await stellwerk("cap", "retry", "cat/acme", "--wait")
    ready = await stellwerk("cap", "retry", "cat/acme")

    assert still.returncode == 1
    assert "It was tried 2 times" in still.stdout
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[0] == f"CAPTenant {shop.namespace}/acme is asked to try again"
    assert ready.returncode == 0
    assert ready.stdout == ""
    assert f"CAPTenant {shop.namespace}/acme has not failed" in ready.stderr


async def test_a_failed_content_job_runs_again_with_all_that_failed_of_the_application(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.bind()
    await shop.apply()
    await shop.release("1", job("load", "Content", fate="fail"), job("mtxs"), router())
    await shop.version_shows("ErrorInWorkloadStatus", state="Error")
    await shop.mend(job("load", "Content"))
    await running.settled(shop.client)
    tried = await stellwerk("cap", "retry", "ca/shop", "--dry-run")
    done = await stellwerk("cap", "retry", "ca/shop", "--wait")

    assert tried.stdout == f"CAPApplicationVersion {shop.namespace}/shop-v1 is asked to try again (dry run)\n"
    assert done.returncode == 0, done.stdout
    await shop.version_shows("WorkloadsReady")


async def test_a_step_that_waits_for_its_next_attempt_runs_at_once_on_request(
    running: Running, shop: Shop, stellwerk: Stellwerk
) -> None:
    await shop.bind()
    await shop.apply(jobRetry={"maxAttempts": 2, "delaySeconds": 3600})
    await shop.release("1", job("mtxs", fate="fail"), router())
    await shop.version_shows("WorkloadsReady")
    await shop.subscribe(follows=False)
    await shop.operate("upgrade")
    waiting = await shop.shows("StepProcessing")
    await shop.mend(job("mtxs"))
    await running.settled(shop.client)
    done = await stellwerk("cap", "retry", "ctop/acme-op", "--wait")

    assert waiting.status.retry is not None
    assert waiting.status.retry.next_attempt_time is not None
    assert done.returncode == 0, done.stdout
    assert (await shop.ends()).status.state == "Completed"


@pytest.mark.parametrize("what", ["cat/acme", "ca/shop"])
async def test_a_tenant_between_two_attempts_runs_at_once_on_request(
    running: Running, shop: Shop, stellwerk: Stellwerk, what: str
) -> None:
    await shop.bind()
    await shop.apply(jobRetry={"maxAttempts": 2, "delaySeconds": 3600})
    await shop.release("1", job("mtxs", fate="fail"), router())
    await shop.version_shows("WorkloadsReady")
    await shop.subscribe()
    await shop.tenant_shows("ProvisioningOperationCreated", state="Provisioning")
    (operation,) = await shop.operations()
    name = operation.metadata.name
    await shop.pauses(name)
    why = await stellwerk("why", "cat/acme")
    await shop.mend(job("mtxs"))
    await running.settled(shop.client)
    done = await stellwerk("cap", "retry", what, "--wait")

    assert f"stellwerk cap retry ctop/{name}" in why.stdout
    assert "the next attempt begins at" in why.stdout
    assert done.returncode == 0, done
    assert done.stdout.splitlines()[0] == f"CAPTenantOperation {shop.namespace}/{name} is asked to try again"
    await shop.tenant_shows("ProvisioningCompleted")


@pytest.mark.parametrize("what", ["acme", "po/acme", "cat/a/b/c"])
async def test_what_cannot_be_meant_is_wrong_usage(shop: Shop, stellwerk: Stellwerk, what: str) -> None:
    done = await stellwerk("cap", "retry", what)

    assert done.returncode in (1, 2)
    assert done.stderr.startswith("Error:   ")
    assert "Fix:     " in done.stderr


async def test_a_user_who_may_not_change_a_tenant_is_told_what_is_lacking(
    running: Running, shop: Shop, stellwerk: Stellwerk, cap_cluster: LocalCluster
) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    done = await stellwerk("cap", "retry", "cat/acme", kubeconfig=cap_cluster.kubeconfig_for("somebody"))

    assert done.returncode == 5
