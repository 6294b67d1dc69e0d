"""Certificates that others accept, and others' certificates that we can read."""

from __future__ import annotations

import asyncio
import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.verification import PolicyBuilder, Store
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.promptly import promptly

from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import KeyPair, Wish

NOW = datetime.now(UTC).replace(microsecond=0)
NAME = "webhook.kyma-system.svc"


def wish(name: str = "webhook", *, days: int = 365, bits: int = 0, now: datetime = NOW) -> Wish:
    return Wish(common_name=name, names=(NAME, "127.0.0.1"), lifetime=timedelta(days=days), now=now, key_bits=bits)


AUTHORITY = certs.new_authority(wish("authority", days=3650))
LEAF = certs.issue(AUTHORITY, wish())
RSA = certs.new_authority(wish("rsa", bits=2048))


def test_an_authority_has_the_profile_of_one() -> None:
    facts = certs.facts(AUTHORITY)
    assert facts.is_authority
    assert facts.key_fits
    assert facts.common_name == "authority"
    assert facts.names == (NAME, "127.0.0.1")
    assert facts.ends == NOW + timedelta(days=3650)
    assert len(facts.subject_key_id) == 32
    certificate = x509.load_pem_x509_certificate(AUTHORITY.certificate)
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.digital_signature, usage.key_cert_sign) == (True, True)


def test_a_leaf_is_none_and_names_its_authority() -> None:
    facts = certs.facts(LEAF)
    assert not facts.is_authority
    assert facts.key_fits
    assert facts.authority_key_id == certs.facts(AUTHORITY).subject_key_id
    certificate = x509.load_pem_x509_certificate(LEAF.certificate)
    signing = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (signing.digital_signature, signing.key_cert_sign) == (True, False)
    assert isinstance(certificate.signature_hash_algorithm, hashes.SHA256)
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert {oid.dotted_string for oid in usage} == {"1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"}


def test_serials_are_long_positive_and_never_the_same() -> None:
    serials = [certs.facts(certs.issue(AUTHORITY, wish())).serial for _ in range(20)]
    assert len(set(serials)) == 20
    assert all(0 < serial < 2**128 for serial in serials)
    assert max(serials).bit_length() > 112


@pytest.mark.parametrize("authority", [AUTHORITY, RSA], ids=["elliptic", "rsa"])
def test_a_strict_verifier_accepts_what_was_made(authority: KeyPair) -> None:
    leaf = certs.issue(authority, wish(bits=2048 if authority is RSA else 0))
    store = Store([x509.load_pem_x509_certificate(authority.certificate)])
    verifier = PolicyBuilder().store(store).time(NOW).build_server_verifier(x509.DNSName(NAME))
    chain = verifier.verify(x509.load_pem_x509_certificate(leaf.certificate), [])
    assert len(chain) == 2


