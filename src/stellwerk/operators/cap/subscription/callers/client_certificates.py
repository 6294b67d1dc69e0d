"""For which application a client certificate of the Subscription Management Service is (pure).

Issuer and subject of a good certificate are compared with the credentials of the application.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from cryptography import x509
from cryptography.x509.oid import NameOID

from stellwerk.kube.types.model import UNREADABLE, JsonObject, JsonValue, decode_json
from stellwerk.runtime.certificates import client_certificates

_ATTRIBUTES = {
    "C": NameOID.COUNTRY_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "L": NameOID.LOCALITY_NAME,
}
_ANY = "*"
_MOST_RULE_BYTES = 8 * 1024


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
    """The names of the certificate of a header that is good. Raises CertificateRefused."""
    certificate = client_certificates.verified(header, authorities, now)
    return ClientCertificate(certificate.issuer, certificate.subject)


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
