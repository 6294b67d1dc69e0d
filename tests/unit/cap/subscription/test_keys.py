"""The keys of token issuers: fetched as often as needed, and no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.subscription.callers import keys as issuer_keys
from stellwerk.operators.cap.subscription.callers import tokens
from stellwerk.operators.cap.subscription.callers.bindings import RegistryFacts, trust_of
from stellwerk.operators.cap.subscription.callers.keys import IssuerKeys, Origin
from stellwerk.operators.cap.subscription.callers.tokens import IssuerUnknown, KeysAbsent, ShareUsedUp, TokenRefused
from stellwerk.operators.cap.subscription.outgoing import HttpAnswer, Outgoing
from stellwerk.operators.cap.subscription.registries import Protocol
from stellwerk.render.sources.http import Method
from stellwerk.runtime.supervision.tasks import background
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.registries import (
    DISCOVERY,
    ISSUER,
    KEYS,
    UAA_DOMAIN,
    Answers,
    Behaviour,
    Endless,
    Hang,
    Registries,
    Slowly,
)


@pytest.fixture
async def registries() -> AsyncIterator[Registries]:
    async with Registries() as made:
        yield made


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def keys(registries: Registries, clock: FakeClock) -> AsyncIterator[IssuerKeys]:
    outgoing = Outgoing(
        networks=("127.0.0.0/8",), authority=registries.authority, resolver=registries.resolver, total_seconds=0.5
    )
    made = IssuerKeys(outgoing, clock)
    yield made
    await made.close()
    await outgoing.close()


def named_by(namespace: str, *hosts: str) -> Callable[[str], Origin]:
    """Bindings of a namespace that name these issuers."""
    return lambda host: Origin({namespace}, is_named=True) if host in hosts else Origin()


async def ids(keys: IssuerKeys, token: str, peer: str = "registry") -> list[str]:
    return [key.key_id for key in await keys.of(tokens.header_of(token, {UAA_DOMAIN}), peer)]


async def flood(keys: IssuerKeys, registries: Registries, peer: str, first: int = 0, names: int = 50) -> None:
    """Show tokens of so many issuers that do not exist."""
    for number in range(first, first + names):
        with pytest.raises(TokenRefused):
            await ids(keys, registries.token(host=f"host-{number}.{UAA_DOMAIN}"), peer)


@pytest.mark.req("R-703", "R-411")
async def test_keys_are_fetched_once_for_callers_that_come_at_once(keys: IssuerKeys, registries: Registries) -> None:
    found = await asyncio.gather(*(ids(keys, registries.token()) for _ in range(20)))
    assert all(each == ["key-1"] for each in found)
    assert registries.count(KEYS) == registries.count(DISCOVERY) == 1


class Gated:
    """Lets requests go out when the test opens the gate."""

    def __init__(self, outgoing: Outgoing) -> None:
        self.outgoing, self.asked, self.is_open = outgoing, asyncio.Event(), asyncio.Event()

    async def call(self, method: Method, url: str) -> HttpAnswer:
        self.asked.set()
        await self.is_open.wait()
        return await self.outgoing.call(method, url)


@pytest.mark.req("R-308", "R-703")
@pytest.mark.parametrize(
    ("fetched_before_seconds", "is_new_key"),
    [(None, False), (issuer_keys.AGAIN_SECONDS, True), (issuer_keys.FRESH_SECONDS, False)],
    ids=["after a start", "a new key", "keys that have ended"],
)
async def test_a_caller_waits_for_keys_that_are_being_fetched_for_another(
    keys: IssuerKeys,
    registries: Registries,
    clock: FakeClock,
    fetched_before_seconds: float | None,
    is_new_key: bool,
) -> None:
    if fetched_before_seconds is not None:
        await ids(keys, registries.token())
        await clock.advance(fetched_before_seconds)
    if is_new_key:
        registries.rotate(keep=True)
    before = registries.count(KEYS)
    gate = Gated(keys.outgoing)
    keys.outgoing = cast("Outgoing", gate)
    token = registries.token()
    first = asyncio.create_task(ids(keys, token))
    await gate.asked.wait()
    await clock.advance(10)
    second = asyncio.create_task(ids(keys, token))
    await asyncio.sleep(0)
    gate.is_open.set()
    assert registries.keys[-1].kid in await second
    assert registries.keys[-1].kid in await first
    assert registries.count(KEYS) == before + 1


@pytest.mark.req("R-308", "R-703")
async def test_a_fetch_goes_on_for_the_next_caller_when_its_only_caller_goes_away(
    keys: IssuerKeys, registries: Registries
) -> None:
    gate = Gated(keys.outgoing)
    keys.outgoing = cast("Outgoing", gate)
    first = asyncio.create_task(ids(keys, registries.token()))
    await gate.asked.wait()
    first.cancel()
    await asyncio.wait([first])
    gate.is_open.set()
    assert await ids(keys, registries.token()) == ["key-1"]
    assert registries.count(KEYS) == 1


@pytest.mark.req("R-308", "R-703")
async def test_without_the_keys_of_an_issuer_that_is_trusted_a_token_is_not_refused_for_good(
    keys: IssuerKeys, registries: Registries, clock: FakeClock
) -> None:
    registries.behave(KEYS, Answers(503))
    with pytest.raises(IssuerUnknown):
        await ids(keys, registries.token())
    keys.origin = named_by("home", ISSUER)
    for _ in range(2):
        with pytest.raises(KeysAbsent):
            await ids(keys, registries.token())
    registries.behave(KEYS)
    await clock.advance(issuer_keys.AGAIN_SECONDS)
    known = registries.token()
    assert await ids(keys, known) == ["key-1"]
    registries.behave(KEYS, Answers(503))
    registries.rotate(keep=True)
    await clock.advance(issuer_keys.AGAIN_SECONDS)
    for _ in range(2):
        with pytest.raises(KeysAbsent):
            await ids(keys, registries.token())
        assert await ids(keys, known) == ["key-1"], "the keys that are there go on"


@pytest.mark.req("R-703")
async def test_a_withdrawn_key_is_not_used_any_more_after_five_minutes(
    keys: IssuerKeys, registries: Registries, clock: FakeClock
) -> None:
    old = registries.token()
    await ids(keys, old)
    registries.rotate()
    await clock.advance(issuer_keys.FRESH_SECONDS)
    assert await ids(keys, old) == [registries.keys[0].kid]


@pytest.mark.req("R-703", "R-922")
async def test_keys_in_use_are_renewed_before_they_end_without_a_request(
    keys: IssuerKeys, registries: Registries, clock: FakeClock
) -> None:
    keys.origin = named_by("home", ISSUER)
    await ids(keys, registries.token())
    async with background() as tasks:
        tasks.start(keys.run(), "renewal")
        await eventually(lambda: clock.sleeping)
        await clock.advance(issuer_keys.RENEW_SECONDS)
        await registries.was_asked(KEYS, 2)
        registries.behave(DISCOVERY, Hang())
        await clock.advance(issuer_keys.FRESH_SECONDS - issuer_keys.RENEW_SECONDS + 1)
        async with asyncio.timeout(0.4):  # a request to the issuer is given up after half a second
            assert await ids(keys, registries.token()) == ["key-1"], "while its issuer does not answer"


@pytest.mark.req("R-922")
async def test_keys_that_no_binding_brings_any_more_are_not_renewed(
    keys: IssuerKeys, registries: Registries, clock: FakeClock
) -> None:
    await ids(keys, registries.token())
    keys.prove(ISSUER)
    await clock.advance(issuer_keys.RENEW_SECONDS)
    keys.renew()
    await asyncio.sleep(0)
    assert registries.count(DISCOVERY) == 1


async def hanging(keys: IssuerKeys, registries: Registries, hosts: Sequence[str], peer: str) -> list[asyncio.Task[Any]]:
    """Requests that wait for issuers which never answer; what is refused at once has ended."""
    registries.behave(DISCOVERY, Hang())
    asked = [asyncio.create_task(ids(keys, registries.token(host=host), peer)) for host in hosts]
    await eventually(lambda: registries.count(DISCOVERY) > 0)
    return asked


def zones(count: int) -> list[str]:
    """Issuers that the doubles know."""
    return [f"zone{number % 9}.{UAA_DOMAIN}" for number in range(count)]


@pytest.mark.req("R-922")
async def test_requests_that_wait_for_one_hanging_issuer_leave_places_to_others(
    keys: IssuerKeys, registries: Registries
) -> None:
    """From one address, as through a load balancer that hides those of its clients."""
    evil = zones(1)[0]
    keys.origin = lambda host: Origin({"evil" if host == evil else "home"}, is_named=True)
    waiting = await hanging(keys, registries, [evil] * 300, "same")
    await eventually(lambda: sum(each.done() for each in waiting) >= 300 - issuer_keys.WAITING_REQUESTS)
    refused = [each for each in waiting if each.done()]
    assert all(isinstance(each.exception(), ShareUsedUp) for each in refused)
    registries.behave(DISCOVERY)
    assert await ids(keys, registries.token(), "same") == ["key-1"]
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.req("R-922")
async def test_hanging_issuers_of_one_namespace_leave_fetches_to_another(
    registries: Registries, clock: FakeClock
) -> None:
    hosts = [f"zone{number}.{UAA_DOMAIN}" for number in range(48)]
    outgoing = Outgoing(
        networks=("127.0.0.0/8",), authority=registries.authority, resolver=registries.resolver, total_seconds=20.0
    )
    keys = IssuerKeys(outgoing, clock, lambda host: Origin({"evil" if host in hosts else "home"}, is_named=True))
    gate = Gated(outgoing)
    keys.outgoing = cast("Outgoing", gate)
    waiting = [asyncio.create_task(ids(keys, registries.token(host=host), f"peer-{host}")) for host in hosts]
    await eventually(lambda: any(each.done() for each in waiting))
    assert sum(not each.done() for each in waiting) == issuer_keys.FETCHES // 2
    keys.outgoing = outgoing
    async with asyncio.timeout(10):
        assert await ids(keys, registries.token(), "victim") == ["key-1"]
    assert not gate.is_open.is_set()
    await keys.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    await outgoing.close()


@pytest.mark.req("R-922")
async def test_a_namespace_with_many_issuers_displaces_its_own_and_none_of_another(
    keys: IssuerKeys, registries: Registries
) -> None:
    keys.origin = lambda host: Origin({"home" if host == ISSUER else "evil"}, is_named=True)
    await ids(keys, registries.token())
    for number in range(issuer_keys.MOST_ISSUERS + 10):
        with pytest.raises(TokenRefused):
            await ids(keys, registries.token(host=f"host-{number}.{UAA_DOMAIN}"))
    assert len(keys) == issuer_keys.MOST_ISSUERS
    before = registries.count(KEYS)
    assert await ids(keys, registries.token()) == ["key-1"]
    assert registries.count(KEYS) == before


@pytest.mark.req("R-703")
async def test_a_new_key_is_known_with_the_first_token_that_it_has_signed(
    keys: IssuerKeys, registries: Registries, clock: FakeClock
) -> None:
    await ids(keys, registries.token())
    registries.rotate(keep=True)
    await clock.advance(issuer_keys.AGAIN_SECONDS)
    assert registries.keys[-1].kid in await ids(keys, registries.token())


@pytest.mark.req("R-703", "R-602")
async def test_tokens_with_keys_that_do_not_exist_cause_one_fetch_in_a_while(
    keys: IssuerKeys, registries: Registries
) -> None:
    await ids(keys, registries.token())
    published = [*registries.keys]
    for _ in range(5):
        registries.rotate()
        assert await ids(keys, registries.token()) == ["key-1"]
    registries.keys = published
    assert registries.count(KEYS) == 1


@pytest.mark.req("R-703", "R-411")
async def test_many_issuers_take_a_bounded_number_of_fetches_and_displace_none_that_is_proven(
    keys: IssuerKeys, registries: Registries
) -> None:
    await ids(keys, registries.token())
    keys.prove(ISSUER)
    for peer in range(40):
        await flood(keys, registries, f"peer-{peer}", peer * 5, 5)
    assert len(keys) <= 2 * issuer_keys.MOST_ISSUERS
    assert len(registries.asked) <= 2 + 2 * issuer_keys.FETCHES_AT_ONCE
    before = registries.count(KEYS)
    assert await ids(keys, registries.token()) == ["key-1"]
    assert registries.count(KEYS) == before


@pytest.mark.req("R-507", "R-703")
async def test_a_peer_that_invents_issuers_leaves_fetches_to_other_peers(
    keys: IssuerKeys, registries: Registries
) -> None:
    await flood(keys, registries, "flood")
    assert await ids(keys, registries.token()) == ["key-1"]


@pytest.mark.req("R-507", "R-703")
async def test_an_issuer_that_a_binding_names_is_fetched_however_many_peers_invent_others(
    keys: IssuerKeys, registries: Registries
) -> None:
    for peer in range(10):
        await flood(keys, registries, f"peer-{peer}", peer * 5, 5)
    with pytest.raises(TokenRefused):
        await ids(keys, registries.token())
    keys.origin = named_by("home", ISSUER)
    assert await ids(keys, registries.token()) == ["key-1"]


@pytest.mark.req("R-703")
def test_a_binding_names_its_issuer_only_within_its_uaa_domain() -> None:
    def issuers(url: str) -> frozenset[str]:
        saas: JsonObject = {"uaadomain": "uaa.example.com", "url": url}
        return trust_of(
            {Protocol.SAAS: RegistryFacts(saas, timedelta())},
            {"xsappname": "shop", "url": "https://own.uaa.example.com"},
        ).issuers

    assert issuers("https://shop.uaa.example.com") == {"shop.uaa.example.com", "own.uaa.example.com"}
    for url in ("https://shop.example.com", "http://shop.uaa.example.com", "https://a@shop.uaa.example.com", ""):
        assert issuers(url) == {"own.uaa.example.com"}


@pytest.mark.req("R-401", "R-602", "R-703")
@pytest.mark.parametrize("path", [DISCOVERY, KEYS])
@pytest.mark.parametrize(
    "behaviour",
    [
        Answers(500),
        Answers(200, b"<html>"),
        Answers(200, b'{"keys": 7, "jwks_uri": 7}'),
        Answers(200, b"[" * 60_000),
        Answers(200, b" " * 70_000),
        Answers(302, headers={"Location": "https://evil.example.com/token_keys"}),
        Hang(),
        Endless(),
        Slowly(),
    ],
)
async def test_an_issuer_that_answers_badly_is_refused_in_time(
    keys: IssuerKeys, registries: Registries, path: str, behaviour: Behaviour
) -> None:
    registries.behave(path, behaviour)
    async with asyncio.timeout(10):
        with pytest.raises(TokenRefused):
            await ids(keys, registries.token())
    assert not any("evil" in each for each in registries.asked)


@pytest.mark.req("R-601", "R-703")
@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example.com/token_keys",
        f"http://{ISSUER}/token_keys",
        f"https://{ISSUER}:8443/token_keys",
        f"https://{ISSUER}/other",
        "https://169.254.169.254/token_keys",
        f"https://zone1.{UAA_DOMAIN}/token_keys",
    ],
)
async def test_a_configuration_cannot_lead_to_keys_of_another_server(
    keys: IssuerKeys, registries: Registries, uri: str
) -> None:
    registries.behave(DISCOVERY, Answers(200, b'{"jwks_uri": "%s"}' % uri.encode()))
    with pytest.raises(TokenRefused):
        await ids(keys, registries.token())
    assert registries.count(KEYS) == 0


@pytest.mark.req("R-601")
async def test_an_issuer_with_a_private_address_is_not_called(registries: Registries, clock: FakeClock) -> None:
    outgoing = Outgoing(authority=registries.authority, resolver=registries.resolver)
    keys = IssuerKeys(outgoing, clock)
    with pytest.raises(TokenRefused):
        await ids(keys, registries.token())
    assert not registries.asked
    await keys.close()
    await outgoing.close()


async def test_an_issuer_that_recovers_is_asked_again(
    keys: IssuerKeys, registries: Registries, clock: FakeClock
) -> None:
    registries.behave(KEYS, Answers(503))
    with pytest.raises(TokenRefused):
        await ids(keys, registries.token())
    registries.behave(KEYS)
    with pytest.raises(TokenRefused):
        await ids(keys, registries.token())
    await clock.advance(issuer_keys.AGAIN_SECONDS)
    assert await ids(keys, registries.token()) == ["key-1"]
    await eventually(lambda: registries.count(KEYS) == 2)
