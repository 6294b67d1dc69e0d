"""What becomes of a tenant's VirtualService, and what is written of it besides its routes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap.domain.given import domain
from tests.unit.cap.given import application, deployment, tenant, version

from stellwerk.api.istio import VirtualServiceSpec
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import PartialObjectMetadata, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.application import exposures
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.hashed_objects import HashedObjects
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import DomainStatus
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.routing import objects
from stellwerk.operators.cap.routing.targets import Unroutable
from stellwerk.operators.cap.tenant import networking
from stellwerk.operators.cap.tenant.networking import NetworkingFailed, lacking_metadata, routed_hosts, unrouted
from stellwerk.operators.cap.watches import Caches
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock

REFERRING = application(domainRefs=[{"kind": "Domain", "name": "primary"}])


def annotated(found: CAPApplication, **annotations: str) -> CAPApplication:
    marked = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(found, metadata=marked)


def find_domain(_: str, reference: DomainRef, *, state: str = "Ready") -> AnyDomain:
    status = DomainStatus(state=state, gateway_name=f"{reference.name}-gateway")
    return msgspec.structs.replace(domain(f"{reference.name}.example.com"), status=status)


def unready_domain(namespace: str, reference: DomainRef) -> AnyDomain:
    return find_domain(namespace, reference, state="Processing")


def tenant_routes(*pairs: tuple[str, str]) -> Live:
    """The live VirtualService with these hosts and gateways."""
    hosts, gateways = tuple(f"acme.{host}" for host, _ in pairs), tuple(gateway for _, gateway in pairs)
    spec = VirtualServiceSpec(hosts=hosts, gateways=gateways, http=())
    return Unstructured.of(objects.of_tenant(tenant(), spec).body)


def test_a_tenant_without_domains_or_a_router_has_no_routes() -> None:
    assert unrouted(REFERRING, version()) == ""
    assert unrouted(application(), version()) == "CAPApplication shop/bookshop has no domains"
    assert unrouted(REFERRING, version(deployment("srv", "CAP"))).endswith("has no router")


def test_a_tenant_keeps_its_routes_until_domains_that_are_written_into_its_application_are_objects() -> None:
    assert unrouted(application(domains={"primary": "shop.example.com"}), version()) == ""


FORMER = ("former.example.com", "bookshop-gw")
"""Host and gateway that a release before Domain served."""


def at(host: str, name: str) -> tuple[str, str]:
    return f"{host}.example.com", f"{name}-gateway"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Domains with their states, what is live, and what is served then."""

    live: list[tuple[str, str]]
    domains: dict[str, str]
    served: list[tuple[str, str]]
    waits_for: str = ""


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            Case(live=[at("old", "old")], domains={"new": "Processing"}, served=[at("old", "old")], waits_for="new"),
            id="the hosts stay until the domain that replaces theirs is Ready",
        ),
        pytest.param(
            Case(live=[at("old", "old")], domains={"new": "Ready"}, served=[at("new", "new")]),
            id="a Ready domain replaces the former",
        ),
        pytest.param(
            Case(live=[at("old", "old")], domains={"new": ""}, served=[at("old", "old")], waits_for="new"),
            id="a domain that does not exist replaces none",
        ),
        pytest.param(
            Case(
                live=[at("a", "a")],
                domains={"a": "Ready", "new": "Error", "b": "Ready"},
                served=[at("a", "a"), at("b", "b")],
                waits_for="new",
            ),
            id="a healthy domain is served beside one that never becomes Ready",
        ),
        pytest.param(
            Case(live=[at("a", "a")], domains={"a": "Error", "b": "Ready"}, served=[at("a", "a"), at("b", "b")]),
            id="a domain that was served stays so in Error, and delays no other",
        ),
        pytest.param(
            Case(live=[at("a", "a"), at("b", "b")], domains={"a": "Error"}, served=[at("a", "a")]),
            id="a removed domain goes while another is in Error",
        ),
        pytest.param(
            Case(live=[at("earlier", "a")], domains={"a": "Ready"}, served=[at("a", "a")]),
            id="a changed host of a Ready domain is followed",
        ),
        pytest.param(
            Case(live=[at("earlier", "a")], domains={"a": "Processing"}, served=[at("a", "a")]),
            id="a changed host is followed while its certificate is made, because the Gateway has it",
        ),
        pytest.param(
            Case(live=[FORMER], domains={"former": "Processing"}, served=[FORMER], waits_for="former"),
            id="the same host stays at its gateway until the other gateway's domain is Ready",
        ),
    ],
)
def test_each_host_is_served_by_a_gateway_that_works(case: Case) -> None:
    referring = application(domainRefs=[{"kind": "Domain", "name": name} for name in case.domains])

    def find(namespace: str, reference: DomainRef) -> AnyDomain | None:
        state = case.domains[reference.name]
        return find_domain(namespace, reference, state=state) if state else None

    found = routed_hosts(referring, tenant_routes(*case.live), find, "cap-system")
    made = networking.routes(tenant(), referring, version(), found, lambda _: None)
    assert made is not None
    spec: Any = made[0].body["spec"]
    assert spec["hosts"] == [f"acme.{host}" for host, _ in case.served]
    assert spec["gateways"] == [gateway for _, gateway in case.served]
    assert case.waits_for in found.waits
    assert bool(found.waits) == bool(case.waits_for)


