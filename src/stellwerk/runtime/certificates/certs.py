"""Certificates: made, read, compared. Nothing here knows Kubernetes, waits, or looks at a clock.

What is made follows two rules at once: Go's verifier and Python's strict one both accept it. So an authority names
itself (common name, subject key identifier) and a leaf names its authority (authority key identifier), which the
original operators' certificates do not; serials have 128 random bits. What is read may come from them all the same:
RSA or elliptic, PKCS#1 or PKCS#8, with an empty subject.

Bytes that are no certificate are a fact (`Facts.is_readable`) and not an exception: a Secret holds whatever a user
put there, and the answer is to make a new one. Making a key of 4,096 bits takes a good part of a second: have a
`keys.KeyStock` make it, or call `new_authority` and `issue` in a thread, where they hold no interpreter lock.
"""

from __future__ import annotations

import os
import secrets
import ssl
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TypeAlias

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Certificates come from strangers, too. One with a serial of zero is judged like any other, without a line on stderr.
warnings.filterwarnings("ignore", category=CryptographyDeprecationWarning)

PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey

_UNREADABLE = (ValueError, TypeError, UnsupportedAlgorithm)
_SERIAL_BITS = 128
_LONGEST_COMMON_NAME = 64
_CLOCK_SKEW = timedelta(hours=2)
"""How much earlier than now a certificate is valid: our clock or the reader's may be set wrong by an hour."""


class KeyUnusable(ValueError):
    """An authority's key or certificate that cannot sign: unreadable, or not made for each other."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its key, both PEM. The key is not shown."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The properties of a new certificate. It is valid from a little before `now` until `now + lifetime`."""

    common_name: str
    names: Sequence[str]
    """DNS names, or IP addresses."""
    lifetime: timedelta
    now: datetime
    key_bits: int = 0
    """The size of an RSA key; 0 makes an elliptic one (P-256), a thousand times faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a pair is. Times and names are missing where the certificate is not readable."""

    is_readable: bool = False
    begins: datetime | None = None
    ends: datetime | None = None
    is_authority: bool = False
    key_fits: bool = False
    """Whether the key is readable and is the certificate's own."""
    common_name: str = ""
    names: tuple[str, ...] = ()
    serial: int = 0
    subject_key_id: bytes = b""
    authority_key_id: bytes = b""

    def used_life(self, now: datetime) -> float:
        """Which part of its life is over: 0 at its begin, 1 at its end; 1 where there is no life."""
        if self.begins is None or self.ends is None or self.ends <= self.begins:
            return 1.0
        return (now - self.begins) / (self.ends - self.begins)


def new_key(bits: int) -> PrivateKey:
    """An RSA key of this size; 0 makes an elliptic one."""
    if bits:
        return rsa.generate_private_key(public_exponent=65537, key_size=bits)
    return ec.generate_private_key(ec.SECP256R1())


def new_authority(wish: Wish, key: PrivateKey | None = None) -> KeyPair:
    """A self-signed authority that may sign leaves and nothing else. Without a `key` one is made for it."""
    key = key or new_key(wish.key_bits)
    name = _name(wish.common_name)
    builder = _blank(wish, key, issuer=name)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    return KeyPair(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))


def issue(authority: KeyPair, wish: Wish, key: PrivateKey | None = None) -> KeyPair:
    """A leaf for servers and clients, signed by the authority. Raises KeyUnusable."""
    signer = _signer(authority)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = key or new_key(wish.key_bits)
    builder = _blank(wish, key, issuer=issuer.subject)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    builder = builder.add_extension(_issuer_id(issuer), critical=False)
    return KeyPair(_pem(builder.sign(signer, hashes.SHA256())), _key_pem(key))


def facts(pair: KeyPair) -> Facts:
    """What the pair is. Any bytes have an answer; of several certificates the first counts."""
    certificate = _read(pair.certificate)
    if certificate is None:
        return Facts()
    try:
        return Facts(
            is_readable=True,
            begins=certificate.not_valid_before_utc,
            ends=certificate.not_valid_after_utc,
            is_authority=_is_authority(certificate),
            key_fits=key_fits(pair),
            common_name=_common_name(certificate),
            names=_alternative_names(certificate),
            serial=certificate.serial_number,
            subject_key_id=_subject_id(certificate),
            authority_key_id=_authority_id(certificate),
        )
    except _UNREADABLE:
        return Facts()  # it parses, and its content does not


