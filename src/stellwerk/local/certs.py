"""The certificates of one local cluster: random, private, renewed before they expire.

One authority signs the API server's certificate and every client's. Its own key is RSA: the API server checks the
signature again with each request of a client, and with P-256 a request takes it an eighth more time. The key is made
once, in 40 ms; all other keys are P-256, made in a millisecond. Files are 0600 in a 0700 folder.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509 import DNSName, GeneralName, IPAddress, Name, NameAttribute
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stellwerk.local.host.private_files import write_private

_AUTHORITY_LIFE = timedelta(days=3650)
_LEAF_LIFE = timedelta(days=365)
_RENEW_BEFORE = timedelta(days=30)
_CLOCK_SKEW = timedelta(hours=1)
_RSA_BITS = 2048
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


PrivateKey = RSAPrivateKey | EllipticCurvePrivateKey
"""An authority's; that of a cluster of former releases is P-256."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its key, both PEM."""

    certificate: bytes
    key: bytes

    @property
    def pem(self) -> bytes:
        """Both in one file."""
        return self.certificate + self.key

    @staticmethod
    def of_pem(pem: bytes) -> Credential:
        """What `pem` has written."""
        certificate, end, key = pem.partition(b"-----END CERTIFICATE-----\n")
        return Credential(certificate + end, key)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs what the cluster trusts."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def pem(self) -> bytes:
        """The authority's certificate as PEM, what clients check the server against."""
        return _certificate_pem(self.certificate)

    def client(self, user: str, groups: Sequence[str] = ()) -> Credential:
        """A certificate that the API server reads as this user in these groups.

        Source of the rule: Kubernetes documentation, "Authenticating", X.509 client certificates (CN and O).
        """
        return self._sign(_client_name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def kept_client(self, file: Path, user: str, groups: Sequence[str] = ()) -> Credential:
        """The credential in a file, as long as it is that of this user and good for another month; else a new one.

        It is not replaced without need: TLS libraries open the file once for the certificate and once for the key, and
        another process may do so now.
        """
        if self.vouches_for(file):
            content = file.read_bytes()
            if x509.load_pem_x509_certificate(content).subject == _client_name(user, groups):
                return Credential.of_pem(content)
        credential = self.client(user, groups)
        write_private(file, credential.pem)
        return credential

    def server(self, addresses: Sequence[str], hosts: Sequence[str] = _SERVER_NAMES) -> Credential:
        """A certificate for the API server, valid for these addresses and the names that pods use."""
        names: list[GeneralName] = [DNSName(name) for name in hosts]
        names += [IPAddress(ip_address(address)) for address in addresses]
        subject = Name([NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")])
        return self._sign(subject, ExtendedKeyUsageOID.SERVER_AUTH, names)

    def vouches_for(self, certificate_file: Path) -> bool:
        """Whether a certificate was signed by this authority and is good for another month."""
        try:
            certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
            certificate.verify_directly_issued_by(self.certificate)
        except (OSError, ValueError, TypeError, InvalidSignature):
            return False
        return certificate.not_valid_after_utc - datetime.now(UTC) > _RENEW_BEFORE

    @staticmethod
    def new_signing_key() -> bytes:
        """A key for service-account tokens, as PEM."""
        return _key_pem(_new_key())

    def _sign(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: Sequence[x509.GeneralName]) -> Credential:
        key = _new_key()
        builder = _blank(subject, self.certificate.subject, key, _LEAF_LIFE, signer=self.key)
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return Credential(_certificate_pem(builder.sign(self.key, SHA256())), _key_pem(key))


def have_one_name(certificate: bytes, other: bytes) -> bool:
    """Whether two client certificates, PEM, are of one user in the same groups. Raises ValueError."""
    with _long_names():
        return x509.load_pem_x509_certificate(certificate).subject == x509.load_pem_x509_certificate(other).subject


def _client_name(user: str, groups: Sequence[str]) -> Name:
    organizations = [NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    with _long_names():
        name = NameAttribute(NameOID.COMMON_NAME, user, _validate=False)
    return Name([*organizations, name])


def _long_names() -> AbstractContextManager[object]:
    """X.509 bounds a name by 64 characters, API servers do not, and names of service accounts may be longer."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def load_or_create_authority(folder: Path) -> Authority:
    """The authority kept in a folder (ca.crt, ca.key), made at the first call. Raises ValueError when unreadable."""
    certificate_file, key_file = folder / "ca.crt", folder / "ca.key"
    if not certificate_file.exists() and not key_file.exists():
        authority = _new_authority(rsa.generate_private_key(65537, _RSA_BITS))
        write_private(key_file, _key_pem(authority.key))
        write_private(certificate_file, authority.pem)
        return authority
    try:
        certificate = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        # Checking that an RSA key is sound takes 35 ms; this one was written here, for its owner only.
        key = load_pem_private_key(key_file.read_bytes(), password=None, unsafe_skip_rsa_key_validation=True)
    except OSError as error:
        raise ValueError(f"{error.filename}: {error.strerror}") from error
    if not isinstance(key, PrivateKey):
        raise ValueError(f"{key_file} is not the kind of key that was written there")
    return Authority(certificate, key)


def unkept_authority() -> Authority:
    """A new authority for one server, kept nowhere. Its key is P-256."""
    return _new_authority(_new_key())


def _new_authority(key: PrivateKey) -> Authority:
    # The serial in the name keeps two clusters' authorities apart in a client that trusts both.
    name = Name([NameAttribute(NameOID.COMMON_NAME, f"stellwerk local {x509.random_serial_number():x}"[:64])])
    builder = _blank(name, name, key, _AUTHORITY_LIFE, signer=key)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_authority_usage(), critical=True)
    return Authority(builder.sign(key, SHA256()), key)


def _authority_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _blank(
    subject: x509.Name,
    issuer: x509.Name,
    key: PrivateKey,
    life: timedelta,
    *,
    signer: PrivateKey,
) -> x509.CertificateBuilder:
    """What all certificates have. Python 3.13 and newer refuse those without key identifiers (RFC 5280, 4.2.1.1)."""
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )


def _new_key() -> EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _key_pem(key: PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _certificate_pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)
