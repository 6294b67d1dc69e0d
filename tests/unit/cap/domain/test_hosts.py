"""Whose a host is."""

from __future__ import annotations

import msgspec
import pytest
from tests.unit.cap.domain.given import NOW, cluster_domain, domain

from stellwerk.kube.types.model import PartialObjectMetadata
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import hosts, naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.kinds.domain import DomainStatus
from stellwerk.operators.cap.webhooks import rules

PUBLIC = ["com", "co.uk", "github.io", "local", "internal", "localhost", "xn--p1ai", "anything.ck"]


@pytest.mark.req("R-914")
@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_suffix_or_a_bare_name_is_the_host_of_no_namespace(host: str) -> None:
    refused = f"is {host}, a top-level name or public suffix, which belongs to no namespace: use a host below it"
    assert refused in rules.problem_of_domain(None, domain(host), [])
    assert hosts.problem_of_host(domain(host), {"shop": (host,)}) == ""


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


@pytest.mark.req("R-914")
def test_an_administrator_may_take_a_public_suffix_and_an_application_may_not() -> None:
    of_administrator = cluster_domain("github.io")
    assert hosts.problem_of_host(of_administrator, {}) == ""
    of_application = migrated(of_administrator)
    assert "belongs to no namespace" in hosts.problem_of_host(of_application, {})


@pytest.mark.req("R-914")
def test_a_domain_that_has_a_public_suffix_already_may_be_changed_otherwise() -> None:
    stored = domain("com")
    assert rules.problem_of_domain(stored, domain("com", dns_target="lb.example.com"), []) == ""
    assert "belongs to no namespace" in rules.problem_of_domain(domain("example.com"), stored, [])


def of(namespace: str, host: str, hour: int, *, is_served: bool = False, uid: str = "") -> AnyDomain:
    """A domain of a namespace, or a ClusterDomain; created at an hour."""
    made: AnyDomain = domain(host) if namespace else cluster_domain(host)
    metadata = msgspec.structs.replace(
        made.metadata, namespace=namespace, uid=uid or namespace, creation_timestamp=NOW.replace(hour=hour)
    )
    status = DomainStatus(state="Ready", observed_domain=host if is_served else "")
    return msgspec.structs.replace(made, metadata=metadata, status=status)


def migrated(made: AnyDomain, application: str = "shop/app") -> AnyDomain:
    """A ClusterDomain that the original made of a host that was written into an application."""
    annotations = {names.MIGRATED_ANNOTATION: application}
    metadata = msgspec.structs.replace(made.metadata, name="inline", annotations=annotations)
    return msgspec.structs.replace(made, metadata=metadata)


def who_is_served(one: AnyDomain, other: AnyDomain, **granted: tuple[str, ...]) -> str:
    """Which of two domains is served: that of a namespace, both, or none. Each knows of the other."""
    seen = [hosts.claims(each, (one, other), granted) for each in (one, other)]
    assert (seen[0].before == (other,)) is (seen[1].after == (one,)) or seen[0].before == seen[1].before[::-1] != ()
    served = [each.metadata.namespace for each, found in zip((one, other), seen, strict=True) if not found.before]
    return " and ".join(served)


@pytest.mark.req("R-914")
@pytest.mark.parametrize(
    ("mine", "others", "is_one"),
    [
        ("example.com", "example.com", True),
        ("shop.example.com", "example.com", True),
        ("example.com", "a.b.example.com", True),
        ("myexample.com", "example.com", False),
        ("a.example.com", "b.example.com", False),
        ("example.com", "example.org", False),
    ],
)
def test_of_overlapping_hosts_in_two_namespaces_the_older_one_is_served(mine: str, others: str, is_one: bool) -> None:
    for namespace in ("b", ""):
        old, young = of("a", mine, 1), of(namespace, others, 2)
        assert who_is_served(old, young) == ("a" if is_one else f"a and {namespace}")
    assert who_is_served(of("a", mine, 1, uid="2"), of("b", others, 1, uid="1")) == ("b" if is_one else "a and b")


@pytest.mark.req("R-914")
def test_a_domain_that_takes_another_host_is_not_the_older_owner_of_it() -> None:
    victim, thief = of("a", "shop.example.com", 5, is_served=True), of("b", "example.com", 1)
    assert who_is_served(victim, thief) == "a"
    assert "overlaps with shop.example.com of Domain.a" in rules.problem_of_domain(of("b", "x.org", 1), thief, [victim])


