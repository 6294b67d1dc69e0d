"""Requests of tenants follow versions: during an upgrade, with version affinity, and with headers of their own."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec import structs
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router

from stellwerk.api.events import Event
from stellwerk.api.istio import HeaderOperations, RouteHeaders, VirtualService, VirtualServiceSpec
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, plain_json, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually


async def annotate(shop: Shop, **annotations: str) -> None:
    """Annotate the application; names are without their group."""
    marks: Mapping[str, str] = {f"sme.sap.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    patch = MergePatch({"metadata": {"annotations": {**marks}}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, patch)


async def routes(shop: Shop) -> VirtualService:
    found = await shop.routes()
    assert found is not None
    return found


@pytest.mark.req("CAP-39")
async def test_during_an_upgrade_the_tenant_stays_ready_on_its_version_and_then_moves(
    running: Running, shop: Shop
) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release("2", job("mtxs", fate="hang"), router())
    tenant = await shop.tenant_shows("UpgradeOperationCreated", state="Upgrading")
    assert conditions.is_true(tenant.status.conditions, "Ready")
    assert tenant.status.current_version == "shop-v1"
    (route,) = (await routes(shop)).spec.http
    assert route.route[0].destination.host.startswith("shop-v1-app-svc.")

    (pod,) = await shop.names_of_pods("sme.sap.com/tenant-operation-type=upgrade")
    await shop.end_fate(pod)
    tenant = await shop.tenant_shows("UpgradeCompleted")
    assert tenant.status.previous_versions == ("shop-v1",)
    (route,) = (await routes(shop)).spec.http
    assert route.route[0].destination.host.startswith("shop-v2-app-svc.")


@pytest.mark.req("CAP-42")
async def test_with_affinity_clients_stay_on_the_version_where_their_session_began(
    running: Running, shop: Shop
) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await annotate(shop, enable_version_affinity="true")
    await shop.release("2")
    await shop.tenant_shows("UpgradeCompleted")
    await running.settled(shop.client)
    await shop.tenant_shows("UpgradeCompleted")  # routes and version change together: nothing is left to correct

    found = (await routes(shop)).spec.http
    assert [route.route[0].destination.host.partition("-app-svc")[0] for route in found] == [
        "shop-v1",  # logout at the previous version, then at the current one
        "shop-v2",
        "shop-v1",  # the cookie of each
        "shop-v2",
        "shop-v2",  # everything else
    ]
    for logout, version in zip(found[:2], ("shop-v1", "shop-v2"), strict=True):
        assert logout.match[0].uri is not None
        assert logout.match[0].uri.regex == "^|.*(logout|logoff).*"
        assert logout.headers is not None
        assert logout.headers.response is not None
        assert logout.headers.response.set == {"Set-Cookie": f"CAPOP_CAV={version};Path=/;HttpOnly;Secure;Max-Age=0"}
    assert found[2].match[0].headers["Cookie"].regex == "(^|.*; )CAPOP_CAV=shop-v1($|; .*)"
    default = found[4]
    assert default.match == ()
    assert default.headers is not None
    assert default.headers.response is not None
    assert default.headers.response.add == {"Set-Cookie": "CAPOP_CAV=shop-v2;Path=/;HttpOnly;Secure"}


async def test_a_label_that_the_routes_lack_is_added_and_one_that_differs_stays(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    changed: JsonObject = {names.TENANT_TYPE_LABEL: None, names.OWNER_GENERATION_LABEL: "7"}
    patch = MergePatch({"metadata": {"labels": changed, "annotations": {names.OWNER_ANNOTATION: None}}})
    await shop.client.patch(metadata_of(VirtualService), "acme", shop.namespace, patch)

    async def is_complete() -> bool:
        metadata = (await routes(shop)).metadata
        assert metadata.annotations.get(names.OWNER_ANNOTATION) == f"{shop.namespace}.acme"
        return metadata.labels.get(names.TENANT_TYPE_LABEL) == "consumer"

    await eventually(is_complete)
    await running.settled(shop.client)
    await shop.tenant_shows("ProvisioningCompleted")  # the routes are the same
    assert (await routes(shop)).metadata.labels[names.OWNER_GENERATION_LABEL] == "7"


@pytest.mark.parametrize("kind", ["tenant", "exposure"])
async def test_routes_that_another_client_edits_are_restored_and_what_it_adds_stays(
    running: Running, shop: Shop, kind: str
) -> None:
    host = f"{shop.namespace}.example.com"
    if kind == "tenant":
        await shop.open(host=host)
        await shop.tenant_shows("ProvisioningCompleted")
    else:
        exposed: JsonObject = {"subDomain": "api", "routes": [{"workloadName": "app", "port": 5000}]}
        await shop.bind()
        await shop.apply(host=host)
        await shop.release("1", serviceExposures=[exposed])

    async def routed() -> VirtualService | None:
        return next(iter((await shop.client.list(VirtualService, shop.namespace)).items), None)

    before = await eventually(routed, within=30, describe="there are routes")
    assert before is not None
    http: JsonObject = {"route": [{"destination": {"host": "elsewhere.example.com", "port": {"number": 80}}}]}
    edit: JsonObject = {"http": [http], "hosts": ["other.example.com"], "gateways": ["mesh"], "exportTo": ["."]}
    await shop.client.patch(
        metadata_of(VirtualService), before.metadata.name, shop.namespace, MergePatch({"spec": edit})
    )

    async def are_restored() -> bool:
        found = await routed()
        return found is not None and found.spec == before.spec

    await eventually(are_restored, within=30, describe="the routes are restored")
    (raw,) = (await shop.client.list(unstructured(VirtualService.resource), shop.namespace)).items
    assert raw.at("spec", "exportTo") == ["."], "what is not wanted is left to others"


async def refer(shop: Shop, *domains: str) -> None:
    """Have the application refer to these domains."""
    references: list[JsonValue] = [{"kind": "Domain", "name": name} for name in domains]
    patch = MergePatch({"spec": {"domainRefs": references}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", shop.namespace, patch)


async def test_routes_stay_until_new_domains_are_ready_and_go_when_the_application_has_none(
    running: Running, shop: Shop
) -> None:
    await shop.open(host="old.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.serve("new.example.com", name="next", state="Processing")
    await refer(shop, "next")
    await shop.shows_application("ProcessingDomainReferences", state="Processing")
    await running.settled(shop.client)
    assert (await routes(shop)).spec.hosts == ("acme.old.example.com",)

    await shop.serve("new.example.com", name="next")
    await shop.tenant_shows("TenantNetworkingModified")
    assert (await routes(shop)).spec.hosts == ("acme.new.example.com",)

    await refer(shop)

    async def are_gone() -> bool:
        return await shop.routes() is None

    await eventually(are_gone)


@pytest.mark.parametrize("situation", ["its upgrade has failed", "its next version is absent"])
async def test_an_event_reports_changed_routes_of_a_tenant_that_cannot_go_on(
    running: Running, shop: Shop, situation: str
) -> None:
    await shop.open(host="old.example.com", tenantUpgrade={"canaryTenants": [] if "failed" in situation else ["other"]})
    await shop.tenant_shows("ProvisioningCompleted")
    if "failed" in situation:
        await shop.release("2", job("mtxs", fate="fail"), router())
        before = await shop.tenant_shows("UpgradeFailed", state="UpgradeError")
    else:
        await shop.set_version("9.0.0")
        before = await shop.tenant_shows("ProvisioningCompleted", saying="could not find a CAPApplicationVersion")
    await running.has_sent_events()
    reported = await reports_of_routes(shop)
    await shop.serve("new.example.com")

    async def have_followed() -> bool:
        return (await routes(shop)).spec.hosts == ("acme.new.example.com",)

    await eventually(have_followed)
    await running.has_sent_events()
    assert await reports_of_routes(shop) == reported + 1
    tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
    assert tenant.status.conditions == before.status.conditions


async def reports_of_routes(shop: Shop) -> int:
    """How often an Event has reported changed routes of the tenant."""
    events = (await shop.client.list(Event, shop.namespace)).items
    ours = [each for each in events if (each.reason, each.regarding.name) == ("TenantNetworkingModified", "acme")]
    return sum(each.series.count if each.series is not None else 1 for each in ours)


@pytest.mark.req("CAP-43")
async def test_headers_that_cannot_be_read_are_named_and_the_routes_stay(running: Running, shop: Shop) -> None:
    await shop.open(host="shop.example.com")
    await shop.tenant_shows("ProvisioningCompleted")
    await running.settled(shop.client)
    before = (await routes(shop)).metadata.resource_version
    await annotate(shop, vs_route_request_header_set="{not json")

    async def is_named() -> bool:
        tenant = await shop.client.get(CAPTenant, "acme", shop.namespace)
        shown = conditions.find(tenant.status.conditions, "Ready")
        assert shown is not None
        assert shown.message.startswith("error getting headers via CA annotations for"), shown.message
        assert shown.is_true, "the tenant can be used as before"
        return True

    await eventually(is_named)
    await running.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    assert ("Warning", "VirtualServiceModificationFailed") in {
        (each.type, each.reason) for each in events if each.regarding.name == "acme"
    }
    assert (await routes(shop)).metadata.resource_version == before

    forging = RouteHeaders(request=HeaderOperations(set={"x-forwarded-client-cert": "forged"}))
    found = (await routes(shop)).spec.http
    changed = plain_json(VirtualServiceSpec(http=tuple(structs.replace(each, headers=forging) for each in found)))
    of_then: JsonObject = {"annotations": {names.RESOURCE_HASH_ANNOTATION: "of an earlier release"}}
    patch = MergePatch({"metadata": of_then, "spec": {"http": changed["http"]}})
    await shop.client.patch(VirtualService, "acme", shop.namespace, patch)

    async def forges_nothing() -> bool:
        return "x-forwarded-client-cert" not in str((await routes(shop)).spec.http)

    await eventually(forges_nothing)
    assert await is_named()

    await annotate(shop, vs_route_request_header_set='{"x-tenant": "acme"}')

    async def has_header() -> bool:
        (route,) = (await routes(shop)).spec.http
        headers = route.route[0].headers
        return headers is not None and headers.request is not None and headers.request.set == {"x-tenant": "acme"}

    await eventually(has_header)