def key_fits(pair: KeyPair) -> bool:
    """Whether the key is readable and is the certificate's own."""
    certificate, key = _read(pair.certificate), _read_key(pair.key)
    if certificate is None or key is None:
        return False
    try:
        return _public_bytes(certificate.public_key()) == _public_bytes(key.public_key())
    except _UNREADABLE:
        return False


def chain_holds(leaf: bytes, authority: bytes, now: datetime | None = None) -> bool:
    """Whether the first certificate of `leaf` was issued by the first of `authority` (both PEM).

    The signature fits, the authority is one and the leaf is none. With `now` both must be valid then, too.
    """
    issued, issuer = _read(leaf), _read(authority)
    if issued is None or issuer is None:
        return False
    try:
        issued.verify_directly_issued_by(issuer)
        if not _is_authority(issuer) or _is_authority(issued):
            return False
        return now is None or (_is_valid(issued, now) and _is_valid(issuer, now))
    except (*_UNREADABLE, InvalidSignature):
        return False


def split(bundle: bytes) -> list[bytes]:
    """Every readable certificate of a bundle, in order, each as PEM of its own."""
    end = b"-----END CERTIFICATE-----"
    blocks = [block + end + b"\n" for block in bundle.split(end)[:-1]]
    found = (_read(block) for block in blocks)
    return [_pem(certificate) for certificate in found if certificate is not None]


def load_into(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Make a server's context present this pair from its next handshake on. Raises ssl.SSLError where they do not fit.

    Python reads certificates from files alone; the key is given a file in memory where the system has one.
    """
    with _private_file(pair.key) as key, _private_file(pair.certificate) as certificate:
        context.load_cert_chain(certificate, key)


def server_context() -> ssl.SSLContext:
    """TLS for our servers: version 1.2 or newer, with Python's choice of ciphers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("stellwerk", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # 0600, and gone afterwards
            file.write(content)
            file.flush()
            yield file.name


def _blank(wish: Wish, key: PrivateKey, *, issuer: x509.Name) -> x509.CertificateBuilder:
    """What authority and leaf have in common."""
    now = wish.now.astimezone(UTC)
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(_name(wish.common_name))
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(secrets.randbits(_SERIAL_BITS - 1) | 1)  # positive, and never 0 (RFC 5280, 4.1.2.2)
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + wish.lifetime)
        .add_extension(x509.SubjectAlternativeName([_alternative_name(name) for name in wish.names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier(_key_id(public)), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:_LONGEST_COMMON_NAME])])


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _key_id(public: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> bytes:
    """SHA-256 of the public key (RFC 7093, method 4), as the original operators do."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(_public_bytes(public))
    return digest.finalize()


def _issuer_id(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """How a leaf names its authority: by what the authority calls itself, or by its key where it has no such name."""
    known = _subject_id(issuer)
    if known:
        return x509.AuthorityKeyIdentifier(known, None, None)
    public = issuer.public_key()
    assert isinstance(public, rsa.RSAPublicKey | ec.EllipticCurvePublicKey), "the key that fits it is one of these"
    return x509.AuthorityKeyIdentifier(_key_id(public), None, None)


def _signer(authority: KeyPair) -> PrivateKey:
    key = _read_key(authority.key)
    if key is None or not key_fits(authority):
        raise KeyUnusable("the authority's key is not readable, or is not the key of its certificate")
    return key


def _read(data: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(data)
    except _UNREADABLE:
        return None


def _read_key(data: bytes) -> PrivateKey | None:
    try:
        # Proving the primes of an RSA key of 4096 bits takes half a second, in which nothing else in the process runs.
        # A key that is damaged in just that way fails when it first signs; one that belongs to another is found anyway.
        key = load_pem_private_key(data, password=None, unsafe_skip_rsa_key_validation=True)
    except _UNREADABLE:
        return None
    return key if isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) else None


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _is_valid(certificate: x509.Certificate, now: datetime) -> bool:
    return certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc


def _common_name(certificate: x509.Certificate) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def _alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names if isinstance(name, x509.DNSName | x509.IPAddress))


def _subject_id(certificate: x509.Certificate) -> bytes:
    try:
        return certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    except x509.ExtensionNotFound:
        return b""


def _authority_id(certificate: x509.Certificate) -> bytes:
    try:
        return certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier or b""
    except x509.ExtensionNotFound:
        return b""


def _public_bytes(key: object) -> bytes:
    if not isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        raise TypeError("neither RSA nor elliptic")
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: PrivateKey) -> bytes:
    """PKCS#1 for RSA (`RSA PRIVATE KEY`), SEC1 for elliptic keys: what the original operators read and write."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
