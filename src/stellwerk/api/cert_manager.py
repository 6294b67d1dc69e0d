"""cert-manager's Certificate (cert-manager.io/v1), as far as operators use it.

It reports by the conditions Ready, and Issuing while a new certificate is requested.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

import msgspec

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Condition, Record


class IssuerReference(Record, frozen=True, kw_only=True):
    """Who issues the certificate: an Issuer of the same namespace, a ClusterIssuer, or a kind of another group."""

    name: str = ""
    kind: str = ""
    group: str = ""


class CertManagerPrivateKey(Record, frozen=True, kw_only=True):
    """What the private key is made like."""

    algorithm: str = ""
    encoding: str = ""
    size: int = 0


class SecretTemplate(Record, frozen=True, kw_only=True):
    """What the Secret has besides the key pair."""

    labels: dict[str, str] = msgspec.field(default_factory=dict)


class CertManagerCertificateSpec(Record, frozen=True, kw_only=True):
    """Which names are certified, the issuer, and the Secret for the key pair. Durations are as those of Go."""

    common_name: str = ""
    dns_names: tuple[str, ...] = ()
    secret_name: str = ""
    issuer_ref: IssuerReference = IssuerReference()
    duration: str = ""
    renew_before: str = ""
    private_key: CertManagerPrivateKey | None = None
    secret_template: SecretTemplate | None = None


class CertManagerCertificateStatus(Record, frozen=True, kw_only=True):
    """The certificate that is in the Secret, and whether another one is requested."""

    conditions: tuple[Condition, ...] = ()
    not_before: datetime | None = None
    last_failure_time: datetime | None = None


class CertManagerCertificate(Kind, frozen=True, kw_only=True):
    """A certificate that cert-manager requests and renews."""

    resource: ClassVar[Resource] = Resource("cert-manager.io", "v1", "Certificate", "certificates", namespaced=True)

    spec: CertManagerCertificateSpec = CertManagerCertificateSpec()
    status: CertManagerCertificateStatus = CertManagerCertificateStatus()
