"""Routes of tenants and of exposed services. Expected specs are written out as the API server gets them."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec
import pytest
from tests.unit.cap.routing.given import version

from stellwerk.api.istio import HeaderOperations, PortSelector, RouteDestination, RouteHeaders
from stellwerk.kube.types.model import plain_json
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.version import DeploymentDetails, HttpCookie, Stickiness, StickinessHash
from stellwerk.operators.cap.routing import headers, targets, virtual_services
from stellwerk.operators.cap.routing.targets import RouterVersion, ServedDomain, Unroutable

DOMAINS = (ServedDomain("app.example.com", "primary-x7k2p"), ServedDomain("all.example.com", "cap-system/all-a1b2c"))
ADDED = RouteHeaders(request=HeaderOperations(set={"x-b": "<1>", "x-a": "2"}))


def router(version: str, endpoint: str = "") -> RouterVersion:
    host = f"{version}-app-router-svc.shop.svc.cluster.local"
    target = RouteDestination(host=host, port=PortSelector(number=5000))
    return RouterVersion(name=version, destination=target, logout_endpoint=endpoint)


def test_a_tenant_is_routed_to_the_router_of_its_version() -> None:
    spec = virtual_services.of_tenant("acme", DOMAINS, router("shop-v1"), ADDED)
    text = (
        '{"hosts":["acme.app.example.com","acme.all.example.com"],"gateways":["primary-x7k2p","cap-system/all-a1b2c"],'
        '"http":[{"match":[{"uri":{"prefix":"/"}}],"route":[{"destination":'
        '{"host":"shop-v1-app-router-svc.shop.svc.cluster.local","port":{"number":5000}},"weight":100,'
        '"headers":{"request":{"set":{"x-a":"2","x-b":"\\u003c1\\u003e"}}}}]}]}'
    )
    assert plain_json(spec) == json.loads(text)
    assert virtual_services.spec_hash(spec) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.req("CAP-42")
def test_with_affinity_and_a_previous_version_there_are_five_routes_in_order() -> None:
    current, previous = router("shop-v2", "/do/log.out"), (router("shop.v1"),)
    spec = virtual_services.of_tenant("acme", DOMAINS[:1], current, previous=previous)
    found: Any = plain_json(spec)["http"]
    targets = [route["route"][0]["destination"]["host"].partition("-app-router")[0] for route in found]
    assert targets == ["shop.v1", "shop-v2", "shop.v1", "shop-v2", "shop-v2"]
    assert all(route["route"][0]["weight"] == 100 and "headers" not in route["route"][0] for route in found)
    old = {"regex": r"(^|.*; )CAPOP_CAV=shop\.v1($|; .*)"}
    assert found[0]["match"] == [{"uri": {"regex": "^|.*(logout|logoff).*"}, "headers": {"Cookie": old}}]
    assert found[1]["match"][0]["uri"] == {"regex": r"^|.*(/do/log\.out).*"}
    expired = "CAPOP_CAV=shop.v1;Path=/;HttpOnly;Secure;Max-Age=0"
    assert found[0]["headers"] == {"response": {"set": {"Set-Cookie": expired}}}
    assert found[2]["match"] == [{"headers": {"Cookie": old}}]
    assert "headers" not in found[2]
    assert "match" not in found[4]
    assert found[4]["headers"] == {"response": {"add": {"Set-Cookie": "CAPOP_CAV=shop-v2;Path=/;HttpOnly;Secure"}}}


def test_the_expression_for_a_cookie_matches_that_version_alone() -> None:
    (match,) = virtual_services.of_tenant("a", (), router("shop.v1"), previous=()).http[1].match
    expression = re.compile(match.headers["Cookie"].regex)
    assert expression.fullmatch("a=b; CAPOP_CAV=shop.v1; c=d")
    assert expression.fullmatch("CAPOP_CAV=shop.v1")
    assert not expression.fullmatch("CAPOP_CAV=shopxv1")
    assert not expression.fullmatch("CAPOP_CAV=shop.v11")


def test_headers_of_annotations_are_on_each_route_with_affinity() -> None:
    spec = virtual_services.of_tenant("a", (), router("v1"), ADDED, previous=())
    assert [route.headers.request for route in spec.http if route.headers] == [ADDED.request] * 3


def test_an_exposed_service_has_its_routes_in_the_given_order() -> None:
    routes = [{"workloadName": "Api", "port": 4004, "path": "/v2"}, {"workloadName": "Api", "port": 4004}]
    made = version(serviceExposures=[{"subDomain": "api", "routes": routes}])
    spec = virtual_services.of_exposure(made, made.spec.service_exposures[0], DOMAINS[:1], None)
    assert plain_json(spec) == {
        "hosts": ["api.app.example.com"],
        "gateways": ["primary-x7k2p"],
        "http": [
            {
                "match": [{"uri": {"prefix": path}}],
                "route": [
                    {
                        "destination": {
                            "host": "shop-v1-api-svc.shop.svc.cluster.local",
                            "port": {"number": 4004},
                        }
                    }
                ],
            }
            for path in ("/v2", "/")
        ],
    }


def test_headers_are_read_from_annotations() -> None:
    annotations = {names.REQUEST_HEADERS_ANNOTATION: '{"a": "b"}', names.RESPONSE_HEADERS_ANNOTATION: "{}"}
    assert headers.of_annotations(annotations, "shop.app") == RouteHeaders(request=HeaderOperations(set={"a": "b"}))
    assert headers.of_annotations({}, "shop.app") is None


@pytest.mark.req("R-401")
@pytest.mark.parametrize("text", ["[]", "{", '{"a": 1}', '"a"', '{"a": "' + "b" * headers.MOST_BYTES + '"}'])
def test_headers_that_are_no_texts_are_refused(text: str) -> None:
    with pytest.raises(Unroutable, match=r"error getting headers via CA annotations for shop\.app"):
        headers.of_annotations({names.REQUEST_HEADERS_ANNOTATION: text}, "shop.app")


COOKIE = HttpCookie(name="c", path="/", ttl="0s")


def details(type: str, stickiness: Stickiness | None) -> DeploymentDetails:
    return DeploymentDetails(image="i", type=type, stickiness=stickiness)


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (StickinessHash(http_header_name="h", http_cookie=COOKIE), StickinessHash(http_header_name="h")),
        (StickinessHash(http_cookie=COOKIE, use_source_ip=True), StickinessHash(http_cookie=COOKIE)),
        (
            StickinessHash(http_query_parameter_name="q", use_source_ip=True),
            StickinessHash(http_query_parameter_name="q"),
        ),
        (StickinessHash(use_source_ip=True), StickinessHash(use_source_ip=True)),
        (StickinessHash(use_source_ip=False), None),
        (StickinessHash(), None),
        (None, None),
    ],
)
def test_of_several_ways_to_choose_a_pod_the_first_counts(
    given: StickinessHash | None, chosen: StickinessHash | None
) -> None:
    assert targets.consistent_hash(details("Router", Stickiness(hash=given))) == chosen


def test_clients_of_a_router_stay_on_a_pod_by_default() -> None:
    assert targets.consistent_hash(details("CAP", None)) is None
    assert msgspec.to_builtins(targets.consistent_hash(details("Router", None))) == {
        "httpCookie": {"name": "CAPOP_ROUTER_STICKY", "path": "/", "ttl": "0s"}
    }
