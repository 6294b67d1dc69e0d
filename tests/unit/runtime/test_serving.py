"""Which step a certificate needs next, and that no order of steps leaves a caller without trust."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.runtime.certificates import certs, store
from stellwerk.runtime.certificates.certs import KeyPair
from stellwerk.runtime.certificates.store import CertificateStep, Holding, Profile, ServingCertificates
from stellwerk.testing.clock import FakeClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)
PROFILE = Profile(names=("webhook.here.svc", "127.0.0.1"))
FRESH = store.made(CertificateStep.EVERYTHING, None, PROFILE, NOW)


def step(
    holding: Holding | None, *, days: float = 0, trusted_days: float | None = None, profile: Profile = PROFILE
) -> CertificateStep:
    """`trusted_days`: from when on callers trust the bundle."""
    trusted = None if trusted_days is None else timedelta(days=days - trusted_days).total_seconds()
    return store.next_step(holding, profile, now=NOW + timedelta(days=days), trusted_seconds=trusted)


def test_where_there_is_nothing_everything_is_made_and_then_rests() -> None:
    assert step(None) is CertificateStep.EVERYTHING
    assert step(Holding((), b"", KeyPair(b"", b""))) is CertificateStep.EVERYTHING
    assert step(FRESH) is CertificateStep.NOTHING


@pytest.mark.req("R-706")
def test_a_leaf_is_replaced_before_two_thirds_of_its_life() -> None:
    assert step(FRESH, days=0.59 * 365) is CertificateStep.NOTHING
    assert step(FRESH, days=0.61 * 365) is CertificateStep.LEAF


@pytest.mark.req("R-706")
def test_an_authority_is_replaced_before_two_thirds_of_its_life() -> None:
    at = NOW + timedelta(days=0.61 * 3650)
    renewed = store.made(CertificateStep.LEAF, FRESH, PROFILE, at)
    assert step(renewed, days=0.61 * 3650) is CertificateStep.AUTHORITY


@pytest.mark.req("R-706")
def test_a_new_authority_signs_only_after_all_callers_have_known_it_for_a_while() -> None:
    joined = store.made(CertificateStep.AUTHORITY, FRESH, PROFILE, NOW)
    assert joined.leaf == FRESH.leaf
    assert joined.authorities[1:] == FRESH.authorities
    assert step(joined) is CertificateStep.NOTHING, "nobody is known to trust it"
    assert step(joined, days=1, trusted_days=1) is CertificateStep.NOTHING, "not for long enough"
    assert step(joined, days=1, trusted_days=0.9) is CertificateStep.LEAF
    swapped = store.made(CertificateStep.LEAF, joined, PROFILE, NOW)
    assert certs.chain_holds(swapped.leaf.certificate, joined.authorities[0])
    assert swapped.bundle == joined.bundle, "replicas with the old leaf must stay trusted"
    assert step(swapped, days=1) is CertificateStep.NOTHING


def test_a_leaf_that_callers_refuse_is_replaced_at_once() -> None:
    other = store.made(CertificateStep.EVERYTHING, None, PROFILE, NOW)
    assert step(replace(FRESH, leaf=other.leaf)) is CertificateStep.LEAF
    assert step(replace(FRESH, leaf=KeyPair(FRESH.leaf.certificate, other.leaf.key))) is CertificateStep.LEAF
    assert step(replace(FRESH, leaf=KeyPair(b"junk", b"junk"))) is CertificateStep.LEAF
    assert step(FRESH, profile=Profile(names=("another.name",))) is CertificateStep.LEAF


def test_an_authority_whose_key_is_of_no_use_is_replaced_while_its_leaf_serves_on() -> None:
    assert step(replace(FRESH, authority_key=b"junk")) is CertificateStep.AUTHORITY
    assert step(replace(FRESH, authority_key=b"junk", leaf=KeyPair(b"", b""))) is CertificateStep.EVERYTHING


def test_what_is_over_is_made_anew() -> None:
    assert step(FRESH, days=3651) is CertificateStep.EVERYTHING
    assert step(FRESH, days=400) is CertificateStep.LEAF


@pytest.mark.req("R-302")
@pytest.mark.parametrize("hours", [-1.9, -1, 1, 48])
def test_a_clock_that_jumps_makes_nothing_anew(hours: float) -> None:
    assert step(FRESH, days=hours / 24) is CertificateStep.NOTHING


@pytest.mark.req("R-302", "R-706")
async def test_a_clock_that_jumps_settles_no_authority() -> None:
    clock = FakeClock()
    async with Client.connect(ClusterConfig(server="http://nowhere.invalid")) as client:
        kept = ServingCertificates(client, ObjectKey("here", "webhook"), PROFILE, clock=clock)
        kept._trusted = (FRESH.bundle, clock.monotonic())
        for seconds in (3_600, -7_200):
            clock.jump(seconds)
            assert kept._trusted_seconds(FRESH) == 0
        await clock.advance(60)
        assert kept._trusted_seconds(FRESH) == 60


@pytest.mark.req("R-302")
@pytest.mark.req("R-706")
def test_certificates_of_a_clock_that_was_ahead_are_replaced_once_and_cost_no_caller_its_trust() -> None:
    """It may also be our own clock that was set back: callers then go on with what they know."""
    ahead = store.made(CertificateStep.EVERYTHING, None, PROFILE, NOW + timedelta(days=3))
    assert step(ahead) is CertificateStep.AUTHORITY
    joined = store.made(CertificateStep.AUTHORITY, ahead, PROFILE, NOW)
    assert (joined.leaf, joined.authorities[1:]) == (ahead.leaf, ahead.authorities)
    assert step(joined) is CertificateStep.NOTHING, "the new authority is not known for long enough"
    assert step(joined, trusted_days=-1) is CertificateStep.LEAF
    repaired = store.made(CertificateStep.LEAF, joined, PROFILE, NOW)
    assert certs.chain_holds(repaired.leaf.certificate, repaired.authorities[0], NOW)
    for days in (0, 3):
        assert step(repaired, days=days, trusted_days=-1) is CertificateStep.NOTHING, "the replica ahead accepts it"


@pytest.mark.req("R-706")
def test_a_leaf_of_a_clock_that_was_ahead_is_replaced_at_once() -> None:
    renewed = store.made(CertificateStep.LEAF, FRESH, PROFILE, NOW + timedelta(days=300))
    assert step(renewed) is CertificateStep.LEAF
    assert step(store.made(CertificateStep.LEAF, renewed, PROFILE, NOW)) is CertificateStep.NOTHING


@pytest.mark.req("R-706")
@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.floats(0.001, 120), st.booleans()), min_size=5, max_size=30))
def test_no_caller_ever_meets_a_leaf_that_it_does_not_trust(passing: list[tuple[float, bool]]) -> None:
    """Callers learn of a bundle late, though within the settling time; a replica looks at the Secret when it likes."""
    profile = Profile(names=("a",), authority_lifetime=timedelta(days=300), leaf_lifetime=timedelta(days=100))
    now = since = NOW
    stored = store.made(CertificateStep.EVERYTHING, None, profile, now)
    presented = stored.leaf
    for days, replica_looks in passing:
        now += timedelta(days=days)
        before = stored
        taken = store.next_step(stored, profile, now=now, trusted_seconds=(now - since).total_seconds())
        stored = store.made(taken, stored, profile, now)
        if stored.bundle != before.bundle:
            since = now
        if taken is CertificateStep.EVERYTHING:  # all was over: there is nothing that callers could be spared
            before, presented = stored, stored.leaf
        elif replica_looks:
            presented = stored.leaf
        for leaf in (stored.leaf, presented):
            for bundle in (before.bundle, stored.bundle):
                assert is_accepted(leaf, bundle) or is_over(leaf, now)


def is_accepted(leaf: KeyPair, bundle: bytes) -> bool:
    return any(certs.chain_holds(leaf.certificate, authority) for authority in certs.split(bundle))


def is_over(leaf: KeyPair, now: datetime) -> bool:
    ends = certs.facts(leaf).ends
    return ends is not None and ends < now


def test_the_bundle_is_bounded() -> None:
    holding = FRESH
    for _ in range(10):
        holding = store.made(CertificateStep.AUTHORITY, holding, PROFILE, NOW)
    assert len(holding.authorities) == 3


def test_trust_changes_only_what_differs() -> None:
    text = base64.b64encode(b"bundle").decode()
    body: JsonObject = {
        "webhooks": [
            {"name": "a", "clientConfig": {"caBundle": text}},
            {"name": "b", "clientConfig": {"caBundle": "old"}},
            {"name": "c", "clientConfig": {"service": {"name": "s"}}},
        ]
    }
    assert store.trust(body, b"bundle") == [
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": text},
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": text},
    ]


def test_trust_reaches_a_conversion_webhook_and_leaves_other_definitions_alone() -> None:
    body: JsonObject = {"spec": {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {}}}}}
    [operation] = store.trust(body, b"bundle")
    assert operation["path"] == "/spec/conversion/webhook/clientConfig/caBundle"
    assert store.trust({"spec": {"conversion": {"strategy": "None"}}}, b"bundle") == []


def test_a_holding_shows_no_key() -> None:
    assert "PRIVATE" not in repr(FRESH)
