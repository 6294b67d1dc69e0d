"""Domains that are written into an application become objects, each once."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import AlreadyExists, Forbidden, Status
from stellwerk.kube.types.model import JsonObject, JsonValue, Unstructured, dig
from stellwerk.operators.cap.application.inline_domains import ConversionRefused, DomainConversion, conversion, create
from stellwerk.operators.cap.kinds.application import CAPApplication, DomainRef
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain

INLINE: dict[str, Any] = {
    "primary": "shop.example.com",
    "secondary": ["shop.example.org", "shop.example.net"],
    "dnsTarget": "lb.example.com",
    "istioIngressGatewayLabels": [{"name": "istio", "value": "gateway"}],
}


def application(**spec: Any) -> CAPApplication:
    return given.application(domains=INLINE, **spec)


def domain(host: str, name: str, namespace: str = given.NAMESPACE) -> Domain:
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"domain": host, "ingressSelector": {}}}
    return msgspec.convert(body, Domain)


def cluster_domain(
    host: str, name: str, *, migrated: str = "", serves: str | None = None, **spec: JsonValue
) -> ClusterDomain:
    """One as the application would have it, unless `spec` has other fields."""
    marks: JsonObject = {"sme.sap.com/migrated-to-domain-refs-from-ca": migrated} if migrated else {}
    if serves is not None:
        marks["sme.sap.com/served-namespaces"] = serves
    usual: JsonObject = {"domain": host, "ingressSelector": {"istio": "gateway"}, "dnsTarget": "lb.example.com"}
    usual["tlsMode"] = "Simple"
    body: JsonObject = {"metadata": {"name": name, "annotations": marks}, "spec": {**usual, **spec}}
    return msgspec.convert(body, ClusterDomain)


@pytest.mark.req("R-915")
def test_a_new_application_gets_a_domain_of_its_namespace_for_each_host() -> None:
    found = conversion(application(), (), ())
    assert found is not None
    first, second, _ = found.created
    assert {each.resource.kind for each in found.created} == {"Domain"}
    assert {each.key.namespace for each in found.created} == {"shop"}
    assert first.body == {
        "apiVersion": "sme.sap.com/v1alpha1",
        "kind": "Domain",
        "metadata": {
            "name": "bookshop-primary",
            "namespace": "shop",
            "annotations": {"sme.sap.com/migrated-to-domain-refs-from-ca": "shop/bookshop"},
        },
        "spec": {
            "domain": "shop.example.com",
            "ingressSelector": {"istio": "gateway"},
            "tlsMode": "Simple",
            "dnsMode": "Wildcard",
            "dnsTarget": "lb.example.com",
        },
    }
    assert Unstructured.of(second.body).at("spec", "dnsMode") == "Subdomain"
    assert [reference.kind for reference in found.references] == ["Domain"] * 3


def test_a_second_try_creates_nothing_and_refers_to_the_same_objects() -> None:
    first = conversion(application(), (), ())
    assert first is not None
    created = [(each.resource.kind, Unstructured.of(each.body)) for each in first.created]
    domains = [domain(str(each.at("spec", "domain")), each.metadata.name) for _, each in created]
    assert conversion(application(), domains, ()) == DomainConversion(first.references, ())


def test_hosts_whose_hashes_begin_alike_become_two_domains() -> None:
    alike: list[JsonValue] = ["h1507644.example.com", "h1767431.example.com"]
    found = conversion(given.application(domains={**INLINE, "secondary": alike}), (), ())
    assert found is not None
    assert len({each.key for each in found.created}) == 3


def test_hosts_that_are_served_already_are_used() -> None:
    found = conversion(
        application(),
        [domain("shop.example.com", "mine"), domain("shop.example.com", "foreign", "elsewhere")],
        [cluster_domain("shop.example.com", "all"), cluster_domain("shop.example.net", "net")],
    )
    assert found is not None
    assert found.references[0] == DomainRef(kind="Domain", name="mine")
    assert found.references[2] == DomainRef(kind="ClusterDomain", name="net")
    assert len(found.created) == 1


def test_a_host_that_a_domain_of_another_namespace_has_is_refused_and_that_domain_named() -> None:
    found = conversion(application(), [domain("shop.example.org", "foreign", "elsewhere")], ())
    assert found is not None
    assert (found.references, found.created) == ((), ())
    assert found.problem.startswith("Domain elsewhere/foreign has the host shop.example.org that spec.domains asks for")


@pytest.mark.req("R-915")
@pytest.mark.parametrize(
    ("other", "cause"),
    [
        ({"dnsTarget": "other.example.com"}, "with another gateway, target or TLS mode"),
        ({"tlsMode": "Mutual"}, "with another gateway, target or TLS mode"),
        ({"ingressSelector": {"istio": "other"}}, "with another gateway, target or TLS mode"),
        ({"serves": "elsewhere, third"}, "does not serve namespace shop. An administrator names the namespaces"),
        ({"migrated": "elsewhere/shop"}, "does not serve namespace shop. An administrator names the namespaces"),
    ],
)
def test_a_cluster_domain_that_is_otherwise_or_not_for_the_namespace_is_not_used(other: Any, cause: str) -> None:
    found = conversion(application(), (), [cluster_domain("shop.example.net", "net", **other)])
    assert found is not None
    assert (found.references, found.created) == ((), ())
    assert found.problem.startswith("ClusterDomain net has the host shop.example.net that spec.domains asks for")
    assert cause in found.problem


@pytest.mark.req("R-915")
@pytest.mark.parametrize(
    "marks",
    [{}, {"serves": ""}, {"serves": "shop"}, {"migrated": "shop/other"}, {"migrated": "far/a", "serves": "b,shop c"}],
)
def test_a_cluster_domain_serves_all_namespaces_or_those_that_it_names_and_that_of_its_application(marks: Any) -> None:
    found = conversion(application(), (), [cluster_domain("shop.example.net", "net", **marks)])
    assert found is not None
    assert DomainRef(kind="ClusterDomain", name="net") in found.references


@dataclass
class Server:
    """An API server that has no domain, and remembers which were created."""

    refused_host: str = ""
    existing_host: str = ""
    created: list[str] = field(default_factory=list[str])

    async def find(self, *_: object) -> Unstructured:
        return Unstructured.of({"metadata": {"name": "any"}, "spec": {"domain": self.existing_host}})

    async def create(self, _: object, body: JsonObject, *, dry_run: bool, **__: object) -> None:
        host = str(dig(body, "spec", "domain"))
        if self.existing_host:
            raise AlreadyExists(Status(code=409))
        if host == self.refused_host:
            raise Forbidden(Status(code=403, message="denied the request: the host is taken"))
        if not dry_run:
            self.created.append(host)


async def test_a_domain_that_another_pass_has_just_created_is_used_and_one_with_another_host_is_not() -> None:
    found = conversion(given.application(domains={"primary": "shop.example.com"}), (), ())
    assert found is not None
    assert await create(cast("Client", Server(existing_host="shop.example.com")), found) == found.references
    with pytest.raises(ConversionRefused, match="exists with another host"):
        await create(cast("Client", Server(existing_host="b.example.com")), found)


@pytest.mark.parametrize("host", ["shop.example.com", "shop.example.net"])
async def test_a_domain_that_the_api_server_refuses_is_named_with_its_words_and_no_other_one_is_created(
    host: str,
) -> None:
    found = conversion(application(), (), ())
    assert found is not None
    (refused,) = (each for each in found.created if dig(each.body, "spec", "domain") == host)
    server = Server(refused_host=host)
    cause = re.escape(f"{refused.ref} cannot be created: ") + ".*the host is taken"
    with pytest.raises(ConversionRefused, match=cause):
        await create(cast("Client", server), found)
    assert server.created == []


def test_an_application_that_refers_to_domains_keeps_these() -> None:
    assert conversion(application(domainRefs=[{"kind": "Domain", "name": "mine"}]), (), ()) is None
    assert conversion(given.application(domains={}), (), ()) is None
    assert conversion(given.application(), (), ()) is None
