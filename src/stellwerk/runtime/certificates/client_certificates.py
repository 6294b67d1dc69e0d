"""Which client certificates of a header are good (pure).

A gateway ends TLS and hands the certificate on in a header, as PEM with URL escapes. A header proves nothing, so the
certificate is verified as if it had come in a handshake: one certificate, issued by a configured authority, valid now,
and made for clients. What its names mean is known to the server.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import unquote_to_bytes

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.x509.oid import ExtendedKeyUsageOID

from stellwerk.runtime.certificates import certs

MOST_HEADER_BYTES = 16 * 1024
_BEGIN, _END = b"-----BEGIN CERTIFICATE-----", b"-----END CERTIFICATE-----"


class CertificateRefused(Exception):
    """A client certificate is not good. The message is for the log, and quotes nothing of it."""


def verified(header: str, authorities: Sequence[bytes], now: datetime) -> x509.Certificate:
    """The certificate of a header that one of the authorities (PEM) has issued. Raises CertificateRefused."""
    certificate, pem = _single(header)
    if not any(certs.chain_holds(pem, authority, now) for authority in authorities):
        raise CertificateRefused("no configured authority vouches for the client certificate now")
    try:
        usage = _extended_usage(certificate)
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.DuplicateExtension):
        raise CertificateRefused("the client certificate cannot be read") from None
    if usage and not usage & {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE}:
        raise CertificateRefused("the client certificate is not made for clients")
    return certificate


def unverified(header: str) -> x509.Certificate:
    """The certificate of a header, of any authority or none. Raises CertificateRefused."""
    return _single(header)[0]


def _single(header: str) -> tuple[x509.Certificate, bytes]:
    """The one certificate of a header, whose names can be read, and its PEM."""
    if not header:
        raise CertificateRefused("there is no client certificate")
    if len(header) > MOST_HEADER_BYTES or not header.isascii():
        raise CertificateRefused("the client certificate is too long, or no text")
    pem = unquote_to_bytes(header).strip()
    if pem.count(b"-----BEGIN") != 1 or not pem.startswith(_BEGIN) or not pem.endswith(_END):
        raise CertificateRefused("the header has something else than one client certificate")
    pem += b"\n"
    try:
        certificate = x509.load_pem_x509_certificate(pem)
        certificate.issuer, certificate.subject  # noqa: B018  # they are decoded when they are asked for
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise CertificateRefused("the client certificate cannot be read") from None
    return certificate, pem


def _extended_usage(certificate: x509.Certificate) -> set[x509.ObjectIdentifier]:
    try:
        return set(certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    except x509.ExtensionNotFound:
        return set()
