"""Domains that are written into an application become objects, each once."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import pytest
from tests.unit.cap import given

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden, Status
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


def cluster_domain(host: str, name: str) -> ClusterDomain:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"domain": host, "ingressSelector": {}}}, ClusterDomain)


def test_a_new_application_gets_a_domain_for_its_primary_host_and_cluster_domains_for_the_others() -> None:
    found = conversion(application(), (), ())
    assert found is not None
    first, second, _ = found.created
    assert (first.resource.kind, second.resource.kind) == ("Domain", "ClusterDomain")
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
    assert [reference.kind for reference in found.references] == ["Domain", "ClusterDomain", "ClusterDomain"]


def test_a_second_try_creates_nothing_and_refers_to_the_same_objects() -> None:
    first = conversion(application(), (), ())
    assert first is not None
    created = [(each.resource.kind, Unstructured.of(each.body)) for each in first.created]
    domains = [domain(str(each.at("spec", "domain")), each.metadata.name) for kind, each in created if kind == "Domain"]
    others = [
        cluster_domain(str(each.at("spec", "domain")), each.metadata.name) for kind, each in created if kind != "Domain"
    ]
    assert conversion(application(), domains, others) == DomainConversion(first.references, ())


def test_hosts_whose_hashes_begin_alike_become_two_cluster_domains() -> None:
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


@dataclass
class Server:
    """An API server that has one ClusterDomain, and remembers which objects were created."""

    existing: Unstructured
    refused_host: str = ""
    created: list[str] = field(default_factory=list[str])

    async def find(self, _: object, name: str, namespace: str) -> Unstructured | None:
        return self.existing if (name, namespace) == (self.existing.metadata.name, "") else None

    async def create(self, _: object, body: JsonObject, *, dry_run: bool) -> None:
        host = str(dig(body, "spec", "domain"))
        if host == self.refused_host:
            raise Forbidden(Status(code=403, message="denied the request: the host is taken"))
        if not dry_run:
            self.created.append(host)


@pytest.mark.parametrize("host", ["shop.example.org", "another.example.com"])
async def test_a_cluster_domain_that_a_pod_of_the_former_release_has_just_created_is_used(host: str) -> None:
    """No cache shows it. One with another host, whose name begins alike, is none of ours."""
    former = "cap-operator-domains-" + hashlib.sha1(b"shop.example.org", usedforsecurity=False).hexdigest()[:5]
    server = Server(Unstructured.of({"metadata": {"name": former}, "spec": {"domain": host}}))
    found = conversion(application(), (), ())
    assert found is not None
    first, _, third = found.references

    references = await create(cast("Client", server), found)

    if host == "shop.example.org":
        assert references == (first, DomainRef(kind="ClusterDomain", name=former), third)
        assert server.created == ["shop.example.com", "shop.example.net"]
    else:
        assert references == found.references
        assert server.created == ["shop.example.com", "shop.example.org", "shop.example.net"]


@pytest.mark.parametrize("host", ["shop.example.com", "shop.example.net"])
async def test_a_domain_that_the_api_server_refuses_is_named_with_its_words_and_no_other_one_is_created(
    host: str,
) -> None:
    found = conversion(application(), (), ())
    assert found is not None
    (refused,) = (each for each in found.created if dig(each.body, "spec", "domain") == host)
    server = Server(Unstructured.of({"metadata": {"name": "other"}, "spec": {}}), refused_host=host)
    cause = re.escape(f"{refused.ref} cannot be created: ") + ".*the host is taken"
    with pytest.raises(ConversionRefused, match=cause):
        await create(cast("Client", server), found)
    assert server.created == []


def test_an_application_that_refers_to_domains_keeps_these() -> None:
    assert conversion(application(domainRefs=[{"kind": "Domain", "name": "mine"}]), (), ()) is None
    assert conversion(given.application(domains={}), (), ()) is None
    assert conversion(given.application(), (), ()) is None