@pytest.mark.parametrize("authority", [AUTHORITY, RSA], ids=["elliptic", "rsa"])
async def test_a_tls_client_accepts_a_server_with_a_leaf_and_the_server_takes_a_new_one(authority: KeyPair) -> None:
    context = certs.server_context()
    certs.load_into(context, certs.issue(authority, wish()))

    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def serial_seen() -> int:
        trust = ssl.create_default_context(cadata=authority.certificate.decode())
        trust.verify_flags |= ssl.VERIFY_X509_STRICT
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust, server_hostname=NAME)
        assert await reader.readline() == b"hello\n"
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return x509.load_der_x509_certificate(shown).serial_number

    server = await asyncio.start_server(greet, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        first = await serial_seen()
        renewed = certs.issue(authority, wish())
        certs.load_into(context, renewed)
        assert await serial_seen() == certs.facts(renewed).serial != first


def test_an_rsa_key_is_written_as_pkcs1_and_pkcs8_is_read_as_well() -> None:
    assert RSA.key.startswith(b"-----BEGIN RSA PRIVATE KEY-----")
    key = load_pem_private_key(RSA.key, None)
    pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert pkcs8.startswith(b"-----BEGIN PRIVATE KEY-----")
    assert certs.key_fits(KeyPair(RSA.certificate, pkcs8))
    assert certs.chain_holds(certs.issue(KeyPair(RSA.certificate, pkcs8), wish()).certificate, RSA.certificate)


def test_a_key_of_another_certificate_does_not_fit_and_cannot_sign() -> None:
    mixed = KeyPair(AUTHORITY.certificate, LEAF.key)
    assert not certs.key_fits(mixed)
    assert not certs.facts(mixed).key_fits
    with pytest.raises(certs.KeyUnusable):
        certs.issue(mixed, wish())


def test_a_chain_holds_only_between_a_leaf_and_its_own_authority() -> None:
    other = certs.new_authority(wish("authority"))
    assert certs.chain_holds(LEAF.certificate, AUTHORITY.certificate)
    assert not certs.chain_holds(LEAF.certificate, other.certificate), "same name, other key"
    assert not certs.chain_holds(LEAF.certificate, LEAF.certificate), "a leaf signs nothing"
    assert not certs.chain_holds(AUTHORITY.certificate, AUTHORITY.certificate), "an authority is no leaf"
    assert not certs.chain_holds(b"", AUTHORITY.certificate)
    assert not certs.chain_holds(LEAF.certificate, b"nothing")


def test_a_chain_may_be_asked_about_a_moment() -> None:
    def holds(moment: datetime) -> bool:
        return certs.chain_holds(LEAF.certificate, AUTHORITY.certificate, moment)

    assert holds(NOW)
    assert holds(NOW - timedelta(minutes=119)), "the reader's clock may be set wrong by an hour"
    assert not holds(NOW - timedelta(minutes=121))
    assert not holds(NOW + timedelta(days=366))


def test_a_certificate_of_an_original_operator_is_understood() -> None:
    """Empty subject, small serial, no authority key identifier: what the Go operators have written for years."""
    key = rsa.generate_private_key(65537, 2048)
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([])).serial_number(4711)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW + timedelta(days=9))
    authority = builder.public_key(key.public_key()).add_extension(x509.BasicConstraints(True, None), critical=True)
    leaf_key = rsa.generate_private_key(65537, 2048)
    leaf = builder.public_key(leaf_key.public_key())

    def pem(builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)

    written = KeyPair(pem(authority), key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    assert certs.facts(written).key_fits
    assert certs.facts(written).serial == 4711
    assert certs.chain_holds(pem(leaf), written.certificate)
    assert certs.chain_holds(certs.issue(written, wish()).certificate, written.certificate)


def test_used_life_goes_from_0_to_1() -> None:
    facts = certs.facts(LEAF)
    assert facts.begins is not None
    assert facts.ends is not None
    assert facts.used_life(facts.begins) == 0
    assert facts.used_life(facts.begins + (facts.ends - facts.begins) / 2) == 0.5
    assert facts.used_life(facts.ends) == 1
    assert certs.Facts().used_life(NOW) == 1


def test_a_bundle_is_split_into_what_is_readable() -> None:
    bundle = AUTHORITY.certificate + b"# a comment\n" + LEAF.certificate + RSA.certificate[:100]
    assert certs.split(bundle) == [AUTHORITY.certificate, LEAF.certificate]
    assert certs.split(b"") == []


def test_a_key_is_not_shown() -> None:
    assert "PRIVATE" not in repr(LEAF)


@pytest.mark.req("R-401")
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"nonsense",
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        b"-----BEGIN CERTIFICATE-----\n" + base64.b64encode(b"\x30\x82") + b"\n-----END CERTIFICATE-----\n",
        AUTHORITY.key,
        AUTHORITY.certificate[:-40],
    ],
)
def test_what_is_no_certificate_is_a_fact_and_not_an_exception(data: bytes) -> None:
    assert certs.facts(KeyPair(data, AUTHORITY.key)) == certs.Facts()


@pytest.mark.req("R-401")
@given(st.binary(max_size=200), st.integers(0, 2000), st.integers(0, 50))
@promptly
def test_any_bytes_have_an_answer(noise: bytes, at: int, cut: int) -> None:
    der = base64.b64decode(b"".join(LEAF.certificate.splitlines()[1:-1]))
    changed = der[:at] + noise + der[at + cut :]
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(changed) + b"-----END CERTIFICATE-----\n"
    for data in (noise, changed, pem):
        pair = KeyPair(data, data)
        assert certs.facts(pair).key_fits is False
        assert certs.chain_holds(data, AUTHORITY.certificate) in (True, False)
        assert certs.split(data) is not None


def test_a_key_that_is_neither_rsa_nor_elliptic_does_not_fit() -> None:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert not certs.key_fits(KeyPair(LEAF.certificate, pem))


def test_other_curves_are_read() -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    builder = x509.CertificateBuilder().subject_name(x509.Name([])).issuer_name(x509.Name([])).serial_number(1)
    builder = builder.not_valid_before(NOW).not_valid_after(NOW + timedelta(days=9)).public_key(key.public_key())
    certificate = builder.sign(key, hashes.SHA384()).public_bytes(Encoding.PEM)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    assert certs.key_fits(KeyPair(certificate, pem))
