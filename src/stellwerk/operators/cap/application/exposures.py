"""The VirtualServices of service exposures: subdomains under which workloads are reached without a tenant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.api.istio import VirtualService
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.cap.hashed_objects import HashedObjects, Written, owner_of
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.routing import headers, objects, targets, virtual_services
from stellwerk.operators.cap.routing.targets import FindDomain, Unroutable
from stellwerk.operators.cap.watches import BY_OWNER, Caches


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceNetworking:
    """Keeps the VirtualServices of service exposures."""

    caches: Caches
    objects: HashedObjects
    operator_namespace: str

    async def keep(self, application: CAPApplication, version: CAPApplicationVersion) -> bool:
        """Have a VirtualService for each subdomain that the version exposes, and no other.

        Returns whether anything was written. Raises Unroutable, ApiError.
        """
        live = self.caches.virtual_services.store.by(BY_OWNER, application.metadata.uid)
        wanted = routes(application, version, live, self.caches.domain, self.operator_namespace)
        shown = {address: each for each in live if (address := address_of(each)) in wanted}
        written = Written()
        await self.objects.apply(owner_of(application), wanted, shown, ObservedState(), written)
        for each in live:
            if address_of(each) not in wanted:
                written.is_changed = True
                await self.objects.delete(address_of(each), each)
        if written.problems:
            raise Unroutable("; ".join(written.problems))
        return written.is_changed


def routes(
    application: CAPApplication,
    version: CAPApplicationVersion,
    live: Sequence[Live],
    find_domain: FindDomain,
    operator_namespace: str,
) -> dict[Address, tuple[Desired, str]]:
    """A VirtualService for each subdomain that the version exposes, with its hash (pure).

    Raises Unroutable. Those in `live`, which the application controls, keep their names.
    """
    domains = targets.served_domains(application, find_domain, operator_namespace)
    if not domains or not version.spec.service_exposures:
        return {}  # before headers are read: annotations that cannot be read cost tenants nothing here
    by_subdomain = {_subdomain(each): each for each in reversed(live)}
    wanted: dict[Address, tuple[Desired, str]] = {}
    route_headers = headers.of_annotations(application.metadata.annotations, str(application.ref))
    for exposure in version.spec.service_exposures:
        targets.check_subdomain(exposure.sub_domain, str(version.ref))
        spec = virtual_services.of_exposure(version, exposure, domains, route_headers)
        existing = by_subdomain.get(exposure.sub_domain)
        name = existing.metadata.name if existing is not None else ""
        desired = objects.of_exposure(application, exposure.sub_domain, spec, name)
        wanted[desired.address] = desired, virtual_services.spec_hash(spec)
    return wanted


def address_of(live: Live) -> Address:
    """The address of a VirtualService."""
    return Address(VirtualService.resource, live.key)


def _subdomain(live: Live) -> str:
    return objects.exposed_subdomain(live.at("spec", "hosts")) if isinstance(live, Unstructured) else ""
