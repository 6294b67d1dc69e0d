"""The objects of a domain as they should be, with the hashes by which their changes are found. Pure.

A hash is computed from the part of the object that the domain decides, in the original's recipe. It is on the
object as an annotation: an object of the original that carries the same hash is left as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from stellwerk.api import cert_manager
from stellwerk.api.cert_manager import CertManagerCertificate, CertManagerCertificateSpec
from stellwerk.api.core import Secret
from stellwerk.api.gardener import DnsEntry, DnsEntrySpec, GardenerCertificate, GardenerCertificateSpec, SecretReference
from stellwerk.api.istio import Gateway, GatewayPort, GatewayServer, GatewaySpec, GatewayTls
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, plain_json
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.domain import Domain, TLSMode
from stellwerk.operators.cap.names import go_json, sha1, sha256

DEFAULT_ISSUER = cert_manager.IssuerReference(name="cluster-ca", kind="ClusterIssuer")
"""The issuer of cert-manager's certificates where the domain names none."""
DEFAULT_KIND = "Issuer"
"""The kind of an issuer that names none; set by cert-manager."""
ANY_ISSUER = "*"
"""In the settings: every issuer."""
CA_KEY = "ca.crt"

_TTL_SECONDS = 600
_LOOKUP_SECONDS = 30
_TLS_MODES: Mapping[str, str] = {TLSMode.MUTUAL: "MUTUAL", TLSMode.OPTIONAL_MUTUAL: "OPTIONAL_MUTUAL"}


@dataclass(frozen=True, slots=True)
class DomainResource:
    """One object as it should be."""

    desired: Desired
    hash: str
    """The value of its hash annotation."""

    @property
    def address(self) -> Address:
        """Which object."""
        return self.desired.address


@dataclass(frozen=True, slots=True)
class DnsRecord:
    """One DNS name of a domain, and where it leads."""

    name: str
    target: str
    application_uid: str = ""
    """Of the application whose subdomain is in the name; empty where none is."""


CA_SUFFIX = "-cacert"
"""Ends the name of the Secret with the CA of clients. Set by Istio."""


def credential_base(domain: AnyDomain, operator_namespace: str) -> str:
    """What the name of the domain's Secret begins with. The recipe is the original's, and not unique: dots and the end
    of a long name get lost, and a dash may belong to the namespace or to the name.
    """
    return f"{naming.resource_namespace(domain, operator_namespace)}--{naming.base_name(domain)}"


def credential(domain: AnyDomain, issuer: str, operator_namespace: str, ingress_namespace: str) -> ObjectKey:
    """The Secret with the key pair of a certificate, which the ingress gateway reads in its own namespace.

    `issuer` is a value of CERT_MANAGER.
    """
    return ObjectKey(ingress_namespace, f"{credential_base(domain, operator_namespace)}-{issuer.removesuffix('.io')}")


def gardener_certificate(domain: AnyDomain, key: ObjectKey, credential: ObjectKey) -> DomainResource:
    """The wildcard certificate that Gardener issues."""
    spec = GardenerCertificateSpec(
        dns_names=(f"*.{domain.spec.domain}",),
        secret_ref=SecretReference(name=credential.name, namespace=credential.namespace),
    )
    found = sha256(domain.spec.domain, credential.name, credential.namespace)
    return _resource(domain, GardenerCertificate.resource, key, {"spec": plain_json(spec)}, found, holds=True)


def cert_manager_certificate(domain: AnyDomain, credential: ObjectKey) -> DomainResource:
    """The wildcard certificate that cert-manager issues. Its namespace is that of the Secret."""
    common_name = domain.metadata.annotations.get(names.COMMON_NAME_ANNOTATION, "")
    issuer = _issuer(domain)
    spec = CertManagerCertificateSpec(
        common_name=common_name,
        dns_names=(f"*.{domain.spec.domain}",),
        secret_name=credential.name,
        issuer_ref=issuer,
    )
    found = sha256(
        domain.spec.domain, credential.name, credential.namespace, common_name, issuer.kind, issuer.name, issuer.group
    )
    # A long name of a domain is cut, and Kubernetes refuses one that ends in '-'.
    name = credential.name.removesuffix("-cert-manager").rstrip("-.")
    key = ObjectKey(credential.namespace, name)
    return _resource(domain, CertManagerCertificate.resource, key, {"spec": plain_json(spec)}, found, holds=True)


def ca_secrets(domain: AnyDomain, credential: ObjectKey) -> Iterable[DomainResource]:
    """The Secret with the additional CA of clients, next to the key pair, where the domain has one."""
    config = domain.spec.cert_config
    if config is None or not config.additional_ca_certificate:
        return
    data: JsonObject = {CA_KEY: base64.b64encode(config.additional_ca_certificate.encode()).decode()}
    key = ObjectKey(credential.namespace, f"{credential.name}{CA_SUFFIX}")
    yield _resource(domain, Secret.resource, key, {"type": "Opaque", "data": data}, sha256(go_json(data)))


