"""Gardener's kinds for certificates (cert.gardener.cloud) and DNS (dns.gardener.cloud), as far as operators use them.

Both report by `status.state`: Ready, Error, Pending, and for DNS also Invalid and Stale.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record


class SecretReference(Record, frozen=True, kw_only=True):
    """A Secret in any namespace."""

    name: str = ""
    namespace: str = ""


class GardenerIssuerReference(Record, frozen=True, kw_only=True):
    """Who issues the certificate."""

    name: str = ""
    namespace: str = ""


class GardenerPrivateKey(Record, frozen=True, kw_only=True):
    """What the private key is made like."""

    algorithm: str = ""
    size: int = 0


class GardenerCertificateSpec(Record, frozen=True, kw_only=True):
    """Which names are certified, and where the key pair goes. Durations are as those of Go.

    `renew` asks for a new certificate; the issuer takes it away.
    """

    dns_names: tuple[str, ...] = ()
    secret_ref: SecretReference | None = None
    common_name: str = ""
    secret_name: str = ""
    secret_labels: dict[str, str] = msgspec.field(default_factory=dict)
    issuer_ref: GardenerIssuerReference | None = None
    duration: str = ""
    renew_before: str = ""
    renew: bool = False
    private_key: GardenerPrivateKey | None = None


class GardenerCertificateStatus(Record, frozen=True, kw_only=True):
    """How the certificate is. `issuance_date` is text (RFC 3339)."""

    state: str = ""
    issuance_date: str = ""


class GardenerCertificate(Kind, frozen=True, kw_only=True):
    """A certificate that Gardener's cert-management requests and renews."""

    resource: ClassVar[Resource] = Resource(
        "cert.gardener.cloud", "v1alpha1", "Certificate", "certificates", namespaced=True
    )

    spec: GardenerCertificateSpec = GardenerCertificateSpec()
    status: GardenerCertificateStatus = GardenerCertificateStatus()


class DnsEntrySpec(Record, frozen=True, kw_only=True):
    """A name, and the hosts or addresses that it leads to. Times are in seconds."""

    dns_name: str = ""
    targets: tuple[str, ...] = ()
    ttl: int = 0
    cname_lookup_interval: int = 0


class DnsEntry(Kind, frozen=True, kw_only=True):
    """A record in a DNS zone that Gardener's DNS management keeps."""

    resource: ClassVar[Resource] = Resource("dns.gardener.cloud", "v1alpha1", "DNSEntry", "dnsentries", namespaced=True)

    spec: DnsEntrySpec = DnsEntrySpec()
