"""Which VirtualService has a host that several want."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.unit.cap import given

from stellwerk.api.istio import VirtualService, VirtualServiceSpec
from stellwerk.apply.objects.desired import Desired
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.operators.cap.routing import claims, virtual_services
from stellwerk.operators.cap.watches import Caches, wire_applications
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.process.manager import Manager

pytestmark = pytest.mark.req("R-918", "R-915")

HOST = "acme.shop.example.com"


def live(name: str, age: int, *hosts: str, kind: str = "CAPTenant", namespace: str = "shop") -> Live:
    """The VirtualService of a tenant or an application; `age` is the second in which it was created."""
    owner: JsonObject = {"apiVersion": "sme.sap.com/v1alpha1", "kind": kind, "name": name, "uid": "1"}
    metadata = given.metadata(
        name,
        namespace=namespace,
        creationTimestamp=f"2026-01-01T00:00:{age:02}Z",
        ownerReferences=[{**owner, "controller": True}] if kind else [],
    )
    body: JsonObject = {
        "apiVersion": VirtualService.resource.api_version,
        "kind": "VirtualService",
        "metadata": metadata,
        "spec": {"hosts": [*(hosts or (HOST,))]},
    }
    return Unstructured.of(body)


def wanted(name: str = "acme", *hosts: str) -> Desired:
    spec: JsonObject = {"hosts": [*(hosts or (HOST,))], "gateways": ["shop/gate"]}
    return Desired.named(VirtualService.resource, ObjectKey("shop", name), {}, spec=spec)


def holders(*others: Live, mine: Live | None = None, of_tenant: bool = True) -> list[str]:
    """The names of the VirtualServices that keep the one of `acme` from its host."""
    found = claims.taken(
        wanted(), mine, lambda host: [each for each in others if host in claims.hosts_of(each)], of_tenant=of_tenant
    )
    return [each.metadata.name for each in found.values()]


def test_a_tenant_gets_no_host_that_another_tenant_or_an_exposure_of_another_namespace_has() -> None:
    assert holders(live("other", 1)) == ["other"]
    assert holders(live("acme", 1, namespace="elsewhere")) == ["acme"]
    assert holders(live("shop1", 1, kind="CAPApplication", namespace="elsewhere")) == ["shop1"]
    assert holders(live("other", 1, HOST.upper())) == ["other"]
    assert holders(live("later", 2), live("other", 1)) == ["other"]


def test_a_tenant_shares_a_host_with_an_exposure_of_its_namespace_and_with_what_no_tenant_owns() -> None:
    assert holders(live("acme", 1)) == [], "its own"
    assert holders(live("other", 1, "b.shop.example.com")) == []
    assert holders(live("shop1", 1, kind="CAPApplication")) == []
    assert holders(live("other", 1, kind="")) == []


def test_an_exposure_shares_its_host_within_its_namespace_only() -> None:
    assert holders(live("other", 1), of_tenant=False) == []
    assert holders(live("other", 1, namespace="elsewhere"), of_tenant=False) == ["other"]
    assert holders(live("shop1", 1, kind="CAPApplication", namespace="elsewhere"), of_tenant=False) == ["shop1"]


def test_of_two_that_have_a_host_the_older_keeps_it() -> None:
    mine = live("acme", 2)
    assert holders(live("other", 1), mine=mine) == ["other"]
    assert holders(live("other", 3), mine=mine) == []
    assert holders(live("other", 3), mine=live("acme", 2, "former.example.com")) == ["other"], "the host is new to it"


def test_a_virtual_service_keeps_the_hosts_that_nobody_else_has() -> None:
    spec = VirtualServiceSpec(hosts=(HOST, "acme.b.example.com"), gateways=("shop/gate",))
    route = wanted("acme", *spec.hosts), virtual_services.spec_hash(spec)
    rest = claims.without(route, {HOST})
    assert rest is not None
    assert rest[0].body["spec"] == {"hosts": ["acme.b.example.com"], "gateways": ["shop/gate"]}
    assert rest[1] != route[1]
    assert claims.without(route, spec.hosts) is None


def test_the_message_names_the_holder_and_the_next_step() -> None:
    message = claims.message(wanted(), {HOST: live("other", 1, namespace="elsewhere")})
    assert message.startswith(f"CAPTenant elsewhere/other had the host {HOST} before VirtualService shop/acme")
    assert message.endswith("kubectl get virtualservice other -n elsewhere")


def test_an_application_that_may_want_a_host_goes_on_when_another_one_gets_it_or_gives_it_up() -> None:
    caches = Caches(Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid"))))
    exposures: Any = [{"subDomain": "ACME.eu", "routes": []}]
    caches.tenants.take(Synced((given.tenant(), given.tenant("other")), "1"))
    caches.versions.take(Synced((given.version(serviceExposures=exposures),), "1"))
    wired = list[tuple[Any, Any]]()
    fields = {"queue": None, "primary": caches.applications, "watches": lambda *each: wired.append(each)}
    wire_applications(cast("Any", SimpleNamespace(**fields)), caches)
    found = [keys for informer, keys in wired if informer is caches.virtual_services]

    def woken(old: Live | None, new: Live | None) -> set[str]:
        return {key.name for keys in found[1:] for key in keys(Delta(old, new))}

    waiting = {"bookshop"}
    foreign = live("any", 1, namespace="elsewhere")
    assert woken(None, foreign) == waiting
    assert woken(foreign, None) == waiting
    assert woken(foreign, live("any", 1, "b.example.com", namespace="elsewhere")) == waiting
    assert woken(foreign, foreign) == set()