def gateway(domain: AnyDomain, key: ObjectKey, credential: ObjectKey) -> DomainResource:
    """The server of the ingress gateway for the domain.

    VirtualServices of the Gateway's namespace may bind hosts of a Domain, those of all namespaces hosts of a
    ClusterDomain.
    """
    namespaces = "." if isinstance(domain, Domain) else "*"
    server = GatewayServer(
        port=GatewayPort(number=443, protocol="HTTPS", name="https"),
        hosts=(f"{namespaces}/*.{domain.spec.domain}",),
        tls=GatewayTls(mode=_TLS_MODES.get(domain.spec.tls_mode, "SIMPLE"), credential_name=credential.name),
    )
    spec = GatewaySpec(servers=(server,), selector=dict(domain.spec.ingress_selector))
    return _resource(domain, Gateway.resource, key, {"spec": plain_json(spec)}, sha256(go_json(plain_json(spec))))


def network_policy(domain: AnyDomain, key: ObjectKey) -> DomainResource:
    """Allows the ingress gateway to reach the exposed workloads of a namespace."""
    exposed: JsonObject = {names.CATEGORY_LABEL: "Workload", names.EXPOSED_LABEL: "true"}
    source: JsonObject = {
        "podSelector": {"matchLabels": dict(sorted(domain.spec.ingress_selector.items()))},
        "namespaceSelector": {},
    }
    spec: JsonObject = {
        "podSelector": {"matchLabels": exposed},
        "ingress": [{"from": [source]}],
        "policyTypes": ["Ingress"],
    }
    return _resource(domain, NetworkPolicy.resource, key, {"spec": spec}, sha256(go_json(spec)))


def dns_entry(domain: AnyDomain, key: ObjectKey, record: DnsRecord) -> DomainResource:
    """A record that Gardener keeps."""
    spec = DnsEntrySpec(
        dns_name=record.name, targets=(record.target,), ttl=_TTL_SECONDS, cname_lookup_interval=_LOOKUP_SECONDS
    )
    found = sha256(record.name, record.target, record.application_uid)
    return _resource(
        domain,
        DnsEntry.resource,
        key,
        {"spec": plain_json(spec)},
        found,
        labels={names.DNS_NAME_HASH_LABEL: sha1(record.name)},
        annotations={names.DNS_CLASS_ANNOTATION: "garden"},
    )


def issuer_text(domain: AnyDomain) -> str:
    """The issuer of a domain as the settings name it: `ClusterIssuer/letsencrypt`, or `Kind.group/name`."""
    issuer = _issuer(domain)
    group = f".{issuer.group}" if issuer.group not in ("", CertManagerCertificate.resource.group) else ""
    return f"{issuer.kind or DEFAULT_KIND}{group}/{issuer.name}"


def may_use(domain: AnyDomain, ingress_namespace: str, allowed: Collection[str]) -> bool:
    """Whether a domain may have certificates of the issuer that it names.

    The Certificate is in the namespace of the ingress gateway, where a user of a Domain may not create any: so the
    issuer is the default one, one of the `allowed`, or one in the Domain's own namespace. `*` allows all. Who creates a
    ClusterDomain is an administrator, and names any.
    """
    if not isinstance(domain, Domain) or ANY_ISSUER in allowed:
        return True
    issuer = issuer_text(domain)
    is_own = domain.metadata.namespace == ingress_namespace and issuer.startswith(f"{DEFAULT_KIND}/")
    return is_own or issuer in allowed or issuer == f"{DEFAULT_ISSUER.kind}/{DEFAULT_ISSUER.name}"


def _issuer(domain: AnyDomain) -> cert_manager.IssuerReference:
    config = domain.spec.cert_config
    if config is None or config.cert_manager is None:
        return DEFAULT_ISSUER
    asked = config.cert_manager.issuer_ref
    return cert_manager.IssuerReference(name=asked.name, kind=asked.kind, group=asked.group)


def _resource(
    domain: AnyDomain,
    resource: Resource,
    key: ObjectKey,
    content: JsonObject,
    found: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    holds: bool = False,
) -> DomainResource:
    """The object with what all objects of a domain carry; `holds`: it has our finalizer."""
    metadata: JsonObject = {
        "labels": {**(labels or {}), names.OWNER_GENERATION_LABEL: str(domain.metadata.generation)},
        "annotations": {**(annotations or {}), names.OWNER_ANNOTATION: naming.owner_id(domain)},
        **({"finalizers": [names.DOMAIN_FINALIZER]} if holds else {}),
    }
    return DomainResource(Desired.named(resource, key, metadata, **content), found)
