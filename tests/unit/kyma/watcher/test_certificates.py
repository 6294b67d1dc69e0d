"""The certificate of a Kyma: what is requested, when it is renewed, and what of it caches hold."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.kyma.kyma.worlds import DELETED, a_kyma, metadata
from tests.unit.kyma.watcher.authorities import (
    DAY,
    ISTIO,
    NOW,
    a_certificate_secret,
    a_gateway,
    a_leaf,
    a_secret,
    an_authority,
    content,
    text,
)

from stellwerk.api.core import Secret
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.settings import CertificateManagement, Settings
from stellwerk.operators.kyma.watcher import certificates
from stellwerk.operators.kyma.watcher.certificates import (
    CERTIFICATE_SECRETS,
    CERTIFICATES,
    GATEWAY_SECRETS,
    AuthoritySecret,
    Certificate,
    CertificateSecret,
    NotInstalled,
)
from stellwerk.runtime.control.step import Apply, Delete, Failure, Patch, Write
from stellwerk.runtime.reading.questions import PlainSource
from stellwerk.runtime.reading.view import PlainSources, View

AUTHORITY = an_authority(NOW, 400)
LEAF = a_leaf(AUTHORITY, NOW, 60)
CERT_MANAGER, GARDENER = CertificateManagement.CERT_MANAGER, CertificateManagement.GARDENER
KEY = ObjectKey(ISTIO, "k-webhook-tls")
BOTH = pytest.mark.parametrize("management", [CERT_MANAGER, GARDENER], ids=["cert-manager", "gardener"])
MARKS = {
    "operator.kyma-project.io/purpose": "klm-watcher-cert-manager",
    "operator.kyma-project.io/managed-by": "lifecycle-manager",
}


def kyma(**fields: Any) -> Kyma:
    marks = {"labels": {"kyma-project.io/runtime-id": "r-1"}, "annotations": {"skr-domain": "c-1.kyma.example.com"}}
    return a_kyma(**{**marks, **fields})


def settings(management: CertificateManagement = CERT_MANAGER, **changed: Any) -> Settings:
    return Settings(cert_management=management, **changed)


def refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message)


def a_certificate(management: CertificateManagement, *, status: Any = None, **fields: Any) -> Certificate:
    """The Certificate of the Kyma `k`, as wanted. `spec` changes it."""
    body: Any = certificates.wanted(kyma(), settings(management)).body
    spec = {**body["spec"], **fields.pop("spec", {})}
    marks = {"labels": MARKS, "generation": 3, **fields}
    whole = {**body, "metadata": metadata(KEY.name, ISTIO, **marks), "spec": spec, "status": status or {}}
    return msgspec.convert(whole, type=CERTIFICATES[management].target)


def a_view(
    certificate: Sequence[Certificate] = (),
    secret: Sequence[CertificateSecret] = (),
    gateway: Sequence[AuthoritySecret] = (),
    *,
    management: CertificateManagement = CERT_MANAGER,
    now: datetime = NOW,
    is_served: bool = True,
) -> View:
    sources = PlainSources().add(CERTIFICATES[management], PlainSource(certificate, is_served=is_served))
    sources.add(CERTIFICATE_SECRETS, PlainSource(secret)).add(GATEWAY_SECRETS, PlainSource(gateway))
    return View(sources=sources, now=now, settings=(settings(management),))


def due(view: View, of: Kyma | None = None) -> tuple[Write, ...]:
    return certificates.due(of or kyma(), view, view.setting(Settings), refused)


@BOTH
def test_a_kyma_gets_a_certificate_for_its_names(management: CertificateManagement) -> None:
    (applied,) = due(a_view(management=management))
    assert isinstance(applied, Apply)
    assert applied.field_manager == "operator.kyma-project.io/lifecycle-manager"
    body: Any = applied.body
    assert body["apiVersion"] == management.value
    assert body["metadata"] == {"name": KEY.name, "namespace": ISTIO, "labels": MARKS}
    shared = {
        "commonName": "r-1",
        "dnsNames": [
            "c-1.kyma.example.com",
            "skr-webhook.kyma-system.svc.cluster.local",
            "skr-webhook.kyma-system.svc",
        ],
        "secretName": KEY.name,
        "duration": "1440h0m0s",
        "renewBefore": "720h0m0s",
    }
    issuer = {"name": "klm-watcher-selfsigned"}
    if management is CERT_MANAGER:
        own = {
            "secretTemplate": {"labels": MARKS},
            "issuerRef": issuer,
            "privateKey": {"algorithm": "RSA", "encoding": "PKCS1", "size": 4096},
        }
    else:
        own = {
            "secretLabels": MARKS,
            "issuerRef": {**issuer, "namespace": ISTIO},
            "privateKey": {"algorithm": "RSA", "size": 4096},
        }
    assert body["spec"] == {**shared, **own}


def test_settings_change_the_names_and_times() -> None:
    changed = settings(
        additional_dns_names=("a.example.com", "c-1.kyma.example.com"),
        sync_namespace="other",
        self_signed_cert_duration=timedelta(minutes=90, seconds=5),
        self_signed_cert_issuer_name="mine",
        istio_namespace="mesh",
    )
    body: Any = certificates.wanted(kyma(), changed).body
    assert body["metadata"]["namespace"] == "mesh"
    assert body["spec"]["dnsNames"] == [
        "c-1.kyma.example.com",
        "a.example.com",
        "skr-webhook.other.svc.cluster.local",
        "skr-webhook.other.svc",
    ], "each name once"
    assert body["spec"]["duration"] == "1h30m5s"
    assert body["spec"]["issuerRef"] == {"name": "mine"}


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"annotations": {}}, "domain annotation is missing"),
        ({"annotations": {"skr-domain": ""}}, "domain annotation is empty"),
        ({"labels": {}}, "lacks the label kyma-project.io/runtime-id"),
    ],
)
def test_a_kyma_without_a_name_says_what_it_lacks(fields: Any, cause: str) -> None:
    with pytest.raises(NotInstalled, match=cause) as raised:
        due(a_view(), kyma(**fields))
    assert "kubectl" in str(raised.value)


@BOTH
def test_a_cluster_without_an_issuer_says_so(management: CertificateManagement) -> None:
    with pytest.raises(NotInstalled, match=f"does not serve Certificates of {management.value}"):
        due(a_view(management=management, is_served=False))


@BOTH
@pytest.mark.parametrize(
    "changed",
    [{"spec": {"commonName": "r-2"}}, {"spec": {"dnsNames": ["x"]}}, {"spec": {"duration": "1h0m0s"}}, {"labels": {}}],
    ids=str,
)
def test_an_edited_certificate_is_restored(management: CertificateManagement, changed: Any) -> None:
    edited = a_certificate(management, **changed)
    assert [type(each) for each in due(a_view([edited], management=management))] == [Apply]


@BOTH
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"spec": {"usages": ["client auth"]}},
        {"deletionTimestamp": DELETED, "spec": {"commonName": "r-2"}},
    ],
    ids=["as wanted", "more than wanted", "being deleted"],
)
def test_a_certificate_is_left_alone(management: CertificateManagement, changed: Any) -> None:
    assert due(a_view([a_certificate(management, **changed)], management=management)) == ()


def test_a_release_of_gardener_that_drops_the_time_of_renewal_is_no_reason_to_write() -> None:
    assert due(a_view([a_certificate(GARDENER, spec={"renewBefore": ""})], management=GARDENER)) == ()
    other = a_certificate(GARDENER, spec={"renewBefore": "1h0m0s"})
    assert [type(each) for each in due(a_view([other], management=GARDENER))] == [Apply]


# ---- renewal


ISSUING = {"type": "Issuing", "status": "True", "reason": "Other", "message": ""}
LATER = NOW + 10 * DAY


@pytest.mark.parametrize(
    ("management", "status", "added", "expected"),
    [
        (CERT_MANAGER, {}, LATER, True),
        (CERT_MANAGER, {}, NOW, False),
        (CERT_MANAGER, {}, None, False),
        (CERT_MANAGER, {"conditions": [ISSUING]}, LATER, False),
        (CERT_MANAGER, {"conditions": [{**ISSUING, "status": "False"}]}, LATER, True),
        (CERT_MANAGER, {"notBefore": rfc3339(NOW)}, LATER, True),
        (CERT_MANAGER, {"notBefore": rfc3339(LATER)}, LATER, False),
        (CERT_MANAGER, {"lastFailureTime": rfc3339(LATER - timedelta(minutes=59))}, LATER, False),
        (CERT_MANAGER, {"lastFailureTime": rfc3339(LATER - timedelta(minutes=60))}, LATER, True),
        (GARDENER, {"state": "Ready"}, LATER, True),
        (GARDENER, {"state": "Ready"}, NOW, False),
        (GARDENER, {"state": "Pending"}, LATER, False),
        (GARDENER, {"state": "Error"}, LATER, False),
        (GARDENER, {"state": "Ready", "issuanceDate": rfc3339(LATER)}, LATER, False),
        (GARDENER, {"state": "Ready", "issuanceDate": "soon"}, LATER, True),
    ],
)
def test_a_certificate_of_a_former_authority_is_renewed_once(
    management: CertificateManagement, status: Any, added: datetime | None, expected: bool
) -> None:
    live = a_certificate(management, status=status)
    gateway = a_gateway(AUTHORITY, added=added)
    view = a_view([live], [a_certificate_secret(LEAF)], [gateway], management=management, now=LATER)
    writes = due(view)
    assert len(writes) == expected
    for write in writes:
        if management is GARDENER:
            assert isinstance(write, Patch)
            assert write.fields == {"spec": {"renew": True}}
            continue
        assert isinstance(write, Apply)
        assert write.subresource == "status"
        asked: Any = write.body["status"]
        (condition,) = asked["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Issuing", "True", "ManuallyTriggered")
        assert (condition["observedGeneration"], condition["lastTransitionTime"]) == (3, rfc3339(LATER))


def test_a_renewal_that_gardener_was_asked_for_is_not_asked_for_again() -> None:
    live = a_certificate(GARDENER, status={"state": "Ready"}, spec={"renew": True})
    view = a_view([live], [a_certificate_secret(LEAF)], [a_gateway(AUTHORITY, added=LATER)], management=GARDENER)
    assert due(view) == ()


@pytest.mark.parametrize("has_gateway", [False, True])
def test_a_certificate_without_a_secret_is_not_renewed(has_gateway: bool) -> None:
    gateway = [a_gateway(AUTHORITY, added=LATER)] if has_gateway else []
    secret = [] if has_gateway else [a_certificate_secret(LEAF)]
    assert due(a_view([a_certificate(CERT_MANAGER)], secret, gateway, now=LATER)) == ()


@pytest.mark.parametrize(("days", "expected"), [(29, False), (30.9, False), (31, False), (31.1, True), (61, True)])
def test_a_certificate_is_overdue_if_it_is_not_renewed_in_time(days: float, expected: bool) -> None:
    """It lasts for 60 days, is renewed 30 days before its end, and one day later it is overdue."""
    found = [*certificates.overdue([a_certificate_secret(LEAF)], settings(), NOW + days * DAY)]
    assert found == (["k"] if expected else [])


def test_a_secret_without_a_certificate_is_not_overdue() -> None:
    assert [*certificates.overdue([a_secret(CertificateSecret, "a", {})], settings(), NOW + 999 * DAY)] == []


# ---- the end


def removal(view: View) -> tuple[list[Write], list[Any]]:
    left = certificates.removal("k", view, view.setting(Settings), refused)
    assert left.is_due == bool(left.writes or left.waits)
    return [*left.writes], [each.on for each in left.waits]


@BOTH
def test_the_certificate_goes_before_its_secret(management: CertificateManagement) -> None:
    live, secret = a_certificate(management), a_certificate_secret(LEAF)
    gone = [Delete(CERTIFICATES[management], live, refused), Delete(CERTIFICATE_SECRETS, secret, refused)]
    assert removal(a_view([live], [secret], management=management)) == (gone, [])
    leaving = a_certificate(management, deletionTimestamp=DELETED)
    held = a_certificate_secret(LEAF, deletionTimestamp=DELETED)
    on = [(CERTIFICATES[management], KEY), (CERTIFICATE_SECRETS, KEY)]
    assert removal(a_view([leaving], [held], management=management)) == ([], on)
    assert removal(a_view([leaving], [secret], management=management)) == (gone[1:], on[:1])
    assert removal(a_view(management=management)) == ([], [])


def test_the_certificate_of_another_kyma_stays() -> None:
    assert removal(a_view([], [a_certificate_secret(LEAF, "k-2")])) == ([], [])


# ---- what caches hold


def test_caches_hold_no_private_key_and_compare_by_fingerprints() -> None:
    secret, same = a_certificate_secret(LEAF), a_certificate_secret(LEAF, "other")
    assert text(LEAF.key) not in repr(secret)
    assert LEAF.key.decode() not in str(msgspec.to_builtins(secret))
    assert secret.data == {}
    assert (secret.begins, secret.ends) == (NOW, NOW + 60 * DAY)
    assert secret.pair == same.pair
    assert secret.authorities == same.authorities
    renewed = a_certificate_secret(a_leaf(AUTHORITY, NOW, 60))
    assert renewed.pair != secret.pair
    assert msgspec.convert(msgspec.to_builtins(secret), CertificateSecret) == secret

    gateway = a_gateway(AUTHORITY)
    assert text(AUTHORITY.key) not in repr(gateway)
    assert gateway.data.certificate == text(AUTHORITY.certificate)


@pytest.mark.parametrize(
    "data",
    [{}, {"tls.crt": text(LEAF.certificate)}, {"tls.key": "AA=="}, {"tls.crt": "", "tls.key": ""}],
    ids=["empty", "no key", "no certificate", "empty texts"],
)
def test_an_incomplete_secret_has_no_pair(data: dict[str, str]) -> None:
    assert a_secret(CertificateSecret, "k-webhook-tls", data).pair == ""


@pytest.mark.parametrize("certificate", ["%%%", "AA==", text(b"-----BEGIN CERTIFICATE-----")])
def test_a_secret_with_any_bytes_can_be_read(certificate: str) -> None:
    data = {**content(LEAF), "tls.crt": certificate}
    found = a_secret(CertificateSecret, "k-webhook-tls", data)
    assert (found.begins, found.ends) == (None, None)
    assert found.pair != a_secret(CertificateSecret, "k-webhook-tls", content(LEAF)).pair
    assert a_secret(Secret, "k-webhook-tls", data).data == data
