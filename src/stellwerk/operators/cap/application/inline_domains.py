"""Domains that are written into an application become objects, to which the application refers (spec 14, 21, 22).

A host that a Domain of the namespace or a ClusterDomain has already is used as it is. One that a Domain of another
namespace has is refused: two domains with one host are an error of both, and the other one is in use. The names of new
objects are the same at each try, so that a crash between the creation of an object and the change of the application
leaves no second one. An application that refers to domains keeps these: what it has inline, too, is left where it is
and has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import AlreadyExists, BadRequest, Forbidden, Invalid
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainKind, DomainRef
from stellwerk.operators.cap.kinds.domain import ClusterDomain, DNSMode, Domain, TLSMode

_SECONDARY = "cap-operator-domains"


@dataclass(frozen=True, slots=True)
class DomainConversion:
    """What an application refers to from now on, and the Domains and ClusterDomains that have to be created for it."""

    references: tuple[DomainRef, ...]
    created: tuple[tuple[Resource, JsonObject], ...]
    problem: str = ""
    """Why none of it may be done; empty where it may."""


class ConversionRefused(Exception):
    """A domain that is written into an application cannot become an object. The message has the cause."""


def conversion(
    application: CAPApplication, domains: Iterable[Domain], cluster_domains: Iterable[ClusterDomain]
) -> DomainConversion | None:
    """What becomes of `spec.domains` (pure); None where it is empty, or the application refers to domains already.

    `domains` and `cluster_domains` are all that exist.
    """
    inline, metadata = application.spec.domains, application.metadata
    if inline is None or inline.is_empty or application.spec.domain_refs:
        return None
    cluster_wide, own = DomainKind.CLUSTER_DOMAIN, DomainKind.DOMAIN
    existing = {each.spec.domain: DomainRef(kind=cluster_wide, name=each.metadata.name) for each in cluster_domains}
    foreign: dict[str, Domain] = {}
    for domain in domains:
        if domain.metadata.namespace == metadata.namespace:
            existing[domain.spec.domain] = DomainRef(kind=own, name=domain.metadata.name)
        else:
            foreign[domain.spec.domain] = domain
    makers = {inline.primary: _primary} if inline.primary else {}
    makers |= {host: _secondary for host in inline.secondary if host != inline.primary}
    references: list[DomainRef] = []
    created: list[tuple[Resource, JsonObject]] = []
    for host, make in makers.items():
        if host not in existing and (other := foreign.get(host)) is not None:
            problem = (
                f"{other.ref} has the host {host} that spec.domains asks for: make it a ClusterDomain, which all "
                "namespaces can refer to, or use another host"
            )
            return DomainConversion((), (), problem)
        if host not in existing:
            resource, body = make(application, host)
            created.append((resource, body))
            existing[host] = DomainRef(kind=resource.kind, name=Unstructured.of(body).metadata.name)
        references.append(existing[host])
    return DomainConversion(tuple(references), tuple(created))


def _primary(application: CAPApplication, host: str) -> tuple[Resource, JsonObject]:
    metadata = application.metadata
    named: JsonObject = {"name": f"{metadata.name}-primary", "namespace": metadata.namespace}
    return Domain.resource, _body(application, host, DNSMode.WILDCARD, named)


def _secondary(application: CAPApplication, host: str) -> tuple[Resource, JsonObject]:
    named: JsonObject = {"name": names.derived(_SECONDARY, host)}
    return ClusterDomain.resource, _body(application, host, DNSMode.SUBDOMAIN, named)


def _body(application: CAPApplication, host: str, mode: DNSMode, metadata: JsonObject) -> JsonObject:
    inline, key = application.spec.domains, application.key
    assert inline is not None
    spec: JsonObject = {
        "domain": host,
        "ingressSelector": {label.name: label.value for label in inline.istio_ingress_gateway_labels},
        "tlsMode": TLSMode.SIMPLE.value,
        "dnsMode": mode.value,
    }
    if inline.dns_target:
        spec["dnsTarget"] = inline.dns_target
    annotations: JsonObject = {names.MIGRATED_ANNOTATION: f"{key.namespace}/{key.name}"}
    return {"metadata": {**metadata, "annotations": annotations}, "spec": spec}


async def create(client: Client, found: DomainConversion) -> None:
    """Create the domains that do not exist. Raises ConversionRefused, ApiError."""
    if found.problem:
        raise ConversionRefused(found.problem)
    for resource, body in found.created:
        target, wanted = unstructured(resource), Unstructured.of(body)
        try:
            await client.create(target, {"apiVersion": resource.api_version, "kind": resource.kind, **body})
        except AlreadyExists:
            existing = await client.find(target, wanted.metadata.name, wanted.metadata.namespace)
            if existing is None or existing.at("spec", "domain") != wanted.at("spec", "domain"):
                raise ConversionRefused(
                    f"{resource.kind} {wanted.key} exists with another host than spec.domains asks for: refer to "
                    "the domains that are needed by spec.domainRefs"
                ) from None
        except (BadRequest, Forbidden, Invalid) as refused:
            raise ConversionRefused(f"{resource.kind} {wanted.key} cannot be created: {refused}") from refused
