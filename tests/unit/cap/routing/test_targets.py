"""What versions, applications and domains offer to routes, and the objects that come of it."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from tests.unit.cap.domain.given import cluster_domain, domain
from tests.unit.cap.routing.given import version

from stellwerk.api.istio import PortSelector, VirtualServiceSpec
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.application import ApplicationSpec, BtpServices, CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import DomainStatus
from stellwerk.operators.cap.kinds.tenant import CAPTenant, TenantSpec
from stellwerk.operators.cap.routing import objects, targets, virtual_services
from stellwerk.operators.cap.routing.targets import ServedDomain, Unroutable

SPEC = VirtualServiceSpec(hosts=("acme.app.example.com",), gateways=("primary",))


def workload(name: str, type: str, *ports: int) -> dict[str, Any]:
    listed = [{"name": f"p{port}", "port": port} for port in ports]
    definition = {"image": "i", "type": type, "ports": listed}
    return {"name": name, "consumedBTPServices": [], "deploymentDefinition": definition}


APPLICATION = CAPApplication(
    metadata=ObjectMeta(name="shop", namespace="shop", uid="uid-shop"),
    spec=ApplicationSpec(
        btp_app_name="shop",
        btp=BtpServices(services=()),
        domain_refs=(
            DomainRef(kind="ClusterDomain", name="everywhere"),
            DomainRef(kind="Domain", name="primary.one"),
            DomainRef(kind="Domain", name="absent"),
        ),
    ),
)


def test_the_router_is_the_first_one_at_its_first_port() -> None:
    found = targets.router_of(
        version(
            workload("srv", "CAP"),
            workload("Router", "Router", 8080, 9090),
            workload("second", "Router"),
            annotations={names.LOGOUT_ENDPOINT_ANNOTATION: "/bye"},
        )
    )
    assert found is not None
    assert (found.name, found.destination.port, found.logout_endpoint) == ("shop-v1", PortSelector(number=8080), "/bye")
    assert found.destination.host == "shop-v1-router-svc.shop.svc.cluster.local"
    bare = targets.router_of(version(workload("router", "Router")))
    assert bare is not None
    assert bare.destination.port == PortSelector(number=5000)
    assert targets.router_of(version(workload("srv", "CAP"))) is None


def test_a_router_and_workloads_of_exposed_routes_may_be_reached() -> None:
    exposure = {"subDomain": "api", "routes": [{"workloadName": "api", "port": 4004, "path": "/v2"}]}
    made = version(
        workload("router", "Router"), workload("api", "Service"), workload("job", "CAP"), serviceExposures=[exposure]
    )
    assert targets.exposed_workloads(made) == {"router", "api"}


def test_hosts_of_domains_come_before_those_of_cluster_domains() -> None:
    own = msgspec.structs.replace(domain("own.example.com"), status=DomainStatus(gateway_name="own-gw"))
    wide = msgspec.structs.replace(cluster_domain("wide.example.com"), status=DomainStatus(gateway_name="wide-gw"))
    found: dict[str, AnyDomain] = {"primary.one": own, "everywhere": wide}
    assert targets.served_domains(APPLICATION, lambda _, reference: found.get(reference.name), "cap-system") == (
        ServedDomain("own.example.com", "own-gw"),
        ServedDomain("wide.example.com", "cap-system/wide-gw"),
    )


def test_a_domain_without_a_gateway_so_far_has_no_route() -> None:
    assert targets.served_domains(APPLICATION, lambda *_: domain(), "cap-system") == ()


def test_the_virtual_service_of_a_tenant_has_its_name_and_labels() -> None:
    given = {names.TENANT_TYPE_LABEL: "consumer", names.SUBSCRIPTION_GUID: "guid"}
    tenant = CAPTenant(
        metadata=ObjectMeta(name="acme", namespace="shop", generation=2, labels=given),
        spec=TenantSpec(cap_application_instance="shop", sub_domain="acme", tenant_id="t1"),
    )
    made = objects.of_tenant(tenant, SPEC)
    assert made.body == {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": {
            "name": "acme",
            "namespace": "shop",
            "labels": {
                names.OWNER_HASH_LABEL: hashlib.sha1(b"shopacme").hexdigest(),
                names.OWNER_GENERATION_LABEL: "2",
                **given,
            },
            "annotations": {names.OWNER_ANNOTATION: "shop.acme", names.SUBSCRIPTION_GUID: "guid"},
        },
        "spec": {"hosts": ["acme.app.example.com"], "gateways": ["primary"]},
    }


def test_the_virtual_service_of_an_exposure_is_found_by_its_owner_and_its_first_host() -> None:
    made = objects.of_exposure(APPLICATION, "api", SPEC)
    owner = hashlib.sha1(b"CAPApplicationshopshop").hexdigest()
    assert made.body["metadata"] == {
        "name": made.key.name,
        "namespace": "shop",
        "labels": {names.OWNER_HASH_LABEL: owner},
    }
    assert (
        made.key == objects.of_exposure(APPLICATION, "api", SPEC).key != objects.of_exposure(APPLICATION, "b", SPEC).key
    )
    assert objects.of_exposure(APPLICATION, "api", SPEC, "shop7x2kp").key == ObjectKey("shop", "shop7x2kp")
    assert objects.first_host(["api.app.example.com"]) == "api.app.example.com"
    assert objects.first_host(None) == objects.first_host([7]) == objects.first_host([]) == ""


def test_the_hash_is_that_of_the_spec_alone() -> None:
    text = '{"hosts":["acme.app.example.com"],"gateways":["primary"]}'
    assert virtual_services.spec_hash(SPEC) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.req("R-408")
@pytest.mark.parametrize("subdomain", ["*", "", "a b", "-a", "a.", "a/b", "x" * 64, "a.*.b", "é"])
def test_a_subdomain_that_can_be_no_part_of_a_host_is_refused(subdomain: str) -> None:
    with pytest.raises(Unroutable, match="cannot be a part of a host"):
        targets.check_subdomain(subdomain, "CAPTenant shop/acme")


@pytest.mark.parametrize("subdomain", ["acme", "a", "Acme_1", "my-own.shop", "x" * 63])
def test_a_subdomain_of_letters_and_digits_is_taken(subdomain: str) -> None:
    targets.check_subdomain(subdomain, "CAPTenant shop/acme")