def test_while_a_domain_is_waited_for_requests_move_to_the_version() -> None:
    found = routed_hosts(REFERRING, tenant_routes(FORMER), unready_domain, "cap-system")
    made = networking.routes(tenant(), REFERRING, version(name="bookshop-v9"), found, lambda _: None)
    assert made is not None
    spec: Any = made[0].body["spec"]
    assert spec["http"][0]["route"][0]["destination"]["host"].startswith("bookshop-v9-")
    assert found.waits == "Domain primary of CAPApplication shop/bookshop is not Ready"


def test_the_first_routes_of_a_tenant_wait_for_no_domain() -> None:
    found = routed_hosts(REFERRING, None, unready_domain, "cap-system")
    assert [each.gateway for each in found.domains] == ["primary-gateway"]
    assert found.waits == ""


def test_a_version_that_a_tenant_came_back_to_has_its_routes_once() -> None:
    subject = tenant()
    former = ("bookshop-v1", "bookshop-v2", "bookshop-v1")
    subject = msgspec.structs.replace(subject, status=msgspec.structs.replace(subject.status, previous_versions=former))
    sticky = annotated(REFERRING, **{names.AFFINITY_ANNOTATION: "true"})
    reached = routed_hosts(sticky, None, find_domain, "cap-system")
    found = networking.routes(subject, sticky, version(name="bookshop-v3"), reached, lambda key: version(name=key.name))
    assert found is not None
    spec: Any = found[0].body["spec"]
    hosts = [route["route"][0]["destination"]["host"].partition("-app-svc")[0] for route in spec["http"]]
    assert hosts == [*("bookshop-v1", "bookshop-v2", "bookshop-v3") * 2, "bookshop-v3"]


def test_headers_that_cannot_be_read_matter_only_where_services_are_exposed() -> None:
    broken = annotated(REFERRING, **{names.REQUEST_HEADERS_ANNOTATION: "{not json"})
    assert exposures.routes(broken, version(), (), find_domain, "cap-system") == {}
    exposed = version(serviceExposures=[{"subDomain": "api", "routes": [{"workloadName": "srv", "port": 4004}]}])
    with pytest.raises(Unroutable):
        exposures.routes(broken, exposed, (), find_domain, "cap-system")


@pytest.mark.req("R-952")
def test_no_route_of_the_controller_sets_the_word_of_the_gateway_unless_that_is_allowed() -> None:
    forging = annotated(REFERRING, **{names.REQUEST_HEADERS_ANNOTATION: '{"x-forwarded-client-cert": "a"}'})
    exposed = version(serviceExposures=[{"subDomain": "api", "routes": [{"workloadName": "srv", "port": 4004}]}])
    with pytest.raises(Unroutable, match="ALLOWED_ROUTE_HEADERS=x-forwarded-client-cert"):
        exposures.routes(forging, exposed, (), find_domain, "cap-system")
    hosts = routed_hosts(forging, None, find_domain, "cap-system")
    with pytest.raises(NetworkingFailed, match="ALLOWED_ROUTE_HEADERS=x-forwarded-client-cert"):
        networking.routes(tenant(), forging, version(), hosts, lambda _: None)
    allowed = ("x-forwarded-client-cert",)
    assert exposures.routes(forging, exposed, (), find_domain, "cap-system", allowed)
    assert networking.routes(tenant(), forging, version(), hosts, lambda _: None, allowed)


