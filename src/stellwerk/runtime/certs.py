"""x509 building blocks: an authority of our own, certificates that it signs, and what can be said of a pair.

Pure but for time and randomness; no Kubernetes in it. Making an RSA key of 4096 bits takes about half a second of one
core, outside the interpreter lock: call the functions that make keys in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

BACKDATED = timedelta(minutes=5)
"""How long before its making a certificate begins, for clocks that are late."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, each as PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What a new certificate shall be. `lifetime` counts from `now`."""

    common_name: str
    names: Sequence[str]
    lifetime: timedelta
    now: datetime
    key_bits: int = 4096


@dataclass(frozen=True, slots=True)
class Facts:
    """What can be said of a pair. `ends` is None where the certificate cannot be read."""

    ends: datetime | None
    key_fits: bool


def new_authority(wish: Wish) -> Pair:
    """A self-signed certificate that may sign others, with its key."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=wish.key_bits)
    name = _name(wish)
    builder = _builder(wish, key, name, name, is_authority=True)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Pair, wish: Wish) -> Pair:
    """A certificate for servers and clients, signed by an authority. Raises ValueError where its key is unusable."""
    signer = _private_key(authority.key)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    if signer is None or signer.public_key() != issuer.public_key():
        raise ValueError("the authority's private key is not its certificate's")
    key = rsa.generate_private_key(public_exponent=65537, key_size=wish.key_bits)
    builder = _builder(wish, key, _name(wish), issuer.subject, is_authority=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = builder.add_extension(identifier, critical=False)
    return _pair(builder.sign(signer, hashes.SHA256()), key)


def facts(pair: Pair) -> Facts:
    """What can be said of a certificate and a key that somebody may have damaged."""
    certificate = _certificate(pair.certificate)
    if certificate is None:
        return Facts(None, key_fits=False)
    key = _private_key(pair.key)
    return Facts(certificate.not_valid_after_utc, key is not None and key.public_key() == certificate.public_key())


def chain_holds(certificate: bytes, authority: bytes) -> bool:
    """Whether a certificate is signed by an authority, which is one, and which the certificate itself is not."""
    leaf, issuer = _certificate(certificate), _certificate(authority)
    if leaf is None or issuer is None or not _is_authority(issuer) or _is_authority(leaf):
        return False
    try:
        leaf.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _name(wish: Wish) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, wish.common_name[:64])])


def _builder(
    wish: Wish, key: rsa.RSAPrivateKey, subject: x509.Name, issuer: x509.Name, *, is_authority: bool
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=is_authority,
        crl_sign=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH])
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(wish.now - BACKDATED)
        .not_valid_after(wish.now + wish.lifetime)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(purposes, critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in wish.names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _pair(certificate: x509.Certificate, key: rsa.RSAPrivateKey) -> Pair:
    """PKCS#1, as Go's tools write RSA keys."""
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _certificate(pem: bytes) -> x509.Certificate | None:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError:
        return None


def _private_key(pem: bytes) -> rsa.RSAPrivateKey | None:
    """PKCS#1 and PKCS#8."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, rsa.RSAPrivateKey) else None


def _is_authority(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, ValueError):
        return False
