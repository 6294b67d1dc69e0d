"""A tenant is provisioned, follows versions, and is deprovisioned before it goes."""

from __future__ import annotations

import base64
from collections import Counter

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, ready, router

from stellwerk.api.core import Namespace, Secret
from stellwerk.api.events import Event
from stellwerk.api.istio import VirtualService
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime import conditions
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually


def destinations(routes: VirtualService | None) -> list[str]:
    """The hosts that requests are sent to."""
    assert routes is not None
    return [target.destination.host for route in routes.spec.http for target in route.route]


@pytest.mark.req("CAP-41")
async def test_a_tenant_without_a_version_waits_and_is_released_at_once_when_deleted(
    running: Running, shop: Shop
) -> None:
    await shop.open(ready=False)
    await running.settled(shop.client)
    tenant = await shop.tenant_shows("ProcessingStarted", state="")
    assert tenant.metadata.finalizers == (names.TENANT_FINALIZER,)
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)
    await shop.is_gone(CAPTenant, "acme")
    assert await shop.operations() == []


async def test_a_tenant_whose_application_is_absent_waits_and_one_event_names_the_reference(
    running: Running, shop: Shop
) -> None:
    await shop.subscribe()
    tenant = await shop.tenant_shows("ProcessingStarted", state="")
    await running.settled(shop.client)

    assert not conditions.is_true(tenant.status.conditions, "Ready")
    events = [each for each in (await shop.client.list(Event, shop.namespace)).items if each.regarding.name == "acme"]
    assert [(each.type, each.reason, each.action) for each in events] == [("Warning", "InvalidReference", "Prepare")]


@pytest.mark.req("CAP-36")
async def test_a_tenant_is_provisioned_upgraded_and_deprovisioned(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await shop.open(job("mtxs", fate="hang"), router(fate="unready"), host="shop.example.com", ready=False)
    await shop.tenant_shows("ProcessingStarted", state="")
    await running.settled(shop.client)
    audit.mark()
    await shop.make_ready()
    tenant = await shop.tenant_shows("ProvisioningOperationCreated", state="Provisioning")
    assert not conditions.is_true(tenant.status.conditions, "Ready")
    for pod in await shop.names_of_pods(f"{names.OPERATION_TYPE_LABEL}=provisioning"):
        await shop.end_fate(pod)
    tenant = await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)

    assert tenant.status.current_version == "shop-v1"
    assert tenant.status.last_full_reconciliation_time is not None
    assert destinations(await shop.routes()) == [f"shop-v1-app-svc.{shop.namespace}.svc.cluster.local"]
    assert (await shop.routes() or VirtualService()).spec.hosts == ("acme.shop.example.com",)
    (provisioning,) = await shop.operations()
    assert provisioning.metadata.labels["sme.sap.com/tenant-operation-type"] == "provisioning"
    assert [(step.name, step.type) for step in provisioning.spec.steps] == [("mtxs", "TenantOperation")]
    context = provisioning.metadata.annotations["sme.sap.com/subscription-context-secret"]
    assert context == "acme-context"
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
    await shop.is_gone(CAPTenant, "acme")
    created = [entry.name for entry in shop.requests(audit) if entry.verb == "create"]
    assert len([name for name in created if name.startswith("acme-mtxs-")]) == 1


@pytest.mark.req("CAP-55")
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


