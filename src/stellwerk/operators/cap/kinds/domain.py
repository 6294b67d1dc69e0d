"""Domain and ClusterDomain: a host with its certificate, gateway and DNS records, of one namespace or of all."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar

import msgspec

from stellwerk.kube.schema.crd import documented
from stellwerk.kube.types import text_forms
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record, always_written
from stellwerk.operators.cap.kinds.status import API_VERSION, GROUP, ReconciledStatus


class DomainState(StrEnum):
    """The state of a Domain or ClusterDomain."""

    UNKNOWN = ""
    READY = "Ready"
    ERROR = "Error"
    PROCESSING = "Processing"
    DELETING = "Deleting"


class TLSMode(StrEnum):
    """What the gateway asks of a client's certificate."""

    SIMPLE = "Simple"
    MUTUAL = "Mutual"
    OPTIONAL_MUTUAL = "OptionalMutual"


class DNSMode(StrEnum):
    """Which DNS records the operator keeps."""

    NONE = "None"
    WILDCARD = "Wildcard"
    SUBDOMAIN = "Subdomain"
    CUSTOM = "Custom"


class DNSTemplate(Record, frozen=True, kw_only=True):
    """A DNS record as Go templates over domain, dnsTarget and subDomain."""

    name: Annotated[str, documented("Name of the record.", example="{{.subDomain}}.{{.domain}}")]
    target: Annotated[str, documented("What the record points to.", example="{{.dnsTarget}}")]


class IssuerRef(Record, frozen=True, kw_only=True):
    """An issuer of cert-manager."""

    name: Annotated[str, documented("Name of the issuer.", example="letsencrypt")]
    kind: Annotated[str, documented("Kind of the issuer.", otherwise="Issuer", example="ClusterIssuer")] = ""
    group: Annotated[str, documented("API group of the issuer.", otherwise="cert-manager.io")] = ""


class CertManagerConfig(Record, frozen=True, kw_only=True):
    """How cert-manager issues the certificate."""

    issuer_ref: Annotated[IssuerRef, documented("The issuer.")]


class CertificateConfig(Record, frozen=True, kw_only=True):
    """Details of the certificate."""

    additional_ca_certificate: Annotated[
        str, documented("Further CA certificates, as PEM, that client certificates may come from.")
    ] = msgspec.field(name="additionalCACertificate", default="")
    cert_manager: Annotated[CertManagerConfig | None, documented("How cert-manager issues the certificate.")] = None


class DomainSpec(Record, frozen=True, kw_only=True):
    """What is wanted of a domain."""

    domain: Annotated[str, documented("The host.", form=text_forms.HOST, example="shop.example.com")]
    ingress_selector: Annotated[
        Mapping[str, str], documented("Labels of the pods of the ingress gateway, all in one namespace.")
    ]
    tls_mode: Annotated[
        str,
        documented(
            "What the gateway asks of a client's certificate.", default="Simple", values=tuple(TLSMode), required=True
        ),
    ] = TLSMode.SIMPLE
    dns_mode: Annotated[
        str,
        documented("Which DNS records are kept.", default="None", values=tuple(DNSMode), required=True),
    ] = DNSMode.NONE
    dns_templates: Annotated[
        tuple[DNSTemplate, ...], documented("The records of the DNS mode Custom.", max_items=10)
    ] = ()
    dns_target: Annotated[
        str,
        documented(
            "DNS name of the ingress gateway.",
            otherwise="read from the Service of the ingress gateway",
            form=text_forms.HOST,
            example="public.example.com",
        ),
    ] = ""
    cert_config: Annotated[CertificateConfig | None, documented("Details of the certificate.")] = None


class DomainStatus(ReconciledStatus, frozen=True, kw_only=True):
    """How a domain is. Written by the operator only."""

    state: Annotated[
        str,
        documented(
            "Ready: certificate, gateway and DNS records are ready. Processing and Deleting: work is under way. "
            "Error: Ready has the cause.",
            values=tuple(DomainState),
            example="Ready",
        ),
    ] = always_written()
    dns_target: Annotated[str, documented("DNS name of the ingress gateway that is used.")] = ""
    gateway_name: Annotated[str, documented("Gateway that was made for the domain.")] = ""
    observed_domain: Annotated[str, documented("The host that was last acted on.")] = ""


class Domain(Kind, frozen=True, kw_only=True):
    """A host for the applications of one namespace."""

    resource: ClassVar[Resource] = Resource(GROUP, API_VERSION, "Domain", "domains", namespaced=True)

    spec: Annotated[DomainSpec, documented("What is wanted.")]
    status: Annotated[DomainStatus, documented("How it is.")] = DomainStatus()


class ClusterDomain(Kind, frozen=True, kw_only=True):
    """A host for the applications of all namespaces."""

    resource: ClassVar[Resource] = Resource(GROUP, API_VERSION, "ClusterDomain", "clusterdomains", namespaced=False)

    spec: Annotated[DomainSpec, documented("What is wanted.")]
    status: Annotated[DomainStatus, documented("How it is.")] = DomainStatus()
