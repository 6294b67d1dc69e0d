"""Which changes wake a tenant: those of what its last pass asked for, once each."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.routing.test_claims import live
from tests.unit.cap.tenant.given import V1, V2, a_tenant, an_application
from tests.unit.cap.tenant.worlds import odd

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import PartialObjectMetadata, Unstructured, owner_reference
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Odd, Removed, Synced
from stellwerk.operators.cap import collections, preparation
from stellwerk.operators.cap.collections import (
    APPLICATIONS,
    CLUSTER_DOMAINS,
    DOMAINS,
    OPERATIONS,
    OUTPUTS,
    ROUTES,
    TENANTS,
    VERSIONS,
)
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.tenant import decide, plan, routes
from stellwerk.operators.cap.tenant.decide import TenantLogic
from stellwerk.operators.cap.tenant.routes import TenantSettings
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.control.executor import Deciding, InformerSources
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.view import Overlay
from stellwerk.testing.clock import FakeClock

TENANTS_IN_SHOP = 3
APPLICATION = msgspec.structs.replace(
    an_application("Consistent"), spec=given.application(domainRefs=[{"kind": "Domain", "name": "d1"}]).spec
)
DOMAIN = msgspec.convert(
    {
        "metadata": {"name": "d1", "namespace": "shop", "uid": "d1"},
        "spec": {"domain": "d1.example.com", "ingressSelector": {"app": "gw"}},
        "status": {"state": "Ready", "gatewayName": "gw-1"},
    },
    Domain,
)


def the_tenant(number: int) -> CAPTenant:
    """A tenant at rest, but for its routes."""
    tenant, name = a_tenant("1.0.0", "bookshop-v1"), f"acme-{number}"
    metadata = msgspec.structs.replace(tenant.metadata, name=name, uid=name, labels={})
    spec = msgspec.structs.replace(tenant.spec, sub_domain=name, tenant_id=name)
    status = msgspec.structs.replace(tenant.status, observed_generation=1)
    tenant = msgspec.structs.replace(tenant, metadata=metadata, spec=spec, status=status)
    lacking = plan.absent(tenant, APPLICATION)
    return preparation.prepared(tenant, lacking) if lacking is not None else tenant


ALL = [the_tenant(number) for number in range(TENANTS_IN_SHOP)]
ACME = ALL[0]


class Shop:
    """Tenants of an application whose last passes were on these caches."""

    def __init__(self, *present: CAPTenant) -> None:
        manager = Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
        Caches(manager)
        self.sources = InformerSources(manager, collections.ALL)
        clock: Any = FakeClock()
        nothing: Any = None
        settings = (TenantSettings(home="cap-system"),)
        logic = TenantLogic(clock)
        self.deciding: Any = Deciding(logic=logic, sources=self.sources, client=nothing, clock=clock, settings=settings)
        self.woken: list[str] = []
        queue = SimpleNamespace(add=lambda key: self.woken.append(key.name))
        self.deciding.serve(cast(Any, SimpleNamespace(queue=queue)))
        empty: tuple[Any, ...] = (OPERATIONS, OUTPUTS, CLUSTER_DOMAINS, ROUTES)
        for collection in empty:
            self.take(collection, Synced((), "1"))
        self.take(APPLICATIONS, Synced((APPLICATION,), "1"))
        self.take(VERSIONS, Synced((V1, V2), "1"))
        self.take(DOMAINS, Synced((DOMAIN,), "1"))
        self.take(TENANTS, Synced(present or tuple(ALL), "1"))
        for tenant in present or ALL:
            self.deciding.step(tenant, Overlay())
        self.woken.clear()

    def take(self, collection: Any, change: Any) -> None:
        """Have the cache of a collection see a change."""
        self.sources.informer(collection).take(change)


def changed(obj: Any, version: str, **fields: Any) -> Changed[Any]:
    """The object with another resourceVersion, and with these fields of its status."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version=version)
    return Changed(
        msgspec.structs.replace(obj, metadata=metadata, status=msgspec.structs.replace(obj.status, **fields))
    )


