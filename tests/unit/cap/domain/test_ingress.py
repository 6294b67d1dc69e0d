"""Where the ingress gateway of a domain is."""

from __future__ import annotations

import pytest
from tests.unit.cap.domain.given import SETTINGS, domain

from stellwerk.api.core import ObjectReference, Service, ServiceSpec
from stellwerk.api.discovery import SERVICE_NAME_LABEL, Endpoint, EndpointSlice
from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap.domain import ingress
from stellwerk.operators.cap.domain.errors import DomainProblem, IngressProblem

NAMES = "dns.gardener.cloud/dnsnames"
ANYWHERE = (ingress.ALL,)


def pod(namespace: str = "istio-system", name: str = "gateway") -> PartialObjectMetadata:
    return PartialObjectMetadata(metadata=ObjectMeta(name=name, namespace=namespace))


def service(name: str = "lb", type: str = "LoadBalancer", **annotations: str) -> Service:
    meta = ObjectMeta(name=name, namespace="istio-system", annotations={NAMES: annotations.get("names", "")})
    return Service(metadata=meta, spec=ServiceSpec(type=type))


def endpoints(name: str = "lb", pod_name: str = "gateway") -> EndpointSlice:
    meta = ObjectMeta(name=f"{name}-1", namespace="istio-system", labels={SERVICE_NAME_LABEL: name})
    target = ObjectReference(kind="Pod", namespace="istio-system", name=pod_name)
    return EndpointSlice(metadata=meta, endpoints=(Endpoint(), Endpoint(target_ref=target)))


def test_a_selector_is_written_as_kubernetes_reads_it() -> None:
    assert ingress.selector(domain()) == "app=istio-ingressgateway,istio=ingressgateway"


@pytest.mark.req("R-401")
@pytest.mark.parametrize("labels", [{}, {"a": "b,c in (d)"}, {"a b": "c"}, {"a": "x" * 64}])
def test_a_selector_that_is_none_is_refused(labels: dict[str, str]) -> None:
    with pytest.raises(DomainProblem, match="ingressSelector"):
        ingress.selector(domain(ingress_selector=labels))


def test_the_pods_must_be_in_one_namespace() -> None:
    assert ingress.namespace(domain(), [pod(), pod(name="second")], ANYWHERE) == "istio-system"
    with pytest.raises(IngressProblem, match=r"no matching ingress gateway pods found .* Domain\.shop"):
        ingress.namespace(domain(), [], ANYWHERE)
    with pytest.raises(IngressProblem) as refused:
        ingress.namespace(domain(ingress_selector={"b": "2", "a": "1"}), [], ("istio-system", ingress.ALL))
    assert str(refused.value).endswith(
        ": no pod has the labels a=1,b=2 of spec.ingressSelector. Correct it. See the labels of gateways with: kubectl "
        "get pods -n istio-system --show-labels"
    )
    with pytest.raises(IngressProblem, match=r"-A --show-labels$"):
        ingress.namespace(domain(), [], ANYWHERE)
    with pytest.raises(IngressProblem, match="more than one matching ingress gateway namespace found"):
        ingress.namespace(domain(), [pod(), pod("other")], ANYWHERE)


@pytest.mark.req("R-506")
@pytest.mark.parametrize("system", ["kube-system", "kube-public", "kube-node-lease"])
def test_pods_in_a_namespace_of_the_system_lead_no_certificate_there(system: str) -> None:
    with pytest.raises(IngressProblem, match=rf"its pods are in namespace {system}, which is not allowed"):
        ingress.namespace(domain(), [pod(system)], ANYWHERE)
    assert ingress.namespace(domain(), [pod(system), pod()], ANYWHERE) == "istio-system"
    assert ingress.namespace(domain(), [pod(system), pod()], (system,)) == system
    assert ingress.is_allowed(system, (ingress.ALL, system))


@pytest.mark.req("R-912")
def test_a_pod_of_a_tenant_with_the_labels_of_the_gateway_neither_gets_keys_nor_stops_the_domains_of_others() -> None:
    allowed = SETTINGS.ingress_namespaces
    decoys = [pod("evil"), pod("shop")]
    assert ingress.namespace(domain(), [*decoys, pod()], allowed) == "istio-system"
    with pytest.raises(IngressProblem) as refused:
        ingress.namespace(domain(), decoys, allowed)
    shown = str(refused.value)
    assert "its pods are in namespace evil, shop, which is not allowed" in shown
    assert "(allowed: istio-system, istio-ingress): correct spec.ingressSelector (app=istio-ingressgateway," in shown
    assert "INGRESS_NAMESPACES (the chart's controller.ingressNamespaces)" in shown


@pytest.mark.req("R-506")
def test_where_the_namespaces_of_gateways_are_named_pods_elsewhere_do_not_count() -> None:
    assert ingress.namespace(domain(), [pod(), pod("evil")], ("istio-system", "gateways")) == "istio-system"
    with pytest.raises(IngressProblem, match="have an administrator name the namespace in INGRESS_NAMESPACES"):
        ingress.namespace(domain(), [pod("evil")], ("istio-system",))


def test_the_target_of_the_domain_comes_before_that_of_the_process() -> None:
    assert ingress.own_target(domain(dns_target="a.example.com"), "B.example.com") == "a.example.com"
    assert ingress.own_target(domain(), "*.B.Example.com") == "x.b.example.com"
    assert ingress.own_target(domain(), "") == ""


def test_the_target_is_the_first_name_on_the_load_balancer_of_the_pods() -> None:
    services = [service("a", names="a.example.com"), service(names=" *.lb.example.com ,other.example.com")]
    assert ingress.target(domain(), [pod()], services, [endpoints()], NAMES) == "x.lb.example.com"


@pytest.mark.parametrize(
    ("services", "slices"),
    [
        ([service(names="a.example.com")], [endpoints(pod_name="other")]),
        ([service(type="ClusterIP", names="a.example.com")], [endpoints()]),
        ([service()], [endpoints()]),
        ([], [endpoints()]),
    ],
)
def test_without_a_load_balancer_there_is_no_target(services: list[Service], slices: list[EndpointSlice]) -> None:
    with pytest.raises(IngressProblem, match=r"set spec\.dnsTarget"):
        ingress.target(domain(), [pod()], services, slices, NAMES)
