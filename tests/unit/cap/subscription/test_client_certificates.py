"""Which client certificates are good, and for which application."""

from __future__ import annotations

import ssl
import subprocess
import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cap.subscription.client_certificates import ISSUER, NOW, SUBJECT, Authority, header

from stellwerk.operators.cap.subscription.callers import client_certificates as certificates
from stellwerk.operators.cap.subscription.callers.client_certificates import CertificateRules
from stellwerk.runtime.certificates.client_certificates import CertificateRefused

AUTHORITY = Authority()
RULES = CertificateRules(ISSUER, SUBJECT)


def is_good(text: str, rules: CertificateRules = RULES) -> bool:
    return certificates.is_for(certificates.verified(text, [AUTHORITY.pem], NOW), rules)


@pytest.mark.req("R-704")
def test_a_certificate_of_the_configured_authority_with_the_right_names_is_good() -> None:
    assert is_good(header(AUTHORITY.client()))
    assert is_good(header(AUTHORITY.client(usage=None)))


@pytest.mark.req("R-704")
@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        header(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        header(Authority().client()),
        header(AUTHORITY.client(days=-1)),
        header(AUTHORITY.client(authority=True)),
        header(AUTHORITY.client(usage=ExtendedKeyUsageOID.SERVER_AUTH)),
        header(AUTHORITY.client(), AUTHORITY.client()),
        header(AUTHORITY.client(), b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
        header(AUTHORITY.pem),
        header(b"trailing ", AUTHORITY.client()),
        "%" * 20_000,
        "é",
    ],
)
def test_anything_else_than_one_valid_client_certificate_of_it_is_refused(text: str) -> None:
    with pytest.raises(CertificateRefused):
        certificates.verified(text, [AUTHORITY.pem], NOW)


@pytest.mark.req("R-704")
def test_without_an_authority_none_is_good() -> None:
    with pytest.raises(CertificateRefused):
        certificates.verified(header(AUTHORITY.client()), [], NOW)


@pytest.mark.req("R-704", "R-705")
@pytest.mark.parametrize(
    "rules",
    [
        CertificateRules("", SUBJECT),
        CertificateRules(ISSUER, ""),
        CertificateRules(ISSUER, "{"),
        CertificateRules(ISSUER, "[" * 9_000),
        CertificateRules(ISSUER, '{"O": "Example"}'),
        CertificateRules(SUBJECT, SUBJECT),
        CertificateRules(ISSUER, SUBJECT.replace("registry", "other")),
        CertificateRules(ISSUER, SUBJECT.replace('"registry"', '"*"')),
        CertificateRules(ISSUER, SUBJECT.replace('"Clients", "*"', '"Clients"')),
        CertificateRules(ISSUER, SUBJECT.replace('"Clients", "*"', '"*", "Others"')),
        CertificateRules(ISSUER, SUBJECT.replace('"Clients", "*"', '"Clients", "Clients"')),
        CertificateRules(ISSUER, SUBJECT.replace('"DE"', "7")),
        CertificateRules(ISSUER, SUBJECT.replace(', "L": ["sms"]', "")),
    ],
)
def test_a_certificate_with_other_names_than_the_credentials_ask_for_is_refused(rules: CertificateRules) -> None:
    assert not is_good(header(AUTHORITY.client()), rules)


def test_the_order_of_names_does_not_count() -> None:
    assert is_good(header(AUTHORITY.client(units=("Clients", "tenant-7"))))


@pytest.mark.req("R-401")
@given(st.text(max_size=200) | st.binary(max_size=300).map(lambda data: data.decode("latin-1")))
def test_any_header_is_refused_and_nothing_worse(text: str) -> None:
    with pytest.raises(CertificateRefused):
        certificates.verified(text, [AUTHORITY.pem], NOW)


_PEM = AUTHORITY.client()


@pytest.mark.req("R-401")
@pytest.mark.filterwarnings("ignore:Attribute's length must be:UserWarning")  # of the library, about odd names
@given(st.integers(0, len(_PEM) - 60), st.binary(min_size=1, max_size=8))
def test_a_damaged_certificate_is_refused_and_nothing_worse(place: int, damage: bytes) -> None:
    damaged = _PEM[:place] + damage + _PEM[place + len(damage) :]
    try:
        certificates.verified(header(damaged), [AUTHORITY.pem], NOW)
    except CertificateRefused:
        return
    same = [x509.load_pem_x509_certificate(pem).fingerprint(hashes.SHA256()) for pem in (damaged, _PEM)]
    assert same[0] == same[1], "it is another certificate, and was accepted"


PROBE = """
import sys
from datetime import UTC, datetime
from stellwerk.operators.cap.subscription.callers.client_certificates import verified
from stellwerk.runtime.certificates.client_certificates import CertificateRefused
try:
    verified(sys.argv[1], [], datetime.now(UTC))
except CertificateRefused as refused:
    print(refused)
"""


@pytest.mark.req("R-401")
def test_an_unusual_certificate_of_a_stranger_writes_nothing_into_the_log_but_our_answer() -> None:
    certificate = x509.load_pem_x509_certificate(_PEM)
    serial = certificate.serial_number.to_bytes(certificate.serial_number.bit_length() // 8 + 1)
    negative = certificate.public_bytes(Encoding.DER).replace(serial, b"\x80" + serial[1:], 1)
    pem = ssl.DER_cert_to_PEM_cert(negative).encode()
    done = subprocess.run([sys.executable, "-c", PROBE, header(pem)], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("no configured authority vouches for the client certificate now\n", "")


@pytest.mark.req("R-401")
@given(st.text(max_size=100))
def test_any_rule_is_compared_and_nothing_worse(rule: str) -> None:
    assert not is_good(header(_PEM), CertificateRules(ISSUER, rule))
