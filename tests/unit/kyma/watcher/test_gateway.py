"""What the Secret of the Gateway needs next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED
from tests.unit.kyma.watcher.authorities import (
    DAY,
    NOW,
    a_gateway,
    a_leaf,
    a_root,
    an_authority,
    loads,
    text,
)

from stellwerk.kube.types.object_meta import Record, rfc3339
from stellwerk.operators.kyma.reasons import WatcherReason
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import certificates
from stellwerk.operators.kyma.watcher.certificates import (
    GATEWAY_SECRETS,
    ROOT_SECRETS,
    AuthoritySecret,
    added_at,
    decoded,
    gateway_secret,
)
from stellwerk.operators.kyma.watcher.gateway import GatewayLogic
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import KeyPair
from stellwerk.runtime.control.executor import Course, rehearse
from stellwerk.runtime.control.step import Create, Failure, Patch
from stellwerk.runtime.reading.loads import PlainLoads
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainSources, View

SETTINGS = Settings()
KEY = gateway_secret(SETTINGS)
FORMER, NEWER = an_authority(NOW, 90), an_authority(NOW + 60 * DAY, 90)


class World:
    """Secrets of a control plane."""

    def __init__(self, root: AuthoritySecret, gateway: AuthoritySecret | None, known: PlainLoads | None = None) -> None:
        self.root, self.gateway, self.loads = root, gateway, known or PlainLoads()
        self.due: datetime | None = None

    def course(self, now: datetime) -> Course[Record]:
        """What a whole pass does, which is done then."""
        world = PlainSources().add(ROOT_SECRETS, PlainSource([self.root]))
        world.add(GATEWAY_SECRETS, PlainSource([self.gateway] if self.gateway is not None else []))
        views: list[View] = []

        def view(overlay: Overlay) -> View:
            views.append(View(sources=world, now=now, settings=(SETTINGS,), overlay=overlay, loads=self.loads))
            return views[-1]

        done = rehearse(GatewayLogic(), self.root, view)
        self.gateway = views[-1].find(GATEWAY_SECRETS, KEY)
        self.due = views[-1].due
        return done

    @property
    def trusted(self) -> list[bytes]:
        assert self.gateway is not None
        return certs.split(decoded(self.gateway.data.authorities))

    @property
    def shown(self) -> bytes:
        assert self.gateway is not None
        return decoded(self.gateway.data.certificate)


def test_a_new_gateway_gets_all_that_the_authority_has_and_the_time() -> None:
    world = World(a_root(FORMER), None, loads(klm_watcher=FORMER))
    (created,) = world.course(NOW).writes
    assert isinstance(created, Create)
    assert created.body["data"] == {
        "tls.crt": text(FORMER.certificate),
        "tls.key": text(FORMER.key),
        "ca.crt": text(FORMER.certificate),
    }
    metadata = cast("dict[str, Any]", created.body["metadata"])
    assert (metadata["namespace"], metadata["name"]) == ("istio-system", "klm-istio-gateway")
    assert metadata["annotations"] == {"caAddedToBundleAt": "2026-01-01T00:00:00Z"}
    assert world.course(NOW + DAY).writes == []


def test_a_new_authority_is_trusted_at_once_and_shown_after_the_period_of_grace() -> None:
    world = World(a_root(NEWER), a_gateway(FORMER), loads(klm_watcher=NEWER))
    begun = NOW + 60 * DAY
    (patched,) = world.course(begun).writes
    assert isinstance(patched, Patch)
    assert {*cast("dict[str, Any]", patched.fields["data"])} == {"ca.crt"}, "no private key is written"
    assert world.trusted == [NEWER.certificate, FORMER.certificate]
    assert world.shown == FORMER.certificate
    assert world.gateway is not None
    assert added_at(world.gateway) == begun
    assert world.due == begun + 4 * DAY

    assert world.course(begun + 3 * DAY).writes == []
    world.course(begun + 4 * DAY)
    assert world.shown == NEWER.certificate
    assert world.trusted == [NEWER.certificate, FORMER.certificate]
    assert added_at(world.gateway) == begun, "no certificate of a Kyma is renewed once more"
    assert world.due == NOW + 90 * DAY
    world.course(NOW + 90 * DAY)
    assert world.trusted == [NEWER.certificate], "the former authority has ended"


@pytest.mark.parametrize("shown", [an_authority(NOW, 60), KeyPair(b"garbage", b"")], ids=["ended", "unreadable"])
def test_a_certificate_that_serves_no_one_is_replaced_without_a_period_of_grace(shown: KeyPair) -> None:
    world = World(a_root(NEWER), a_gateway(shown, NEWER.certificate, added=NOW + 59 * DAY), loads(klm_watcher=NEWER))
    world.course(NOW + 60 * DAY)
    assert world.shown == NEWER.certificate


@pytest.mark.parametrize(
    "annotation", [{}, {"caAddedToBundleAt": "soon"}, {"caAddedToBundleAt": "2026-01-01T00:00:00"}]
)
def test_a_gateway_that_does_not_say_since_when_it_trusts_the_authority_renews_nothing(annotation: Any) -> None:
    taken_over = a_gateway(FORMER)
    metadata = msgspec.structs.replace(taken_over.metadata, annotations=annotation)
    world = World(a_root(FORMER), msgspec.structs.replace(taken_over, metadata=metadata))
    (patched,) = world.course(NOW + 50 * DAY).writes
    assert isinstance(patched, Patch)
    assert patched.fields == {"metadata": {"annotations": {"caAddedToBundleAt": rfc3339(NOW)}}}


def test_a_bundle_in_another_form_is_left_alone() -> None:
    bundle = b"# a comment\n" + FORMER.certificate + b"\n\n" + NEWER.certificate
    world = World(a_root(NEWER), a_gateway(NEWER, bundle, added=NOW + 60 * DAY))
    assert world.course(NOW + 61 * DAY).writes == []


def test_the_authority_itself_stays_when_it_has_ended() -> None:
    world = World(a_root(FORMER), a_gateway(FORMER))
    assert world.course(NOW + 91 * DAY).writes == [], "an empty bundle would be no better"


@pytest.mark.parametrize("broken", [b"", b"garbage"])
def test_an_authority_without_a_certificate_changes_nothing_and_says_so(broken: bytes) -> None:
    gateway = a_gateway(FORMER)
    world = World(a_root(KeyPair(broken, b"")), gateway)
    done = world.course(NOW)
    assert done.writes == []
    (step,) = done.steps
    assert step.failure is not None
    assert "kubectl describe certificate klm-watcher-serving -n istio-system" in step.failure.message
    assert [each.reason for each in step.events] == [WatcherReason.GATEWAY_SECRET]
    assert world.gateway == gateway


def test_a_private_key_that_is_not_loaded_yet_is_awaited() -> None:
    world = World(a_root(FORMER), None)
    done = world.course(NOW)
    assert done.writes == []
    assert "the content of Secret istio-system/klm-watcher" in str(done.steps[-1].waits[0].on)


def test_a_gateway_secret_that_is_being_deleted_is_awaited() -> None:
    world = World(a_root(FORMER), a_gateway(FORMER, deletionTimestamp=DELETED), loads(klm_watcher=FORMER))
    done = world.course(NOW)
    assert done.writes == []
    assert done.steps[-1].waits[0].on == (GATEWAY_SECRETS, KEY)


def test_a_refused_write_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    GatewayLogic().failed(a_root(FORMER), Failure(message="a webhook denied it"))
    assert "a webhook denied it" in caplog.text


@pytest.mark.parametrize(
    ("now", "expected"),
    [(NOW + 75 * DAY, False), (NOW + 76 * DAY, False), (NOW + 77 * DAY, True), (NOW + 91 * DAY, True)],
)
def test_a_certificate_of_the_gateway_is_close_to_its_end(now: datetime, expected: bool) -> None:
    window = SETTINGS.istio_gateway_server_cert_expiry_window
    assert certificates.is_close_to_expiry(a_gateway(FORMER), window, now) is expected


def test_a_certificate_of_the_gateway_that_cannot_be_read_is_close_to_its_end() -> None:
    assert certificates.is_close_to_expiry(a_gateway(KeyPair(b"", b"")), timedelta(), NOW)


def test_rotations_interrupt_neither_side() -> None:
    """Three authorities follow each other. Remote clusters take over bundles and certificates at most 3 days late.

    At each moment a remote cluster trusts what the Gateway shows, and the Gateway trusts what remote clusters show.
    """
    authorities = [an_authority(NOW + 60 * number * DAY, 90) for number in range(4)]
    world = World(a_root(authorities[0]), None, loads(klm_watcher=authorities[0]))
    world.course(NOW)
    bundles = dict.fromkeys(range(4), world.trusted)
    leaves = {late: (NOW, a_leaf(authorities[0])) for late in range(4)}
    issuers = dict.fromkeys(range(4), authorities[0])
    changes: list[int] = []
    for day in range(200):
        now = NOW + day * DAY
        authority = authorities[day // 60]
        if day % 60 == 0 and day:
            world = World(a_root(authority), world.gateway, loads(klm_watcher=authority))
        former = (world.shown, world.trusted)
        world.course(now)
        if (world.shown, world.trusted) != former:
            changes.append(day)
        assert world.gateway is not None
        added = added_at(world.gateway)
        assert added is not None
        for late in range(4):
            begun, leaf = leaves[late]
            if now >= added + late * DAY and (begun < added or now >= begun + 30 * DAY):
                leaf, issuers[late] = a_leaf(authority, now), authority
                leaves[late] = (now, leaf)
            if now >= added + late * DAY:
                bundles[late] = world.trusted
            assert world.shown in bundles[late], f"day {day}: a cluster {late} days late trusts the Gateway"
            assert any(certs.chain_holds(leaf.certificate, each, now) for each in world.trusted), f"day {day}"
    assert changes == [60, 64, 90, 120, 124, 150, 180, 184]
