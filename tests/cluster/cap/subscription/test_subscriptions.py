"""Requests of the SaaS registry become tenants, and end them."""

from __future__ import annotations

import asyncio
import json

import pytest
from tests.cluster.cap.subscription.bookshop import SERVER, Bookshop, Serving

from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription.server import TRY_AGAIN
from stellwerk.testing.cluster import AuditLog


@pytest.mark.req("CAP-27")
async def test_a_subscription_becomes_a_tenant_without_a_version(shop: Bookshop) -> None:
    payload = {**shop.payload(), "further": ["<things>", 1.0]}
    reply = await shop.send(json_body=payload)
    assert (reply.status, reply.body) == (202, {"Tenant": None, "Message": "resource created successfully"})
    tenant = await shop.tenant()
    assert tenant.metadata.name.startswith("shop-")
    assert (tenant.spec.tenant_id, tenant.spec.sub_domain, tenant.spec.version) == ("acme", "acme", "")
    assert tenant.spec.cap_application_instance == "shop"
    assert tenant.metadata.labels == {
        names.TENANT_TYPE_LABEL: "consumer",
        names.TENANT_ID_LABEL: "acme",
        names.SUBSCRIPTION_GUID: "guid-1",
        names.APP_HASH_LABEL: names.sha1("provider", shop.namespace),
    }
    (context,) = await shop.contexts()
    assert context.metadata.name.startswith("shop-consumer-")
    assert json.loads(context.text(names.CONTEXT_KEY) or "") == payload
    assert context.metadata.controller is not None
    assert context.metadata.controller.uid == tenant.metadata.uid
    assert tenant.metadata.annotations == {
        names.CONTEXT_SECRET_ANNOTATION: context.metadata.name,
        names.SUBSCRIPTION_GUID: "guid-1",
    }


async def test_the_same_subscription_again_changes_nothing(shop: Bookshop) -> None:
    await shop.subscribe()
    before = await shop.tenant()
    reply = await shop.subscribe()
    assert (reply.status, reply.message) == (202, "resource exists")
    assert await shop.tenant() == before


@pytest.mark.req("CAP-28")
async def test_the_same_subscription_again_asks_the_api_server_only_for_its_promise(
    shop: Bookshop, serving: Serving, audit: AuditLog
) -> None:
    await shop.subscribe()
    (promised,) = await shop.promises_show("pending")
    await serving.settled(shop.client)
    audit.mark()
    await shop.subscribe()
    asked = audit.entries(lambda entry: entry.user == SERVER and entry.namespace == shop.namespace)
    assert [(entry.verb, entry.name) for entry in asked if entry.verb != "watch"] == [("get", promised.name)]


@pytest.mark.req("CAP-28")
async def test_another_subscription_of_the_tenant_updates_labels_and_payload(shop: Bookshop) -> None:
    await shop.subscribe()
    reply = await shop.subscribe(guid="guid-2")
    assert (reply.status, reply.message) == (202, "resource updated successfully")
    tenant = await shop.tenant()
    assert tenant.metadata.labels[names.SUBSCRIPTION_GUID] == "guid-2"
    assert tenant.metadata.annotations[names.SUBSCRIPTION_GUID] == "guid-2"
    (context,) = await shop.contexts()
    assert context.metadata.labels[names.SUBSCRIPTION_GUID] == "guid-2"
    assert json.loads(context.text(names.CONTEXT_KEY) or "")["subscriptionGUID"] == "guid-2"


@pytest.mark.parametrize("guid", ["guid-1", "guid-2"])
async def test_a_secret_that_is_not_the_payload_of_its_tenant_is_not_written_and_gets_no_owner(
    shop: Bookshop, serving: Serving, guid: str
) -> None:
    await shop.subscribe()
    before = await shop.client.get(Secret, "uaa-binding", shop.namespace)
    patch = MergePatch({"metadata": {"annotations": {names.CONTEXT_SECRET_ANNOTATION: "uaa-binding"}}})
    await shop.client.patch(metadata_of(CAPTenant), (await shop.tenant()).metadata.name, shop.namespace, patch)
    await serving.settled(shop.client)  # the promise to the registry makes the tenant own its payload, too
    assert (await shop.subscribe(guid=guid)).status == 202
    await serving.settled(shop.client)
    assert await shop.client.get(Secret, "uaa-binding", shop.namespace) == before
    tenant, contexts = await shop.tenant(), await shop.contexts()
    named = tenant.metadata.annotations[names.CONTEXT_SECRET_ANNOTATION]
    (payload,) = (each for each in contexts if each.metadata.name == named)
    assert payload.metadata.controller is not None
    assert payload.metadata.controller.uid == tenant.metadata.uid


