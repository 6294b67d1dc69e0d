"""What the server promises holds although its watch of tenants has gone silent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from tests.cluster import permissions
from tests.cluster.cap.subscription.bookshop import SERVER, Bookshop, Serving

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.subscription import rights
from stellwerk.operators.cap.subscription.callbacks import answer, promise
from stellwerk.operators.cap.subscription.callbacks.promise import PromiseSecret
from stellwerk.operators.cap.subscription.server import NOT_FOUND, TRY_AGAIN
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    ANY_FRAME,
    AnswerInstead,
    Delay,
    FaultProxy,
    Hold,
    RecordedRequest,
    always,
    nth,
    of_watch,
    requests,
)
from stellwerk.testing.faults.on_requests import Proceed
from stellwerk.testing.faults.reply import Reply
from stellwerk.testing.servers.registries import KEYS, Answers, Registries


@pytest.fixture
async def proxy(cap_cluster: LocalCluster, admin: Client) -> AsyncIterator[FaultProxy]:
    """A line to the control plane that can be made bad."""
    await permissions.grant(admin, SERVER, (*rights.GRANTS, *rights.HOME_GRANTS))
    async with FaultProxy(cap_cluster.kubeconfig_for(SERVER)) as made:
        yield made


@pytest.fixture
async def serving(proxy: FaultProxy, registries: Registries) -> AsyncIterator[Serving]:
    """The server, which gives a silent watch up after a second."""
    made = Serving(proxy.kubeconfig, registries, silence_seconds=1.0)
    await made.start()
    yield made
    await made.stop()


@pytest.mark.req("R-202", "R-307")
async def test_a_half_open_watch_of_tenants_is_given_up_and_the_callback_is_sent(
    proxy: FaultProxy, shop: Bookshop
) -> None:
    assert (await shop.subscribe()).status == 202
    silent = Hold()
    half_open = proxy.on_events(
        ANY_FRAME & of_watch(requests("watch", CAPTenant.resource.group_resource)), silent, nth(1)
    )
    await shop.shows("Ready")
    await silent.caught()
    half_open.end()
    (callback,) = await shop.registries.received()
    assert (callback.path, callback.body["status"]) == ("/callback/1", "SUCCEEDED")
    silent.release()
    await shop.promises_show("delivered")
    assert len(shop.registries.callbacks) == 1


@pytest.mark.req("R-202")
async def test_the_end_of_a_tenant_that_its_watch_does_not_show_yet_is_carried_out(
    proxy: FaultProxy, shop: Bookshop
) -> None:
    silent = Hold()
    half_open = proxy.on_events(
        ANY_FRAME & of_watch(requests("watch", CAPTenant.resource.group_resource)), silent, nth(1)
    )
    assert (await shop.subscribe()).status == 202
    await silent.caught()
    reply = await shop.unsubscribe(guid="another")
    half_open.end()
    silent.release()
    assert reply.status == 202
    await shop.gone()


@pytest.mark.req("R-101", "R-306", "R-307")
async def test_the_end_of_a_tenant_that_is_only_promised_so_far_is_carried_out_by_the_next_request(
    proxy: FaultProxy, shop: Bookshop, serving: Serving
) -> None:
    await shop.make_tenant("seed", **{names.TENANT_ID_LABEL: "acme"})
    await serving.settled(shop.client)
    tenants = CAPTenant.resource.group_resource
    with proxy.on_requests(requests("delete", tenants, name="seed"), AnswerInstead(500)):
        reply = await shop.unsubscribe()
    assert (reply.status, reply.message) == (406, TRY_AGAIN)
    await shop.promises_show("pending")
    assert (await shop.unsubscribe()).status == 202
    await shop.gone()
    (callback,) = await shop.registries.received()
    assert callback.body["message"] == "Deprovisioning successful"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Lists the objects of a namespace with a spec that cannot be decoded."""

    namespace: str

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        reply = await proceed(request)
        listed = cast("dict[str, Any]", reply.json())
        for each in listed["items"]:
            if each["metadata"]["namespace"] == self.namespace:
                each["spec"]["domainRefs"] = 7
        reply.body = json.dumps(listed).encode()
        return reply

    def __str__(self) -> str:
        return f"objects of {self.namespace} cannot be decoded"


