"""Client certificates as the Subscription Management Service has them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = dt.datetime(2027, 1, 15, tzinfo=dt.UTC)
ISSUER = '{"CN": "Client CA", "O": "Example", "C": ["DE"]}'
SUBJECT = '{"CN": "registry", "O": ["Example"], "OU": ["Clients", "*"], "C": "DE", "L": ["sms"]}'


def name(common: str, *more: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    """A distinguished name."""
    listed = [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.ORGANIZATION_NAME, "Example"),
        *more,
        (NameOID.COMMON_NAME, common),
    ]
    return x509.Name([x509.NameAttribute(oid, value) for oid, value in listed])


class Authority:
    """An authority for client certificates."""

    def __init__(self, common: str = "Client CA", now: dt.datetime = NOW) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name, self._now = name(common), now
        made = self._blank(self._name, self._key).add_extension(x509.BasicConstraints(True, None), critical=True)
        self.pem = made.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def _blank(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 30) -> x509.CertificateBuilder:
        ends = self._now + dt.timedelta(days=days)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(self._name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        return builder.not_valid_before(self._now - dt.timedelta(days=60)).not_valid_after(ends)

    def client(
        self,
        common: str = "registry",
        *,
        units: Sequence[str] = ("tenant-7", "Clients"),
        days: int = 30,
        usage: x509.ObjectIdentifier | None = ExtendedKeyUsageOID.CLIENT_AUTH,
        authority: bool = False,
    ) -> bytes:
        """A certificate, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        more = [(NameOID.ORGANIZATIONAL_UNIT_NAME, unit) for unit in units]
        builder = self._blank(name(common, *more, (NameOID.LOCALITY_NAME, "sms")), key, days)
        if usage is not None:
            builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if authority:
            builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)


def header(*pems: bytes) -> str:
    """As the gateway writes it."""
    return quote(b"".join(pems))


def client_pair() -> tuple[str, str]:
    """A certificate and its key, as the credentials of a registry have them."""
    key = ec.generate_private_key(ec.SECP256R1())
    signed = Authority()._blank(name("client"), key).sign(key, hashes.SHA256())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return signed.public_bytes(Encoding.PEM).decode(), private.decode()
