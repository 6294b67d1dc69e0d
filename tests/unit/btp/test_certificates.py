"""Certificates are made anew exactly when one of the published findings applies."""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from cryptography import x509

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import dig
from stellwerk.operators.btp.btpoperator import certificates
from stellwerk.operators.btp.btpoperator.certificates import RenewalDecision, SecretKeyPair
from stellwerk.operators.btp.btpoperator.observe import Observer
from stellwerk.operators.btp.btpoperator.webhooks import OperandCertificates, Webhooks
from stellwerk.operators.btp.settings import Settings
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.key_pool import KeyStock
from stellwerk.runtime.clock import SystemClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WEEK = Settings(expiration_boundary=timedelta(hours=-168))
YEAR = timedelta(days=365)
BOTH, WEBHOOK, NOTHING = ("ca-server-cert", "webhook-server-cert"), ("webhook-server-cert",), ()
GOOD = SecretKeyPair(ends=NOW + timedelta(days=365))
UNREADABLE = replace(GOOD, ends=None)
NO_KEY = replace(GOOD, is_complete=False)
NO_CERTIFICATE = SecretKeyPair(ends=None, is_complete=False)
WRONG_KEY = replace(GOOD, key_fits=False)
ENDING = SecretKeyPair(ends=NOW + timedelta(days=6, hours=23))
FRESH_ENOUGH = SecretKeyPair(ends=NOW + timedelta(days=7))
EARLY = replace(GOOD, begins=NOW + timedelta(seconds=1))
EXPIRED = SecretKeyPair(ends=NOW - timedelta(seconds=1))


def decide(
    authority: SecretKeyPair | None, webhook: SecretKeyPair | None, *, chain_holds: bool = True
) -> RenewalDecision:
    return certificates.decide(authority, webhook, chain_holds=chain_holds, now=NOW, settings=WEEK)


@pytest.mark.parametrize("authority", [None, NO_CERTIFICATE, NO_KEY, UNREADABLE, WRONG_KEY, ENDING, EARLY, EXPIRED])
@pytest.mark.parametrize("webhook", [None, GOOD, UNREADABLE, ENDING])
def test_a_flaw_of_the_authority_renews_both(authority: SecretKeyPair | None, webhook: SecretKeyPair | None) -> None:
    assert decide(authority, webhook).secrets == BOTH


@pytest.mark.parametrize("webhook", [None, NO_CERTIFICATE, NO_KEY, UNREADABLE, WRONG_KEY, ENDING, EXPIRED])
def test_a_flaw_of_the_webhooks_certificate_renews_it_alone(webhook: SecretKeyPair | None) -> None:
    assert decide(GOOD, webhook, chain_holds=False).secrets == WEBHOOK


def test_a_certificate_of_another_authority_renews_both() -> None:
    assert decide(GOOD, GOOD, chain_holds=False) == RenewalDecision(
        BOTH, "webhook-server-cert is not signed by ca-server-cert"
    )


def test_good_certificates_are_left_alone() -> None:
    assert decide(GOOD, GOOD) == RenewalDecision(NOTHING)
    assert decide(FRESH_ENOUGH, FRESH_ENOUGH) == RenewalDecision(NOTHING)


@pytest.mark.parametrize(("made_in", "renewed"), [(timedelta(), NOTHING), (timedelta(days=30), BOTH)])
def test_certificates_that_are_not_valid_yet_are_renewed(made_in: timedelta, renewed: tuple[str, ...]) -> None:
    wish = certs.Wish(
        common_name="webhook", names=certificates.service_names("kyma-system"), lifetime=YEAR, now=NOW + made_in
    )
    authority = certs.new_authority(wish)

    decision = certificates.judged(authority, certs.issue(authority, wish), now=NOW, settings=WEEK)

    assert decision.secrets == renewed
    assert decision.why == ("ca-server-cert is not valid before 2026-01-30T22:00:00Z" if renewed else "")


@pytest.mark.parametrize(("authority", "webhook"), [(EARLY, GOOD), (GOOD, EARLY)])
def test_one_certificate_that_is_not_valid_yet_renews_both(authority: SecretKeyPair, webhook: SecretKeyPair) -> None:
    assert decide(authority, webhook).secrets == BOTH
    assert decide(replace(authority, begins=NOW), replace(webhook, begins=NOW)).secrets == NOTHING


