"""Which VirtualService has a host, where several want it (pure).

Istio merges the VirtualServices of one host, so the routes of one take requests of the other. The first one has the
host: one that is new does not get what another has, and of two that came at the same moment the older keeps it. This
holds for the tenants of all namespaces, and for the service exposures of different namespaces. Within a namespace
tenants and exposures may share a host by paths, as with the original.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import msgspec

from stellwerk.api.istio import VirtualServiceSpec
from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.model import Unstructured, plain_json
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.routing import virtual_services

_OWNERS = (CAPTenant.resource.kind, CAPApplication.resource.kind)


def hosts_of(live: Live) -> Sequence[str]:
    """The hosts of a VirtualService that a tenant or an application controls, in small letters."""
    controller = live.metadata.controller
    found = live.at("spec", "hosts") if isinstance(live, Unstructured) else None
    if controller is None or controller.kind not in _OWNERS or not isinstance(found, list):
        return ()
    return tuple(dict.fromkeys(each.lower() for each in found if isinstance(each, str)))


def first_label(host: str) -> str:
    """What a host and the subdomain that it is made of begin with."""
    return host.partition(".")[0].lower()


def taken(
    desired: Desired, live: Live | None, rivals: Callable[[str], Iterable[Live]], *, of_tenant: bool
) -> Mapping[str, Live]:
    """The hosts of a VirtualService that others have, each with the VirtualService that has it.

    `live`: the VirtualService as it is; `rivals`: finds those with a host.
    """
    own = hosts_of(live) if live is not None else ()
    found: dict[str, Live] = {}
    for host in _hosts(desired):
        others = [each for each in rivals(host.lower()) if _is_rival(desired, each, of_tenant=of_tenant)]
        if live is not None and host.lower() in own:
            others = [each for each in others if _age(each) < _age(live)]
        if others:
            found[host] = min(others, key=_age)
    return found


def without(route: tuple[Desired, str], hosts: Collection[str]) -> tuple[Desired, str] | None:
    """A VirtualService with its hash, without some of its hosts; None where it has no other."""
    desired, _ = route
    spec = msgspec.convert(desired.body["spec"], VirtualServiceSpec)
    kept = tuple(host for host in spec.hosts if host not in hosts)
    if not kept:
        return None
    spec = msgspec.structs.replace(spec, hosts=kept)
    return replace(desired, body={**desired.body, "spec": plain_json(spec)}), virtual_services.spec_hash(spec)


def message(desired: Desired, taken: Mapping[str, Live]) -> str:
    """Why a VirtualService does not get hosts."""
    host, holder = next(iter(taken.items()))
    controller, key = holder.metadata.controller, holder.key
    owner = f"{controller.kind} {key.namespace}/{controller.name}" if controller is not None else str(key)
    more = f" and {len(taken) - 1} more" if len(taken) > 1 else ""
    return (
        f"{owner} had the host {host}{more} before {desired.ref}, which therefore does not get it: use another "
        f"subdomain or domain, or give up the other one. See it with: "
        f"kubectl get virtualservice {key.name} -n {key.namespace}"
    )


def _hosts(desired: Desired) -> Sequence[str]:
    return msgspec.convert(desired.body["spec"], VirtualServiceSpec).hosts


def _is_rival(desired: Desired, other: Live, *, of_tenant: bool) -> bool:
    if other.key == desired.address.key:
        return False
    if other.key.namespace != desired.address.key.namespace:
        return True
    controller = other.metadata.controller
    return of_tenant and controller is not None and controller.kind == CAPTenant.resource.kind


def _age(live: Live) -> tuple[str, str]:
    return str(live.metadata.creation_timestamp or ""), str(live.key)
