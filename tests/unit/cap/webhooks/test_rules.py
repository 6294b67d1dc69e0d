"""What is refused of applications, tenants, outputs and domains."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.unit.cap.given import NAMESPACE, application, metadata, tenant, version

from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap.application import inline_domains
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOutput
from stellwerk.operators.cap.webhooks import rules

READY: JsonObject = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
OTHER: JsonObject = {"subDomain": "other", "tenantId": "other"}


def annotated(**annotations: str) -> CAPApplication:
    found = application()
    named = {f"sme.sap.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, annotations=named))


@pytest.mark.parametrize(
    ("host", "why"),
    [
        ("Shop.example.com", "is not a DNS name: it has lower-case letters, digits, '-' and '.', and each part begins"),
        ("*.example.com", "is not a DNS name: it has lower-case letters"),
        ("example.com.", "is not a DNS name: it has lower-case letters"),
        ("shop..example.com", "is not a DNS name: it has lower-case letters"),
        ("-shop.example.com", "is not a DNS name: it has lower-case letters"),
        (f"{'a' * 64}.example.com", "is not a DNS name: its part aaaaaaaaaa... has 64 characters, more than the 63"),
        (f"{'a.' * 126}ab", "is not a DNS name: it has 254 characters, more than the 253"),
        ("10.0.0.1", "is an IP address, not a DNS name"),
    ],
)
def test_an_impossible_host_is_refused_where_a_write_brings_it(host: str, why: str) -> None:
    def domain(host: str, **spec: JsonValue) -> Domain:
        wanted: JsonObject = {"domain": host, "ingressSelector": {"istio": "gateway"}, **spec}
        return msgspec.convert({"metadata": metadata("primary"), "spec": wanted}, Domain)

    refused = rules.problem_of_domain(None, domain(host), ())
    shown = f"spec.domain of Domain shop/primary is '{host}', which {why}"
    if len(host) > 253:
        assert refused == "spec.domain has 254 characters, more than the 253 that are possible: shorten it"
    else:
        assert refused.startswith(shown)
        assert refused.endswith(". Correct it")
    assert rules.problem_of_domain(domain("a.example.com"), domain(host), ()) == refused
    assert rules.problem_of_domain(domain(host), domain(host, dnsMode="Wildcard"), ()) == "", "the controller shows it"
    conversion = inline_domains.conversion(application(domains={"secondary": [host]}), (), ())
    assert conversion is not None
    assert conversion.problem


def a_domain(name: str, host: str, namespace: str = NAMESPACE) -> Domain:
    body = {"metadata": {**metadata(name), "namespace": namespace}, "spec": {"domain": host, "ingressSelector": {}}}
    return msgspec.convert(body, Domain)


def test_what_an_application_names_and_is_not_there_is_a_warning() -> None:
    domains = (a_domain("primary", "a.example.com"), a_domain("foreign", "secret.example.com", "other"))
    right, wrong = ("uaa2", "a.example.com"), ("hana", "b.example.com")
    found = [annotated(primary_xsuaa=xsuaa, subscription_domain=host) for xsuaa, host in (right, wrong)]
    assert rules.warnings_of_application(found[0], domains) == ()
    assert rules.warnings_of_application(found[1], domains) == (
        "annotation sme.sap.com/primary-xsuaa of CAPApplication shop/bookshop is 'hana', which is no service of class "
        "xsuaa in spec.btp.services (there are uaa, uaa2): the first one is used",
        "annotation sme.sap.com/subscription-domain of CAPApplication shop/bookshop is 'b.example.com', which is the "
        "host of no Domain or ClusterDomain (there is a.example.com): subscriptions fail until one has it",
    )
    provider = application(provider={"subDomain": "a*b", "tenantId": "x"})
    (shown,) = rules.warnings_of_application(provider, ())
    assert shown.startswith("the subdomain 'a*b' of spec.provider.subDomain of CAPApplication shop/bookshop cannot be")


def test_a_subdomain_that_makes_no_host_is_a_warning() -> None:
    long = a_domain("primary", ".".join(["a" * 50] * 4))
    shop = application(domainRefs=[{"kind": "Domain", "name": "primary"}])
    assert rules.warnings_of_tenant(tenant(), shop, (long,)) == ()
    for subdomain, shown in (
        ("a" * 60, "spec.subDomain of CAPTenant shop/acme has 60 characters, and below aaa"),
        ("*", "the subdomain '*' of spec.subDomain of CAPTenant shop/acme cannot be a part of a host"),
        ("a" * 64, "the subdomain 'aaa"),
    ):
        found = tenant()
        found = msgspec.structs.replace(found, spec=msgspec.structs.replace(found.spec, sub_domain=subdomain))
        (warning,) = rules.warnings_of_tenant(found, shop, (long,))
        assert warning.startswith(shown)
        exposed = version(serviceExposures=[{"subDomain": subdomain, "routes": []}])
        (warning,) = rules.warnings_of_version(exposed, shop, (long,))
        assert "spec.serviceExposures[0].subDomain of CAPApplicationVersion shop/bookshop-v1" in warning


def test_the_provider_may_be_removed_but_not_added_or_changed() -> None:
    assert rules.problem_of_application(application(), application(provider=None)) == ""
    assert rules.problem_of_application(application(), application()) == ""
    for old, new in ((application(), application(provider=OTHER)), (application(provider=None), application())):
        assert rules.problem_of_application(old, new) == "provider details cannot be changed for: shop.bookshop"


def test_domains_are_deprecated_where_references_are_possible() -> None:
    inline = application(domains={"primary": "a.example.com"})
    referring = application(domainRefs=[{"kind": "Domain", "name": "a"}])
    problem = "domains are deprecated. Use domainRefs instead in: shop.bookshop"
    both = application(domains={"primary": "a.example.com"}, domainRefs=[{"kind": "Domain", "name": "a"}])
    assert rules.problem_of_application(None, both) == problem
    assert rules.problem_of_application(None, inline) == "", "its controller converts them"
    assert rules.problem_of_application(referring, inline) == problem
    assert rules.problem_of_application(inline, inline) == "", "an application of the first releases may be changed"


PROVIDER: JsonObject = {"subDomain": "provider", "tenantId": "a"}
ODD_PROVIDER: JsonObject = {"subDomain": 7, "tenantId": "a"}
REFERENCES, ODD_REFERENCES = [{"kind": "Domain", "name": "a"}], [{"kind": "Domain"}]


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"provider": PROVIDER}, False),
        ({"provider": OTHER}, True),
        ({"provider": ODD_PROVIDER}, False),
        ({}, False),
        (7, False),
    ],
)
def test_a_correction_keeps_the_provider_that_can_be_read(spec: JsonValue, refused: bool) -> None:
    problem = rules.problem_of_application(None, application(provider=PROVIDER), corrected={"spec": spec})
    assert problem == ("provider details cannot be changed for: shop.bookshop" if refused else "")


@pytest.mark.parametrize(
    ("spec", "refused"),
    [({"domainRefs": REFERENCES}, True), ({"domainRefs": []}, False), ({"domainRefs": ODD_REFERENCES}, False)],
)
def test_a_correction_brings_no_domains_where_references_can_be_read(spec: JsonObject, refused: bool) -> None:
    inline = application(provider=None, domains={"primary": "a.example.com"})
    assert bool(rules.problem_of_application(None, inline, corrected={"spec": spec})) is refused


@pytest.mark.parametrize(("instance", "refused"), [("other", True), ("bookshop", False), (7, False)])
def test_a_correction_keeps_the_application_of_a_tenant_that_can_be_read(instance: JsonValue, refused: bool) -> None:
    former: JsonObject = {"spec": {"capApplicationInstance": instance}}
    assert bool(rules.problem_of_changed_tenant(former, tenant())) is refused


@pytest.mark.parametrize(
    "annotations",
    [{"saas_additional_output": "[1]"}, {"saas_additional_output": "{"}, {"vs_route_request_header_set": "no JSON"}],
)
def test_annotations_that_would_fail_later_are_refused(annotations: dict[str, str]) -> None:
    assert rules.problem_of_application(None, annotated(**annotations)) != ""


def test_annotations_that_are_right_are_accepted() -> None:
    right = annotated(saas_additional_output='{"a": 1}', vs_route_request_header_set='{"x-a": "b"}')
    assert rules.problem_of_application(None, right) == ""


@pytest.mark.req("R-952")
def test_headers_that_say_who_has_sent_a_request_are_refused_unless_they_are_allowed_or_there_already() -> None:
    asking = annotated(vs_route_request_header_set='{"X-Forwarded-Host": "shop.example.com"}')
    assert "ALLOWED_ROUTE_HEADERS=x-forwarded-host" in rules.problem_of_application(application(), asking)
    assert rules.problem_of_application(None, asking, allowed_headers=["x-forwarded-host"]) == ""
    assert rules.problem_of_application(asking, asking) == "", "an older application may be changed"


def test_a_tenant_needs_its_application_and_keeps_it() -> None:
    assert rules.problem_of_new_tenant(tenant(), application()) == ""
    assert rules.problem_of_new_tenant(tenant(), None, ["books"]) == (
        "no valid CAPApplication found for: shop.acme: CAPApplication shop/bookshop does not exist (there is books): "
        "create it, or create this object again with another spec.capApplicationInstance. See them with: kubectl get "
        "ca -n shop"
    )
    moved = tenant()
    moved = msgspec.structs.replace(moved, spec=msgspec.structs.replace(moved.spec, cap_application_instance="other"))
    problem = "capApplicationInstance value cannot be modified for: shop.acme"
    assert rules.problem_of_changed_tenant(tenant(), moved) == problem
    assert rules.problem_of_changed_tenant(tenant(), tenant()) == ""


@pytest.mark.parametrize(
    ("kind", "ready", "state", "refused"),
    [
        ("provider", True, "Consistent", True),
        ("provider", False, "Consistent", False),
        ("provider", True, "Deleting", False),
        ("consumer", True, "Consistent", False),
    ],
)
def test_the_tenant_of_the_provider_goes_with_the_application(
    kind: str, ready: bool, state: str, refused: bool
) -> None:
    found: CAPTenant = tenant(tenant_type=kind)
    shown = msgspec.convert({"conditions": [READY] if ready else []}, type(found.status))
    owner = application()
    owner = msgspec.structs.replace(owner, status=msgspec.structs.replace(owner.status, state=state))
    problem = rules.problem_of_deleted_tenant(msgspec.structs.replace(found, status=shown), owner)
    expected = "provider CAPTenant acme cannot be deleted when a consistent CAPApplication bookshop exists."
    assert problem.startswith(expected) is refused


def test_an_output_names_a_tenant() -> None:
    def output(**labels: Any) -> CAPTenantOutput:
        return msgspec.convert(
            {"metadata": metadata("out", labels={**labels}), "spec": {"subscriptionCallbackData": "{}"}},
            CAPTenantOutput,
        )

    label = "sme.sap.com/btp-tenant-id"
    assert rules.problem_of_output(output(**{label: "acme-id"}), [tenant()]) == ""
    assert rules.problem_of_output(output(), [tenant()]) == f"label {label} missing on CAP tenant output out"
    assert "does not contain a valid tenant ID" in rules.problem_of_output(output(**{label: "x"}), [tenant()])


@pytest.mark.parametrize(
    ("bad", "worse"),
    [
        ({"saas_additional_output": "[1]"}, {"saas_additional_output": "[2]"}),
        ({"vs_route_request_header_set": "no JSON"}, {"vs_route_request_header_set": "none"}),
    ],
)
def test_an_annotation_that_is_there_already_prevents_no_other_change(
    bad: dict[str, str], worse: dict[str, str]
) -> None:
    assert rules.problem_of_application(annotated(**bad), annotated(**bad, team="a")) == ""
    assert rules.problem_of_application(annotated(**bad), annotated()) == ""
    assert rules.problem_of_application(annotated(**bad), annotated(**worse)) != ""
    assert rules.problem_of_application(annotated(), annotated(**bad)) != ""


def body(name: str, namespace: str = "", **fields: Any) -> JsonObject:
    spec: JsonObject = {"domain": "example.com", "ingressSelector": {}, **fields}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def of(**fields: Any) -> Domain:
    return msgspec.convert(body("a", NAMESPACE, **fields), Domain)


def test_a_domain_with_a_host_or_an_authority_that_is_refused_today_may_be_changed_otherwise() -> None:
    twin = msgspec.convert(body("a"), ClusterDomain)
    assert rules.problem_of_domain(of(), of(dnsMode="Wildcard"), [of(), twin]) == ""
    assert "already exist" in rules.problem_of_domain(of(domain="other.example.com"), of(), [of(), twin])
    bad = {"additionalCACertificate": "no PEM"}
    assert rules.problem_of_domain(of(certConfig=bad), of(certConfig=bad, dnsMode="Wildcard"), []) == ""
    for old in (None, of(), of(certConfig={"additionalCACertificate": "none"})):
        assert "must be certificates in PEM" in rules.problem_of_domain(old, of(certConfig=bad), [])


def custom(name: str, target: str = "{{.dnsTarget}}") -> Domain:
    return of(dnsMode="Custom", dnsTemplates=[{"name": name, "target": target}])


def test_dns_templates_are_looked_at_where_they_are_new_or_another() -> None:
    bad, good = custom("{{.subDomain"), custom("{{.subDomain}}.{{.domain}}")
    for old in (None, of(), good):
        assert rules.problem_of_domain(old, bad, []) == "spec.dnsTemplates[0].name has {{ without }}"
        assert rules.problem_of_domain(old, good, []) == ""
    labelled = msgspec.structs.replace(bad, metadata=msgspec.structs.replace(bad.metadata, labels={"team": "a"}))
    assert rules.problem_of_domain(bad, labelled, []) == ""


@pytest.mark.req("R-913")
def test_another_host_is_refused_while_templates_make_names_of_the_former_one() -> None:
    fixed = custom("a.example.com")
    elsewhere = msgspec.structs.replace(fixed, spec=msgspec.structs.replace(fixed.spec, domain="example.org"))
    assert rules.problem_of_domain(None, fixed, []) == ""
    problem = rules.problem_of_domain(fixed, elsewhere, [])
    assert "makes 'a.example.com', which is neither example.org nor below it" in problem


def test_a_host_belongs_to_one_domain_of_both_kinds() -> None:
    domain = msgspec.convert(body("a", NAMESPACE), Domain)
    cluster_wide = msgspec.convert(body("a"), ClusterDomain)
    elsewhere = msgspec.convert(body("a", "elsewhere"), Domain)
    assert rules.problem_of_domain(None, domain, [domain]) == ""
    assert (
        rules.problem_of_domain(None, domain, [cluster_wide]) == "ClusterDomain a already exist with domain example.com"
    )
    problem = "Domain a already exist in namespace elsewhere with domain example.com"
    assert rules.problem_of_domain(None, domain, [elsewhere]) == problem, "the same name, and another object"
    wrong = msgspec.convert(body("b", NAMESPACE, certConfig={"additionalCACertificate": "no PEM"}), Domain)
    assert "must be certificates in PEM" in rules.problem_of_domain(None, wrong, [])
