"""An application lives as usual over a bad line: watches break, events repeat, calls fail, rights are absent.

Each Job of its life runs once, whatever happens.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

import pytest
from tests.cluster import outages, permissions
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.life import Life
from tests.cluster.cap.shop import OPERATOR, Shop, job, ready, router

from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.delivery import grants
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.rights import GRANTS
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    ANY_FRAME,
    ANYTHING,
    AnswerInstead,
    CutConnection,
    CutFrame,
    ErrorFrame,
    EventFault,
    FaultProxy,
    Hold,
    RecordedRequest,
    Repeat,
    When,
    chance,
    events,
    nth,
    of_watch,
    requests,
)
from stellwerk.testing.faults.on_requests import Proceed
from stellwerk.testing.faults.reply import Reply

JOBS_OF_A_LIFE = 7
"""The content job; provisioning, upgrade and deprovisioning of two tenants."""


@pytest.fixture
async def proxy(cap_cluster: LocalCluster) -> AsyncIterator[FaultProxy]:
    """A line to the control plane that can be made bad."""
    async with FaultProxy(cap_cluster.kubeconfig_for(OPERATOR)) as made:
        yield made


@pytest.fixture
async def behind(proxy: FaultProxy) -> AsyncIterator[Running]:
    """The operator: all that it says and hears passes the proxy."""
    running = Running(proxy.kubeconfig)
    await running.start()
    yield running
    await running.stop()


async def lead(shop: Shop, audit: AuditLog) -> None:
    """Lead the life of an application to its end."""
    for part in Life(shop).parts():
        await part.ask()
        await part.done()
    assert len(created := jobs_created(shop, audit)) == JOBS_OF_A_LIFE, created


def jobs_created(shop: Shop, audit: AuditLog) -> list[str]:
    """The Jobs that the operator has created. The API server refuses to create one again under its name."""
    asked = [each for each in shop.requests(audit) if (each.verb, each.resource) == ("create", "jobs")]
    return [each.name for each in asked if each.status == 201]


@pytest.mark.req("R-201")
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "fault", [pytest.param(CutFrame(), id="cut in a frame"), pytest.param(ErrorFrame(410), id="410")]
)
async def test_watches_that_break_at_every_fifth_event_change_nothing(
    proxy: FaultProxy, behind: Running, shop: Shop, audit: AuditLog, fault: EventFault
) -> None:
    with proxy.on_events(events(), fault, chance(0.2, seed=1)) as rule:
        await lead(shop, audit)
    assert rule.fired >= 20


@pytest.mark.req("R-202")
@pytest.mark.parametrize(
    "resource", [CAPApplicationVersion.resource.group_resource, Job.resource.group_resource], ids=["versions", "jobs"]
)
async def test_a_half_open_watch_is_given_up_and_what_it_has_missed_is_seen(
    proxy: FaultProxy, behind: Running, shop: Shop, audit: AuditLog, resource: str
) -> None:
    await has_a_tenant(behind, shop)
    silent = Hold()
    half_open = proxy.on_events(ANY_FRAME & of_watch(requests("watch", resource)), silent, nth(1))
    await shop.release("2")
    await silent.caught()
    half_open.end()
    await shop.tenant_shows("UpgradeCompleted")
    silent.release()
    await behind.settled(shop.client)
    assert len(jobs_created(shop, audit)) == 2, "one for the provisioning, one for the upgrade"


@pytest.mark.req("R-103")
async def test_a_job_that_the_cache_shows_late_is_created_by_one_request(
    proxy: FaultProxy, behind: Running, shop: Shop, audit: AuditLog
) -> None:
    late = Hold()
    with proxy.on_events(events("ADDED", Job.resource.group_resource, namespace=shop.namespace), late):
        await shop.open()
        await late.caught()
        (operation,) = await shop.operations()
        await shop.shows("StepInitiated", operation.metadata.name)
        touched = MergePatch({"metadata": {"annotations": {"example.com/touched": "true"}}})
        seen = await shop.client.patch(
            metadata_of(CAPTenantOperation), operation.metadata.name, shop.namespace, touched
        )
        await behind.caches.operations.wait_for(seen.key, seen.metadata.resource_version, timeout=30)
        late.release()
    await shop.tenant_shows("ProvisioningCompleted")
    asked = [entry.status for entry in shop.requests(audit) if (entry.verb, entry.resource) == ("create", "jobs")]
    assert asked == [201]


@dataclass(frozen=True, slots=True)
class LateAndLost:
    """The request arrives when something has happened, and its answer is lost."""

    happened: Callable[[], Awaitable[object]]

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        await self.happened()
        return await AnswerInstead(504, after_forwarding=True).meet(request, proceed)


@pytest.mark.req("R-102")
async def test_an_operation_whose_creation_was_not_answered_is_one_though_the_one_that_it_replaces_is_gone(
    proxy: FaultProxy, behind: Running, shop: Shop, audit: AuditLog
) -> None:
    operations = CAPTenantOperation.resource.group_resource
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError")
    failed = await shop.upgrade()

    async def is_gone() -> None:
        store = behind.caches.operations.store
        await eventually(lambda: failed.key not in store, within=20, describe="the failed upgrade is gone")

    unseen = Hold()
    creations = requests("create", operations, namespace=shop.namespace)
    with proxy.on_events(events("ADDED", operations, namespace=shop.namespace), unseen):
        with proxy.on_requests(creations, LateAndLost(is_gone), nth(1)):
            await shop.release("3")
            await unseen.caught()
        await eventually(lambda: len(answers(shop, audit)) > 1, within=20, describe="the creation is tried again")
        unseen.release()
    await shop.tenant_shows("UpgradeCompleted")
    assert [each.spec.version_name for each in await shop.operations() if each.spec.operation == "upgrade"] == [
        "shop-v3"
    ]
    assert answers(shop, audit).count(201) == 1
    assert len(jobs_created(shop, audit)) == 3, "of the provisioning, the failed upgrade and the last one"


def answers(shop: Shop, audit: AuditLog) -> list[int]:
    """What the creations of operations for the third version were answered with."""
    asked = [each for each in shop.requests(audit) if (each.verb, each.resource) == ("create", "captenantoperations")]
    return [each.status for each in asked][2:]


@pytest.mark.req("R-202")
async def test_readiness_reports_a_dead_line_and_the_work_goes_on_when_it_is_alive_again(
    proxy: FaultProxy, behind: Running, shop: Shop
) -> None:
    await has_a_tenant(behind, shop)
    dead = proxy.on_requests(ANYTHING, CutConnection())
    await eventually(lambda: dead.fired > 3, on=proxy.history.changed)
    await shop.release("2")
    await behind.clock.skip(seconds=181)
    assert "stale: no event for" in (behind.manager.unready() or "")
    dead.end()
    await eventually(lambda: behind.manager.unready() is None, within=30, describe="the operator is ready again")
    await shop.tenant_shows("UpgradeCompleted")


async def has_a_tenant(behind: Running, shop: Shop) -> None:
    """A tenant is Ready, and the operator, which gives a silent watch up after a second, has nothing to do."""
    await behind.stop()
    behind.silence_seconds = 1.0
    await behind.start()
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await behind.settled(shop.client)


@pytest.mark.req("R-103")
@pytest.mark.timeout(300)
async def test_events_that_come_twice_change_nothing(
    proxy: FaultProxy, behind: Running, shop: Shop, audit: AuditLog
) -> None:
    with proxy.on_events(events(), Repeat(2)):
        await lead(shop, audit)


@dataclass(frozen=True)
class Meanwhile:
    """Something happens while a request is on its way to the server."""

    act: Callable[[], Awaitable[None]]

    async def meet(self, request: RecordedRequest, proceed: Callable[[RecordedRequest], Awaitable[Reply]]) -> Reply:
        await self.act()
        return await proceed(request)


@pytest.mark.req("R-101")
async def test_a_payload_that_is_deleted_while_the_provider_is_created_is_there_again(
    proxy: FaultProxy, behind: Running, shop: Shop
) -> None:
    async def lose_payload() -> None:
        for each in (await shop.client.list(metadata_of(Secret), shop.namespace)).items:
            if names.TENANT_ID_LABEL in each.metadata.labels:
                await shop.client.delete(Secret, each.metadata.name, shop.namespace)

    created = requests("create", CAPTenant.resource.group_resource, namespace=shop.namespace)
    with proxy.on_requests(created, Meanwhile(lose_payload)) as rule:
        await shop.bind()
        await shop.apply(provider={"subDomain": "provider", "tenantId": "provider-id"})
        await shop.release("1", job("mtxs", fate="unready"), router())
        (pod,) = await shop.names_of_pods(f"{names.OPERATION_TYPE_LABEL}=provisioning")
    assert rule.fired == 1
    tenant = await shop.client.get(CAPTenant, "shop-provider", shop.namespace)
    key = tenant.metadata.annotations[names.CONTEXT_SECRET_ANNOTATION]

    async def is_there() -> bool:
        return await shop.client.find(metadata_of(Secret), key, shop.namespace) is not None

    await eventually(is_there, within=30, describe="the payload that the pod refers to exists")
    await shop.end_fate(pod)
    await shop.tenant_shows("ProvisioningCompleted", name="shop-provider")
    secret = await shop.client.get(Secret, key, shop.namespace)
    assert secret.metadata.is_controlled_by(tenant.metadata)
    assert names.CONTEXT_KEY in secret.decoded()


@pytest.mark.parametrize("changed", ["version", "tenants"])
async def test_what_users_change_during_the_pass_that_moves_tenants_holds_for_all_that_are_left(
    proxy: FaultProxy, behind: Running, shop: Shop, changed: str
) -> None:
    names_of_tenants = ("acme", "best", "cole")
    await shop.open()
    for name in names_of_tenants[1:]:
        await shop.subscribe(name)
    for name in names_of_tenants:
        await shop.tenant_shows("ProvisioningCompleted", name=name)
    await behind.settled(shop.client)

    async def delete_version() -> None:
        await shop.client.delete(CAPApplicationVersion, "shop-v2", shop.namespace)
        deleted = await shop.client.get(CAPApplicationVersion, "shop-v2", shop.namespace)
        await behind.caches.versions.wait_for(deleted.key, deleted.metadata.resource_version, timeout=30)

    async def keep_tenants() -> None:
        never = MergePatch({"spec": {"versionUpgradeStrategy": "never"}})
        for name in names_of_tenants:
            kept = await shop.client.patch(metadata_of(CAPTenant), name, shop.namespace, never)
            await behind.caches.tenants.wait_for(kept.key, kept.metadata.resource_version, timeout=30)

    patched = requests("patch", CAPTenant.resource.group_resource, namespace=shop.namespace, subresource="")
    moved = patched & When(lambda request: b"2.0.0" in request.body, "to version 2")
    meanwhile = Meanwhile(delete_version if changed == "version" else keep_tenants)
    with proxy.on_requests(moved, meanwhile, nth(1)):
        await shop.release("2")
        await proxy.history.write_seen(1, moved)
        await behind.settled(shop.client)
    assert len(proxy.history.writes(moved)) == 1, "the one that was on its way"


@pytest.mark.req("R-203")
@pytest.mark.req("R-102")
@pytest.mark.timeout(300)
async def test_with_a_third_of_the_calls_failing_every_job_runs_once(
    proxy: FaultProxy, behind: Running, shop: Shop, audit: AuditLog
) -> None:
    rules = outages.failing_calls(proxy)
    await lead(shop, audit)
    assert min(rule.fired for rule in rules) > 0


@pytest.mark.req("R-203")
async def test_a_conflict_that_no_change_has_caused_delays_neither_an_upgrade_nor_a_deletion(
    proxy: FaultProxy, behind: Running, shop: Shop
) -> None:
    """As the API server answers that has no free moment: nothing wakes the application after it."""
    await shop.open()
    await shop.tenant_shows("ProvisioningCompleted")
    tenants = CAPTenant.resource.group_resource
    patched = requests("patch", tenants, namespace=shop.namespace, subresource="")
    moved = patched & When(lambda request: b"2.0.0" in request.body, "to version 2")
    with proxy.on_requests(moved, AnswerInstead(409), nth(1)) as rule:
        await shop.release("2")
        await shop.tenant_shows("UpgradeCompleted")
    assert rule.fired == 1
    takes_all = MergePatch({"metadata": {"annotations": {names.DELETE_TENANTS_ANNOTATION: "true"}}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, takes_all)
    await behind.settled(shop.client)
    life = Life(shop)
    with proxy.on_requests(requests("delete", tenants, namespace=shop.namespace), AnswerInstead(409), nth(1)) as rule:
        await life.delete()
        await eventually(life.nothing_is_left, within=30, describe="the application is gone")
    assert rule.fired == 1


@pytest.mark.req("R-206")
async def test_without_the_right_to_list_secrets_application_and_version_name_it_and_go_on_when_it_is_granted(
    cap_cluster: LocalCluster, admin: Client, shop: Shop
) -> None:
    user = f"modest-{secrets.token_hex(4)}"
    without = [each for each in GRANTS if Secret.resource.plural not in each.rule.resources]
    await permissions.grant(admin, user, GRANTS)
    running = Running(cap_cluster.kubeconfig_for(user))
    await running.start()
    await permissions.grant(admin, user, without)
    await shop.bind()
    await shop.apply()
    await shop.release("1")
    application = await shop.shows_application("ProcessingSecretsError", state="Error")
    version = await shop.version_shows("WaitingForSecrets", state="Processing")
    for shown in (application.status.conditions, version.status.conditions):
        (message,) = (each.message for each in shown if each.type == "Ready")
        assert f"the Secrets of namespace {shop.namespace} cannot be read: user {user} is not permitted to" in message
    await permissions.grant(admin, user, GRANTS)
    await shop.version_shows("WorkloadsReady")
    await shop.shows_application("VersionExists", state="Consistent")
    await running.stop()


@pytest.mark.req("R-206")
async def test_without_the_right_to_create_jobs_the_operation_names_it_and_goes_on_when_it_is_granted(
    cap_cluster: LocalCluster, admin: Client, shop: Shop
) -> None:
    user = f"modest-{secrets.token_hex(4)}"
    without = [
        replace(each, rule=grants.rule("batch", "jobs", "get list watch patch delete"))
        if Job.resource.plural in each.rule.resources
        else each
        for each in GRANTS
    ]
    await permissions.grant(admin, user, without)
    running = Running(cap_cluster.kubeconfig_for(user))
    await running.start()
    await shop.open()
    await shop.tenant_shows("ProvisioningOperationCreated", state="Provisioning")

    async def is_named() -> bool:
        (operation,) = await shop.operations()
        reason, message = ready(operation)
        assert reason == "StepProcessingError", message
        assert 'cannot create resource "jobs" in API group "batch"' in message, message
        assert shop.namespace in message
        return True

    await eventually(is_named, within=30)
    await permissions.grant(admin, user, GRANTS)
    await shop.tenant_shows("ProvisioningCompleted")
    await running.stop()
