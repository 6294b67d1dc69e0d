"""The VirtualService of a tenant as it should be (pure)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import msgspec

from stellwerk.api.istio import VirtualServiceSpec
from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import Standing
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.hashed_objects import owner_of
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import TenantReason
from stellwerk.operators.cap.routing import headers, objects, targets, virtual_services
from stellwerk.operators.cap.routing.targets import FindDomain, ServedDomain, Unroutable
from stellwerk.operators.cap.tenant.plan import TenantFailed

NETWORKING = "ReconcileTenantNetworking"
"""The action of Events about routes."""


class NetworkingFailed(TenantFailed, Unroutable):
    """The VirtualService of a tenant cannot be written."""

    event_reason = TenantReason.VirtualServiceModificationFailed
    action = NETWORKING


def lacking_metadata(desired: Desired, live: Live) -> JsonObject:
    """The labels and annotations that a VirtualService with the right routes lacks, by their field (pure).

    The hash is one of the spec, so it does not show them.
    """
    wanted = Unstructured.of(desired.body).metadata
    found = {
        "labels": names.missing(wanted.labels, live.metadata.labels),
        "annotations": names.missing(wanted.annotations, live.metadata.annotations),
    }
    return {field: {**missing} for field, missing in found.items() if missing}


def unrouted(application: CAPApplication, version: CAPApplicationVersion) -> str:
    """Why a tenant has no VirtualService, and needs none; else empty (pure).

    Domains that are written into the application, and are no objects so far, are domains.
    """
    inline = application.spec.domains
    if not application.spec.domain_refs and (inline is None or inline.is_empty):
        return f"{application.ref} has no domains"
    return f"{version.ref} has no router" if targets.router_of(version) is None else ""


def is_kept(tenant: CAPTenant, live: Live) -> bool:
    """Whether a VirtualService is that of the tenant, and stays (pure)."""
    return not live.metadata.is_terminating and owner_of(tenant).standing(live.metadata) is Standing.OURS


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutedHosts:
    """What the VirtualService of a tenant is reached by."""

    domains: tuple[ServedDomain, ...]
    kept_hosts: tuple[str, ...] = ()
    """Hosts of the live VirtualService that stay."""
    kept_gateways: tuple[str, ...] = ()
    waits: str = ""
    """The first domain that is not served yet, and why; empty where there is none."""

    def added_to(self, spec: VirtualServiceSpec, subdomain: str) -> VirtualServiceSpec:
        """The spec with what stays, each host and gateway once. Hosts of an earlier subdomain go: others may get it."""
        if not self.waits:
            return spec
        kept = [host for host in self.kept_hosts if host.startswith(f"{subdomain}.")]
        hosts = tuple(dict.fromkeys((*spec.hosts, *kept)))
        gateways = tuple(dict.fromkeys((*spec.gateways, *self.kept_gateways)))
        return msgspec.structs.replace(spec, hosts=hosts, gateways=gateways)


def routed_hosts(
    application: CAPApplication, live: Live | None, find_domain: FindDomain, operator_namespace: str
) -> RoutedHosts:
    """The domains that a tenant is reached under now (pure).

    A domain has a gateway long before its certificate and DNS entries. One that is new to the live VirtualService is
    left out until it is Ready, and what is live stays meanwhile: clients may have no other host, and domains that were
    written into the application bring the same hosts under other gateways. One whose gateway is live is served whatever
    its state: its Gateway has the host of its spec already, so that an earlier host leads nowhere.
    """
    namespace = application.metadata.namespace
    hosts, gateways = _live_texts(live, "hosts"), _live_texts(live, "gateways")

    def wait(reference: DomainRef) -> str:
        domain = find_domain(namespace, reference)
        gateway = naming.gateway_reference(domain, operator_namespace) if domain is not None else ""
        return "" if gateway and gateway in gateways else targets.unready(application, reference, domain)

    waits = {each: why for each in application.spec.served_refs if live is not None and (why := wait(each))}
    domains = targets.served_domains(
        application, lambda _, each: None if each in waits else find_domain(namespace, each), operator_namespace
    )
    first = next(iter(waits.values()), "")
    return RoutedHosts(domains=domains, kept_hosts=hosts, kept_gateways=gateways, waits=first)


def _live_texts(live: Live | None, field: str) -> tuple[str, ...]:
    found = live.at("spec", field) if isinstance(live, Unstructured) else None
    return tuple(each for each in found if isinstance(each, str)) if isinstance(found, list) else ()


def routes(
    tenant: CAPTenant,
    application: CAPApplication,
    version: CAPApplicationVersion,
    hosts: RoutedHosts,
    find_version: Callable[[ObjectKey], CAPApplicationVersion | None],
    allowed_headers: Collection[str] = (),
) -> tuple[Desired, str] | None:
    """The VirtualService that leads to `version`, with its hash (pure).

    None for a tenant without hosts, or whose version has no router. Raises NetworkingFailed.
    """
    namespace = tenant.metadata.namespace
    router = targets.router_of(version)
    has_hosts = bool(hosts.domains or (hosts.waits and hosts.kept_hosts))
    if router is None or not has_hosts:
        return None
    annotations = application.metadata.annotations
    try:
        targets.check_subdomain(tenant.spec.sub_domain, str(tenant.ref))
        route_headers = headers.of_annotations(annotations, str(application.ref), allowed_headers)
    except Unroutable as error:
        raise NetworkingFailed(str(error)) from error
    is_sticky = annotations.get(names.AFFINITY_ANNOTATION) == "true"
    left = dict.fromkeys(tenant.status.previous_versions)  # a version that it came back to is there twice
    former = (find_version(ObjectKey(namespace, name)) for name in left)
    previous = (targets.router_of(each) for each in former if each is not None and each.key != version.key)
    spec = virtual_services.of_tenant(
        tenant.spec.sub_domain,
        hosts.domains,
        router,
        route_headers,
        previous=[each for each in previous if each is not None] if is_sticky else None,
    )
    spec = hosts.added_to(spec, tenant.spec.sub_domain)
    return objects.of_tenant(tenant, spec), virtual_services.spec_hash(spec)
