"""What becomes of a tenant's VirtualService, and what is written of it besides its routes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.cap.domain.given import domain
from tests.unit.cap.given import application, deployment, tenant, version

from stellwerk.api.istio import VirtualServiceSpec
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.model import PartialObjectMetadata, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.application import exposures
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import DomainStatus
from stellwerk.operators.cap.routing import objects
from stellwerk.operators.cap.routing.headers import InvalidHeaders
from stellwerk.operators.cap.tenant import networking
from stellwerk.operators.cap.tenant.networking import lacking_metadata, unready_hosts, unrouted

REFERRING = application(domainRefs=[{"kind": "Domain", "name": "primary"}])


def annotated(found: CAPApplication, **annotations: str) -> CAPApplication:
    marked = msgspec.structs.replace(found.metadata, annotations=annotations)
    return msgspec.structs.replace(found, metadata=marked)


def find_domain(_: str, reference: DomainRef, *, state: str = "Ready") -> AnyDomain:
    status = DomainStatus(state=state, gateway_name=f"{reference.name}-gateway")
    return msgspec.structs.replace(domain(f"{reference.name}.example.com"), status=status)


def unready_domain(namespace: str, reference: DomainRef) -> AnyDomain:
    return find_domain(namespace, reference, state="Processing")


def with_hosts(*hosts: str) -> VirtualServiceSpec:
    return VirtualServiceSpec(hosts=hosts, gateways=("primary-gateway",), http=())


def test_a_tenant_without_domains_or_a_router_has_no_routes() -> None:
    assert unrouted(REFERRING, version()) == ""
    assert unrouted(application(), version()) == "CAPApplication shop/bookshop has no domains"
    assert unrouted(REFERRING, version(deployment("srv", "CAP"))).endswith("has no router")


def test_a_tenant_keeps_its_routes_until_domains_that_are_written_into_its_application_are_objects() -> None:
    assert unrouted(application(domains={"primary": "shop.example.com"}), version()) == ""


def test_hosts_stay_until_the_domains_of_new_ones_are_ready() -> None:
    desired = objects.of_tenant(tenant(), with_hosts("acme.new.example.com"))
    former: Live = Unstructured.of(objects.of_tenant(tenant(), with_hosts("acme.old.example.com")).body)
    waits = unready_hosts(desired, former, REFERRING, unready_domain)
    assert waits == "Domain primary of CAPApplication shop/bookshop is not Ready"
    assert unready_hosts(desired, former, REFERRING, find_domain) == ""
    spec = msgspec.structs.replace(with_hosts("acme.new.example.com"), gateways=("bookshop-gw",))
    assert unready_hosts(desired, Unstructured.of(objects.of_tenant(tenant(), spec).body), REFERRING, unready_domain)
    assert unready_hosts(desired, Unstructured.of(desired.body), REFERRING, unready_domain) == ""


def test_a_version_that_a_tenant_came_back_to_has_its_routes_once() -> None:
    subject = tenant()
    former = ("bookshop-v1", "bookshop-v2", "bookshop-v1")
    subject = msgspec.structs.replace(subject, status=msgspec.structs.replace(subject.status, previous_versions=former))
    sticky = annotated(REFERRING, **{names.AFFINITY_ANNOTATION: "true"})
    found = networking.routes(
        subject, sticky, version(name="bookshop-v3"), find_domain, lambda key: version(name=key.name), "cap-system"
    )
    assert found is not None
    spec: Any = found[0].body["spec"]
    hosts = [route["route"][0]["destination"]["host"].partition("-app-svc")[0] for route in spec["http"]]
    assert hosts == [*("bookshop-v1", "bookshop-v2", "bookshop-v3") * 2, "bookshop-v3"]


def test_headers_that_cannot_be_read_matter_only_where_services_are_exposed() -> None:
    broken = annotated(REFERRING, **{names.REQUEST_HEADERS_ANNOTATION: "{not json"})
    assert exposures.routes(broken, version(), (), find_domain, "cap-system") == {}
    exposed = version(serviceExposures=[{"subDomain": "api", "routes": [{"workloadName": "srv", "port": 4004}]}])
    with pytest.raises(InvalidHeaders):
        exposures.routes(broken, exposed, (), find_domain, "cap-system")


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