@pytest.mark.parametrize(
    ("authority", "webhook", "why"),
    [
        (None, GOOD, "ca-server-cert is absent"),
        (GOOD, NO_KEY, "webhook-server-cert lacks its certificate or its key"),
        (GOOD, EARLY, "webhook-server-cert is not valid before 2026-01-01T00:00:01Z"),
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

    settings = Settings(expiration_boundary=boundary)
    decision = certificates.decide(one, one, chain_holds=True, now=NOW, settings=settings)

    assert (decision.secrets == NOTHING) == (ends.year == 9999)


@pytest.mark.parametrize("hours", [1, 24, 168, 503, 505, 87_600])
@pytest.mark.parametrize("boundary", [timedelta(), timedelta(hours=-168), timedelta(hours=-2_562_047)])
def test_a_new_certificate_of_any_lifetime_is_kept_and_renewed_before_its_end(hours: int, boundary: timedelta) -> None:
    lifetime = timedelta(hours=hours)
    settings = Settings(
        expiration_boundary=boundary, ca_certificate_expiration=lifetime, webhook_certificate_expiration=lifetime
    )
    new = SecretKeyPair(ends=NOW + lifetime)

    def renewal(passed: timedelta) -> tuple[str, ...]:
        return certificates.decide(new, new, chain_holds=True, now=NOW + passed, settings=settings).secrets

    assert renewal(timedelta()) == NOTHING
    assert (renewal(lifetime / 2) == BOTH) == (-lifetime < boundary < -lifetime / 2)
    assert renewal(lifetime + timedelta(seconds=1)) == BOTH
    assert (renewal(lifetime - timedelta(seconds=1)) == BOTH) == (boundary < timedelta())


def test_each_certificate_has_a_boundary_of_its_own_lifetime_and_a_long_one_the_configured() -> None:
    lifetimes = Settings(
        expiration_boundary=timedelta(hours=-168),
        ca_certificate_expiration=timedelta(days=3650),
        webhook_certificate_expiration=timedelta(hours=24),
    )
    week, hour = SecretKeyPair(ends=NOW + timedelta(days=7)), timedelta(hours=1)
    for authority, webhook, renewed in (
        (week, replace(week, ends=NOW + 8 * hour), NOTHING),
        (replace(week, ends=NOW + timedelta(days=7) - hour), week, BOTH),
        (week, replace(week, ends=NOW + 7 * hour), WEBHOOK),
    ):
        decision = certificates.decide(authority, webhook, chain_holds=True, now=NOW, settings=lifetimes)
        assert decision.secrets == renewed


@pytest.mark.parametrize(("hours", "expected"), [(-100, -100), (-299, -299), (-300, -100), (-2_562_047, -100), (0, 0)])
def test_a_boundary_counts_as_configured_unless_it_reaches_the_lifetime(hours: int, expected: int) -> None:
    settings = Settings(expiration_boundary=timedelta(hours=hours))
    assert certificates.boundary_of(timedelta(hours=300), settings) == timedelta(hours=expected)


async def test_a_certificate_is_for_the_namespace_that_its_secret_is_in_though_the_setting_changes_meanwhile() -> None:
    settings = Settings(rsa_key_bits=2048)

    async def taken(bits: int) -> certs.PrivateKey:
        nonlocal settings
        settings = replace(settings, chart_namespace=f"{settings.chart_namespace}-later")
        return await asyncio.to_thread(certs.new_key, bits)

    async def read(seen: object) -> None:
        assert seen is None

    nothing = SimpleNamespace(secrets=SimpleNamespace(get=lambda key: None))
    observer = SimpleNamespace(
        settings=lambda: settings,
        chart_namespace=settings.chart_namespace,
        clock=SystemClock(),
        caches=nothing,
        secrets=SimpleNamespace(read=read),
    )
    keys = SimpleNamespace(fill=lambda bits: None, take=taken)
    webhooks = Webhooks(cast("Observer", observer), lambda: None, cast("KeyStock", keys))

    _, webhook = (await webhooks.settled()).documents

    certificate = x509.load_pem_x509_certificate(base64.b64decode(str(dig(webhook.body, "data", "tls.crt"))))
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    namespace = str(dig(webhook.body, "metadata", "namespace"))
    assert tuple(names.get_values_for_type(x509.DNSName)) == certificates.service_names(namespace)


class Holder:
    """What `Webhooks` asks: the Secrets that the API server holds, and the settings. It counts renewals."""

    def __init__(self) -> None:
        self.secrets: dict[str, Secret] = {}
        self.settings, self.renewals = Settings(rsa_key_bits=1024), 0
        keys = SimpleNamespace(fill=lambda bits: None, take=self._key)
        observer = SimpleNamespace(
            settings=lambda: self.settings,
            chart_namespace="kyma-system",
            clock=SystemClock(),
            caches=SimpleNamespace(secrets=SimpleNamespace(get=lambda key: self.secrets.get(key.name))),
            secrets=SimpleNamespace(read=self._read),
        )
        self.webhooks = Webhooks(cast("Observer", observer), self._renewed, cast("KeyStock", keys))

    def take(self, made: OperandCertificates, *names: str) -> None:
        """The API server takes these Secrets, and refuses others."""
        for document in made.documents:
            secret = msgspec.convert({"data": document.body["data"]}, Secret)
            if (name := str(dig(document.body, "metadata", "name"))) in names:
                self.secrets[name] = secret

    async def _key(self, bits: int) -> certs.PrivateKey:
        return await asyncio.to_thread(certs.new_key, bits)

    async def _read(self, seen: Secret | None) -> Secret | None:
        return seen

    def _renewed(self) -> None:
        self.renewals += 1


@pytest.mark.req("R-208")
@pytest.mark.parametrize("refused", BOTH)
async def test_new_certificates_are_kept_until_both_secrets_hold_them(refused: str) -> None:
    holder = Holder()
    holder.take(await holder.webhooks.settled(), *BOTH)
    await holder.webhooks.settled()
    del holder.secrets[BOTH[0]]

    first = await holder.webhooks.settled()
    holder.take(first, *(name for name in BOTH if name != refused))
    second = await holder.webhooks.settled()

    assert second.documents == first.documents
    assert first.has_new_authority
    assert second.has_new_authority is (refused == BOTH[0])
    assert holder.renewals == 2
    holder.take(second, *BOTH)
    assert (await holder.webhooks.settled()).documents == first.documents
    assert holder.renewals == 2


async def test_certificates_that_were_in_both_secrets_are_not_used_again() -> None:
    holder = Holder()
    first = await holder.webhooks.settled()
    holder.take(first, *BOTH)
    await holder.webhooks.settled()

    for lost in BOTH:
        del holder.secrets[lost]
        assert (await holder.webhooks.settled()).documents != first.documents


async def test_certificates_that_were_never_written_are_made_again_for_other_settings_and_for_another_module() -> None:
    holder = Holder()
    first = await holder.webhooks.settled()
    assert (await holder.webhooks.settled()).documents == first.documents

    holder.settings = replace(holder.settings, webhook_certificate_expiration=timedelta(days=30))
    second = await holder.webhooks.settled()
    assert second.documents != first.documents

    holder.webhooks.forget()
    assert (await holder.webhooks.settled()).documents != second.documents


async def test_a_kept_certificate_is_not_used_with_another_authority() -> None:
    holder, other = Holder(), Holder()
    other.take(await other.webhooks.settled(), *BOTH)
    first = await holder.webhooks.settled()
    holder.secrets = {BOTH[0]: other.secrets[BOTH[0]]}

    second = await holder.webhooks.settled()

    assert not second.has_new_authority
    assert second.documents[0] != first.documents[0]
    holder.take(second, *BOTH)
    await holder.webhooks.settled()
    assert holder.renewals == 2, "what was made is signed by the authority that is there"


async def test_a_certificate_whose_renewal_is_refused_is_shown_with_its_own_end() -> None:
    holder = Holder()
    holder.settings = replace(holder.settings, webhook_certificate_expiration=timedelta(days=2))
    holder.take(await holder.webhooks.settled(), *BOTH)
    holder.settings = replace(holder.settings, webhook_certificate_expiration=timedelta(days=365))

    await holder.webhooks.settled()

    assert holder.renewals == 2, "its end is within a week"
    assert holder.webhooks.ends()["webhook"] < datetime.now(UTC) + timedelta(days=3)
