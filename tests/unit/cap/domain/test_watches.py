"""Ingress gateways are watched for as long as a domain names them, and the domains of one namespace leave room."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap.domain.given import SETTINGS, domain

from stellwerk.api.core import Pod, Service
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.operators.cap.domain import watches
from stellwerk.operators.cap.domain.errors import IngressProblem
from stellwerk.operators.cap.domain.watches import (
    MOST_INGRESS_WATCHES,
    MOST_OF_NAMESPACE,
    DomainCaches,
)
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.process.manager import Manager


def named(number: int, version: int, namespace: str = "team", selects: str = "") -> Domain:
    """A Domain that selects the pods of a gateway of its own, or of this one."""
    found = domain(f"d{number}.example.com", ingress_selector={"istio": selects or f"d{number}"})
    meta = ObjectMeta(
        name=f"d{number}", namespace=namespace, uid=f"{namespace}-{number}", resource_version=str(version)
    )
    return msgspec.structs.replace(found, metadata=meta)


@pytest.fixture
def caches() -> DomainCaches:
    """Those of the domain controllers, connected."""
    found = watches.caches(Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid"))), SETTINGS)
    watches.wire(found)
    return found


def gateways(caches: DomainCaches) -> set[str]:
    """The selectors whose pods are watched."""
    informers = caches.manager.home.informers
    return {each.selection.labels for each in informers if each.view.resource == Pod.resource}


async def looks(caches: DomainCaches, one: Domain, *namespaces: str) -> None:
    """A pass asks for the pods of a domain's gateway, which are in these namespaces."""
    before = {*caches.manager.home.informers}
    looking = asyncio.create_task(caches.pods(one))
    await asyncio.sleep(0)
    pods = [PartialObjectMetadata(metadata=ObjectMeta(name="pod", namespace=each)) for each in namespaces]
    for informer in {*caches.manager.home.informers} - before:
        informer.take(Synced(tuple(pods), "1"))
    await looking


@pytest.mark.req("R-507")
async def test_a_gateway_is_watched_until_its_last_domain_is_gone_or_selects_another(caches: DomainCaches) -> None:
    first, second = named(1, 1, selects="shared"), named(2, 1, selects="shared")
    caches.domains.take(Synced((first, second), "1"))
    await looks(caches, first, "istio-system")
    ask = asyncio.create_task(caches.load_balancers("istio-system"))
    await asyncio.sleep(0)
    ask.cancel()

    caches.domains.take(Removed(named(1, 2, selects="shared")))
    assert gateways(caches) == {"istio=shared"}, "another domain is left"
    caches.domains.take(Changed(named(2, 3)))
    assert gateways(caches) == set()
    assert all(each.view.resource != Service.resource for each in caches.manager.home.informers)


@dataclass
class Woken:
    """Stands for the controller of Domains, and keeps which of them are woken."""

    keys: set[ObjectKey] = field(default_factory=set)

    @property
    def primary(self) -> Woken:
        return self

    @property
    def view(self) -> type[Domain]:
        return Domain

    @property
    def queue(self) -> Woken:
        return self

    def add_after(self, key: ObjectKey, *_: object) -> None:
        self.keys.add(key)


HALF = MOST_INGRESS_WATCHES // 2


@pytest.mark.req("R-507")
async def test_domains_of_one_namespace_cannot_take_the_room_of_all(caches: DomainCaches) -> None:
    many = [named(number, 1) for number in range(HALF + 1)]
    other = named(1, 1, "another-team", selects="gateway")
    caches.domains.take(Synced((*many, other), "1"))
    for one in many[:-1]:
        await looks(caches, one)

    with pytest.raises(IngressProblem, match=f"Domains of namespace team name more than {MOST_OF_NAMESPACE} "):
        await looks(caches, many[-1])
    await looks(caches, other)
    assert "istio=gateway" in gateways(caches)

    for number in range(2):
        caches.domains.take(Removed(named(number, 2)))
    await looks(caches, many[-1])


async def test_a_domain_that_found_no_room_is_woken_when_another_of_its_namespace_stops_using_a_gateway(
    caches: DomainCaches,
) -> None:
    first, other = named(0, 1, selects="shared"), named(0, 1, "another-team", selects="shared")
    refused, apart = named(1, 1), named(2, 1, "third-team")
    caches.domains.take(Synced((first, other, refused, apart), "1"))
    await looks(caches, first)
    woken = Woken()
    caches.controllers.append(cast("Controller[Any, Any]", woken))

    caches.domains.take(Changed(named(3, 2, selects="shared")))
    assert woken.keys == set(), "a new domain makes no room"
    caches.domains.take(Removed(named(0, 3, selects="shared")))
    assert gateways(caches) == {"istio=shared"}, "others use it"
    assert refused.key in woken.keys
    assert apart.key not in woken.keys
