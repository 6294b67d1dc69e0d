"""An application answers for an identity only after its binding has got a token from its issuer."""

from __future__ import annotations

import pytest
from tests.cluster.cap.subscription.bookshop import Bookshop, Serving

from stellwerk.api.events import Event
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.cap.kinds.application import IDENTITY_PROVED, CAPApplication
from stellwerk.operators.cap.subscription.identity import SHARED, UNPROVED
from stellwerk.operators.cap.subscription.server import TRY_AGAIN
from stellwerk.runtime import conditions
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.registries import TOKEN, UAA_DOMAIN, Answers

LOCKED = f"zone2.{UAA_DOMAIN}"
"""An issuer that gives no token to those who do not have its secret."""


async def shows(shop: Bookshop, reason: str) -> Condition:
    """The condition that the application gets."""
    found: list[Condition] = []

    async def is_shown() -> bool:
        application = await shop.client.get(CAPApplication, "shop", shop.namespace)
        condition = conditions.find(application.status.conditions, IDENTITY_PROVED)
        found[:] = [condition] if condition is not None else []
        return condition is not None and condition.reason == reason

    await eventually(is_shown, within=30, describe=f"{IDENTITY_PROVED} shows {reason}")
    return found[0]


async def steal(thief: Bookshop, victim: Bookshop, url: str) -> None:
    """Copy what the bindings and the application of another namespace name; nothing of it is secret."""
    await thief.bind(clientid=f"sb-{victim.namespace}", clientsecret="guessed", url=url)
    await thief.secret("uaa-binding", {"xsappname": victim.app_name})
    await thief.apply(btpAppName=victim.namespace)


@pytest.mark.req("R-916")
async def test_an_application_whose_issuer_refuses_its_credentials_does_not_answer_and_says_so(
    shop: Bookshop, serving: Serving
) -> None:
    shop.registries.behave(f"{LOCKED}{TOKEN}", Answers(401))
    await shop.bind(url=f"https://{LOCKED}")
    await serving.settled(shop.client)
    reply = await shop.subscribe()
    assert (reply.status, reply.message) == (503, TRY_AGAIN)
    assert int(reply.headers["Retry-After"]) >= 1
    assert not await shop.tenants()
    condition = await shows(shop, UNPROVED)
    assert condition.status == "False"
    for expected in ("service registry", "HTTP 401", "SERVE_UNPROVED", f"-n {shop.namespace}"):
        assert expected in condition.message
    assert "CANARY" not in condition.message
    await serving.has_sent_events()
    assert (await shop.client.list(Event, shop.namespace, fields=f"reason={UNPROVED}")).items

    await shop.bind()
    await serving.settled(shop.client)
    assert (await shop.subscribe()).status == 202
    assert (await shows(shop, "Proved")).status == "True"


@pytest.mark.req("R-916")
@pytest.mark.parametrize("thief_is", ["older", "younger"])
async def test_one_that_has_copied_an_identity_gets_no_request_and_stops_none(
    shop: Bookshop, neighbour: Bookshop, serving: Serving, thief_is: str
) -> None:
    older, younger = await by_age(shop, neighbour)
    victim, thief = (younger, older) if thief_is == "older" else (older, younger)
    shop.registries.behave(f"{LOCKED}{TOKEN}", Answers(401))
    await steal(thief, victim, f"https://{LOCKED}")
    await serving.settled(shop.client)
    assert (await victim.subscribe()).status == 202
    assert len(await victim.tenants()) == 1
    copied = {"sme.sap.com/subscription-guid": "guid-1", "sme.sap.com/btp-tenant-id": "acme"}
    await thief.make_tenant("copy", **copied)
    await serving.settled(shop.client)
    assert (await victim.unsubscribe()).status == 202
    await victim.gone()
    assert len(await thief.tenants()) == 1, "the only one is its own"
    assert str((await shows(thief, UNPROVED)).message).count(f"{victim.namespace}/shop") == 1


@pytest.mark.req("R-916")
async def test_while_two_are_proved_none_answers_and_both_say_so(
    shop: Bookshop, neighbour: Bookshop, serving: Serving
) -> None:
    await steal(neighbour, shop, f"https://{LOCKED}")
    await serving.settled(shop.client)
    reply = await shop.subscribe()
    assert (reply.status, reply.message) == (503, TRY_AGAIN)
    for own, other in ((shop, neighbour), (neighbour, shop)):
        assert f"{other.namespace}/shop" in (await shows(own, SHARED)).message
        assert not await own.tenants()
    await shop.client.delete(CAPApplication, "shop", neighbour.namespace)
    await serving.settled(shop.client)
    assert (await shop.subscribe()).status == 202
    assert (await shows(shop, "Proved")).status == "True"


@pytest.mark.req("R-916")
async def test_after_a_restart_the_proof_is_repeated_before_a_request_is_answered(
    shop: Bookshop, serving: Serving
) -> None:
    await serving.stop()
    await serving.start()

    async def is_accepted() -> bool:
        return (await shop.subscribe()).status == 202

    await eventually(is_accepted)
    assert len(shop.registries.tokens) >= 1


async def by_age(*shops: Bookshop) -> list[Bookshop]:
    """The applications, the oldest first."""
    made = [(await each.client.get(CAPApplication, "shop", each.namespace), each) for each in shops]
    ordered = sorted(made, key=lambda pair: (pair[0].metadata.creation_timestamp, str(pair[0].key)))
    return [each for _, each in ordered]
