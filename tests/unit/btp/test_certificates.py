"""Certificates are made anew exactly when one of the published findings applies."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.operators.btp.btpoperator import certificates
from stellwerk.operators.btp.btpoperator.certificates import Boundaries, Renewal, RenewalDecision, SecretKeyPair

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEEK = Boundaries(authority=timedelta(hours=-168), webhook=timedelta(hours=-168))
GOOD = SecretKeyPair(ends=NOW + timedelta(days=365))
UNREADABLE = replace(GOOD, ends=None)
NO_KEY = replace(GOOD, has_key=False)
NO_CERTIFICATE = SecretKeyPair(ends=None, has_certificate=False)
WRONG_KEY = replace(GOOD, key_fits=False)
ENDING = SecretKeyPair(ends=NOW + timedelta(days=6, hours=23))
FRESH_ENOUGH = SecretKeyPair(ends=NOW + timedelta(days=7))
EXPIRED = SecretKeyPair(ends=NOW - timedelta(seconds=1))


def decide(
    authority: SecretKeyPair | None, webhook: SecretKeyPair | None, *, chain_holds: bool = True
) -> RenewalDecision:
    return certificates.decide(authority, webhook, chain_holds=chain_holds, now=NOW, boundaries=WEEK)


@pytest.mark.parametrize("authority", [None, NO_CERTIFICATE, NO_KEY, UNREADABLE, WRONG_KEY, ENDING, EXPIRED])
@pytest.mark.parametrize("webhook", [None, GOOD, UNREADABLE, ENDING])
def test_a_flaw_of_the_authority_renews_both(authority: SecretKeyPair | None, webhook: SecretKeyPair | None) -> None:
    assert decide(authority, webhook).renewal is Renewal.BOTH


@pytest.mark.parametrize("webhook", [None, NO_CERTIFICATE, NO_KEY, UNREADABLE, WRONG_KEY, ENDING, EXPIRED])
def test_a_flaw_of_the_webhooks_certificate_renews_it_alone(webhook: SecretKeyPair | None) -> None:
    assert decide(GOOD, webhook, chain_holds=False).renewal is Renewal.WEBHOOK


def test_a_certificate_of_another_authority_renews_both() -> None:
    assert decide(GOOD, GOOD, chain_holds=False).renewal is Renewal.BOTH


def test_good_certificates_are_left_alone() -> None:
    assert decide(GOOD, GOOD) == RenewalDecision(Renewal.NOTHING)
    assert decide(FRESH_ENOUGH, FRESH_ENOUGH) == RenewalDecision(Renewal.NOTHING)


@pytest.mark.parametrize(
    ("authority", "webhook", "why"),
    [
        (None, GOOD, "ca-server-cert is absent"),
        (GOOD, NO_KEY, "webhook-server-cert lacks its certificate or its key"),
        (GOOD, ENDING, "webhook-server-cert is about to expire"),
        (EXPIRED, GOOD, "ca-server-cert is expired"),
        (WRONG_KEY, GOOD, "ca-server-cert holds a key that is not its certificate's"),
        (UNREADABLE, GOOD, "ca-server-cert holds no readable certificate"),
    ],
)
def test_the_reason_for_a_renewal_is_told(
    authority: SecretKeyPair | None, webhook: SecretKeyPair | None, why: str
) -> None:
    assert decide(authority, webhook).why == why


def test_the_certificate_is_for_the_service_in_its_namespace() -> None:
    assert certificates.service_names("kyma-system") == (
        "sap-btp-operator-webhook-service.kyma-system.svc",
        "sap-btp-operator-webhook-service.kyma-system",
    )


@pytest.mark.req("R-413")
@pytest.mark.parametrize("ends", [datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)])
@pytest.mark.parametrize("boundary", [timedelta(), timedelta(hours=-2_562_047)])
def test_a_certificate_may_end_at_any_date(ends: datetime, boundary: timedelta) -> None:
    one = replace(GOOD, ends=ends)

    boundaries = Boundaries(authority=boundary, webhook=boundary)
    decision = certificates.decide(one, one, chain_holds=True, now=NOW, boundaries=boundaries)

    assert (decision.renewal is Renewal.NOTHING) == (ends.year == 9999)


@pytest.mark.parametrize("hours", [1, 24, 168, 503, 505, 87_600])
@pytest.mark.parametrize("boundary", [timedelta(), timedelta(hours=-168), timedelta(hours=-2_562_047)])
def test_a_new_certificate_of_any_lifetime_is_kept_and_renewed_before_its_end(hours: int, boundary: timedelta) -> None:
    lifetime = timedelta(hours=hours)
    boundaries = Boundaries.of(boundary, authority_lifetime=lifetime, webhook_lifetime=lifetime)
    new = SecretKeyPair(ends=NOW + lifetime)

    def renewal(passed: timedelta) -> Renewal:
        return certificates.decide(new, new, chain_holds=True, now=NOW + passed, boundaries=boundaries).renewal

    assert renewal(timedelta()) is Renewal.NOTHING
    assert renewal(lifetime / 2) is Renewal.NOTHING
    assert renewal(lifetime + timedelta(seconds=1)) is Renewal.BOTH
    assert (renewal(lifetime - timedelta(seconds=1)) is Renewal.BOTH) == (boundary < timedelta())


def test_each_certificate_has_a_boundary_of_its_own_lifetime_and_a_long_one_the_configured() -> None:
    week, day = timedelta(hours=-168), timedelta(hours=24)

    boundaries = Boundaries.of(week, authority_lifetime=timedelta(days=3650), webhook_lifetime=day)

    assert boundaries == Boundaries(authority=week, webhook=timedelta(hours=-8))
