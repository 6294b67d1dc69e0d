"""A callback that was given up is shown until it is acknowledged, whatever happens to the server meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import msgspec
import pytest
from tests.cluster.breakages import Expected, Judge
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router
from tests.cluster.cap.subscription.bookshop import Bookshop, Serving
from tests.cluster.program import CommandLine
from tests.kubectl import kubectl

from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.kube.types.object_meta import Condition
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CALLBACKS_DELIVERED, CAPApplication
from stellwerk.operators.cap.subscription.callbacks import promise, report
from stellwerk.operators.cap.subscription.callbacks.promise import Promise, PromiseSecret
from stellwerk.operators.cap.subscription.condition_report import CHECK_SECONDS
from stellwerk.runtime import conditions
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.skipping_clock import SkippingClock
from stellwerk.testing.servers.registries import Answers

GIVEN_UP = "cap_op_subscription_callbacks_given_up"


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
async def serving(serving: Serving, clock: SkippingClock) -> Serving:
    """The server, whose waiting a test may skip."""
    await serving.stop()
    serving.clock = clock
    await serving.start()
    return serving


async def shown(shop: Bookshop, clock: SkippingClock, *, holds: bool, says: str = "") -> Condition:
    """The condition of the application once it is so."""
    found: list[Condition] = []

    async def is_shown() -> bool:
        await clock.skip(seconds=CHECK_SECONDS)
        application = await shop.client.get(CAPApplication, "shop", shop.namespace)
        condition = conditions.find(application.status.conditions, CALLBACKS_DELIVERED)
        found[:] = [condition] if condition is not None else []
        return condition is not None and condition.is_true is holds and says in condition.message

    await eventually(is_shown, within=30, describe=f"{CALLBACKS_DELIVERED} is {holds}: {says}")
    return found[0]


async def refused(shop: Bookshop, callback: str = "/callback/refused") -> PromiseSecret:
    """A registry does not want the result of a subscription."""
    shop.registries.behave(callback, Answers(404))
    assert (await shop.subscribe(callback=callback)).status == 202
    await shop.shows("Ready")
    await shop.promises_show("failed")
    (secret,) = (await shop.client.list(PromiseSecret, shop.namespace, labels=names.CALLBACK_LABEL)).items
    return secret


async def acknowledge(shop: Bookshop, clock: SkippingClock, cluster: LocalCluster) -> None:
    """Run the command that the condition ends with."""
    command = report.acknowledgement(ObjectKey(shop.namespace, "shop"))
    assert (await shown(shop, clock, holds=False)).message.endswith(command)
    await asyncio.to_thread(kubectl, cluster.kubeconfig, *command.split()[1:])


@pytest.mark.req("R-307", "R-801")
async def test_a_refused_callback_is_shown_without_its_payload_until_a_person_acknowledges_it(
    shop: Bookshop, serving: Serving, clock: SkippingClock, cap_cluster: LocalCluster
) -> None:
    secret = await refused(shop)
    condition = await shown(shop, clock, holds=False)
    for expected in ("tenant id acme", "(success)", "the registry: HTTP 404"):
        assert expected in condition.message
    assert serving.sample(GIVEN_UP, {}) == 1
    rest = promise.read(secret)
    assert (rest.path, rest.subdomain, rest.domain, rest.secret) == ("", "", "", "")
    (owner,) = secret.metadata.owner_references
    assert owner.uid == (await shop.tenant()).metadata.uid

    await serving.stop()
    await serving.start()
    await serving.settled(shop.client)
    assert serving.sample(GIVEN_UP, {}) == 1
    await acknowledge(shop, clock, cap_cluster)
    await shown(shop, clock, holds=True)
    await shop.promises_show("acknowledged")
    assert serving.sample(GIVEN_UP, {}) == 0


@pytest.mark.req("R-307")
async def test_a_later_callback_that_is_delivered_acknowledges_the_one_that_was_given_up(
    shop: Bookshop, serving: Serving, clock: SkippingClock
) -> None:
    await refused(shop)
    await shown(shop, clock, holds=False)
    assert (await shop.subscribe(callback="/callback/again")).status == 202
    await shop.promises_show("acknowledged", "delivered")
    await shown(shop, clock, holds=True)


@pytest.mark.req("R-307", "R-101")
async def test_a_server_that_died_between_two_writes_shows_what_it_had_given_up_and_what_is_gone(
    shop: Bookshop, serving: Serving, clock: SkippingClock
) -> None:
    """It has stored neither the condition of a promise that failed, nor the end of one that a person deleted."""
    assert (await shop.subscribe()).status == 202
    (promised,) = await shop.promises_show("pending")
    await serving.stop()
    failed = msgspec.structs.replace(promised, body='{"status": "FAILED"}', problem="the registry: HTTP 410")
    patch = MergePatch({"metadata": {"labels": {names.CALLBACK_LABEL: "failed"}}, "data": promise.data_of(failed)})
    await shop.client.patch(PromiseSecret, promised.name, shop.namespace, patch)
    await serving.start()
    await shown(shop, clock, holds=False, says="HTTP 410")
    (rest,) = await shop.promises_show("failed")
    assert not rest.path, "what an interrupted write has left is completed"

    await serving.stop()
    await shop.client.delete(metadata_of(Secret), promised.name, shop.namespace)
    await serving.start()
    await shown(shop, clock, holds=True)


@pytest.mark.req("R-307")
async def test_a_callback_that_was_given_up_outlives_the_day_after_which_others_go(
    shop: Bookshop, serving: Serving, clock: SkippingClock
) -> None:
    shop.registries.behave("/callback/unheard", Answers(503))
    assert (await shop.subscribe(callback="/callback/unheard")).status == 202
    await shop.shows("Ready")
    await shop.registries.was_asked("/callback/unheard")
    assert (await shop.subscribe("other", "guid-2", callback="/callback/other")).status == 202
    await shop.promises_show("pending", "pending")
    await clock.skip(minutes=20)
    await shop.promises_show("failed", "delivered")
    await serving.settled(shop.client)
    for _ in range(3):
        await clock.skip(hours=25)
        await serving.settled(shop.client)
    await shop.promises_show("failed")
    await shown(shop, clock, holds=False)


@pytest.mark.req("R-307")
@pytest.mark.parametrize("gone", ["tenant", "application"])
async def test_what_was_given_up_goes_with_what_it_is_about(
    shop: Bookshop, serving: Serving, clock: SkippingClock, gone: str
) -> None:
    secret = await refused(shop)
    await shown(shop, clock, holds=False)
    tenant = await shop.tenant()
    if gone == "application":
        end = msgspec.structs.replace(promise.read(secret), operation="deprovisioning")
        patch = MergePatch({"metadata": {"labels": {names.OWNER_HASH_LABEL: None}}, "data": promise.data_of(end)})
        await shop.client.patch(PromiseSecret, secret.metadata.name, shop.namespace, patch)
        await serving.settled(shop.client)
        await shop.client.delete(metadata_of(CAPApplication), "shop", shop.namespace)
    else:
        await shop.client.delete(type(tenant), tenant.metadata.name, shop.namespace)
    await eventually(_none(shop), within=120, describe="the Secret goes with its owner")
    if gone == "tenant":
        await shown(shop, clock, holds=True)
    await eventually(lambda: serving.sample(GIVEN_UP, {}) == 0)


def _none(shop: Bookshop) -> Callable[[], Awaitable[bool]]:
    async def is_gone() -> bool:
        return not await shop.promises()

    return is_gone


@pytest.mark.req("R-307", "R-101")
async def test_many_callbacks_that_are_given_up_at_once_cost_one_write_of_the_condition(
    shop: Bookshop, serving: Serving, clock: SkippingClock, audit: AuditLog
) -> None:
    secret = await refused(shop)
    await shown(shop, clock, holds=False)
    await serving.settled(shop.client)
    audit.mark()
    former = promise.read(secret)
    await asyncio.gather(*(shop.client.create(PromiseSecret, another(shop, former, each)) for each in range(200)))
    await serving.settled(shop.client)
    await shown(shop, clock, holds=False, says="201 results")
    agent = "cap-subscription-server"
    assert audit.count(verb="update", resource="capapplications", agent=agent) == 1
    assert audit.count(verb="patch", resource="secrets", agent=agent) == 200, "each is adopted once"
    assert audit.count(verb="get", resource="secrets", agent=agent) == 0


def another(shop: Bookshop, former: Promise, number: int) -> JsonObject:
    """A promise that was given up, as an earlier release has left it."""
    later = msgspec.structs.replace(
        former, tenant_id=f"t-{number}", guid=f"g-{number}", path="/x", accepted=former.accepted + timedelta(seconds=1)
    )
    body = promise.stored(later, shop.namespace)
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    labels = metadata["labels"]
    assert isinstance(labels, dict)
    return {**body, "metadata": {**metadata, "labels": {**labels, names.CALLBACK_LABEL: promise.FAILED}}}


@pytest.mark.req("R-307")
async def test_why_explains_a_callback_that_was_given_up_and_its_next_step_ends_it(
    running: Running, shop: Bookshop, clock: SkippingClock, cap_cluster: LocalCluster, command_line: CommandLine
) -> None:
    release = Shop(shop.client, shop.namespace)
    await release.serve(f"{shop.namespace}.example.com")
    await release.release("1", job("mtxs"), router())
    await release.version_shows("WorkloadsReady")
    shop.registries.behave("/callback", Answers(404))
    assert (await shop.subscribe()).status == 202
    await shop.promises_show("failed")
    await shown(shop, clock, holds=False)
    judge = Judge(cap_cluster.kubeconfig, command_line)
    await judge.judge(
        shop.namespace,
        Expected("ca/shop", ["tenant id acme", "HTTP 404"], "kubectl label secrets", ["No user has to act"]),
    )
    assert await stalled(shop) == "CallbackGivenUp"
    await acknowledge(shop, clock, cap_cluster)
    await shown(shop, clock, holds=True)
    await running.settled(shop.client)
    assert await stalled(shop) == ""


async def stalled(shop: Bookshop) -> str:
    application = await shop.client.get(CAPApplication, "shop", shop.namespace)
    assert conditions.is_true(application.status.conditions, "Ready")
    found = conditions.find(application.status.conditions, "Stalled")
    return found.reason if found is not None else ""
