"""Whose a host is."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.cap.domain.given import cluster_domain, domain

from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import dns, hosts
from stellwerk.operators.cap.domain.errors import DomainProblem
from stellwerk.operators.cap.webhooks import rules

PUBLIC = ["com", "co.uk", "github.io", "local", "internal", "localhost", "xn--p1ai", "anything.ck"]


@pytest.mark.req("R-914")
@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_suffix_or_a_bare_name_is_the_host_of_no_namespace(host: str) -> None:
    refused = f"is {host}, a top-level name or public suffix, which belongs to no namespace: use a host below it"
    assert refused in rules.problem_of_domain(None, domain(host), [])
    with pytest.raises(DomainProblem, match="have an administrator create a ClusterDomain"):
        dns.check_host(domain(host))


@pytest.mark.req("R-914")
@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "shop.example.com",
        "example.co.uk",
        "me.github.io",
        "kyma.local",
        "stellwerk.local",
        "shop.internal",
        "svc.cluster.local",
        "c-1234567.kyma.ondemand.com",
        "xn--e1afmkfd.xn--p1ai",
    ],
)
def test_a_host_below_a_public_suffix_and_a_private_name_belong_to_who_takes_them(host: str) -> None:
    assert rules.problem_of_domain(None, domain(host), []) == ""
    dns.check_host(domain(host))


@pytest.mark.req("R-914")
def test_an_administrator_may_take_a_public_suffix_and_an_application_may_not() -> None:
    of_administrator = cluster_domain("github.io")
    assert hosts.problem_of_suffix(of_administrator) == ""
    annotated = msgspec.structs.replace(of_administrator.metadata, annotations={names.MIGRATED_ANNOTATION: "shop.app"})
    of_application = msgspec.structs.replace(of_administrator, metadata=annotated)
    assert "belongs to no namespace" in hosts.problem_of_suffix(of_application)


@pytest.mark.req("R-914")
def test_a_domain_that_has_a_public_suffix_already_may_be_changed_otherwise() -> None:
    stored = domain("com")
    assert rules.problem_of_domain(stored, domain("com", dns_target="lb.example.com"), []) == ""
    assert "belongs to no namespace" in rules.problem_of_domain(domain("example.com"), stored, [])