def with_spec(obj: Any, **fields: Any) -> Changed[Any]:
    """The object with these fields of its spec."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version="9", generation=2)
    return Changed(msgspec.structs.replace(obj, metadata=metadata, spec=msgspec.structs.replace(obj.spec, **fields)))


def operation_of(tenant: CAPTenant, **status: Any) -> CAPTenantOperation:
    owner = msgspec.to_builtins(owner_reference(tenant))
    return given.operation("upgrade", name="op", metadata=given.metadata("op", ownerReferences=[owner]), status=status)


NOBODY: list[str] = []
EVERYBODY = [each.metadata.name for each in ALL]
ONE = [ACME.metadata.name]


@pytest.mark.parametrize(
    ("collection", "change", "woken"),
    [
        (APPLICATIONS, changed(APPLICATION, "2", state="Processing"), NOBODY),
        (APPLICATIONS, with_spec(APPLICATION, btp_app_name="other"), EVERYBODY),
        (APPLICATIONS, Removed(APPLICATION), EVERYBODY),
        (APPLICATIONS, Odd(odd(type(APPLICATION), "bookshop")), EVERYBODY),
        (VERSIONS, changed(V2, "2", finished_jobs=("load",)), NOBODY),
        (VERSIONS, changed(V2, "2", conditions=()), EVERYBODY),
        (VERSIONS, Odd(odd(type(V1), "another")), EVERYBODY),
        (DOMAINS, changed(DOMAIN, "2", observed_generation=7), NOBODY),
        (DOMAINS, changed(DOMAIN, "2", state="Processing"), EVERYBODY),
        (OPERATIONS, Changed(operation_of(ACME)), ONE),
        (OPERATIONS, Odd(odd(CAPTenantOperation, "op", owner_references=(owner_reference(ACME),))), ONE),
        (OPERATIONS, Changed(given.operation(name="of nobody")), NOBODY),
        (TENANTS, changed(ACME, "2", state="Upgrading"), NOBODY),
        (TENANTS, with_spec(ALL[1], tenant_id=ACME.spec.tenant_id), ONE),
        (TENANTS, Odd(odd(CAPTenant, "hidden")), EVERYBODY),
        (ROUTES, Changed(live(ACME.metadata.name, 1, "x.example.com")), ONE),
        (ROUTES, Changed(live("rival", 1, f"{ACME.metadata.name}.d1.example.com", namespace="elsewhere")), ONE),
        (ROUTES, Changed(live("rival", 1, "another.example.com", namespace="elsewhere")), NOBODY),
    ],
)
def test_a_change_wakes_those_who_asked_for_it_once_each(collection: Any, change: Any, woken: list[str]) -> None:
    shop = Shop()
    shop.take(collection, change)
    assert sorted(shop.woken) == woken


async def test_an_operation_that_could_never_be_read_wakes_its_tenant_when_it_is_gone() -> None:
    shop, hidden = Shop(), odd(CAPTenantOperation, "op", owner_references=(owner_reference(ACME),))
    shop.take(OPERATIONS, Odd(hidden))
    shop.deciding.step(ACME, Overlay())
    shop.woken.clear()
    shop.take(OPERATIONS, Removed(hidden))
    assert shop.woken == ONE


@pytest.mark.parametrize(
    ("aspect", "seen"),
    [
        (collections.as_asked, APPLICATION),
        (decide.offers_versions, APPLICATION),
        (collections.name_of, APPLICATION),
        (decide.use_of_data, ACME),
        (collections.offer, V1),
        (routes.served, DOMAIN),
        (routes.holder, live("acme", 1)),
        (routes.holder, PartialObjectMetadata(metadata=ObjectMeta(name="acme", namespace="shop"))),
    ],
)
def test_no_aspect_changes_with_the_version_of_its_object_alone(aspect: Callable[[Any], Any], seen: Any) -> None:
    metadata = msgspec.structs.replace(seen.metadata, resource_version="another")
    if isinstance(seen, Unstructured):
        other: Any = Unstructured(seen.body, metadata)
    else:
        other = msgspec.structs.replace(seen, metadata=metadata)
    assert aspect(other) == aspect(seen)
