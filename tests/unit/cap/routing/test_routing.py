"""Routes of tenants and of exposed services. Expected specs are written out as the API server gets them."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import msgspec
import pytest

from stellwerk.api.istio import ConsistentHash, HeaderOperations, RouteHeaders, StickyCookie
from stellwerk.operators.cap import names
from stellwerk.operators.cap.routing import headers, stickiness, virtual_services
from stellwerk.operators.cap.routing.virtual_services import (
    ExposedRoute,
    RoutedPort,
    RouterVersion,
    ServedDomain,
    TenantRouting,
)

DOMAINS = (ServedDomain("app.example.com", "primary-x7k2p"), ServedDomain("all.example.com", "cap-system/all-a1b2c"))
ADDED = RouteHeaders(request=HeaderOperations(set={"x-b": "<1>", "x-a": "2"}))


def router(version: str, endpoint: str = "") -> RouterVersion:
    port = RoutedPort(version=version, workload="App-Router", namespace="shop", port=5000)
    return RouterVersion(router=port, logout_endpoint=endpoint)


def test_a_tenant_is_routed_to_the_router_of_its_version() -> None:
    spec = virtual_services.of_tenant(
        TenantRouting(subdomain="acme", domains=DOMAINS, current=router("shop-v1"), headers=ADDED)
    )
    text = (
        '{"hosts":["acme.app.example.com","acme.all.example.com"],"gateways":["primary-x7k2p","cap-system/all-a1b2c"],'
        '"http":[{"match":[{"uri":{"prefix":"/"}}],"route":[{"destination":'
        '{"host":"shop-v1-app-router-svc.shop.svc.cluster.local","port":{"number":5000}},"weight":100,'
        '"headers":{"request":{"set":{"x-a":"2","x-b":"\\u003c1\\u003e"}}}}]}]}'
    )
    assert virtual_services.body(spec) == json.loads(text)
    assert virtual_services.spec_hash(spec) == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.req("CAP-42")
def test_with_affinity_and_a_previous_version_there_are_five_routes_in_order() -> None:
    spec = virtual_services.of_tenant(
        TenantRouting(
            subdomain="acme",
            domains=DOMAINS[:1],
            current=router("shop-v2", "/do/log.out"),
            previous=(router("shop.v1"),),
            affinity=True,
        )
    )
    found: Any = virtual_services.body(spec)["http"]
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
    routes = TenantRouting(subdomain="a", domains=(), current=router("shop.v1"), affinity=True)
    (match,) = virtual_services.of_tenant(routes).http[1].match
    expression = re.compile(match.headers["Cookie"].regex)
    assert expression.fullmatch("a=b; CAPOP_CAV=shop.v1; c=d")
    assert expression.fullmatch("CAPOP_CAV=shop.v1")
    assert not expression.fullmatch("CAPOP_CAV=shopxv1")
    assert not expression.fullmatch("CAPOP_CAV=shop.v11")


def test_headers_of_annotations_are_on_each_route_with_affinity() -> None:
    spec = virtual_services.of_tenant(
        TenantRouting(subdomain="a", domains=(), current=router("v1"), affinity=True, headers=ADDED)
    )
    assert [route.headers.request for route in spec.http if route.headers] == [ADDED.request] * 3


def test_an_exposed_service_has_its_routes_in_the_given_order() -> None:
    target = RoutedPort(version="shop-v1", workload="Api", namespace="shop", port=4004)
    spec = virtual_services.of_exposure(
        "api", DOMAINS[:1], [ExposedRoute(target=target, path="/v2"), ExposedRoute(target=target)], None
    )
    assert virtual_services.body(spec) == {
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
    with pytest.raises(headers.Unroutable, match=r"error getting headers via CA annotations for shop\.app"):
        headers.of_annotations({names.REQUEST_HEADERS_ANNOTATION: text}, "shop.app")


COOKIE = StickyCookie(name="c", path="/", ttl="0s")


@pytest.mark.parametrize(
    ("given", "chosen"),
    [
        (ConsistentHash(http_header_name="h", http_cookie=COOKIE), ConsistentHash(http_header_name="h")),
        (ConsistentHash(http_cookie=COOKIE, use_source_ip=True), ConsistentHash(http_cookie=COOKIE)),
        (
            ConsistentHash(http_query_parameter_name="q", use_source_ip=True),
            ConsistentHash(http_query_parameter_name="q"),
        ),
        (ConsistentHash(use_source_ip=True), ConsistentHash(use_source_ip=True)),
        (ConsistentHash(), None),
    ],
)
def test_of_several_ways_to_choose_a_pod_the_first_counts(given: ConsistentHash, chosen: ConsistentHash | None) -> None:
    assert stickiness.chosen(given, has_default=True) == chosen


def test_clients_of_a_router_stay_on_a_pod_by_default() -> None:
    found = stickiness.chosen(None, has_default=True)
    assert found is not None
    assert stickiness.chosen(None, has_default=False) is None
    assert msgspec.to_builtins(stickiness.destination_rule("v1-router-svc", "shop", found)) == {
        "host": "v1-router-svc.shop.svc.cluster.local",
        "trafficPolicy": {
            "loadBalancer": {
                "consistentHash": {"httpCookie": {"name": "CAPOP_ROUTER_STICKY", "path": "/", "ttl": "0s"}}
            }
        },
    }
