"""The VirtualServices of service exposures: subdomains under which workloads are reached without a tenant."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from stellwerk.api.istio import VirtualService
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.cap.hashed_objects import HashedObjects, Written, owner_of
from stellwerk.operators.cap.kinds import bounds
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.routing import claims, headers, objects, targets, virtual_services
from stellwerk.operators.cap.routing.targets import FindDomain, ServedDomain, Unroutable
from stellwerk.operators.cap.watches import BY_HOST, BY_OWNER, Caches

MOST_HOSTS = 20_000
"""Of the service exposures of an application: each has one in each domain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNetworking:
    """Keeps the VirtualServices of service exposures."""

    caches: Caches
    objects: HashedObjects
    operator_namespace: str
    allowed_headers: Collection[str] = ()
    """As of `headers.of_annotations`."""

    async def keep(self, application: CAPApplication, version: CAPApplicationVersion, memory: ObservedState) -> Written:
        """Have a VirtualService for each subdomain that the version exposes, and no other.

        `memory` is the application's. Objects that others change again and again are no failure: the rest of the
        application goes on while they wait for their turn. Raises Unroutable, ApiError.
        """
        live = self.caches.virtual_services.store.by(BY_OWNER, application.metadata.uid)
        find_domain, home, allowed_headers = self.caches.domain, self.operator_namespace, self.allowed_headers
        wanted, refused = headers.routed(
            application,
            live,
            allowed_headers,
            lambda each: routes(each, version, live, find_domain, home, allowed_headers),
        )
        problems = [refused] if refused else []
        for address, route in [*wanted.items()]:
            mine = self.caches.virtual_services.store.get(address.key)
            if taken := claims.taken(route[0], mine, self._with_host, of_tenant=False):
                problems.append(claims.message(route[0], taken))
                del wanted[address]
                if (allowed := claims.without(route, taken)) is not None:
                    wanted[address] = allowed
        shown = {address: each for each in live if (address := address_of(each)) in wanted}
        written = Written()
        memory.keep_only(wanted)
        await self.objects.apply(owner_of(application), wanted, shown, memory, written)
        for each in live:
            if address_of(each) not in wanted:
                written.is_changed = True
                await self.objects.delete(address_of(each), each)
        problems += written.problems
        if problems:
            raise Unroutable("; ".join(problems))
        return written

    def _with_host(self, host: str) -> Sequence[Live]:
        return self.caches.virtual_services.store.by(BY_HOST, host)


def routes(
    application: CAPApplication,
    version: CAPApplicationVersion,
    live: Sequence[Live],
    find_domain: FindDomain,
    operator_namespace: str,
    allowed_headers: Collection[str] = (),
) -> dict[Address, tuple[Desired, str]]:
    """A VirtualService for each subdomain that the version exposes, with its hash (pure).

    Raises Unroutable. Those in `live`, which the application controls, keep their names.
    """
    domains = targets.served_domains(application, find_domain, operator_namespace)
    if not domains or not version.spec.service_exposures:
        return {}  # before headers are read: annotations that cannot be read cost tenants nothing here
    if problem := problem_of_size(version, len(domains)):
        raise Unroutable(f"{version.ref}: {problem}")
    subdomains = [exposure.sub_domain for exposure in version.spec.service_exposures]
    kept = kept_objects(application, subdomains, domains, live)
    wanted: dict[Address, tuple[Desired, str]] = {}
    route_headers = headers.of_annotations(application.metadata.annotations, str(application.ref), allowed_headers)
    for exposure in version.spec.service_exposures:
        targets.check_subdomain(exposure.sub_domain, str(version.ref))
        spec = virtual_services.of_exposure(version, exposure, domains, route_headers)
        existing = kept.get(exposure.sub_domain)
        name = existing.metadata.name if existing is not None else ""
        desired = objects.of_exposure(application, exposure.sub_domain, spec, name)
        wanted[desired.address] = desired, virtual_services.spec_hash(spec)
    return wanted


def problem_of_size(version: CAPApplicationVersion, domains: int) -> str:
    """Why no routes are made of the service exposures of a version; empty where they are (pure)."""
    hosts = domains * len(version.spec.service_exposures)
    if hosts > MOST_HOSTS:
        return f"spec.serviceExposures and {domains} domains make {hosts} hosts, more than {MOST_HOSTS}: use fewer"
    return bounds.problem_of_routes(version)


def address_of(live: Live) -> Address:
    """The address of a VirtualService."""
    return Address(VirtualService.resource, live.key)


def kept_objects(
    application: CAPApplication, subdomains: Sequence[str], domains: Sequence[ServedDomain], live: Sequence[Live]
) -> dict[str, Live]:
    """The VirtualService of each subdomain that has one; none is that of two subdomains (pure).

    Our own are known by their names, those of the original by their first host. Where the domains have changed it is
    found by the beginning of that host, by which `a.b` looks like `a`.
    """
    by_name = {each.metadata.name: each for each in live}
    by_host = {_first_host(each): each for each in reversed(live)}
    candidates: list[tuple[str, Live | None]] = [
        (subdomain, by_name.get(objects.exposure_name(application, subdomain))) for subdomain in subdomains
    ]
    candidates += [
        (subdomain, by_host.get(f"{subdomain}.{domain.host}")) for domain in domains for subdomain in subdomains
    ]
    by_label: dict[str, list[Live]] = {}
    for each in live:
        by_label.setdefault(_first_host(each).partition(".")[0], []).append(each)
    candidates += [(subdomain, each) for subdomain in subdomains for each in by_label.get(subdomain, ())]
    kept: dict[str, Live] = {}
    used: set[str] = set()
    for subdomain, found in candidates:
        if found is not None and subdomain not in kept and found.metadata.name not in used:
            kept[subdomain] = found
            used.add(found.metadata.name)
    return kept


def _first_host(live: Live) -> str:
    return objects.first_host(live.at("spec", "hosts")) if isinstance(live, Unstructured) else ""