@pytest.mark.req("R-308", "R-506")
@pytest.mark.parametrize("has_tenant", [True, False])
async def test_a_secret_that_has_the_name_of_a_payload_and_is_not_of_its_tenant_is_not_written(
    shop: Bookshop, serving: Serving, has_tenant: bool
) -> None:
    await shop.subscribe()
    (payload,) = await shop.contexts()
    if not has_tenant:
        await shop.client.delete(CAPTenant, (await shop.tenant()).metadata.name, shop.namespace)
        await shop.gone()
    taken = payload.metadata.name
    foreign: JsonObject = {"metadata": {"name": taken, "namespace": shop.namespace}, "data": {"key": "dmFsdWU="}}
    await shop.client.delete(Secret, taken, shop.namespace)
    before = await shop.client.create(Secret, foreign)
    await serving.settled(shop.client)

    assert (await shop.subscribe()).status == 202
    await serving.settled(shop.client)
    assert await shop.client.get(Secret, taken, shop.namespace) == before
    (payload,) = await shop.contexts()
    tenant = await shop.tenant()
    assert tenant.metadata.annotations[names.CONTEXT_SECRET_ANNOTATION] == payload.metadata.name != taken
    assert payload.metadata.controller is not None
    assert payload.metadata.controller.uid == tenant.metadata.uid


@pytest.mark.req("R-308")
async def test_a_secret_that_has_replaced_the_payload_since_it_was_looked_at_gets_no_owner(
    shop: Bookshop, serving: Serving
) -> None:
    await shop.subscribe()
    (payload,) = await shop.contexts()
    taken, tenant = payload.metadata.name, await shop.tenant()
    await shop.client.delete(Secret, taken, shop.namespace)
    before = await shop.client.create(Secret, {"metadata": {"name": taken, "namespace": shop.namespace}})
    await serving.settled(shop.client)

    await serving.parts.subscriptions.own_context(tenant, payload)

    assert await shop.client.get(Secret, taken, shop.namespace) == before


@pytest.mark.req("R-308")
async def test_twenty_requests_at_once_make_one_tenant(shop: Bookshop) -> None:
    replies = await asyncio.gather(*(shop.subscribe(callback=f"/callback/{number}") for number in range(20)))
    assert [reply.status for reply in replies] == [202] * 20
    assert sum(reply.message == "resource created successfully" for reply in replies) == 1
    assert len(await shop.tenants()) == len(await shop.contexts()) == 1


@pytest.mark.req("R-308")
async def test_different_subscriptions_of_a_tenant_at_once_make_one_tenant(shop: Bookshop, serving: Serving) -> None:
    replies = await asyncio.gather(*(shop.subscribe(guid=f"guid-{number}") for number in range(10)))
    assert [reply.status for reply in replies] == [202] * 10
    tenant = await shop.tenant()

    await serving.settled(shop.client)
    contexts = await shop.contexts()
    assert [each.metadata.name for each in contexts] == [tenant.metadata.annotations[names.CONTEXT_SECRET_ANNOTATION]]


@pytest.mark.req("R-308")
async def test_a_tenant_of_the_original_is_found_by_its_labels(shop: Bookshop) -> None:
    labels = {names.TENANT_ID_LABEL: "acme", names.APP_HASH_LABEL: names.sha1("provider", shop.namespace)}
    await shop.make_tenant("shop-x7k2p", **labels)
    reply = await shop.subscribe()
    assert (reply.status, reply.message) == (202, "resource updated successfully")
    assert (await shop.tenant()).metadata.name == "shop-x7k2p"


@pytest.mark.req("R-408")
async def test_a_name_that_another_tenant_has_is_not_taken_from_it(shop: Bookshop) -> None:
    await shop.subscribe()
    taken = (await shop.tenant()).metadata.name
    await shop.client.delete(CAPTenant, taken, shop.namespace)
    await shop.gone()
    await shop.make_tenant(taken, tenant_id="other")
    assert (await shop.subscribe(guid="guid-2")).message == "resource created successfully"
    assert sorted(each.spec.tenant_id for each in await shop.tenants()) == ["acme", "other"]


