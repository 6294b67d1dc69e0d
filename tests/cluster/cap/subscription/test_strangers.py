"""What strangers, and users of other namespaces, do costs a registry nothing: it is answered while they go on.

All requests of these tests come from one address, as through a load balancer that hides those of its clients.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pytest
from joserfc.jwk import RSAKey
from tests.cluster.cap.subscription.bookshop import Bookshop, Reply, Serving

from stellwerk.api.core import Secret
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.subscription.callers.keys import AGAIN_SECONDS
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.registries import DISCOVERY, KEYS, UAA_DOMAIN, Answers, Hang

EVIL = f"zone1.{UAA_DOMAIN}"


@pytest.fixture
async def evil(neighbour: Bookshop, serving: Serving) -> Bookshop:
    """A neighbour with an issuer of its own."""
    await neighbour.bind(url=f"https://{EVIL}")
    await serving.settled(neighbour.client)
    return neighbour


async def flood(send: Callable[[], Awaitable[Reply]], count: int) -> list[asyncio.Task[Reply]]:
    """So many requests that are under way."""

    async def one() -> Reply:
        return await send()

    tasks = [asyncio.create_task(one()) for _ in range(count)]
    await asyncio.sleep(0)
    return tasks


def is_answered(requests: Sequence[asyncio.Task[Reply]], status: int) -> bool:
    """Whether any of these requests has an answer with this status."""
    return any(each.done() and each.result().status == status for each in requests)


async def answered_within_a_second(shop: Bookshop, guid: str) -> None:
    """A registry is served; of a few attempts the fastest counts, because tests share their machine."""
    took = []
    for attempt in range(3):
        began = time.monotonic()
        reply = await shop.subscribe(guid=guid)
        took.append(time.monotonic() - began)
        assert reply.status == 202, (reply, attempt)
    assert min(took) < 1.0, took


@pytest.mark.req("R-922")
@pytest.mark.parametrize("is_known", [True, False])
async def test_a_registry_is_answered_while_hundreds_of_requests_wait_for_an_issuer_that_hangs(
    shop: Bookshop, evil: Bookshop, serving: Serving, is_known: bool
) -> None:
    if is_known:
        assert (await shop.subscribe()).status == 202
    shop.registries.behave(f"{EVIL}{DISCOVERY}", Hang())
    for attempt in range(5):
        requests = await flood(lambda: evil.subscribe(token=evil.token(host=EVIL)), 300)
        await eventually(partial(is_answered, requests, 429))
        await answered_within_a_second(shop, f"guid-{attempt}")
        goes_on = not all(each.done() for each in requests)
        answers = await asyncio.gather(*requests)
        assert {each.status for each in answers} <= {429, 503}, "too many at once, or no answer of the issuer in time"
        if goes_on:
            return
        # The machine has stood still for longer than an issuer may take, so the attack was over: once more.
        await serving.clock.skip(seconds=AGAIN_SECONDS)
    pytest.fail("the attack was over before the registry was answered")


@pytest.mark.req("R-921")
async def test_a_registry_and_the_kubelet_are_answered_while_tokens_with_costly_keys_are_shown(
    shop: Bookshop, evil: Bookshop, serving: Serving
) -> None:
    large = [RSAKey.generate_key(4096, {"kid": "key-1"}, private=True) for _ in range(2)]
    listed = [{**key.as_dict(private=False), "use": "sig"} for key in large] * 16
    shop.registries.behave(f"{EVIL}{KEYS}", Answers(200, json.dumps({"keys": listed}).encode()))
    token = evil.token(host=EVIL)

    async def attack() -> None:
        while True:
            await evil.subscribe(token=token)

    attackers = [asyncio.create_task(attack()) for _ in range(50)]
    await shop.registries.was_asked(KEYS)
    await answered_within_a_second(shop, "guid-1")
    async with asyncio.timeout(1), shop.http.get(f"{serving.url}/healthz") as response:
        assert response.status == 200
    for each in attackers:
        each.cancel()
    await asyncio.gather(*attackers, return_exceptions=True)


@pytest.mark.req("R-923")
async def test_a_registry_is_answered_while_the_bindings_of_hundreds_of_other_applications_change(
    shop: Bookshop, evil: Bookshop, serving: Serving
) -> None:
    found = await shop.client.get(CAPApplication, "shop", evil.namespace)
    spec: JsonObject = {"btpAppName": "many", "providerSubaccountId": "provider", "domainRefs": []}
    services: list[JsonValue] = [
        {"name": each.name, "class": each.class_name, "secret": each.secret} for each in found.spec.btp.services
    ]

    async def make(number: int) -> None:
        metadata: JsonObject = {"name": f"many-{number}", "namespace": evil.namespace}
        await shop.client.apply(CAPApplication, {"metadata": metadata, "spec": {**spec, "btp": {"services": services}}})

    for first in range(0, 500, 25):
        await asyncio.gather(*(make(first + number) for number in range(25)))
    await serving.settled(shop.client)
    await evil.bind(url=f"https://{EVIL}", timeout=60_000)
    await answered_within_a_second(shop, "guid-1")
    await evil.bind(url=f"https://{EVIL}", timeout=90_000)
    touched = MergePatch({"metadata": {"annotations": {"example.com/touched": "yes"}}})
    await shop.client.patch(Secret, "registry-binding", shop.namespace, touched)
    await answered_within_a_second(shop, "guid-2")
