"""Whatever an application was asked for before, what it is asked for last is there; in between it names what it lacks.

A run of 200 wishes a seed is WISHES=200; the few of every day take as long as two other tests.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from tests.cluster.cap import world
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router, server

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Service
from stellwerk.api.istio import DestinationRule, VirtualService
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, Unstructured, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.runtime import conditions
from stellwerk.testing import cluster as clusters
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import Run, assert_same

WISHES = int(os.environ.get("WISHES", "8"))
HOSTS = {"primary": "example.com", "second": "example.org"}
"""Above the hosts of an application, which have its namespace: no two namespaces share a host."""
NOWHERE = "nowhere"
"""A domain that does not exist."""
SUBSCRIBERS = ("acme", "globex")
MADE: Sequence[type[Kind]] = (Deployment, Service, NetworkPolicy, VirtualService, DestinationRule)
_OWNER, _AGE = names.OWNER_HASH_LABEL, names.OWNER_GENERATION_LABEL
_LABELS = (("metadata", "labels"), ("spec", "selector", "matchLabels"), ("spec", "template", "metadata", "labels"))
OF_THE_NAMESPACE = (
    *((*labels, name) for labels in _LABELS for name in (_OWNER, _AGE)),
    ("metadata", "annotations", names.RESOURCE_HASH_ANNOTATION),
    ("spec", "template", "spec", "containers", "*", "envFrom", "*", "secretRef", "name"),
)
"""These stand for the namespace and for how often the owner was changed, and a name is random."""
_API: JsonObject = {"workloadName": "api", "port": 8080}
_SERVED = server("api", "Service", ports=[{"name": "api", "port": 8080}])


@dataclass(slots=True)
class Walk:
    """Draws one wish after the other and makes it true."""

    shop: Shop
    chance: random.Random
    refs: Sequence[str] = ("primary",)
    version: str = "1"
    """The last one that can become Ready."""
    releases: int = 1
    tenants: set[str] = field(default_factory=set)
    exposes: Sequence[str] = ()

    async def begin(self) -> None:
        """An application with a version and the domains that it may be given."""
        await self.shop.bind()
        for name, host in HOSTS.items():
            await self.shop.serve(f"{self.shop.namespace}.{host}", name=name)
        await self.apply()
        await self.release()

    async def step(self) -> None:
        """One wish."""
        wishes = (
            self._domains,
            self._domains,
            self._come_or_go,
            self._come_or_go,
            self.release_another,
            self._fail,
            self._wave,
        )
        await self.chance.choice(wishes)()

    async def apply(self) -> None:
        """The application with its present domains."""
        refs: list[JsonValue] = [{"kind": "Domain", "name": name} for name in self.refs]
        await self.shop.apply(domainRefs=refs)

    async def release(self) -> None:
        """The last good version."""
        exposures: list[JsonValue] = [{"subDomain": name, "routes": [_API]} for name in self.exposes]
        await self.shop.release(
            self.version, job("mtxs"), router(), *((_SERVED,) if exposures else ()), serviceExposures=exposures
        )

    async def _domains(self) -> None:
        choices = (("primary",), ("primary",), ("second", "primary"), ("second",), ("primary", NOWHERE), ())
        self.refs = self.chance.choice(choices)
        await self.apply()

    async def _come_or_go(self) -> None:
        name = self.chance.choice(SUBSCRIBERS)
        if name in self.tenants:
            self.tenants.remove(name)
            await self.shop.client.delete(metadata_of(CAPTenant), name, self.shop.namespace)
            await eventually(lambda: self._is_gone(name), within=60, describe=f"tenant {name} is gone")
        else:
            self.tenants.add(name)
            await self.shop.subscribe(name)

    async def _is_gone(self, name: str) -> bool:
        return await self.shop.client.find(metadata_of(CAPTenant), name, self.shop.namespace) is None

    async def release_another(self) -> None:
        """A further good version."""
        self.releases += 1
        self.version, self.exposes = str(self.releases), self.chance.choice(((), ("api",), ("api", "docs")))
        await self.release()

    async def _fail(self) -> None:
        self.releases += 1
        await self.shop.release(str(self.releases), job("load", "Content", fate="fail"), job("mtxs"), router())

    async def _wave(self) -> None:
        waves: Sequence[JsonValue] = (None, {"maxParallel": 1}, {"maxParallel": 2})
        patch = MergePatch({"spec": {"tenantUpgrade": self.chance.choice(waves)}})
        await self.shop.client.patch(metadata_of(CAPApplication), "shop", self.shop.namespace, patch)

    # ---- what is there

    async def is_met(self) -> bool:
        """Whether all that was wished is there, or the application shows what it waits for."""
        application = await self.shop.client.get(CAPApplication, "shop", self.shop.namespace)
        status = application.status
        if NOWHERE in self.refs:
            ready = conditions.find(status.conditions, "Ready")
            assert ready is not None
            assert (ready.is_true, NOWHERE in ready.message) == (False, True), ready
            return True
        assert status.state == "Consistent", status
        for name in self.tenants:
            tenant = await self.shop.client.get(CAPTenant, name, self.shop.namespace)
            shown = tenant.status.state, tenant.status.current_version
            assert shown == ("Ready", f"shop-v{self.version}"), f"{name}: {tenant.status}"
        tenants = (await self.shop.client.list(metadata_of(CAPTenant), self.shop.namespace)).items
        assert {each.metadata.name for each in tenants} == self.tenants
        listed = (await self.shop.client.list(VirtualService, self.shop.namespace)).items
        served = {host for each in listed for host in each.spec.hosts}
        subdomains = (*self.tenants, *self.exposes)
        assert served == {f"{each}.{self.shop.namespace}.{HOSTS[name]}" for each in subdomains for name in self.refs}
        return True


def is_exposure(made: Unstructured) -> bool:
    """Whether this leads to an exposed service: the namespace is a part of its name, as a hash."""
    return re.fullmatch(r"shop[0-9a-f]{10}", made.metadata.name) is not None


async def end_state(walk: Walk, masks: Masks) -> Run:
    """What the operator has made for the last version, for tenants and exposed services, and what it shows."""
    client, namespace = walk.shop.client, walk.shop.namespace
    found: list[Unstructured] = []
    for kind in MADE:
        there = (await client.list(unstructured(kind.resource), namespace)).items
        found += [each for each in there if f"-v{walk.version}" in each.metadata.name or kind is VirtualService]
    hosts = {each.metadata.name: str(each.at("spec", "hosts")) for each in found if is_exposure(each)}
    exposed = {name: f"EXPOSED {text.replace(namespace, 'HERE')}" for name, text in hosts.items()}
    masks = replace(masks, words={**masks.words, **exposed})
    objects = masks.objects([{key: value for key, value in each.body.items() if key != "status"} for each in found])
    status = (await client.get(CAPApplication, "shop", namespace)).status
    listed: list[JsonValue] = [*sorted(f"{each.type} {each.status} {each.reason}" for each in status.conditions)]
    shown: JsonObject = {
        "state": status.state,
        "conditions": listed,
    }
    return Run((), {**objects, "shown": shown})


@pytest.fixture
def elsewhere(cap_cluster: LocalCluster) -> Iterator[str]:
    """A namespace for the fresh application."""
    name = clusters.create_namespace(cap_cluster)
    yield name
    world.leave_namespace(cap_cluster, name)


@pytest.mark.req("R-109")
@pytest.mark.timeout(max(180, 10 * WISHES))
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_walk_through_wishes_ends_where_a_fresh_application_begins(
    running: Running, shop: Shop, elsewhere: str, seed: int
) -> None:
    walk = Walk(shop, random.Random(seed))
    await walk.begin()
    for number in range(WISHES):
        await walk.step()
        where = f"seed {seed}, wish {number}: {walk.refs} {walk.version} {walk.tenants} {walk.exposes}"
        await eventually(walk.is_met, within=60, describe=where)
        await running.settled(shop.client)
        assert await walk.is_met(), where
    walk.refs, walk.tenants = ("second", "primary"), walk.tenants | {"acme"}
    await walk.apply()
    await shop.subscribe("acme")
    await walk.release_another()
    await eventually(walk.is_met, within=60, describe="the last wish is met")
    await running.settled(shop.client)

    there = Shop(shop.client, elsewhere)
    fresh = Walk(there, random.Random(0), refs=walk.refs, version=walk.version, exposes=walk.exposes)
    await fresh.begin()
    for name in sorted(walk.tenants):
        await there.subscribe(name)
    fresh.tenants = walk.tenants
    await eventually(fresh.is_met, within=60, describe="a fresh application comes to the same")
    await running.settled(shop.client)

    masks = Masks(words={shop.namespace: "HERE", there.namespace: "HERE"}, paths=OF_THE_NAMESPACE)
    assert_same(await end_state(walk, masks), await end_state(fresh, masks))
