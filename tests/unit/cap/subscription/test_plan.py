"""What a subscription becomes: which application, which URL, which names."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

import pytest

from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import (
    ApplicationSpec,
    BtpServices,
    CAPApplication,
    DomainRef,
    InlineDomains,
)
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain, DomainSpec
from stellwerk.operators.cap.subscription import plan
from stellwerk.operators.cap.subscription.payloads import Subscription
from stellwerk.operators.cap.subscription.plan import Authorization, DomainUnknown

NOW = datetime(2027, 1, 1, tzinfo=UTC)
GRANTED, REFUSED, UNKNOWN = Authorization.GRANTED, Authorization.REFUSED, Authorization.UNKNOWN
SUBSCRIPTION = Subscription(
    guid="guid-1", tenant_id="acme", subdomain="acme", provider_subaccount_id="provider", app_name="shop"
)


def application(
    name: str = "shop",
    namespace: str = "home",
    *,
    provider: str = "provider",
    account: str = "",
    app: str = "shop",
    age: int = 0,
    terminating: bool = False,
    annotation: str = "",
    refs: tuple[DomainRef, ...] = (),
    inline: str = "",
) -> CAPApplication:
    spec = ApplicationSpec(
        btp_app_name=app,
        provider_subaccount_id=provider,
        global_account_id=account,
        btp=BtpServices(services=()),
        domain_refs=refs,
        domains=InlineDomains(primary=inline) if inline else None,
    )
    metadata = ObjectMeta(
        name=name,
        namespace=namespace,
        creation_timestamp=NOW - timedelta(days=age),
        deletion_timestamp=NOW if terminating else None,
        annotations={names.SUBSCRIPTION_DOMAIN_ANNOTATION: annotation} if annotation else {},
    )
    return CAPApplication(metadata=metadata, spec=spec)


def meant(
    candidates: Iterable[CAPApplication], provider: str, app: str, account: str = "", *callable: CAPApplication
) -> CAPApplication | None:
    """The application that is meant by a caller that may act for some, or by default for all."""

    def authorization(each: CAPApplication) -> Authorization:
        return Authorization.GRANTED if not callable or each in callable else Authorization.REFUSED

    return plan.meant(plan.named(candidates, provider, app, account), authorization)


def test_an_application_is_known_by_subaccount_and_name() -> None:
    found = application()
    others = [application(app="other"), application(provider="elsewhere")]
    assert meant([*others, found], "provider", "shop") is found
    assert meant(others, "provider", "shop") is None


@pytest.mark.req("R-408")
def test_two_pairs_with_the_same_hash_are_two_applications() -> None:
    assert names.sha1("ab", "c") == names.sha1("a", "bc")
    assert meant([application(provider="ab", app="c")], "a", "bc") is None


def test_an_application_without_a_subaccount_is_known_by_its_global_account() -> None:
    legacy = application(provider="", account="global")
    assert meant([legacy], "provider", "shop", "global") is legacy
    assert meant([legacy], "provider", "shop", "") is None
    assert meant([application(provider="x", account="global")], "provider", "shop", "global") is None


def test_of_several_applications_the_oldest_that_stays_counts() -> None:
    old, going = application("old", age=2), application("going", age=3, terminating=True)
    assert meant([application("new"), old, going], "provider", "shop") is old


@pytest.mark.req("R-705")
def test_an_application_that_the_caller_may_act_for_precedes_an_older_one_of_another_namespace() -> None:
    foreign, own = application(namespace="elsewhere", age=2), application()
    candidates = [own, foreign]
    assert meant(candidates, "provider", "shop", "", own) is own
    assert meant(candidates, "provider", "shop", "", application("absent")) is foreign


@pytest.mark.req("R-705")
@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ((UNKNOWN, GRANTED), 0),
        ((REFUSED, UNKNOWN, GRANTED), 1),
        ((REFUSED, GRANTED, UNKNOWN), 1),
        ((UNKNOWN, UNKNOWN), 0),
        ((UNKNOWN, REFUSED), 0),
        ((REFUSED, UNKNOWN), 1),
        ((REFUSED, REFUSED), 0),
    ],
)
def test_only_an_application_that_refuses_the_caller_for_certain_is_skipped(
    answers: tuple[Authorization, ...], expected: int
) -> None:
    listed = [application(namespace=f"team{number}", age=9 - number) for number in range(len(answers))]
    known = {each.key: answer for each, answer in zip(listed, answers, strict=True)}
    chosen = plan.meant(plan.named(listed[::-1], "provider", "shop"), lambda each: known[each.key])
    assert chosen is listed[expected]


def test_a_caller_is_compared_with_one_application_of_each_namespace() -> None:
    crowd = [application(f"copy{number}", "elsewhere", age=number) for number in range(100)]
    assert plan.named([application(), *crowd], "provider", "shop") == [crowd[-1], application()]


def domain(name: str, host: str, namespace: str = "home") -> Domain:
    spec = DomainSpec(domain=host, ingress_selector={})
    return Domain(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


OWN = [domain("primary", "own.example.com"), domain("primary", "foreign.example.com", "elsewhere")]
SHARED = DomainSpec(domain="all.example.com", ingress_selector={})
CLUSTER = [ClusterDomain(metadata=ObjectMeta(name="shared"), spec=SHARED)]


@pytest.mark.parametrize(
    ("found", "wanted", "expected"),
    [
        (application(), "own.example.com", "own.example.com"),
        (application(), "all.example.com", "all.example.com"),
        (application(annotation="all.example.com"), "own.example.com", "own.example.com"),
        (application(annotation="all.example.com"), "", "all.example.com"),
        (application(refs=(DomainRef(kind="Domain", name="primary"),)), "", "own.example.com"),
        (application(refs=(DomainRef(kind="ClusterDomain", name="shared"),)), "", "all.example.com"),
        (application(refs=(DomainRef(kind="Domain", name="absent"),)), "", ""),
        (application(inline="first.example.com"), "", "first.example.com"),
        (application(), "", ""),
    ],
)
def test_the_domain_is_that_of_the_subscriber_the_annotation_or_the_application(
    found: CAPApplication, wanted: str, expected: str
) -> None:
    assert plan.domain_for(found, wanted, [*OWN, *CLUSTER]) == expected


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (application(), "unknown.example.com"),
        (application(), "foreign.example.com"),
        (application(annotation="foreign.example.com"), ""),
    ],
)
def test_a_domain_that_is_not_served_for_the_application_is_unknown(found: CAPApplication, wanted: str) -> None:
    with pytest.raises(DomainUnknown, match="not found in Domains or ClusterDomains"):
        plan.domain_for(found, wanted, [*OWN, *CLUSTER])


@pytest.mark.req("R-308", "R-408")
def test_names_are_the_same_for_the_same_tenant_and_differ_for_ten_thousand_others() -> None:
    found = application()
    assert plan.tenant_name(found, "acme") == plan.tenant_name(application(age=9), "acme")
    assert len({plan.tenant_name(found, f"tenant-{number}") for number in range(10_000)}) == 10_000
    assert plan.tenant_name(found, "acme").startswith("shop-")
    assert plan.context_name(found, SUBSCRIPTION).startswith("shop-consumer-")
    assert len({*plan.tenant_names(found, "acme")}) == plan.MOST_NAMES
    assert plan.context_name(found, SUBSCRIPTION, 1) != plan.context_name(found, SUBSCRIPTION)


@pytest.mark.req("R-408")
def test_a_long_name_of_an_application_is_shortened() -> None:
    long = [application("a" * 100), application("a" * 99)]
    found = {plan.tenant_name(each, "acme") for each in long}
    assert len(found) == 2
    assert all(len(name) <= 63 for name in found)


@pytest.mark.req("R-510")
@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, True),
        (names.application_labels(application().spec), True),
        (names.application_labels(application(provider="", account="global").spec), True),
        (names.application_labels(application(app="other").spec), False),
        (names.application_labels(application(provider="other").spec), False),
        (names.application_labels(application(provider="", account="other").spec), False),
    ],
)
def test_an_application_that_cannot_be_read_may_be_meant_unless_its_labels_name_another(
    labels: dict[str, str], expected: bool
) -> None:
    assert plan.may_be_named(labels, "provider", "shop", "global") is expected