@pytest.mark.req("R-307", "R-510")
async def test_a_subscription_to_an_application_that_cannot_be_read_is_not_called_ended(
    proxy: FaultProxy, shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    assert (await shop.subscribe(callback="")).status == 202
    await serving.stop()
    applications = requests("list", CAPApplication.resource.group_resource)
    with proxy.on_requests(applications, Unreadable(shop.namespace)):
        await serving.start()
        await serving.settled(shop.client)
    for guid in ("guid-1", "another"):
        reply = await shop.unsubscribe(guid=guid)
        assert (reply.status, reply.message) == (406, TRY_AGAIN)
    assert (await neighbour.unsubscribe(guid="third")).status == 404, "its application can be read"
    assert len(await shop.tenants()) == 1


@pytest.mark.req("R-307", "R-510")
async def test_the_callback_is_sent_as_soon_as_an_application_can_be_read_that_could_not_at_the_start(
    proxy: FaultProxy, shop: Bookshop, serving: Serving
) -> None:
    assert (await shop.subscribe()).status == 202
    await shop.promises_show("pending")
    await serving.stop()
    await shop.shows("Ready")
    with proxy.on_requests(requests("list", CAPApplication.resource.group_resource), Unreadable(shop.namespace)):
        await serving.start()
        await serving.settled(shop.client)
    await shop.promises_show("pending")

    await shop.apply(annotations={"example.com/corrected": "true"})

    await shop.promises_show("delivered")
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "SUCCEEDED"


@pytest.mark.req("R-307", "R-507")
async def test_a_copied_label_of_an_application_that_cannot_be_read_keeps_no_subscription_from_ending(
    proxy: FaultProxy, shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    await shop.make_tenant("seed", **{names.TENANT_ID_LABEL: "acme"})
    copied: dict[str, Any] = {names.TENANT_ID_LABEL: "acme", names.SUBSCRIPTION_GUID: "guid-1"}
    await neighbour.make_tenant("copy", **copied)
    await serving.stop()
    applications = requests("list", CAPApplication.resource.group_resource)
    with proxy.on_requests(applications, Unreadable(neighbour.namespace)):
        await serving.start()
        await serving.settled(shop.client)
    assert (await shop.unsubscribe()).status == 202
    await shop.gone()
    assert len(await neighbour.tenants()) == 1


@pytest.mark.req("R-510")
async def test_only_requests_that_may_mean_an_application_that_cannot_be_read_are_to_be_tried_again(
    proxy: FaultProxy, shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    label = {names.APP_HASH_LABEL: names.sha1("provider", neighbour.namespace)}
    patch = MergePatch({"metadata": {"labels": {**label}}})
    await shop.client.patch(metadata_of(CAPApplication), "shop", neighbour.namespace, patch)
    await serving.stop()
    applications = requests("list", CAPApplication.resource.group_resource)
    with proxy.on_requests(applications, Unreadable(neighbour.namespace)):
        await serving.start()
        await serving.settled(shop.client)
    token = shop.token()
    for method, refusal in (("PUT", (406, NOT_FOUND)), ("DELETE", (404, "tenant not found"))):
        for app, expected in ((neighbour.namespace, (406, TRY_AGAIN)), ("absent", refusal)):
            body = shop.payload(subscriptionAppName=app)
            reply = await shop.send(method, json_body=body, token=token)
            assert (reply.status, reply.message) == expected, (method, app)


@pytest.mark.req("R-308")
async def test_after_a_start_no_registry_is_refused_before_the_bindings_are_read(
    proxy: FaultProxy, shop: Bookshop, serving: Serving
) -> None:
    await serving.stop()
    held = FakeClock()
    with proxy.on_requests(requests("get", "secrets", namespace=shop.namespace), Delay(1, clock=held)):
        await serving.start()
        reply = await shop.subscribe()
        assert (reply.status, reply.message) == (503, TRY_AGAIN)
        assert int(reply.headers["Retry-After"]) >= 1
    await held.advance(1)

    async def is_accepted() -> bool:
        return (await shop.subscribe()).status == 202

    await eventually(is_accepted)
    assert (await shop.subscribe(token="")).message == "expected bearer token"


@pytest.mark.req("R-308", "R-705")
async def test_no_registry_is_refused_for_good_while_no_binding_can_be_read(
    proxy: FaultProxy, shop: Bookshop, serving: Serving
) -> None:
    await serving.stop()
    with proxy.on_requests(requests("get", "secrets", namespace=shop.namespace), AnswerInstead(500), always) as failing:
        await serving.start()
        await eventually(lambda: failing.fired)
        for _ in range(5):
            reply = await shop.subscribe()
            assert (reply.status, reply.message) == (503, TRY_AGAIN)
    await shop.bind(timeout=60_000)

    async def is_accepted() -> bool:
        return (await shop.subscribe()).status == 202

    await eventually(is_accepted)


@pytest.mark.req("R-308", "R-703")
async def test_while_the_issuer_of_a_binding_does_not_answer_no_registry_is_refused_for_good(shop: Bookshop) -> None:
    shop.registries.behave(KEYS, Answers(503))
    for _ in range(2):
        reply = await shop.subscribe()
        assert (reply.status, reply.message) == (503, TRY_AGAIN)


@pytest.mark.req("R-307", "R-308")
async def test_a_refused_request_takes_no_promise_from_one_that_is_accepted(
    proxy: FaultProxy, shop: Bookshop, serving: Serving
) -> None:
    """The refused one may be slow: its deletions of Secrets are held until the other has been answered."""
    held = FakeClock()
    slow = proxy.on_requests(requests("delete", "secrets"), Delay(1, clock=held), required=False)
    await shop.subscribe(callback="")
    await shop.hold("example.com/held")
    await shop.unsubscribe(callback="")
    await serving.settled(shop.client)
    refused = asyncio.create_task(shop.subscribe(guid="guid-2"))
    await asyncio.wait([refused], timeout=1)
    await shop.hold()
    await shop.gone()
    await serving.settled(shop.client)
    assert (await shop.subscribe(guid="guid-2")).status == 202
    slow.end()
    await held.advance(1)
    assert (await refused).status == 406
    await shop.shows("Ready")
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "SUCCEEDED"


@pytest.mark.req("R-203", "R-307")
async def test_a_conflict_that_no_change_has_caused_loses_no_callback(proxy: FaultProxy, shop: Bookshop) -> None:
    await shop.subscribe()
    (promised,) = await shop.promises_show("pending")
    written = requests("patch", "secrets", namespace=shop.namespace, name=promised.name)
    with proxy.on_requests(written, AnswerInstead(409), nth(1, 3)) as conflicts:
        await shop.shows("Ready")
        await shop.promises_show("delivered")
    assert conflicts.fired == 2, "of the answer, and of its delivery"
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "SUCCEEDED"


@pytest.mark.req("R-203", "R-308")
@pytest.mark.parametrize("is_repeated", [False, True])
async def test_a_conflict_that_no_change_has_caused_leaves_no_payload_without_an_owner(
    proxy: FaultProxy, shop: Bookshop, serving: Serving, is_repeated: bool
) -> None:
    """`is_repeated`: an earlier request has written the payload, and then no tenant."""
    if is_repeated:
        created = requests("create", CAPTenant.resource.group_resource, namespace=shop.namespace)
        with proxy.on_requests(created, AnswerInstead(500), always):
            assert (await shop.subscribe(callback="")).status == 406
        await serving.settled(shop.client)
        assert len(await shop.contexts()) == 1
    with proxy.on_requests(requests("patch", "secrets", namespace=shop.namespace), AnswerInstead(409), nth(1, 3)):
        assert (await shop.subscribe(callback="")).message == "resource created successfully"
    (payload,) = await shop.contexts()
    assert payload.metadata.controller is not None
    assert payload.metadata.controller.uid == (await shop.tenant()).metadata.uid


@pytest.mark.req("R-307", "R-308")
@pytest.mark.parametrize("ends", ["deleted", "failed"])
async def test_a_promise_that_ends_while_the_tenant_is_being_made_begins_again(
    proxy: FaultProxy, shop: Bookshop, serving: Serving, ends: str
) -> None:
    held = FakeClock()
    with proxy.on_requests(requests("create", CAPTenant.resource.group_resource), Delay(1, clock=held)) as slow:
        accepted = asyncio.create_task(shop.subscribe())
        (promised,) = await shop.promises_show("pending")
        await eventually(lambda: slow.fired)
        if ends == "deleted":
            await shop.client.delete(metadata_of(Secret), promised.name, shop.namespace)
        else:
            failed = msgspec.structs.replace(promised, body=answer.body(promised, succeeded=False))
            patch = MergePatch({"data": promise.data_of(failed)})
            await shop.client.patch(PromiseSecret, promised.name, shop.namespace, patch)
            await shop.promises_show("delivered")
    await held.advance(1)
    assert (await accepted).status == 202
    await shop.promises_show("pending")
    await shop.shows("Ready")
    callbacks = await shop.registries.received(1 if ends == "deleted" else 2)
    assert callbacks[-1].body["status"] == "SUCCEEDED"


@pytest.mark.req("R-307", "R-308")
async def test_a_request_long_after_an_identical_one_has_a_deadline_of_its_own(
    shop: Bookshop, serving: Serving
) -> None:
    await shop.subscribe()
    (first,) = await shop.promises_show("pending")
    earlier = msgspec.structs.replace(
        first, accepted=first.accepted - timedelta(minutes=10), deadline=first.deadline - timedelta(minutes=10)
    )
    patch = MergePatch({"data": promise.data_of(earlier)})
    await shop.client.patch(PromiseSecret, first.name, shop.namespace, patch)
    assert (await shop.subscribe()).message == "resource exists"
    (second,) = await shop.promises_show("pending")
    assert second.deadline > first.deadline