def exposing(*subdomains: str) -> CAPApplicationVersion:
    routes = [{"workloadName": "srv", "port": 4004}]
    return version(serviceExposures=[{"subDomain": subdomain, "routes": routes} for subdomain in subdomains])


def exposure(subdomain: str, host: str = "primary.example.com", name: str = "") -> Live:
    """The live VirtualService of a subdomain."""
    spec = VirtualServiceSpec(hosts=(f"{subdomain}.{host}",), gateways=("primary-gateway",), http=())
    return Unstructured.of(objects.of_exposure(REFERRING, subdomain, spec, name).body)


def names_by_host(subject: CAPApplicationVersion, *live: Live) -> dict[str, str]:
    found = exposures.routes(REFERRING, subject, live, find_domain, "cap-system")
    specs: list[tuple[str, Any]] = [(address.key.name, desired.body["spec"]) for address, (desired, _) in found.items()]
    return {spec["hosts"][0]: name for name, spec in specs}


@pytest.mark.parametrize("generated", ["", "bookshopx7k2q"])
@pytest.mark.parametrize("host", ["primary.example.com", "former.example.com"])
@pytest.mark.parametrize("order", [("a", "a.b"), ("a.b", "a")])
def test_two_exposures_whose_subdomains_begin_alike_have_two_objects(
    order: tuple[str, str], host: str, generated: str
) -> None:
    live = exposure("a.b", host, generated)
    found = names_by_host(exposing(*order), live)
    assert len(set(found.values())) == 2
    if host == "primary.example.com" or not generated:
        assert found["a.b.primary.example.com"] == live.metadata.name
    both = [exposure("a"), exposure("a.b")]
    assert names_by_host(exposing(*order), *both) == names_by_host(exposing(*order), *reversed(both))


@pytest.mark.parametrize("host", ["primary.example.com", "former.example.com"])
def test_the_object_of_an_exposure_keeps_its_generated_name(host: str) -> None:
    others = [exposure("a.b", name="bookshopfirst"), exposure("b", host, "bookshopother")]
    found = names_by_host(exposing("a.b", "a", "b"), *others, exposure("a", host, "bookshopx7k2q"))
    assert found == {
        "a.primary.example.com": "bookshopx7k2q",
        "a.b.primary.example.com": "bookshopfirst",
        "b.primary.example.com": "bookshopother",
    }


async def test_what_is_remembered_of_the_object_of_an_exposure_goes_with_the_exposure() -> None:
    address = exposures.address_of(exposure("api"))
    memory = ObservedState(confirmations={address: cast("Any", "of the last write")})
    client = Client.connect(ClusterConfig(server="https://127.0.0.1:1"))
    writer = HashedObjects(client=client, clock=FakeClock(), informers={}, on_throttled=lambda _: None)
    kept = exposures.ServiceNetworking(caches=Caches(Manager(client)), objects=writer, operator_namespace="cap-system")
    assert not (await kept.keep(REFERRING, exposing(), memory)).is_changed
    assert not memory.confirmations


def test_only_labels_and_annotations_that_are_absent_are_added() -> None:
    desired = objects.of_tenant(tenant(), VirtualServiceSpec(hosts=("a",), gateways=("b",), http=()))
    labels = {names.OWNER_HASH_LABEL: "other", names.OWNER_GENERATION_LABEL: "7", names.TENANT_TYPE_LABEL: "consumer"}
    annotations = names.owner_annotations(tenant().key)
    complete = PartialObjectMetadata(metadata=ObjectMeta(name="acme", labels=labels, annotations=annotations))
    assert lacking_metadata(desired, complete) == {}
    bare = PartialObjectMetadata(metadata=ObjectMeta(name="acme", labels={names.OWNER_HASH_LABEL: "other"}))
    assert lacking_metadata(desired, bare) == {
        "labels": {names.OWNER_GENERATION_LABEL: "1", names.TENANT_TYPE_LABEL: "consumer"},
        "annotations": {**annotations},
    }
