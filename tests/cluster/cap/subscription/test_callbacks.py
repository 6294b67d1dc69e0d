"""Registries get the answers that they were promised: once the operation has ended, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.cluster.cap.subscription.bookshop import Bookshop, Serving
from tests.cluster.component.world import free_definition
from tests.unit.cap.subscription.client_certificates import client_pair

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import Secret
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api import DEFINITIONS
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOutput
from stellwerk.operators.cap.subscription.callbacks.promise import PromiseSecret
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.registries import (
    CERTIFICATE_ISSUER,
    ISSUER,
    REGISTRY,
    TOKEN,
    Answers,
    Behaviour,
    Cuts,
    Endless,
    Registries,
)

SUCCEEDED = {"status": "SUCCEEDED", "message": "Provisioning successful"}


@pytest.mark.req("CAP-31")
async def test_a_tenant_that_is_ready_is_reported_with_its_url_and_output(shop: Bookshop, serving: Serving) -> None:
    annotation = {"sme.sap.com/saas-additional-output": json.dumps({"a": 1, "b": {"c": 2}})}
    await shop.apply(annotations={**annotation})
    await serving.settled(shop.client)
    assert (await shop.subscribe()).status == 202
    await shop.output("one", '{"b": 3, "x": "<y>"}')
    await shop.output("two", '{"x": "z"}')
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert (callback.host, callback.path) == (REGISTRY, "/callback/1")
    assert callback.token == "Bearer token-1"
    assert callback.body == {
        **SUCCEEDED,
        "additionalOutput": {"a": 1, "b": 3, "x": "z"},
        "subscriptionUrl": f"https://acme.{shop.namespace}.example.com",
    }
    (call,) = shop.registries.tokens
    login = base64.b64encode(f"sb-{shop.namespace}:CANARY-client-secret".encode()).decode()
    assert (call.host, call.authorization) == (ISSUER, f"Basic {login}")
    assert call.form == {"client_id": f"sb-{shop.namespace}", "grant_type": "client_credentials"}
    await shop.promises_show("delivered")


@pytest.mark.req("CAP-32")
async def test_a_tenant_that_failed_is_reported_so(shop: Bookshop) -> None:
    await shop.subscribe()
    await shop.shows("ProvisioningError")
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "FAILED"
    assert callback.body["message"] == "Provisioning failed"


@pytest.mark.req("CAP-32")
async def test_a_tenant_that_takes_too_long_is_reported_as_failed(shop: Bookshop, serving: Serving) -> None:
    await shop.bind(timeout=1_000)
    await serving.settled(shop.client)
    await shop.subscribe()
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "FAILED"
    await shop.shows("Ready")
    await serving.settled(shop.client)
    assert len(shop.registries.callbacks) == 1


@pytest.mark.req("CAP-33")
async def test_the_end_of_a_tenant_is_reported_when_it_is_gone(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe(callback="")
    await shop.hold("example.com/held")
    assert (await shop.unsubscribe()).status == 202
    await serving.settled(shop.client)
    assert not shop.registries.callbacks
    await shop.hold()
    (callback,) = await shop.registries.received()
    assert (callback.path, callback.body) == (
        "/callback/end",
        {"status": "SUCCEEDED", "message": "Deprovisioning successful"},
    )


async def test_a_subscription_that_ends_before_its_tenant_is_ready_has_failed(shop: Bookshop) -> None:
    await shop.subscribe()
    assert (await shop.unsubscribe()).status == 202
    callbacks = await shop.registries.received(2)
    assert {each.path: each.body["status"] for each in callbacks} == {
        "/callback/1": "FAILED",
        "/callback/end": "SUCCEEDED",
    }


async def test_every_request_gets_its_own_answer(shop: Bookshop) -> None:
    await asyncio.gather(*(shop.subscribe(callback=f"/callback/{number}") for number in range(5)))
    await shop.shows("Ready")
    callbacks = await shop.registries.received(5)
    assert sorted(each.path for each in callbacks) == [f"/callback/{number}" for number in range(5)]


async def test_a_registry_that_asks_again_after_the_answer_gets_an_answer_of_that_time(
    shop: Bookshop, serving: Serving
) -> None:
    await shop.subscribe()
    await shop.shows("ProvisioningError")
    await shop.registries.received(1)
    await shop.promises_show("delivered")
    await shop.shows("Ready")
    await serving.settled(shop.client)
    assert (await shop.subscribe()).message == "resource exists"
    first, second = await shop.registries.received(2)
    assert (first.body["status"], second.body["status"]) == ("FAILED", "SUCCEEDED")


async def test_the_url_has_the_domain_that_the_subscriber_has_chosen(shop: Bookshop, serving: Serving) -> None:
    await shop.serve("chosen", f"chosen.{shop.namespace}.example.com")
    await serving.settled(shop.client)
    params = {"subscriptionDomain": f"chosen.{shop.namespace}.example.com"}
    await shop.send(json_body=shop.payload(subscriptionParams=params))
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert callback.body["subscriptionUrl"] == f"https://acme.chosen.{shop.namespace}.example.com"


@pytest.mark.parametrize(("annotation", "shown"), [("{", None), ("[]", None), ("", {})])
async def test_an_output_that_cannot_be_read_is_left_out(
    shop: Bookshop, serving: Serving, annotation: str, shown: dict[str, Any] | None
) -> None:
    await shop.apply(annotations={"sme.sap.com/saas-additional-output": annotation})
    await serving.settled(shop.client)
    await shop.subscribe()
    await shop.output("one", "{")
    await shop.output("two", '{"a": 1}')
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert callback.body.get("additionalOutput") == shown


@pytest.mark.req("R-307", "R-411")
async def test_outputs_that_are_too_large_to_be_read_are_left_out(shop: Bookshop, serving: Serving) -> None:
    await shop.apply(annotations={"sme.sap.com/saas-additional-output": '{"a": 1}'})
    await serving.settled(shop.client)
    await shop.subscribe()
    for number in range(10):
        await shop.output(f"output-{number}", json.dumps({"b": "x" * 1_000_000}))
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert (callback.body["status"], callback.body["additionalOutput"]) == ("SUCCEEDED", {"a": 1})
    await serving.has_sent_events()
    (left_out,) = (await shop.client.list(Event, shop.namespace, fields="reason=SubscriptionOutputUnreadable")).items
    assert "takes more than 4 MiB" in left_out.note


@pytest.fixture
async def any_output(admin: Client) -> AsyncIterator[None]:
    """The API server takes any spec of a CAPTenantOutput for a while."""
    view = unstructured(CustomResourceDefinition.resource)
    await admin.apply(view, free_definition(CAPTenantOutput.resource), force=True)
    yield
    for definition in DEFINITIONS:
        await admin.apply(view, definition.body(), force=True)


@pytest.mark.req("R-307", "R-413")
@pytest.mark.usefixtures("any_output")
async def test_an_output_that_is_none_keeps_no_answer_from_its_registry(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe()
    await shop.output("one", '{"a": 1}')
    await shop.output("two", '{"a": 2}')
    patch = MergePatch({"spec": {"subscriptionCallbackData": 7}})

    async def is_taken() -> bool:  # the API server may act by the former definition for a while
        with contextlib.suppress(Invalid):
            await shop.client.patch(metadata_of(CAPTenantOutput), "two", shop.namespace, patch)
            return True
        return False

    await eventually(is_taken, within=30)
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert (callback.body["status"], callback.body["additionalOutput"]) == ("SUCCEEDED", {"a": 1})
    await serving.has_sent_events()
    (left_out,) = (await shop.client.list(Event, shop.namespace, fields="reason=SubscriptionOutputUnreadable")).items
    assert f"{shop.namespace}/two cannot be read: spec.subscriptionCallbackData" in left_out.note


async def test_with_a_certificate_the_token_is_asked_for_without_a_secret(shop: Bookshop, serving: Serving) -> None:
    certificate, key = client_pair()
    await shop.bind(**{"credential-type": "x509", "certificate": certificate, "key": key})
    await serving.settled(shop.client)
    await shop.subscribe()
    await shop.shows("Ready")
    await shop.registries.received()
    proof, call = shop.registries.tokens
    for each in (proof, call):
        assert (each.host, each.authorization) == (CERTIFICATE_ISSUER, "")


@pytest.mark.req("R-307")
@pytest.mark.parametrize("path", [TOKEN, "/callback"])
@pytest.mark.parametrize("behaviour", [Answers(500), Answers(401), Answers(302), Cuts(), Endless()], ids=str)
async def test_an_answer_that_does_not_arrive_is_sent_again_and_is_the_same(
    shop: Bookshop, serving: Serving, path: str, behaviour: Behaviour
) -> None:
    shop.registries.behave(path, behaviour, Answers(200, b'{"access_token": "later"}'))
    await shop.subscribe()
    await shop.shows("Ready")
    await serving.tries_again(shop.client)
    (promised,) = await shop.promises_show("delivered")
    assert promised.attempts == 2 or behaviour == Cuts(), "after a cut the client itself sends a PUT once more"
    assert {json.dumps(each.body) for each in shop.registries.callbacks} == {json.dumps(json.loads(promised.body))}


@pytest.mark.req("R-307")
async def test_an_answer_that_the_registry_does_not_want_is_not_sent_again(shop: Bookshop, serving: Serving) -> None:
    shop.registries.behave("/callback", Answers(404))
    await shop.subscribe()
    await shop.shows("Ready")
    (promised,) = await shop.promises_show("failed")
    assert (promised.attempts, promised.problem) == (1, "the registry: HTTP 404")
    await serving.settled(shop.client)
    labels = {"operation": "provisioning", "result": "refused"}
    assert serving.sample("cap_op_subscription_callbacks_total", labels) == 1


@pytest.mark.req("R-307")
async def test_an_answer_is_delivered_with_the_binding_that_the_application_has_then(
    shop: Bookshop, serving: Serving
) -> None:
    await shop.subscribe()
    binding = await shop.client.get(Secret, "registry-binding", shop.namespace)
    await shop.secret("another-binding", json.loads(binding.decoded()["credentials"]))
    await shop.apply(btp={"services": [{"name": "second", "class": "saas-registry", "secret": "another-binding"}]})
    await shop.client.delete(metadata_of(Secret), "registry-binding", shop.namespace)
    await serving.settled(shop.client)
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "SUCCEEDED"


NEXT: JsonObject = {"name": "next", "class": "saas-registry", "secret": "next-binding"}
REGISTRY_SERVICE: JsonObject = {"name": "registry", "class": "saas-registry", "secret": "registry-binding"}


@pytest.mark.req("R-307")
async def test_an_answer_goes_to_its_own_registry_although_another_one_is_listed_first(
    shop: Bookshop, serving: Serving
) -> None:
    await shop.subscribe()
    await shop.secret("next-binding", {"saas_registry_url": "https://next.invalid"})
    await shop.apply(btp={"services": [NEXT, REGISTRY_SERVICE]})
    await serving.settled(shop.client)
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert callback.host == REGISTRY


@pytest.mark.req("R-307")
@pytest.mark.parametrize("has_secret", [False, True])
async def test_an_answer_goes_by_the_binding_of_its_request_while_the_next_one_is_not_complete(
    shop: Bookshop, serving: Serving, has_secret: bool
) -> None:
    await shop.subscribe()
    if has_secret:
        await shop.secret("next-binding", {"clientid": "half-written"})
    await shop.apply(btp={"services": [NEXT]})
    await serving.settled(shop.client)
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "SUCCEEDED"


@pytest.mark.req("R-307")
async def test_only_the_registry_of_the_request_refuses_its_answer_for_good(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe()
    binding = await shop.client.get(Secret, "registry-binding", shop.namespace)
    await shop.secret("next-binding", json.loads(binding.decoded()["credentials"]))
    await shop.apply(btp={"services": [NEXT]})
    shop.registries.behave("/callback", Answers(404), Answers(200))
    await serving.settled(shop.client)
    await shop.shows("Ready")
    await serving.tries_again(shop.client)
    (promised,) = await shop.promises_show("delivered")
    assert promised.attempts == 2


@pytest.mark.req("R-307")
async def test_an_answer_is_delivered_although_the_application_has_no_registry_any_more(
    shop: Bookshop, serving: Serving
) -> None:
    await shop.subscribe()
    await shop.apply(btp={"services": []})
    await serving.settled(shop.client)
    await shop.shows("Ready")
    await shop.registries.received()


@pytest.mark.req("R-307", "R-303")
async def test_a_promise_survives_the_process(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe()
    await serving.stop()
    await shop.shows("Ready")
    await serving.start()
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "SUCCEEDED"
    await shop.promises_show("delivered")


@pytest.mark.req("R-307")
async def test_the_answer_does_not_change_once_it_is_stored(shop: Bookshop, serving: Serving) -> None:
    shop.registries.behave("/callback", Answers(503))
    await shop.subscribe()
    await shop.shows("ProvisioningError")
    await shop.registries.was_asked("/callback")
    await serving.stop()
    await shop.shows("Ready")
    shop.registries.behave("/callback")
    await serving.start()
    (promised,) = await shop.promises_show("delivered")
    assert json.loads(promised.body)["status"] == "FAILED"
    assert {each.body["status"] for each in shop.registries.callbacks} == {"FAILED"}


@pytest.mark.req("R-307")
async def test_the_backlog_and_failures_are_counted(shop: Bookshop, serving: Serving) -> None:
    shop.registries.behave("/callback", Answers(503), Answers(200))
    await shop.subscribe()
    await serving.settled(shop.client)
    assert serving.sample("cap_op_subscription_callbacks_pending", {}) == 1
    await shop.shows("Ready")
    await serving.tries_again(shop.client)
    await shop.promises_show("delivered")
    await serving.settled(shop.client)
    assert serving.sample("cap_op_subscription_callbacks_pending", {}) == 0
    assert serving.sample("cap_op_subscription_callback_failures_total", {"operation": "provisioning"}) == 1


@pytest.mark.req("R-307")
async def test_events_on_the_tenant_show_what_became_of_the_callback(shop: Bookshop, serving: Serving) -> None:
    shop.registries.behave("/callback", Answers(503), Answers(200))
    await shop.subscribe()
    await shop.shows("Ready")
    await serving.tries_again(shop.client)
    await shop.promises_show("delivered")
    await serving.has_sent_events()
    events = (await shop.client.list(Event, shop.namespace)).items
    assert {each.reason for each in events} >= {"SubscriptionCallbackRetried", "SubscriptionCallbackDelivered"}


@pytest.mark.req("R-401")
async def test_a_promise_that_cannot_be_read_holds_up_no_other(shop: Bookshop, serving: Serving) -> None:
    labels = {names.CALLBACK_LABEL: "pending", names.TENANT_ID_LABEL: "acme"}
    for number, data in enumerate(["", "e30=", "bm8="]):
        metadata: JsonObject = {"name": f"broken-{number}", "namespace": shop.namespace, "labels": {**labels}}
        await shop.client.apply(PromiseSecret, {"metadata": metadata, "data": {"promise": data}})
    await shop.subscribe()
    await shop.shows("Ready")
    await shop.registries.received()
    await serving.settled(shop.client)
    assert serving.sample("cap_op_subscription_callbacks_given_up", {}) == 3, "an alert shows them"


@pytest.mark.req("R-105")
async def test_a_tenant_that_comes_back_under_its_name_is_another_one(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe(callback="")
    await shop.hold("example.com/held")
    assert (await shop.unsubscribe()).status == 202
    name = (await shop.tenant()).metadata.name
    await serving.stop()
    await shop.hold()
    await shop.gone()
    await shop.make_tenant(name)
    await serving.start()
    (callback,) = await shop.registries.received()
    assert callback.body["message"] == "Deprovisioning successful"
    assert (await shop.tenant()).metadata.name == name


@pytest.mark.req("R-801")
async def test_no_secret_of_the_registry_is_shown(
    shop: Bookshop, serving: Serving, caplog: pytest.LogCaptureFixture, registries: Registries
) -> None:
    caplog.set_level(1)
    leak = Answers(500, b"CANARY-client-secret is wrong", {"X": "CANARY-client-secret"})
    registries.behave(TOKEN, leak, Answers(200, b'{"access_token": "CANARY-token"}'))
    registries.behave("/callback", Answers(500, b"CANARY-token"), Answers(200))
    await shop.subscribe()
    await shop.shows("Ready")
    await serving.tries_again(shop.client)
    (promised,) = await shop.promises_show("delivered")
    await serving.has_sent_events()
    events = await shop.client.list(Event, shop.namespace)
    shown = [caplog.text, repr(promised), repr(events.items), serving.exposition()]
    assert not [text for text in shown if "CANARY" in text]


async def test_a_missing_payload_comes_back_with_the_next_request(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe()
    (context,) = await shop.contexts()
    await shop.client.delete(metadata_of(Secret), context.metadata.name, shop.namespace)
    await serving.settled(shop.client)
    assert (await shop.subscribe()).message == "resource exists"

    async def is_back() -> bool:
        (found,) = await shop.contexts()
        return found.metadata.controller is not None

    await eventually(is_back)


async def test_a_payload_without_an_owner_gets_its_tenant(shop: Bookshop, serving: Serving) -> None:
    await shop.subscribe()
    (context,) = await shop.contexts()
    patch = MergePatch({"metadata": {"ownerReferences": None}})
    await shop.client.patch(metadata_of(Secret), context.metadata.name, shop.namespace, patch)
    await serving.settled(shop.client)
    tenant = await shop.tenant()
    touch = MergePatch({"metadata": {"annotations": {"example.com/touched": "yes"}}})
    await shop.client.patch(metadata_of(CAPTenant), tenant.metadata.name, shop.namespace, touch)
    await serving.settled(shop.client)
    (found,) = await shop.contexts()
    assert found.metadata.controller is not None