@pytest.mark.req("R-914")
def test_in_one_namespace_only_equal_hosts_exclude_each_other() -> None:
    first, second = domain("example.com"), domain("shop.example.com", meta={"name": "second", "uid": "second"})
    equal = domain("example.com", meta={"name": "third", "uid": "third"})
    assert hosts.claims(first, (first, second), {}) == hosts.Claims()
    assert hosts.claims(first, (equal,), {}).before == (equal,)
    assert hosts.claims(equal, (first,), {}).before == (first,)


@pytest.mark.req("R-914")
def test_a_cluster_domain_that_was_made_of_an_application_counts_as_one_of_its_namespace() -> None:
    inline = migrated(of("", "shop.example.com", 2, uid="inline"), "a/app")
    assert who_is_served(of("a", "example.com", 1), inline) == "a and "
    assert who_is_served(of("b", "example.com", 1), inline) == "b"
    assert who_is_served(of("", "example.com", 1), inline, a=("shop.example.com",)) == " and "
    assert who_is_served(of("", "example.com", 3), inline) == "", "an administrator has not decided about it"
    assert "kubectl annotate namespace a " in hosts.problem_of_claims(inline, (of("b", "example.com", 1),))


@pytest.mark.req("R-914")
def test_what_an_administrator_grants_decides_alone() -> None:
    old, young = of("a", "example.com", 1, is_served=True), of("b", "shop.example.com", 2)
    grant = ("shop.example.com",)
    assert who_is_served(old, young, b=grant) == "b"
    assert who_is_served(old, young, a=("example.com",), b=grant) == "a and b"
    assert who_is_served(of("", "example.com", 1), young, b=grant) == " and b"
    assert who_is_served(of("", "shop.example.com", 1), young, b=grant) == "b", "equal hosts: the grant"
    assert "outside of the suffixes" in hosts.problem_of_host(old, {"a": grant})
    assert "outside of the suffixes" in hosts.problem_of_host(of("a", "evilshop.example.com", 1), {"a": grant})
    assert "(none)" in hosts.problem_of_host(old, {"a": ()})


@pytest.mark.req("R-914")
def test_a_domain_that_is_refused_takes_nothing_from_others() -> None:
    refused, victim = of("a", "com", 1, is_served=True), of("b", "shop.example.com", 2)
    assert hosts.claims(victim, (refused,), {}) == hosts.Claims()
    assert rules.problem_of_domain(None, victim, [refused]) == ""


@pytest.mark.req("R-914")
def test_suffixes_are_read_from_the_annotation_of_the_namespace() -> None:
    metadata = ObjectMeta(name="a", annotations={names.DOMAIN_SUFFIXES_ANNOTATION: "example.com, shop.example.org\n"})
    listed = [PartialObjectMetadata(metadata=metadata), PartialObjectMetadata(metadata=ObjectMeta(name="b"))]
    assert hosts.grants(listed) == {"a": ("example.com", "shop.example.org")}
    assert list(hosts.parents("a.b.example.com")) == ["b.example.com", "example.com", "com"]
    assert list(hosts.parents("." * 100_000)) == []


@pytest.mark.req("R-914")
def test_the_condition_names_the_other_domain_and_the_command_of_the_administrator() -> None:
    young = of("b", "shop.example.com", 2)
    shown = hosts.problem_of_claims(young, (of("a", "example.com", 1),))
    assert "overlaps with example.com of Domain.a.primary.one" in shown
    assert "kubectl annotate namespace b sme.sap.com/domain-suffixes=shop.example.com" in shown


def test_an_application_is_shown_only_domains_that_serve_its_namespace() -> None:
    own, foreign = domain("a.example.com"), msgspec.structs.replace(domain("b.example.com"))
    foreign = msgspec.structs.replace(foreign, metadata=msgspec.structs.replace(foreign.metadata, namespace="other"))
    served, secret = cluster_domain("c.example.com"), cluster_domain("d.example.com")
    marks = {names.SERVED_NAMESPACES_ANNOTATION: "other"}
    secret = msgspec.structs.replace(
        secret, metadata=msgspec.structs.replace(secret.metadata, name="secret", annotations=marks)
    )
    offered = naming.offered("shop", (own, foreign), (served, secret))

    assert [(each.kind, each.name) for each in offered] == [
        ("Domain", own.metadata.name),
        ("ClusterDomain", served.metadata.name),
    ]
