"""cert-manager's Certificate (cert-manager.io/v1), as far as operators write it. It reports by the condition Ready."""

from __future__ import annotations

from typing import ClassVar

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record


class IssuerReference(Record, frozen=True, kw_only=True):
    """Who issues the certificate: an Issuer of the same namespace, a ClusterIssuer, or a kind of another group."""

    name: str = ""
    kind: str = ""
    group: str = ""


class CertManagerCertificateSpec(Record, frozen=True, kw_only=True):
    """Which names are certified, the issuer, and the Secret for the key pair."""

    common_name: str = ""
    dns_names: tuple[str, ...] = ()
    secret_name: str = ""
    issuer_ref: IssuerReference = IssuerReference()


class CertManagerCertificate(Kind, frozen=True, kw_only=True):
    """A certificate that cert-manager requests and renews."""

    resource: ClassVar[Resource] = Resource("cert-manager.io", "v1", "Certificate", "certificates", namespaced=True)

    spec: CertManagerCertificateSpec = CertManagerCertificateSpec()
