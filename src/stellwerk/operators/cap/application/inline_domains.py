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

import msgspec

from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import REFUSED, AlreadyExists
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, dig, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds import bounds
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef, InlineDomains
from stellwerk.operators.cap.kinds.domain import ClusterDomain, DNSMode, Domain, TLSMode

_SECONDARY, _DIGITS = "cap-operator-domains", 20
"""ClusterDomains are in no namespace: with five digits any user could take the name of another host."""


@dataclass(frozen=True, slots=True)
class DomainConversion:
    """What an application refers to from now on, and the Domains and ClusterDomains that have to be created for it."""

    references: tuple[DomainRef, ...]
    created: tuple[Desired, ...]
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
    inline, namespace = application.spec.domains, application.metadata.namespace
    if inline is None or inline.is_empty or application.spec.domain_refs:
        return None
    if problem := bounds.problem_of_size(application):  # each host gets all labels
        return DomainConversion((), (), problem)
    usable: list[AnyDomain] = [*cluster_domains]
    foreign: dict[str, Domain] = {}
    for domain in domains:
        if domain.metadata.namespace == namespace:
            usable.append(domain)
        else:
            foreign[domain.spec.domain] = domain
    references = {each.spec.domain: DomainRef(kind=each.resource.kind, name=each.metadata.name) for each in usable}
    hosts = [host for host in dict.fromkeys((inline.primary, *inline.secondary)) if host]
    created = {host: _created(application, inline, host) for host in hosts if host not in references}
    taken = next((host for host in created if host in foreign), "")
    if taken:
        problem = (
            f"{foreign[taken].ref} has the host {taken} that spec.domains asks for: make it a ClusterDomain, which all "
            "namespaces can refer to, or use another host"
        )
        return DomainConversion((), (), problem)
    references |= {host: DomainRef(kind=each.resource.kind, name=each.key.name) for host, each in created.items()}
    return DomainConversion(tuple(references[host] for host in hosts), tuple(created.values()))


def _created(application: CAPApplication, inline: InlineDomains, host: str) -> Desired:
    """The object that a host becomes: a Domain for the primary one, a ClusterDomain for another."""
    own = application.key
    if host == inline.primary:
        resource, key, mode = Domain.resource, ObjectKey(own.namespace, f"{own.name}-primary"), DNSMode.WILDCARD
    else:
        resource, key = ClusterDomain.resource, ObjectKey("", names.derived(_SECONDARY, host, digits=_DIGITS))
        mode = DNSMode.SUBDOMAIN
    spec: JsonObject = {
        "domain": host,
        "ingressSelector": {label.name: label.value for label in inline.istio_ingress_gateway_labels},
        "tlsMode": TLSMode.SIMPLE.value,
        "dnsMode": mode.value,
    }
    if inline.dns_target:
        spec["dnsTarget"] = inline.dns_target
    return Desired.named(resource, key, {"annotations": {names.MIGRATED_ANNOTATION: str(own)}}, spec=spec)


async def create(client: Client, found: DomainConversion) -> tuple[DomainRef, ...]:
    """Create the domains that do not exist. Returns what the application refers to. Raises ConversionRefused, ApiError.

    Pods of the former release give ClusterDomains shorter names, and run during an update. The caches may not show what
    these created a moment ago, and two domains with one host would be an error of both. All are tried before the first
    is created: one that stays behind where another is refused would take its host from others.
    """
    if found.problem:
        raise ConversionRefused(found.problem)
    names_in_use: dict[str, str] = {}
    missing: list[Desired] = []
    for desired in found.created:
        former = _former_name(desired)
        if former and await _has_host_of(client, desired, former):
            names_in_use[desired.key.name] = former
        else:
            missing.append(desired)
    for dry_run in (True, False) if len(missing) > 1 else (False,):
        for desired in missing:
            await _create(client, desired, dry_run=dry_run)
    return tuple(
        msgspec.structs.replace(reference, name=names_in_use.get(reference.name, reference.name))
        if reference.kind == ClusterDomain.resource.kind
        else reference
        for reference in found.references
    )


async def _create(client: Client, desired: Desired, *, dry_run: bool) -> None:
    try:
        await client.create(unstructured(desired.resource), desired.body, dry_run=dry_run)
    except AlreadyExists:
        if not await _has_host_of(client, desired, desired.key.name):
            raise ConversionRefused(
                f"{desired.ref} exists with another host than spec.domains asks for: refer to the domains that "
                "are needed by spec.domainRefs"
            ) from None
    except REFUSED as refused:
        raise ConversionRefused(f"{desired.ref} cannot be created: {refused}") from refused


def _former_name(desired: Desired) -> str:
    """The name that a host's ClusterDomain had in the former release; empty for a Domain, which keeps its name."""
    is_secondary = desired.resource == ClusterDomain.resource
    return names.derived(_SECONDARY, str(dig(desired.body, "spec", "domain"))) if is_secondary else ""


async def _has_host_of(client: Client, desired: Desired, name: str) -> bool:
    """Whether the object of this name exists and has the host of `desired`."""
    existing = await client.find(unstructured(desired.resource), name, desired.key.namespace)
    return existing is not None and existing.at("spec", "domain") == dig(desired.body, "spec", "domain")
