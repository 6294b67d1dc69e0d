"""An application waits for what it refers to, has a tenant for its provider, and moves tenants to new versions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import datetime

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router, server

from stellwerk.api.batch import Job
from stellwerk.api.core import Secret
from stellwerk.api.events import Event
from stellwerk.api.istio import VirtualService
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Forbidden, NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.kube.watch.watch_states import Changed
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import SystemClock
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

PROVIDER: JsonObject = {"subDomain": "provider", "tenantId": "provider-id"}


@pytest.mark.req("CAP-03")
async def test_a_missing_secret_is_waited_for_with_an_event_and_the_work_goes_on_when_it_comes(
    running: Running, shop: Shop
) -> None:
    await shop.apply()
    application = await shop.shows_application("ProcessingSecrets", state="Processing")
    assert names.APPLICATION_FINALIZER in application.metadata.finalizers
    assert application.metadata.annotations["sme.sap.com/app-identifier"] == "subaccount.shop"
    shown = conditions.find(application.status.conditions, "Ready")
    assert shown is not None
    assert "uaa-secret" in shown.message
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    assert ("MissingSecrets", "ProcessingSecrets") in {(event.reason, event.action) for event in events}

    await shop.bind()
    await shop.shows_application("WaitingForReadyCAPApplicationVersion", state="Processing")


@pytest.mark.req("CAP-01", "CAP-02")
async def test_metadata_comes_before_any_status_and_the_first_status_shows_that_work_begins(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    seen: list[CAPApplication] = []
    watcher = Watcher(shop.client, CAPApplication, shop.namespace, clock=SystemClock())

    async def watch() -> None:
        async for change in watcher.changes():
            match change:
                case Changed(obj=obj):
                    seen.append(obj)
                case _:
                    continue

    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(watch(), name="watch")
        await shop.apply()
        await shop.shows_application("ProcessingSecrets", state="Processing")
        await eventually(lambda: bool(seen) and ready_of(seen[-1]) == "ProcessingSecrets")
        watching.cancel()

    prepared = next(each for each in seen if each.metadata.finalizers)
    assert prepared.status.state == ""
    assert prepared.metadata.labels[names.APP_HASH_LABEL]
    assert prepared.metadata.annotations[names.APP_ANNOTATION] == "subaccount.shop"
    first = next(each for each in seen if each.status.state)
    assert (first.status.state, ready_of(first)) == ("Processing", "ApplicationProcessing")
    assert first.status.observed_generation == first.metadata.generation


def ready_of(application: CAPApplication) -> str:
    shown = conditions.find(application.status.conditions, "Ready")
    return shown.reason if shown is not None else ""


async def test_a_secret_in_use_that_is_being_deleted_is_reported_until_another_one_is_there(
    running: Running, shop: Shop
) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.shows_application("AllTenantsReady", state="Consistent", condition="AllTenantsReady")
    held = MergePatch({"metadata": {"finalizers": ["example.com/backup"]}})
    await shop.client.patch(metadata_of(Secret), "uaa-secret", shop.namespace, held)
    await shop.client.delete(metadata_of(Secret), "uaa-secret", shop.namespace)

    application = await shop.shows_application("SecretBeingDeleted", state="Consistent", condition="SecretsAvailable")
    shown = conditions.find(application.status.conditions, "SecretsAvailable")
    assert shown is not None
    assert not shown.is_true
    assert "uaa-secret (held by example.com/backup)" in shown.message
    assert conditions.is_true(application.status.conditions, "Ready"), "pods that run have their credentials"
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    assert [each.type for each in events if each.reason == "SecretBeingDeleted"] == ["Warning"]

    free = MergePatch({"metadata": {"finalizers": None}})
    await shop.client.patch(metadata_of(Secret), "uaa-secret", shop.namespace, free)
    await shop.shows_application("ProcessingSecrets", state="Consistent")
    await shop.bind()
    await shop.shows_application("SecretsAvailable", state="Consistent", condition="SecretsAvailable")


async def test_two_applications_of_a_namespace_may_have_the_same_subscriber(running: Running, shop: Shop) -> None:
    """An operation by hand belongs to the tenant whose application has its version."""
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    twin = (await shop.client.get(unstructured(CAPApplication.resource), "shop", shop.namespace)).at("spec")
    metadata: JsonObject = {"name": "twin", "namespace": shop.namespace}
    assert isinstance(twin, dict)
    await shop.client.apply(CAPApplication, {"metadata": metadata, "spec": {**twin, "btpAppName": "twin"}})
    spec: JsonObject = {"capApplicationInstance": "twin", "subDomain": "other", "tenantId": "acme-id"}
    labels: JsonObject = {"sme.sap.com/tenant-type": "consumer", "sme.sap.com/btp-tenant-id": "acme-id"}
    other: JsonObject = {"name": "other", "namespace": shop.namespace, "labels": labels}
    await shop.client.apply(CAPTenant, {"metadata": other, "spec": spec})

    await shop.operate("upgrade")
    operation = await shop.ends()

    assert operation.metadata.controller is not None
    assert operation.metadata.controller.name == "acme"
    hashes = {
        (await shop.client.get(CAPTenant, name, shop.namespace)).metadata.labels[names.APP_HASH_LABEL]
        for name in ("acme", "other")
    }
    assert len(hashes) == 2


@pytest.mark.req("CAP-04", "CAP-05")
async def test_a_missing_domain_is_waited_for_and_one_in_error_is_shown_with_its_message(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(domainRefs=[{"kind": "Domain", "name": "primary"}])
    await shop.shows_application("ProcessingDomainReferences", state="Processing")
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    assert "MissingDomainReferences" in {each.reason for each in events}
    await shop.serve("shop.example.com")
    await shop.shows_application("WaitingForReadyCAPApplicationVersion", state="Processing")
    await shop.shows_application(
        "WaitingForReadyCAPApplicationVersion", state="Processing", condition="LatestVersionReady"
    )

    failed: JsonObject = {
        "type": "Ready",
        "status": "False",
        "reason": "ProcessingError",
        "message": "the certificate is refused",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    patch = MergePatch({"status": {"state": "Error", "conditions": [failed]}})
    await shop.client.patch(metadata_of(Domain), "primary", shop.namespace, patch, subresource="status")
    application = await shop.shows_application("ProcessingDomainReferences", state="Error")
    shown = conditions.find(application.status.conditions, "Ready")
    assert shown is not None
    assert shown.message == "the certificate is refused"


@pytest.mark.req("CAP-06")
async def test_with_ready_domains_and_no_version_the_application_waits_for_one_and_has_no_tenant(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com", provider=PROVIDER)
    reason = "WaitingForReadyCAPApplicationVersion"
    application = await shop.shows_application(reason, state="Processing", condition="LatestVersionReady")
    shown = {each.type: (each.status, each.reason) for each in application.status.conditions}
    assert shown["Ready"] == shown["LatestVersionReady"] == ("False", reason)
    await running.settled(shop.client)
    assert (await shop.client.list(CAPTenant, shop.namespace)).items == []

    await shop.release("1", ready=False)
    await shop.version_shows("WaitingForWorkloads", state="Processing")
    await running.settled(shop.client)
    await shop.shows_application(reason, state="Processing", condition="LatestVersionReady")
    await shop.make_ready()
    application = await shop.shows_application("VersionExists", state="Consistent")
    assert conditions.is_true(application.status.conditions, "LatestVersionReady")


@pytest.mark.req("CAP-07", "CAP-08")
async def test_the_provider_has_a_tenant_that_owns_the_payload_of_its_subscription(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com", provider=PROVIDER)
    await shop.release("1")
    application = await shop.shows_application("VersionExists", state="Consistent")
    tenant = await shop.client.get(CAPTenant, "shop-provider", shop.namespace)

    assert application.status.services_only is False
    assert application.status.observed_subdomains == ("provider",)
    assert application.status.domain_spec_hash == f'{{"Domain.{shop.namespace}.primary":"shop.example.com"}}'
    assert conditions.is_true(application.status.conditions, "LatestVersionReady")
    assert conditions.is_true(application.status.conditions, "AllTenantsReady")
    assert tenant.status.current_version == "shop-v1"
    assert tenant.metadata.labels["sme.sap.com/tenant-type"] == "provider"
    context = tenant.metadata.annotations["sme.sap.com/subscription-context-secret"]
    secret = await shop.client.get(Secret, context, shop.namespace)
    assert secret.metadata.controller is not None
    assert secret.metadata.controller.name == "shop-provider"
    assert secret.decoded()["subscriptionContext"] == (
        b'{"subscriptionAppName":"shop","subscribedTenantId":"provider-id","subscribedSubaccountId":"subaccount",'
        b'"subscribedSubdomain":"provider","globalAccountGUID":""}'
    )


@pytest.mark.req("CAP-09")
async def test_a_provider_that_cannot_be_provisioned_puts_the_application_into_error(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com", provider=PROVIDER)
    await shop.release("1", job("mtxs", fate="fail"), router())

    application = await shop.shows_application("ProviderTenantError", state="Error")

    shown = conditions.find(application.status.conditions, "Ready")
    assert shown is not None
    assert "Last exit code 1" in shown.message


@pytest.mark.req("CAP-09")
async def test_a_tenant_of_another_application_with_the_name_of_the_providers_is_named(
    running: Running, shop: Shop
) -> None:
    spec: JsonObject = {"capApplicationInstance": "other", "subDomain": "else", "tenantId": "else-id"}
    metadata: JsonObject = {"name": "shop-provider", "namespace": shop.namespace}
    await shop.client.apply(CAPTenant, {"metadata": metadata, "spec": spec})
    await shop.bind()
    await shop.apply(provider=PROVIDER)
    await shop.release("1")

    application = await shop.shows_application("ProviderTenantError", state="Error")

    shown = conditions.find(application.status.conditions, "Ready")
    assert shown is not None
    assert "CAPTenant" in shown.message
    assert f"belongs to CAPApplication {shop.namespace}/other" in shown.message


@pytest.mark.req("CAP-09")
async def test_another_secret_with_the_name_of_the_payload_of_the_provider_stays_and_is_named(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com", provider=PROVIDER)
    application = await shop.client.get(CAPApplication, "shop", shop.namespace)
    name = names.derived("shop-provider", application.metadata.uid)
    before = await shop.client.create(Secret, {"metadata": {"name": name, "namespace": shop.namespace}})
    await shop.release("1")

    application = await shop.shows_application("ProviderTenantError", state="Error")

    shown = conditions.find(application.status.conditions, "Ready")
    assert shown is not None
    assert f"Secret {name} has the name of the payload of the provider tenant" in shown.message
    assert await shop.client.get(Secret, name, shop.namespace) == before
    assert (await shop.client.list(CAPTenant, shop.namespace)).items == []
    await shop.client.delete(Secret, name, shop.namespace)
    await shop.shows_application("VersionExists", state="Consistent")


@pytest.mark.req("CAP-10")
async def test_an_application_for_services_alone_has_no_tenants(running: Running, shop: Shop) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com")
    service: JsonObject = {"type": "Service", "image": "service:1"}
    await shop.release("1", {"name": "service", "consumedBTPServices": [], "deploymentDefinition": service})
    application = await shop.shows_application("VersionExists", state="Consistent")

    assert application.status.services_only is True
    assert (await shop.client.list(CAPTenant, shop.namespace)).items == []


_POLICY: JsonObject = {
    "matchConstraints": {
        "resourceRules": [
            {
                "apiGroups": ["sme.sap.com"],
                "apiVersions": ["v1alpha1"],
                "operations": ["UPDATE"],
                "resources": ["captenants"],
            }
        ]
    },
    "validations": [
        {
            "expression": "object.metadata.name != 'acme' || object.spec.version != '2.0.0'",
            "message": "acme stays",
            "reason": "Forbidden",
        }
    ],
}
_POLICIES = "admissionregistration.k8s.io", "v1"


@pytest.fixture
async def acme_stays(admin: Client, home: str) -> AsyncIterator[Callable[[], Coroutine[None, None, None]]]:
    """A policy of the cluster: no client may have the tenant `acme` follow to version 2. Returns what ends it."""
    policy = unstructured(
        Resource(*_POLICIES, "ValidatingAdmissionPolicy", "validatingadmissionpolicies", namespaced=False)
    )
    binding = unstructured(
        Resource(*_POLICIES, "ValidatingAdmissionPolicyBinding", "validatingadmissionpolicybindings", namespaced=False)
    )
    place: JsonObject = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": home}}}
    bound: JsonObject = {"policyName": f"{home}-stays", "validationActions": ["Deny"], "matchResources": place}
    metadata: JsonObject = {"name": f"{home}-stays"}
    await admin.apply(policy, {**_head(policy.resource), "metadata": metadata, "spec": _POLICY})
    await admin.apply(binding, {**_head(binding.resource), "metadata": metadata, "spec": bound})

    async def end() -> None:
        for view in (binding, policy):
            with contextlib.suppress(NotFound):
                await admin.delete(view, f"{home}-stays", "")

    yield end
    await end()


def _head(resource: Resource) -> JsonObject:
    return {"apiVersion": resource.api_version, "kind": resource.kind}


async def test_a_tenant_whose_move_is_refused_is_named_and_keeps_no_other_from_following(
    running: Running, shop: Shop, acme_stays: Callable[[], Coroutine[None, None, None]]
) -> None:
    await shop.open(tenantUpgrade={"maxFailurePercent": 100, "maxParallel": 1})
    for name in ("best", "cold"):
        await shop.subscribe(name)
    for name in ("acme", "best", "cold"):
        await shop.tenant_shows("ProvisioningCompleted", name=name)

    async def is_refused() -> bool:
        change = MergePatch({"spec": {"version": "2.0.0"}})
        with contextlib.suppress(Forbidden):
            await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, change, dry_run=True)
            return False
        return True

    await eventually(is_refused, within=30, describe="the policy is in force")
    await shop.release("2")
    for name in ("best", "cold"):
        await shop.tenant_shows("UpgradeCompleted", name=name)
    await running.settled(shop.client)
    application = await shop.shows_application("TenantChangeRefused", state="Error")
    assert (await shop.tenant_shows("ProvisioningCompleted")).spec.version == "1.0.0"
    message = application.status.conditions[0].message
    assert message.startswith("1 tenant cannot be moved to version 2.0.0: acme; ")
    assert "acme stays" in message
    assert application.status.tenant_upgrade is not None
    assert application.status.tenant_upgrade.upgraded == 2, "the status shows how far the others are"
    events = (await shop.client.list(Event, shop.namespace)).items
    assert {"TenantChangeRefused", "NewCAVTriggeredTenantUpgrade"} <= {each.reason for each in events}

    await acme_stays()

    async def is_allowed() -> bool:
        return not await is_refused()

    await eventually(is_allowed, within=30, describe="the policy is in force no longer")
    await running.clock.skip(seconds=61)
    await shop.tenant_shows("UpgradeCompleted")
    await shop.shows_application("VersionExists", state="Consistent")


@pytest.mark.req("CAP-11")
async def test_an_application_for_services_refuses_a_version_for_tenants_until_one_for_services_follows(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com")
    service: JsonObject = {"type": "Service", "image": "service:1"}
    workload: JsonObject = {"name": "service", "consumedBTPServices": [], "deploymentDefinition": service}
    await shop.release("1", workload)
    await shop.shows_application("VersionExists", state="Consistent")
    await shop.release("2")

    async def is_refused() -> bool:
        application = await shop.client.get(CAPApplication, "shop", shop.namespace)
        shown = conditions.find(application.status.conditions, "LatestVersionReady")
        return shown is not None and "Use another CAPApplication" in shown.message

    await eventually(is_refused, within=30)
    await running.settled(shop.client)
    application = await shop.shows_application(
        "LatestVersionNotReady", state="Consistent", condition="LatestVersionReady"
    )
    assert not conditions.is_true(application.status.conditions, "LatestVersionReady")
    assert application.status.services_only is True
    assert (await shop.client.list(CAPTenant, shop.namespace)).items == []
    events = (await shop.client.list(Event, shop.namespace)).items
    assert ("Warning", "LatestVersionNotReady") in {(each.type, each.reason) for each in events}
    counted = f'cap_op_reconcile_errors{{kind="CAPApplication",name="shop",namespace="{shop.namespace}"}}'
    assert counted in running.exposition()

    await shop.release("3", workload)
    await shop.version_shows("WorkloadsReady", "3")
    application = await shop.shows_application("LatestVersionReady", state="Consistent", condition="LatestVersionReady")
    assert conditions.is_true(application.status.conditions, "LatestVersionReady")


@pytest.mark.req("CAP-12", "CAP-13")
async def test_tenants_follow_to_a_new_version_as_soon_as_it_is_ready_unless_they_never_do(
    running: Running, shop: Shop
) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", ready=False)
    application = await shop.shows_application(
        "LatestVersionNotReady", state="Consistent", condition="LatestVersionReady"
    )
    assert conditions.is_true(application.status.conditions, "Ready")
    assert (await shop.client.get(CAPTenant, "acme", shop.namespace)).spec.version == "1.0.0"

    await shop.make_ready("2")
    tenant = await shop.tenant_shows("UpgradeCompleted")
    assert tenant.spec.version == "2.0.0"
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    assert ("AutoVersionUpdate", "Upgrade") in {
        (each.reason, each.action) for each in events if each.regarding.name == "acme"
    }

    never = MergePatch({"spec": {"versionUpgradeStrategy": "never"}})
    await shop.client.patch(metadata_of(CAPTenant), "acme", shop.namespace, never)
    await shop.release("3")
    await shop.version_shows("WorkloadsReady", "3")
    await shop.shows_application("LatestVersionReady", state="Consistent", condition="LatestVersionReady")
    await running.settled(shop.client)
    assert (await shop.client.get(CAPTenant, "acme", shop.namespace)).spec.version == "2.0.0"


@pytest.mark.req("CAP-14")
async def test_a_deletion_waits_for_the_consumers_and_takes_the_provider_along(running: Running, shop: Shop) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com", provider=PROVIDER)
    await shop.release("1")
    await shop.subscribe()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.client.delete(metadata_of(CAPApplication), "shop", shop.namespace)
    await shop.shows_application("TenantsExist", state="Deleting")

    async def provider_is_gone() -> bool:
        return await shop.client.find(metadata_of(CAPTenant), "shop-provider", shop.namespace) is None

    await eventually(provider_is_gone, within=30)
    assert await shop.client.find(metadata_of(CAPApplication), "shop", shop.namespace) is not None
    await shop.client.delete(metadata_of(CAPTenant), "acme", shop.namespace)

    async def application_is_gone() -> bool:
        return await shop.client.find(metadata_of(CAPApplication), "shop", shop.namespace) is None

    await eventually(application_is_gone, within=30)


@pytest.mark.req("R-303", "CAP-55")
async def test_a_consistent_application_that_is_left_alone_is_not_written(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.shows_application("AllTenantsReady", state="Consistent", condition="AllTenantsReady")
    await running.settled(shop.client)
    await running.stop()
    await running.start()
    audit.mark()
    await running.settled(shop.client)

    assert [entry for entry in shop.requests(audit) if entry.is_write] == []


async def test_an_exposure_that_cannot_be_served_is_no_error_of_a_provider(running: Running, shop: Shop) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com")
    service = server("api", "Service", ports=[{"name": "api", "port": 8080}])
    exposures: list[JsonValue] = [{"subDomain": "api", "routes": [{"workloadName": "api", "port": 8080}]}]
    await shop.release("1", service, serviceExposures=exposures)
    await shop.shows_application("VersionExists", state="Consistent")

    async def annotate(text: str | None) -> None:
        patch = MergePatch({"metadata": {"annotations": {names.REQUEST_HEADERS_ANNOTATION: text}}})
        await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, patch)

    await annotate("no headers")
    await shop.shows_application("ServiceVirtualServiceModificationFailed", state="Error")
    await annotate(None)
    await shop.shows_application("VersionExists", state="Consistent")


async def test_exposed_services_are_reached_under_their_subdomains_and_no_longer_when_a_version_drops_them(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com")
    service = server("api", "Service", ports=[{"name": "api", "port": 8080}])
    routes: JsonObject = {"workloadName": "api", "port": 8080, "path": "/v1"}
    exposures = [{"subDomain": name, "routes": [routes]} for name in ("api", "old")]
    await shop.release("1", service, serviceExposures=exposures)
    application = await shop.shows_application("VersionExists", state="Consistent")
    assert application.status.observed_subdomains == ("api", "old")
    await running.settled(shop.client)
    served = {each.spec.hosts[0]: each for each in (await shop.client.list(VirtualService, shop.namespace)).items}
    assert sorted(served) == ["api.shop.example.com", "old.shop.example.com"]
    (route,) = served["api.shop.example.com"].spec.http
    assert route.match[0].uri is not None
    assert route.match[0].uri.prefix == "/v1"
    assert route.route[0].destination.host == f"shop-v1-api-svc.{shop.namespace}.svc.cluster.local"

    await shop.release("2", service, serviceExposures=exposures[:1])
    host = f"shop-v2-api-svc.{shop.namespace}.svc.cluster.local"

    async def follows() -> bool:
        only, *others = (await shop.client.list(VirtualService, shop.namespace)).items
        assert not others
        assert only.metadata.uid == served["api.shop.example.com"].metadata.uid, "it is updated, not created again"
        return only.spec.http[0].route[0].destination.host == host

    await eventually(follows)
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    actions = {each.action for each in events if each.reason == "ServiceNetworkingModified"}
    assert actions == {"ReconcileServiceNetworking"}
    await shop.client.delete(metadata_of(VirtualService), served["api.shop.example.com"].metadata.name, shop.namespace)

    async def is_back() -> bool:
        return bool((await shop.client.list(VirtualService, shop.namespace)).items)

    await eventually(is_back)


async def test_an_application_stays_consistent_while_a_client_deletes_routes_of_an_exposure_again_and_again(
    running: Running, shop: Shop
) -> None:
    await shop.bind()
    await shop.apply(host="shop.example.com")
    service = server("api", "Service", ports=[{"name": "api", "port": 8080}])
    exposures: list[JsonValue] = [{"subDomain": "api", "routes": [{"workloadName": "api", "port": 8080}]}]
    await shop.release("1", service, serviceExposures=exposures)
    await shop.shows_application("VersionExists", state="Consistent")
    await running.settled(shop.client)
    assert running.sample("stellwerk_drift_throttled_total", {}) == 0

    async def delete() -> str:
        (only,) = (await shop.client.list(VirtualService, shop.namespace)).items
        await shop.client.delete(metadata_of(VirtualService), only.metadata.name, shop.namespace)
        return only.metadata.uid

    async def is_restored() -> bool:
        return [each.metadata.uid for each in (await shop.client.list(VirtualService, shop.namespace)).items] not in (
            [deleted],
            [],
        )

    deleted = await delete()
    await eventually(is_restored)
    deleted = await delete()

    async def is_counted() -> bool:
        return running.sample("stellwerk_drift_throttled_total", {}) != 0

    await eventually(is_counted)
    await running.settled(shop.client)
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    notes = {each.note for each in events if each.reason == "ServiceVirtualServiceModificationFailed"}
    assert len(notes) == 1
    assert "again and again" in notes.pop()
    await shop.shows_application("VersionExists", state="Consistent")

    await running.clock.skip(seconds=10)
    await eventually(is_restored, within=60)
    await shop.shows_application("VersionExists", state="Consistent")


async def test_an_application_of_the_first_releases_is_served_with_the_domains_that_are_written_into_it(
    running: Running, shop: Shop
) -> None:
    host = f"{shop.namespace}.example.com"
    inline = shop.inline_domains(host)
    await shop.bind()
    await shop.apply(domains=inline, providerSubaccountId="", globalAccountId="account")

    async def converted() -> CAPApplication:
        found: CAPApplication = await shop.client.get(CAPApplication, "shop", shop.namespace)
        assert found.spec.domains is None
        return found

    application = await eventually(converted)
    primary, secondary = application.spec.domain_refs
    assert (primary.kind, primary.name) == ("Domain", "shop-primary")
    assert (await shop.client.get(Domain, "shop-primary", shop.namespace)).spec.domain == host
    assert secondary.kind == "Domain"
    assert (await shop.client.get(Domain, secondary.name, shop.namespace)).spec.domain == f"other.{host}"
    assert application.metadata.labels[names.LEGACY_APP_HASH_LABEL]

    await shop.apply(domains=inline, providerSubaccountId="", globalAccountId="account")
    await running.settled(shop.client)
    application = await shop.client.get(CAPApplication, "shop", shop.namespace)
    assert application.spec.domain_refs == (primary, secondary)
    domains = (await shop.client.list(Domain, shop.namespace)).items
    assert {each.metadata.name for each in domains} == {primary.name, secondary.name}
    assert not [each for each in (await shop.client.list(ClusterDomain)).items if each.spec.domain.endswith(host)]


async def test_a_host_that_another_namespace_has_is_not_taken_from_its_domain(running: Running, shop: Shop) -> None:
    host = f"{shop.namespace}.example.com"
    body: JsonObject = {"metadata": {"name": shop.namespace, "namespace": "default"}}
    foreign = await shop.client.apply(Domain, {**body, "spec": {"domain": host, "ingressSelector": {"istio": "x"}}})
    await running.settled(shop.client)
    await shop.bind()
    await shop.apply(domains=shop.inline_domains(host))
    application = await shop.shows_application("ProcessingDomainReferences", state="Error")
    shown = conditions.find(application.status.conditions, "Ready")
    assert shown is not None
    assert f"{foreign.ref} has the host {host}" in shown.message
    assert not (await shop.client.list(Domain, shop.namespace)).items
    await shop.client.delete(metadata_of(Domain), shop.namespace, "default")


async def test_a_binding_that_the_first_releases_held_can_be_deleted(running: Running, shop: Shop) -> None:
    """They put their finalizer onto the Secrets of service bindings, and later releases never look at it."""
    await shop.bind()
    await shop.apply()
    await shop.shows_application("WaitingForReadyCAPApplicationVersion", state="Processing")
    others = "example.com/mine"
    held = MergePatch({"metadata": {"finalizers": [others, names.APPLICATION_FINALIZER]}})
    await shop.client.patch(metadata_of(Secret), "uaa-secret", shop.namespace, held)

    async def is_free() -> bool:
        secret = await shop.client.get(metadata_of(Secret), "uaa-secret", shop.namespace)
        return secret.metadata.finalizers == (others,)

    await eventually(is_free)
    await shop.client.patch(
        metadata_of(Secret), "uaa-secret", shop.namespace, MergePatch({"metadata": {"finalizers": None}})
    )


async def test_an_upgrade_in_waves_begins_with_the_canary_pauses_when_it_fails_and_goes_on_with_a_better_version(
    running: Running, shop: Shop
) -> None:
    tenants = ("ann", "bob", "cid")
    await shop.bind()
    await shop.apply(tenantUpgrade={"canaryTenants": ["bob-id"], "maxParallel": 1})
    await shop.release("1")
    for name in tenants:
        await shop.subscribe(name)
    for name in tenants:
        await shop.tenant_shows("ProvisioningCompleted", name=name)

    await shop.release("2", job("mtxs", fate="fail"), router())
    await shop.tenant_shows("UpgradeFailed", state="UpgradeError", name="bob")

    async def is_paused() -> bool:
        application = await shop.client.get(CAPApplication, "shop", shop.namespace)
        shown = application.status.tenant_upgrade
        assert shown is not None
        assert (shown.phase, shown.failed, shown.waiting) == ("Paused", 1, 2), shown
        return True

    await eventually(is_paused)
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    (paused,) = [event for event in events if event.reason == "UpgradePaused"]
    resume = f"1 tenant has failed. Resume it with: stellwerk cap upgrade shop -n {shop.namespace} --resume"
    assert paused.note == f"the upgrade to version 2.0.0 is paused: {resume}"
    shown = await shop.shows_application("VersionExists", state="Consistent")
    assert shown.status.conditions[0].message == (
        f"version 2.0.0 is the newest that is Ready: 0 of 3 tenants have it; {paused.note}"
    )
    for name in ("ann", "cid"):
        tenant = await shop.client.get(CAPTenant, name, shop.namespace)
        assert tenant.spec.version == "1.0.0"

    await shop.release("3")
    for name in tenants:
        tenant = await shop.tenant_shows("UpgradeCompleted", name=name)
        assert tenant.status.current_version == "shop-v3"
    upgrades = [each for each in await shop.operations() if each.spec.version_name == "shop-v3"]
    jobs = {owner.uid: each for each in await shop.all_jobs() if (owner := each.metadata.controller) is not None}
    spans = sorted(span_of(jobs[each.metadata.uid]) for each in upgrades)
    (canary,) = (each for each in upgrades if each.spec.tenant_id == "bob-id")
    assert span_of(jobs[canary.metadata.uid]) == spans[0]
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans)), "one at a time"


def span_of(made: Job) -> tuple[datetime, datetime]:
    """From the creation of a Job to its end."""
    assert made.metadata.creation_timestamp is not None
    (ended,) = (each.last_transition_time for each in made.status.conditions if each.type == "Complete")
    assert ended is not None
    return made.metadata.creation_timestamp, ended