async def test_an_application_of_a_global_account_is_found_by_that(shop: Bookshop, serving: Serving) -> None:
    patch = MergePatch({"spec": {"providerSubaccountId": None, "globalAccountId": "global"}})
    await shop.client.patch(CAPApplication, "shop", shop.namespace, patch)
    await serving.settled(shop.client)
    assert (await shop.subscribe()).status == 202
    labels = (await shop.tenant()).metadata.labels
    assert labels[names.LEGACY_APP_HASH_LABEL] == names.sha1("global", shop.namespace)


@pytest.mark.req("CAP-30")
async def test_an_unknown_application_is_not_found(shop: Bookshop) -> None:
    reply = await shop.send(json_body=shop.payload(subscriptionAppName="unknown"))
    assert (reply.status, reply.message) == (406, "resource not found")


async def test_an_application_without_tenants_takes_none(shop: Bookshop, serving: Serving) -> None:
    patch = MergePatch({"status": {"servicesOnly": True, "state": "Consistent", "conditions": []}})
    await shop.client.patch(CAPApplication, "shop", shop.namespace, patch, subresource="status")
    await serving.settled(shop.client)
    reply = await shop.subscribe()
    assert (reply.status, reply.message) == (406, "no multi-tenant capapplication found")
    assert not await shop.tenants()


async def test_a_domain_that_is_not_served_is_refused(shop: Bookshop, serving: Serving) -> None:
    params = {"subscriptionDomain": "unknown.example.com"}
    reply = await shop.send(json_body=shop.payload(subscriptionParams=params))
    expected = "Error constructing subscription URL: domain unknown.example.com not found in Domains or ClusterDomains"
    assert (reply.status, reply.message) == (406, expected)
    assert not await shop.tenants()
    assert not await shop.promises()


@pytest.mark.req("CAP-30")
@pytest.mark.parametrize("method", ["POST", "GET", "PATCH"])
async def test_other_methods_are_refused(shop: Bookshop, method: str) -> None:
    reply = await shop.send(method, json_body=shop.payload())
    assert (reply.status, reply.message) == (405, "invalid request method")


@pytest.mark.req("R-701", "CAP-30")
@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff\xfe", b"[" * 60_000, b'{"subscriptionGUID": 7}'])
async def test_a_body_that_is_no_subscription_is_refused_with_the_cause(shop: Bookshop, data: bytes) -> None:
    reply = await shop.send(data=data)
    assert reply.status == 400
    assert reply.message


@pytest.mark.req("R-307")
async def test_a_request_is_to_be_repeated_while_the_url_of_the_registry_cannot_be_used(
    shop: Bookshop, serving: Serving
) -> None:
    await shop.bind(saas_registry_url="https://[")
    await serving.settled(shop.client)
    reply = await shop.subscribe()
    assert (reply.status, reply.message, reply.headers.get("Retry-After")) == (406, TRY_AGAIN, "1")
    assert not await shop.tenants()


@pytest.mark.req("CAP-33")
async def test_the_end_of_a_subscription_deletes_its_tenant(shop: Bookshop) -> None:
    await shop.subscribe()
    reply = await shop.unsubscribe()
    assert (reply.status, reply.message) == (202, "resource deleted successfully")
    await shop.gone()


@pytest.mark.req("CAP-33")
async def test_the_end_of_an_unknown_subscription_is_not_found(shop: Bookshop) -> None:
    reply = await shop.unsubscribe()
    assert (reply.status, reply.message) == (404, "tenant not found")


async def test_the_end_is_found_by_application_and_tenant_where_the_id_is_another(shop: Bookshop) -> None:
    await shop.subscribe()
    reply = await shop.unsubscribe(guid="unknown")
    assert reply.status == 202
    await shop.gone()


async def test_the_tenant_of_the_provider_has_no_end(shop: Bookshop, serving: Serving) -> None:
    labels = {names.TENANT_ID_LABEL: "acme", names.TENANT_TYPE_LABEL: "provider"}
    await shop.make_tenant("shop-provider", **labels)
    await serving.settled(shop.client)
    assert (await shop.unsubscribe()).status == 404
    assert len(await shop.tenants()) == 1


async def test_a_tenant_that_is_being_deleted_takes_no_subscription(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe()
    await shop.hold("example.com/held")
    await shop.unsubscribe()
    await serving.settled(shop.client)
    reply = await shop.subscribe(guid="guid-2", callback="/callback/2")
    assert reply.status == 406
    assert "being deleted" in reply.message
    assert [each.path for _, each in await shop.promises() if each.guid == "guid-2"] == []
    await shop.hold()
