"""Client certificates of the Subscription Management Service: which are good, and for which application (pure).

The gateway ends TLS and hands the certificate on in a header, as PEM with URL escapes. A header proves nothing, so the
certificate is verified as if it had come in a handshake: one certificate, issued by a configured authority, valid now,
and made for clients. Then issuer and subject are compared with the credentials of the application.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import unquote_to_bytes

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stellwerk.kube.types.model import UNREADABLE, JsonObject, JsonValue, decode_json
from stellwerk.runtime.certificates import certs

MOST_HEADER_BYTES = 16 * 1024
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"
_ATTRIBUTES = {
    "C": NameOID.COUNTRY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "L": NameOID.LOCALITY_NAME,
}
_ANY = "*"
_MOST_RULE_BYTES = 8 * 1024


class CertificateRefused(Exception):
    """A client certificate is not good. The message is for the log, and quotes nothing of it."""


@dataclass(frozen=True, slots=True)
class CertificateRules:
    """What a client certificate for an application must have: names, as JSON."""

    issuer: str
    subject: str


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The names of a good certificate."""

    issuer: x509.Name
    subject: x509.Name


def verified(header: str, authorities: Sequence[bytes], now: datetime) -> ClientCertificate:
    """The certificate of a header that one of the authorities (PEM) has issued. Raises CertificateRefused."""
    pem = _single_pem(header)
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        usage = _extended_usage(certificate)
        names = ClientCertificate(certificate.issuer, certificate.subject)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        raise CertificateRefused("the client certificate cannot be read") from None
    if not any(certs.chain_holds(pem, authority, now) for authority in authorities):
        raise CertificateRefused("no configured authority vouches for the client certificate now")
    if usage and not usage & {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}:
        raise CertificateRefused("the client certificate is not made for clients")
    return names


def _single_pem(header: str) -> bytes:
    if not header:
        raise CertificateRefused("there is no client certificate")
    if len(header) > MOST_HEADER_BYTES or not header.isascii():
        raise CertificateRefused("the client certificate is too long, or no text")
    pem = unquote_to_bytes(header).strip()
    if pem.count(b"-----BEGIN") != 1 or not pem.startswith(_BEGIN) or not pem.endswith(_END):
        raise CertificateRefused("the header has something else than one client certificate")
    return pem + b"\n"


def _extended_usage(certificate: x509.Certificate) -> set[x509.ObjectIdentifier]:
    try:
        return set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return set()


def is_for(certificate: ClientCertificate, rules: CertificateRules) -> bool:
    """Whether a certificate has the names that the credentials of an application ask for."""
    return _has(certificate.issuer, rules.issuer) and _has(certificate.subject, rules.subject)


def are_readable(rules: CertificateRules) -> bool:
    """Whether a certificate can have the names that the credentials of an application ask for."""
    return _rule(rules.issuer) is not None and _rule(rules.subject) is not None


def _has(name: x509.Name, rule: str) -> bool:
    """Whether a name has exactly these attributes; their order does not count, and `*` is any one value."""
    expected = _rule(rule)
    if expected is None:
        return False
    if _values(name, NameOID.COMMON_NAME) != [expected["CN"]]:
        return False
    return all(_matches(_values(name, oid), expected.get(key)) for key, oid in _ATTRIBUTES.items())


def _rule(text: str) -> JsonObject | None:
    try:
        content = decode_json(text) if len(text) <= _MOST_RULE_BYTES else {}
    except UNREADABLE:
        return None
    return content if isinstance(content.get("CN"), str) and content["CN"] else None


def _values(name: x509.Name, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(attribute.value) for attribute in name.get_attributes_for_oid(oid)]


def _matches(values: Sequence[str], expected: JsonValue) -> bool:
    wanted = [expected] if isinstance(expected, str) else expected or []
    if not isinstance(wanted, list) or len(wanted) != len(values):
        return False
    missing = Counter(str(each) for each in wanted if each != _ANY)
    missing.subtract(values)
    return all(count <= 0 for count in missing.values())
