"""Domains that are written into an application become objects, to which the application refers.

A host that a Domain of the namespace has already is used as it is, and so is a ClusterDomain that serves the namespace
as it is written into the application: with this gateway, target and TLS mode. A host that another domain has is
refused: two domains with one host are an error of both, and the other one is in use. No ClusterDomain is created: users
of a namespace have no right to it. Those that the first releases created are used by the namespace of their
application.

The names of new objects are the same at each try, so that a crash between the creation of an object and the change of
the application leaves no second one. An application that refers to domains keeps these: what it has inline, too, is
left where it is and has no effect.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import REFUSED
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, dig, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.hosts import impossible
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds import bounds
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef, InlineDomains
from stellwerk.operators.cap.kinds.domain import ClusterDomain, DNSMode, Domain, TLSMode
from stellwerk.operators.cap.routing import targets

_DIGITS = 20
"""With five digits a second host could have the name of another one."""


@dataclass(frozen=True, slots=True)
class DomainConversion:
    """What an application refers to from now on, and the Domains that have to be created for it."""

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
    usable: list[AnyDomain] = []
    foreign: dict[str, AnyDomain] = {}
    candidates: list[AnyDomain] = [*cluster_domains, *domains]
    for domain in candidates:
        if naming.serves(domain, namespace) and (isinstance(domain, Domain) or _fits(domain, inline)):
            usable.append(domain)
        else:
            foreign[domain.spec.domain] = domain
    references = {each.spec.domain: DomainRef(kind=each.resource.kind, name=each.metadata.name) for each in usable}
    hosts = [host for host in dict.fromkeys((inline.primary, *inline.secondary)) if host]
    created = {host: _created(application, inline, host) for host in hosts if host not in references}
    for host in created:
        if why := impossible(host):
            problem = f"spec.domains of {application.ref} has the host {host[:80]!r}, which {why}. Correct it"
            return DomainConversion((), (), problem)
    taken = next((host for host in created if host in foreign), "")
    if taken:
        return DomainConversion((), (), _problem(foreign[taken], taken, namespace))
    references |= {host: DomainRef(kind=each.resource.kind, name=each.key.name) for host, each in created.items()}
    return DomainConversion(tuple(references[host] for host in hosts), tuple(created.values()))


def _fits(domain: ClusterDomain, inline: InlineDomains) -> bool:
    """Whether a ClusterDomain is as a host that is written into an application would be."""
    spec, wanted = domain.spec, _spec(inline)
    return (spec.tls_mode, spec.dns_target, dict(spec.ingress_selector)) == (
        TLSMode.SIMPLE,
        inline.dns_target,
        wanted["ingressSelector"],
    )


def _problem(domain: AnyDomain, host: str, namespace: str) -> str:
    has_host = f"{domain.ref} has the host {host} that spec.domains asks for"
    if isinstance(domain, Domain):
        return f"{has_host}: make it a ClusterDomain, which all namespaces can refer to, or use another host"
    if not naming.serves(domain, namespace):
        return f"{has_host}, and does not serve namespace {namespace}. {targets.how_to_serve(domain.metadata.name)}"
    return (
        f"{has_host} with another gateway, target or TLS mode: refer to it by spec.domainRefs if it is meant, or use "
        "another host"
    )


def _spec(inline: InlineDomains) -> JsonObject:
    """What the domains of an application have in common."""
    return {
        "ingressSelector": {label.name: label.value for label in inline.istio_ingress_gateway_labels},
        "tlsMode": TLSMode.SIMPLE.value,
        **({"dnsTarget": inline.dns_target} if inline.dns_target else {}),
    }


def _created(application: CAPApplication, inline: InlineDomains, host: str) -> Desired:
    """The Domain that a host becomes."""
    own = application.key
    if host == inline.primary:
        name, mode = f"{own.name}-primary", DNSMode.WILDCARD
    else:
        name, mode = names.derived(f"{own.name}-secondary", host, digits=_DIGITS), DNSMode.SUBDOMAIN
    spec: JsonObject = {"domain": host, "dnsMode": mode.value, **_spec(inline)}
    marks: JsonObject = {"annotations": {names.MIGRATED_ANNOTATION: str(own)}}
    return Desired.named(Domain.resource, ObjectKey(own.namespace, name), marks, spec=spec)


async def create(client: Client, found: DomainConversion) -> tuple[DomainRef, ...]:
    """Create the domains that do not exist. Returns what the application refers to. Raises ConversionRefused, ApiError.

    All are tried before the first is created: one that stays behind when another is refused would take its host from
    others.
    """
    if found.problem:
        raise ConversionRefused(found.problem)
    for dry_run in (True, False) if len(found.created) > 1 else (False,):
        for desired in found.created:
            await _create(client, desired, dry_run=dry_run)
    return found.references


async def _create(client: Client, desired: Desired, *, dry_run: bool) -> None:
    host = dig(desired.body, "spec", "domain")
    try:
        made = await conditional.ensure(
            client,
            unstructured(desired.resource),
            desired.body,
            lambda found: found.at("spec", "domain") == host,
            dry_run=dry_run,
        )
    except REFUSED as refused:
        raise ConversionRefused(f"{desired.ref} cannot be created: {refused}") from refused
    if isinstance(made, conditional.Taken):
        raise ConversionRefused(
            f"{desired.ref} exists with another host than spec.domains asks for: refer to the domains that are needed "
            "by spec.domainRefs"
        )
