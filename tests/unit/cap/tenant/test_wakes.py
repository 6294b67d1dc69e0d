"""Which changes wake a tenant: those of what its last pass asked for, once each."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.cap import given
from tests.unit.cap.routing.test_claims import live
from tests.unit.cap.tenant.given import V1, V2, a_tenant, an_application
from tests.unit.cap.tenant.worlds import odd

from stellwerk.kube.types.model import owner_reference
from stellwerk.kube.watch.watch_states import Changed, Odd, Removed
from stellwerk.operators.cap import preparation
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
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, TenantStatus
from stellwerk.operators.cap.tenant import plan
from stellwerk.operators.cap.tenant.decide import TenantLogic
from stellwerk.operators.cap.tenant.routes import TenantSettings
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.steps import Watched, World

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


def shop() -> Watched[CAPTenant, TenantStatus]:
    """Tenants of an application whose last passes were on these caches."""
    clock = FakeClock()
    around: dict[Any, list[Any]] = {each: [] for each in (OPERATIONS, OUTPUTS, CLUSTER_DOMAINS, ROUTES)}
    around |= {APPLICATIONS: [APPLICATION], VERSIONS: [V1, V2], DOMAINS: [DOMAIN], TENANTS: ALL}
    settings = (TenantSettings(home="cap-system"),)
    watched = Watched.of(World(logic=TenantLogic(clock), obj=ACME, objects=around, settings=settings, clock=clock))
    watched.decide(*ALL)
    return watched


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
    assert shop().passes_after(collection, change) == woken


async def test_an_operation_that_could_never_be_read_wakes_its_tenant_when_it_is_gone() -> None:
    tenants, hidden = shop(), odd(CAPTenantOperation, "op", owner_references=(owner_reference(ACME),))
    tenants.take(OPERATIONS, Odd(hidden))
    tenants.decide(ACME)
    assert tenants.passes_after(OPERATIONS, Removed(hidden)) == ONE