async def test_a_provisioning_that_is_deleted_before_its_domain_serves_it_runs_once(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await shop.open(job("mtxs", fate="hang"), router(), host="shop.example.com")
    await shop.tenant_shows("ProvisioningOperationCreated", state="Provisioning")
    await shop.serve("shop.example.com", state="Processing")
    for pod in await shop.names_of_pods(f"{names.OPERATION_TYPE_LABEL}=provisioning"):
        await shop.end_fate(pod)
    (provisioning,) = await shop.operations()
    await shop.ends(provisioning.metadata.name)
    await shop.client.delete(metadata_of(CAPTenantOperation), provisioning.metadata.name, shop.namespace)
    await running.settled(shop.client)
    assert [each.metadata.uid for each in await shop.operations()] == [provisioning.metadata.uid]

    await shop.serve("shop.example.com")

    await shop.tenant_shows("ProvisioningCompleted")

    async def gone() -> bool:
        return not await shop.operations()

    await eventually(gone, within=30, describe="the operation that was deleted is gone")
    assert len(jobs_of_acme(shop, audit)) == 1


async def test_a_tenant_that_is_deleted_after_its_dependents_goes_by_one_deprovisioning(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    """The garbage collector deletes the deprovisioning while it runs, and maybe its Job, which then begins again."""
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    audit.mark()
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace, propagation="Foreground")
    await shop.is_gone(CAPTenant, "acme", within=60)
    assert len(set(jobs_of_acme(shop, audit))) == 1


def jobs_of_acme(shop: Shop, audit: AuditLog) -> list[str]:
    """The Jobs that the operator has created for the tenant."""
    made = [each for each in shop.requests(audit) if (each.verb, each.resource) == ("create", "jobs")]
    return [each.name for each in made if each.status == 201 and each.name.startswith("acme-mtxs-")]


@pytest.mark.req("CAP-38")
async def test_a_failed_provisioning_shows_its_cause_and_is_repeated_when_its_operation_is_deleted(
    running: Running, shop: Shop
) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    tenant = await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    condition = conditions.find(tenant.status.conditions, "Ready")
    assert condition is not None
    assert "Last exit code 1" in condition.message
    assert "stellwerk cap retry ctop/" in condition.message
    await running.settled(shop.client)
    (failed,) = await shop.operations()
    await running.stop()
    await running.start()
    await running.settled(shop.client)
    assert [each.metadata.uid for each in await shop.operations()] == [failed.metadata.uid], (
        "it is not repeated by itself"
    )
    await shop.client.delete(metadata_of(CAPTenantOperation), failed.metadata.name, shop.namespace)

    async def repeated() -> bool:
        return any(each.metadata.uid != failed.metadata.uid for each in await shop.operations())

    await eventually(repeated, within=30)


@pytest.mark.req("CAP-38")
async def test_a_failed_provisioning_is_repeated_for_another_version(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    (failed,) = await shop.operations()
    await shop.release("2", job("mtxs"), router())
    await shop.set_version("2.0.0")

    tenant = await shop.tenant_shows("ProvisioningCompleted")
    assert tenant.status.current_version == "shop-v2"
    assert failed.metadata.uid not in {each.metadata.uid for each in await shop.operations()}


async def test_a_failed_tenant_is_provisioned_on_request_once_its_cause_is_corrected(
    running: Running, shop: Shop
) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    await shop.mend(job("mtxs"))
    (failed,) = await shop.operations()
    await shop.ask_again(CAPTenant, "acme", "one")

    tenant = await shop.tenant_shows("ProvisioningCompleted")
    assert tenant.status.last_handled_retry == "one"
    (operation,) = await shop.operations()
    assert operation.metadata.uid == failed.metadata.uid


async def test_a_request_that_was_taken_back_acts_again_when_it_comes_again(running: Running, shop: Shop) -> None:
    await shop.open(job("mtxs", fate="fail"), router())
    await shop.tenant_shows("ProvisioningFailed", state="ProvisioningError")
    (failed,) = await shop.operations()
    await shop.ask_again(CAPTenant, "acme", "one")

    async def has_failed_again() -> bool:
        operation = await shop.client.get(CAPTenantOperation, failed.metadata.name, shop.namespace)
        return operation.has_ended and operation.status.retry is not None and operation.status.retry.attempts == 2

    await eventually(has_failed_again, within=30, describe="the operation has failed again")
    await shop.take_back(CAPTenant, "acme")

    async def is_noted() -> bool:
        return not (await shop.client.get(CAPTenant, "acme", shop.namespace)).status.last_handled_retry

    await eventually(is_noted, within=30, describe="the tenant shows no request")
    await shop.mend(job("mtxs"))
    await shop.ask_again(CAPTenant, "acme", "one")
    await shop.tenant_shows("ProvisioningCompleted")


async def test_a_failed_deprovisioning_goes_on_at_the_request_of_the_tenant(running: Running, shop: Shop) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.mend(job("mtxs", fate="fail"))
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)
    await shop.tenant_shows("DeprovisioningFailed", state="Deleting")
    await shop.mend(job("mtxs"))
    await shop.ask_again(CAPTenant, "acme", "one")
    await shop.is_gone(CAPTenant, "acme")


async def test_a_request_to_a_tenant_that_has_not_failed_is_noted_and_starts_nothing(
    running: Running, shop: Shop
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    before = {each.metadata.uid for each in await shop.all_jobs()}
    await shop.ask_again(CAPTenant, "acme", "one")
    await running.settled(shop.client)

    tenant = await shop.tenant_shows("ProvisioningCompleted")
    assert tenant.status.last_handled_retry == "one"
    assert {each.metadata.uid for each in await shop.all_jobs()} == before


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


async def test_a_provider_whose_failed_version_is_deleted_is_ready_again_and_new_subscribers_are_provisioned(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(provider={"subDomain": "provider", "tenantId": "provider-id"})
    await shop.release("1")
    await shop.shows_application("VersionExists", state="Consistent")
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError", name="shop-provider")

    await shop.client.delete(metadata_of(CAPApplicationVersion), "shop-v2", shop.namespace)

    saying = "CAPApplicationVersion shop-v1 is in use"
    tenant = await shop.tenant_shows("ProvisioningCompleted", name="shop-provider", saying=saying)
    assert tenant.spec.version == "1.0.0"
    await shop.subscribe()
    tenant = await shop.tenant_shows("ProvisioningCompleted")
    assert tenant.status.current_version == "shop-v1"
    await shop.shows_application("VersionExists", state="Consistent")


async def test_a_provider_that_never_follows_and_whose_upgrade_fails_keeps_no_other_tenant_from_its_version(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(provider={"subDomain": "provider", "tenantId": "provider-id"})
    await shop.release("1")
    await shop.shows_application("VersionExists", state="Consistent")
    await shop.release("2", job("mtxs", fate="hang"), router())
    await shop.tenant_shows("UpgradeOperationCreated", state="Upgrading", name="shop-provider")
    pinned = MergePatch({"spec": {"versionUpgradeStrategy": "never"}})
    await shop.client.patch(metadata_of(CAPTenant), "shop-provider", shop.namespace, pinned)
    await running.settled(shop.client)
    await shop.fail_hanging_jobs()
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError", name="shop-provider")

    await shop.subscribe()
    await shop.fail_hanging_jobs()
    await shop.release("3")

    await shop.version_shows("WorkloadsReady", "3")
    await shop.has_version("shop-v3")
    await shop.shows_application("VersionExists", state="Consistent")
    provider = await shop.client.get(CAPTenant, "shop-provider", shop.namespace)
    assert provider.status.current_version == "shop-v1"


async def test_a_tenant_that_leaves_an_upgrade_while_its_job_runs_follows_to_the_next_version(
    running: Running, shop: Shop
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="hang"), router())
    await shop.tenant_shows("UpgradeOperationCreated", state="Upgrading")
    upgrade = await shop.upgrade()
    await shop.set_version("1.0.0")
    await running.settled(shop.client)
    await shop.fail_hanging_jobs()
    await shop.ends(upgrade.metadata.name)

    await shop.release("3")

    tenant = await shop.tenant_shows("UpgradeCompleted")
    assert tenant.status.current_version == "shop-v3"


async def test_a_version_waits_for_an_upgrade_that_its_tenant_has_left_and_without_the_version_that_fails(
    running: Running, shop: Shop
) -> None:
    """The upgrade waits for its next attempt all the while."""
    await shop.open(jobRetry={"maxAttempts": 3, "delaySeconds": 3600})
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeOperationCreated", state="Upgrading")
    upgrade = await shop.upgrade()
    await shop.pauses(upgrade.metadata.name)
    await shop.set_version("1.0.0")
    await running.settled(shop.client)

    version = metadata_of(CAPApplicationVersion)
    await shop.client.delete(version, "shop-v2", shop.namespace)
    shown = await shop.version_shows("DeleteTriggered", "2", state="Deleting")
    await running.settled(shop.client)
    waits = conditions.find(shown.status.conditions, "Ready")
    assert waits is not None
    assert waits.message == f"the version is deleted when no operation runs its Jobs any more: {upgrade.metadata.name}"
    assert await shop.client.find(version, "shop-v2", shop.namespace) is not None

    released = MergePatch({"metadata": {"finalizers": None}})
    await shop.client.patch(version, "shop-v2", shop.namespace, released)
    failed = await shop.ends(upgrade.metadata.name)
    assert failed.status.state == "Failed"
    await shop.tenant_shows("ProvisioningCompleted", saying="CAPApplicationVersion shop-v1 is in use")
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)
    await shop.is_gone(CAPTenant, "acme")


@pytest.mark.parametrize("leaves", ["version", "tenant"])
async def test_an_upgrade_whose_job_can_never_be_created_keeps_neither_its_version_nor_its_tenant(
    running: Running, shop: Shop, leaves: str
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", env=[{"name": "VCAP_SERVICES", "value": "mine"}]), router())
    await shop.tenant_shows("UpgradeOperationCreated", state="Upgrading")
    upgrade = await shop.upgrade()
    await shop.shows("StepProcessingError", upgrade.metadata.name)

    if leaves == "version":
        await shop.set_version("1.0.0")
        await shop.client.delete(metadata_of(CAPApplicationVersion), "shop-v2", shop.namespace)
        failed = await shop.ends(upgrade.metadata.name)
        assert failed.status.state == "Failed"
        assert "VCAP_SERVICES" in ready(failed)[1]
        await shop.tenant_shows("ProvisioningCompleted", saying="CAPApplicationVersion shop-v1 is in use")
        await shop.is_gone(CAPApplicationVersion, "shop-v2")
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)
    await shop.is_gone(CAPTenant, "acme")


async def test_a_request_that_comes_while_the_version_of_an_upgrade_is_lost_does_not_hold_the_tenant(
    running: Running, shop: Shop
) -> None:
    await shop.open(jobRetry={"maxAttempts": 3, "delaySeconds": 3600})
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeOperationCreated", state="Upgrading")
    upgrade = await shop.upgrade()
    await shop.pauses(upgrade.metadata.name)
    await shop.set_version("1.0.0")
    await running.settled(shop.client)
    await running.stop()
    version = metadata_of(CAPApplicationVersion)
    await shop.client.delete(version, "shop-v2", shop.namespace)
    await shop.client.patch(version, "shop-v2", shop.namespace, MergePatch({"metadata": {"finalizers": None}}))
    await shop.ask_again(CAPTenantOperation, upgrade.metadata.name, "now")

    await running.start()

    await shop.fails_again(upgrade.metadata.name, "now")
    await shop.tenant_shows("ProvisioningCompleted", saying="CAPApplicationVersion shop-v1 is in use")


async def test_a_tenant_comes_back_to_a_version_by_a_job_though_someone_keeps_its_first_upgrade_to_it(
    running: Running, shop: Shop
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2")
    await shop.has_version("shop-v2")
    kept = await shop.upgrade()
    held = MergePatch({"metadata": {"finalizers": [*kept.metadata.finalizers, "example.com/audit"]}})
    await shop.client.patch(metadata_of(CAPTenantOperation), kept.metadata.name, shop.namespace, held)
    await shop.release("3")
    await shop.has_version("shop-v3")
    await shop.client.delete(metadata_of(CAPApplicationVersion), "shop-v3", shop.namespace)
    await shop.version_shows("DeleteTriggered", "3", state="Deleting")
    former = {each.metadata.uid for each in await shop.all_jobs()}

    await shop.set_version("2.0.0")

    await running.settled(shop.client)
    tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
    assert tenant.status.current_version == "shop-v3", "it waits"
    let_go = MergePatch({"metadata": {"finalizers": None}})
    await shop.client.patch(metadata_of(CAPTenantOperation), kept.metadata.name, shop.namespace, let_go)
    await shop.has_version("shop-v2")
    assert {each.metadata.uid for each in await shop.all_jobs()} - former, "a Job has run"


async def test_a_deleted_version_goes_when_the_upgrade_that_its_tenant_has_left_has_ended(
    running: Running, shop: Shop
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="hang"), router())
    await shop.tenant_shows("UpgradeOperationCreated", state="Upgrading")
    await shop.set_version("1.0.0")
    version = metadata_of(CAPApplicationVersion)
    await shop.client.delete(version, "shop-v2", shop.namespace)
    await running.settled(shop.client)
    await shop.client.get(version, "shop-v2", shop.namespace)
    await shop.fail_hanging_jobs()
    await shop.is_gone(CAPApplicationVersion, "shop-v2", within=60)
    upgrade = await shop.upgrade()
    assert "BackoffLimitExceeded" in ready(upgrade)[1], "its Job ended while the version was there"


@pytest.mark.req("CAP-40")
async def test_the_oldest_of_many_previous_versions_goes(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    former = [f"shop-v0{number}" for number in range(10)]
    patch = MergePatch({"status": {"previousCAPApplicationVersions": [*former]}})
    await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, patch, subresource="status")

    await shop.release("2")
    tenant = await shop.tenant_shows("UpgradeCompleted")

    assert tenant.status.previous_versions == (*former[1:], "shop-v1")


@pytest.mark.req("CAP-41")
async def test_a_tenant_is_deprovisioned_with_its_version_though_that_is_not_ready(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    """Its pods never become ready: a test has to show the version as Ready, and as broken, in its status."""
    await shop.open(ready=False)
    await shop.tenant_shows("ProcessingStarted", state="")
    await running.settled(shop.client)
    await show_version(shop, "Ready", "WorkloadsReady", holds=True)
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    await running.stop()
    await show_version(shop, "Error", "ErrorInWorkloadStatus", holds=False)
    audit.mark()
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)
    await running.start()
    await shop.is_gone(CAPTenant, "acme")
    version = await shop.client.get(CAPApplicationVersion, "shop-v1", shop.namespace)
    assert not conditions.is_true(version.status.conditions, "Ready")
    created = [(entry.resource, entry.name) for entry in shop.requests(audit) if entry.verb == "create"]
    assert len([name for resource, name in created if resource == "jobs" and name.startswith("acme-mtxs-")]) == 1


async def show_version(shop: Shop, state: str, reason: str, *, holds: bool) -> None:
    """Have the first version show this state and this reason, as its controller would."""
    ready: JsonObject = {
        "type": "Ready",
        "status": str(holds),
        "reason": reason,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = MergePatch({"status": {"state": state, "conditions": [ready]}})
    version = metadata_of(CAPApplicationVersion)
    await shop.client.patch(version, "shop-v1", shop.namespace, patch, subresource="status")


@pytest.mark.req("R-208")
@pytest.mark.req("R-112")
async def test_a_tenant_whose_namespace_is_deleted_shows_what_keeps_it(running: Running, shop: Shop) -> None:
    """No Job can run there, so that the data of the tenant would stay behind: a user has to decide."""
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.client.delete(metadata_of(Namespace), shop.namespace)

    async def is_shown() -> bool:
        tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
        shown = conditions.find(tenant.status.conditions, "Ready")
        assert shown is not None
        assert shown.message.startswith(f"Namespace {shop.namespace} is being deleted"), shown.message
        assert f"kubectl patch cat acme -n {shop.namespace}" in shown.message
        return True

    await eventually(is_shown)
    free = MergePatch({"metadata": {"finalizers": None}})
    await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, free)

    async def gone() -> bool:
        kinds = (CAPApplication, CAPApplicationVersion, CAPTenant, CAPTenantOperation, Domain)
        return not any([(await shop.client.list(metadata_of(kind), shop.namespace)).items for kind in kinds])

    await eventually(gone, within=90, describe="nothing of ours keeps the namespace")


@pytest.mark.req("CAP-45")
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


async def test_a_foreign_virtual_service_that_is_being_deleted_is_named_and_its_place_is_taken_when_it_is_gone(
    running: Running, shop: Shop
) -> None:
    held: JsonObject = {"name": "acme", "namespace": shop.namespace, "finalizers": ["example.com/held"]}
    made = await shop.client.apply(VirtualService, {"metadata": held, "spec": {"hosts": ["elsewhere.example.com"]}})
    await shop.client.delete(metadata_of(VirtualService), "acme", shop.namespace)
    await shop.open(host="shop.example.com")

    async def is_named() -> bool:
        tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
        shown = conditions.find(tenant.status.conditions, "Ready")
        assert shown is not None
        assert not shown.is_true
        return "is being deleted" in shown.message

    await eventually(is_named, within=30)
    released = MergePatch({"metadata": {"uid": made.metadata.uid, "finalizers": None}})
    await shop.client.patch(metadata_of(VirtualService), "acme", shop.namespace, released)
    await shop.tenant_shows("ProvisioningCompleted")
    routes = await shop.routes()
    assert routes is not None
    assert routes.spec.hosts == ("acme.shop.example.com",)


async def test_a_change_that_needs_nothing_is_shown_as_seen(running: Running, shop: Shop) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    never = MergePatch({"spec": {"versionUpgradeStrategy": "never"}})
    changed = await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, never)
    await running.settled(shop.client)

    tenant = await shop.tenant_shows("ProvisioningCompleted")
    assert tenant.status.observed_generation == changed.metadata.generation


@pytest.mark.req("R-918")
async def test_a_second_tenant_with_the_same_id_runs_no_job_and_takes_over_when_the_first_is_gone(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    audit.mark()
    tenant: JsonObject = {"capApplicationInstance": "shop", "subDomain": "twin", "tenantId": "acme-id"}
    marks: JsonObject = {names.CONTEXT_SECRET_ANNOTATION: "twin-context"}
    metadata: JsonObject = {"name": "twin", "namespace": shop.namespace, "annotations": marks}
    payload: JsonObject = {names.CONTEXT_KEY: base64.b64encode(b"{}").decode()}
    context: JsonObject = {"name": "twin-context", "namespace": shop.namespace}
    await shop.client.apply(Secret, {"metadata": context, "data": payload})
    kind = {"apiVersion": CAPTenant.resource.api_version, "kind": "CAPTenant"}
    await shop.client.create(CAPTenant, {**kind, "metadata": metadata, "spec": tenant})
    await shop.tenant_shows("DuplicateTenant", state="ProvisioningError", name="twin", saying="/acme is older")
    await running.settled(shop.client)
    assert not [entry for entry in shop.requests(audit) if entry.verb == "create" and entry.resource == "jobs"]

    await shop.client.delete(metadata_of(CAPTenant), "twin", shop.namespace)
    await shop.is_gone(CAPTenant, "twin")
    await shop.client.create(CAPTenant, {**kind, "metadata": metadata, "spec": tenant})
    await shop.tenant_shows("DuplicateTenant", state="ProvisioningError", name="twin")
    assert not [entry for entry in shop.requests(audit) if entry.verb == "create" and entry.resource == "jobs"]
    await shop.tenant_shows("ProvisioningCompleted")

    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)
    await shop.is_gone(CAPTenant, "acme")
    await shop.tenant_shows("ProvisioningCompleted", name="twin")
