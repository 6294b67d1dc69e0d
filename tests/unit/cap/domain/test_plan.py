"""From what is seen of a domain to the next step and to its objects."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from tests.unit.cap.domain.given import NOW, SELECTOR, SETTINGS, cluster_domain, domain, live, reference, world

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import plan, readiness, resources
from stellwerk.operators.cap.domain.hosts import Claims
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.plan import (
    Begin,
    BeginDeletion,
    Block,
    CertManager,
    DomainSnapshot,
    Maintain,
    Prepare,
    Release,
    ReportDuplicates,
    Rest,
)
from stellwerk.operators.cap.domain.readiness import Progress
from stellwerk.operators.cap.domain.resources import DnsRecord, DomainResource
from stellwerk.operators.cap.kinds.domain import CertificateConfig, CertManagerConfig, Domain, DomainStatus, IssuerRef

CREDENTIAL = resources.credential(domain(), "gardener", "cap-system", "istio-system")
KEY = ObjectKey("shop", "primary--one-x7k2p")
RECORD = DnsRecord("*.app.example.com", "lb.example.com")
CERTIFICATE = resources.gardener_certificate(domain(), KEY, CREDENTIAL)
GATEWAY = resources.gateway(domain(), KEY, CREDENTIAL)
ENTRY = resources.dns_entry(domain(), KEY, RECORD)


def snapshot(owner: Domain, **changes: Any) -> DomainSnapshot:
    return DomainSnapshot(domain=owner, **{"live": {}, **changes})


def deleted(*, reason: str = "", **changes: Any) -> Domain:
    conditions = (Condition(type="Ready", status="False", reason=reason),) if reason else ()
    status = DomainStatus(state="Deleting" if reason else "Ready", conditions=conditions)
    found = domain(meta={"deletion_timestamp": NOW, **changes})
    return msgspec.structs.replace(found, status=status)


def test_the_first_steps_are_the_finalizer_the_label_and_the_state() -> None:
    bare = domain(meta={"finalizers": (), "labels": {}})
    lacking: JsonObject = {
        "finalizers": [names.DOMAIN_FINALIZER],
        "labels": {names.HOST_HASH_LABEL: names.sha1("app.example.com")},
    }
    assert plan.next_step(snapshot(bare)) == Prepare(lacking)
    moved = domain("new.example.com", meta={"labels": {names.HOST_HASH_LABEL: "old"}})
    assert plan.next_step(snapshot(moved)) == Prepare(
        {"labels": {names.HOST_HASH_LABEL: names.sha1("new.example.com")}}
    )
    assert plan.next_step(snapshot(domain(state=""))) == Begin()
    assert plan.next_step(snapshot(domain())) == Maintain()


def test_a_domain_with_the_host_of_another_is_not_maintained() -> None:
    assert plan.next_step(snapshot(domain(), claims=Claims(before=(cluster_domain(),)))) == ReportDuplicates()


def test_a_deletion_waits_for_applications_and_then_releases_what_has_no_owner() -> None:
    assert plan.next_step(snapshot(deleted(finalizers=()))) == Rest()
    assert plan.next_step(snapshot(deleted(), references=(reference(),))) == Block((reference(),))
    assert plan.next_step(snapshot(deleted())) == BeginDeletion()
    assert plan.next_step(snapshot(deleted(reason="DeletionBlocked"))) == BeginDeletion()
    objects = dict(live(domain(), each) for each in (CERTIFICATE, GATEWAY))
    step = plan.next_step(snapshot(deleted(reason="Deleting"), live=objects))
    assert isinstance(step, Release)
    assert [address.resource for address, _ in step.objects] == [GardenerCertificate.resource]


def test_a_new_domain_gets_its_objects_and_one_network_policy_for_each_namespace() -> None:
    references = (reference("a"), reference("b"), reference("c", "other"))
    owner = cluster_domain(cert_config=CertificateConfig(additional_ca_certificate="pem"))
    found = plan.plan(world(owner, references=references, records=(RECORD,)))
    places = [(each.address.resource.plural, each.address.key.namespace) for each in found.resources]
    assert places == [
        ("certificates", "cap-system"),
        ("secrets", "istio-system"),
        ("gateways", "cap-system"),
        ("networkpolicies", "other"),
        ("networkpolicies", "shop"),
        ("dnsentries", "cap-system"),
    ]
    assert (found.obsolete, found.problems) == ((), ())


def test_objects_of_the_original_keep_their_names() -> None:
    objects = [live(domain(), each) for each in (CERTIFICATE, GATEWAY, ENTRY)]
    found = plan.plan(world(domain(), *objects, records=(RECORD,)))
    assert {each.address.key for each in found.resources} == {KEY}
    assert found.gateway_name == KEY.name
    assert found.obsolete == ()


def test_of_two_domains_with_one_secret_the_younger_gets_no_certificate_and_loses_none() -> None:
    config = CertificateConfig(additional_ca_certificate="pem")
    old = domain(meta={"name": "primary--one", "uid": "uid-old", "creation_timestamp": NOW})
    young = domain("b.example.com", cert_config=config, meta={"creation_timestamp": NOW + timedelta(hours=1)})
    found = plan.plan(world(young, live(young, CERTIFICATE), namesakes=(old,)))
    assert {each.address.resource for each in found.resources} == {Gateway.resource}
    assert found.obsolete == ()
    assert found.problems == (
        "the certificates of Domain.shop.primary.one and Domain.shop.primary--one would use one Secret, "
        "istio-system/shop--primary--one-gardener: create one of the two under another name",
    )
    assert plan.plan(world(old, namesakes=(young,))).problems == ()


@pytest.mark.req("R-912")
def test_a_domain_whose_issuer_is_refused_gets_no_certificate_and_loses_none() -> None:
    named = CertificateConfig(cert_manager=CertManagerConfig(issuer_ref=IssuerRef(name="a", kind="ClusterIssuer")))
    owner = domain(cert_config=named)
    by_cert_manager = replace(SETTINGS, cert_manager=CertManager.CERT_MANAGER)
    credential = resources.credential(owner, "cert-manager.io", "cap-system", "istio-system")
    issued = live(owner, resources.cert_manager_certificate(owner, credential))
    found = plan.plan(world(owner, issued, settings=by_cert_manager))
    assert {each.address.resource for each in found.resources} == {Gateway.resource}
    assert found.obsolete == ()
    (problem,) = found.problems
    assert "add ClusterIssuer/a to CERTIFICATE_ISSUERS (the chart's controller.certificateIssuers)" in problem
    allowed = replace(by_cert_manager, certificate_issuers=("ClusterIssuer/a",))
    assert plan.plan(world(owner, settings=allowed)).problems == ()


def test_former_dns_entries_are_those_of_applications_of_the_domain_and_of_tenants() -> None:
    def entry(name: str, kind: str, uid: str, group: str = "sme.sap.com") -> Live:
        owner: JsonObject = {"apiVersion": f"{group}/v1alpha1", "kind": kind, "name": "x", "uid": uid}
        return Unstructured.of({"metadata": {"name": name, "namespace": "shop", "ownerReferences": [owner]}})

    _, own = live(domain(), ENTRY)
    listed = [
        own,
        entry("primary-dns", "CAPApplication", "uid-app"),
        entry("tenant0", "CAPTenant", "uid-tenant"),
        entry("foreign", "CAPApplication", "uid-foreign"),
        entry("user", "CAPTenant", "uid-tenant", group="example.com"),
    ]
    found = plan.former_entries(domain(), [reference()], listed)
    assert [each.metadata.name for each in found] == ["primary-dns", "tenant0"]


def issued(domain: AnyDomain, resource: DomainResource) -> tuple[Address, Live]:
    """A live certificate of cert-manager that is Ready."""
    address, made = live(domain, resource)
    assert isinstance(made, Unstructured)
    return address, Unstructured.of({**made.body, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})


def issued_by_gardener(domain: AnyDomain, resource: DomainResource, **metadata: Any) -> tuple[Address, Live]:
    """A live certificate of Gardener that is Ready."""
    address, made = live(domain, resource, **metadata)
    assert isinstance(made, Unstructured)
    return address, Unstructured.of({**made.body, "status": {"state": "Ready", "observedGeneration": 1}})


def credential_names(found: plan.DomainPlan) -> list[str]:
    """Of the Gateways' servers."""
    bodies: list[Any] = [each.desired.body for each in found.resources if each.address.resource == Gateway.resource]
    return [body["spec"]["servers"][0]["tls"]["credentialName"] for body in bodies]


def test_a_certificate_of_a_former_issuer_stays_in_use_until_the_other_one_is_ready() -> None:
    settings = replace(SETTINGS, cert_manager=CertManager.CERT_MANAGER)
    owner = domain(cert_config=CertificateConfig(additional_ca_certificate="pem"))
    (authority,) = resources.ca_secrets(owner, CREDENTIAL)
    in_use = resources.gateway(owner, KEY, CREDENTIAL)
    objects = [live(owner, CERTIFICATE), live(owner, authority)]
    before = plan.plan(world(owner, *objects, live(owner, in_use), settings=settings))
    made = before.resources[0]
    assert made.address.resource == CertManagerCertificate.resource
    assert (before.obsolete, credential_names(before)) == ((), [CREDENTIAL.name])
    authorities = [each.address.key.name for each in before.resources if each.address.is_secret]
    assert authorities == ["shop--primary--one-cert-manager-cacert", authority.address.key.name], "both are kept right"

    waiting = plan.plan(world(owner, *objects, live(owner, in_use), live(owner, made), settings=settings))
    assert (waiting.obsolete, credential_names(waiting)) == ((), [CREDENTIAL.name])

    ready = plan.plan(world(owner, *objects, live(owner, in_use), issued(owner, made), settings=settings))
    assert credential_names(ready) == ["shop--primary--one-cert-manager"]
    assert ready.obsolete == (), "the Gateway has to leave it first"
    (moved,) = [each for each in ready.resources if each.address.resource == Gateway.resource]
    after = plan.plan(world(owner, *objects, live(owner, moved), issued(owner, made), settings=settings))
    assert [address for address, _ in after.obsolete] == [CERTIFICATE.address, authority.address]


def test_a_certificate_that_the_gateway_does_not_use_is_none_to_go_back_to() -> None:
    leftover = resources.cert_manager_certificate(
        domain(), resources.credential(domain(), "cert-manager.io", "", "istio")
    )
    in_use = live(domain(), resources.gateway(domain(), KEY, CREDENTIAL))
    found = plan.plan(world(domain(), in_use, live(domain(), CERTIFICATE), live(domain(), leftover)))
    assert credential_names(found) == [CREDENTIAL.name], "though its own certificate is not Ready at the moment"
    assert found.obsolete == ()


def test_certificates_stay_where_a_kind_is_not_served_or_gateways_cannot_be_seen() -> None:
    settings = replace(SETTINGS, cert_manager=CertManager.CERT_MANAGER)
    unserved = {CertManagerCertificate.resource: "no such kind"}
    objects = [live(domain(), CERTIFICATE), live(domain(), resources.gateway(domain(), KEY, CREDENTIAL))]
    found = plan.plan(world(domain(), *objects, settings=settings, unserved=unserved))
    assert (found.obsolete, credential_names(found)) == ((), [CREDENTIAL.name])
    assert "no such kind" in found.problems[0]
    made = plan.plan(world(domain(), settings=settings)).resources[0]
    unseen = world(
        domain(), objects[0], issued(domain(), made), settings=settings, unserved={Gateway.resource: "not permitted"}
    )
    assert plan.plan(unseen).obsolete == ()


def test_what_belongs_to_a_former_namespace_of_the_operator_goes_when_all_is_there_in_the_present_one() -> None:
    owner = cluster_domain()
    used = resources.credential(owner, "gardener", "former-system", "istio-system")
    certificate = resources.gardener_certificate(owner, ObjectKey("former-system", "everywhere"), used)
    gateway = resources.gateway(owner, ObjectKey("former-system", "everywhere"), used)
    former = [live(owner, gateway), live(owner, certificate)]
    before = plan.plan(world(owner, *former))
    assert before.gateway_name
    assert (before.obsolete, before.problems) == ((), ())
    made = {each.address.resource: each for each in before.resources}
    ready = [issued_by_gardener(owner, made[GardenerCertificate.resource])]
    assert plan.plan(world(owner, *former, *ready)).obsolete == (), "the Gateway is not there yet"
    ready.append(live(owner, made[Gateway.resource]))
    after = plan.plan(world(owner, *former, *ready))
    assert [address for address, _ in after.obsolete] == [gateway.address], "then nothing uses the certificate"
    last = plan.plan(world(owner, former[1], *ready))
    assert [address for address, _ in last.obsolete] == [certificate.address]


def test_an_object_of_a_former_domain_with_the_name_is_not_taken_for_ours() -> None:
    former = msgspec.structs.replace(domain(), metadata=msgspec.structs.replace(domain().metadata, uid="former"))
    found = plan.plan(world(domain(), live(former, GATEWAY), live(former, ENTRY), records=(RECORD,)))
    assert KEY not in {each.address.key for each in found.resources}
    assert found.obsolete == ()


def test_what_is_no_longer_needed_goes() -> None:
    policy = resources.network_policy(domain(), ObjectKey("shop", "policy"))
    other = resources.gardener_certificate(domain(), ObjectKey("elsewhere", "certificate"), CREDENTIAL)
    objects = [live(domain(), each) for each in (ENTRY, policy, other)]
    found = plan.plan(world(domain(), *objects, issued_by_gardener(domain(), CERTIFICATE)))
    assert {address for address, _ in found.obsolete} == {ENTRY.address, policy.address, other.address}


def test_a_certificate_that_another_client_deletes_is_released_whether_it_is_needed_or_not() -> None:
    ends = {"deletionTimestamp": NOW.isoformat()}
    made = plan.plan(world(domain())).resources[0]
    needed, other = live(domain(), made, **ends), live(domain(), CERTIFICATE, **ends)
    free = live(domain(), ENTRY, **ends)
    found = plan.plan(world(domain(), needed, other, free, records=(RECORD,)))
    assert {address for address, _ in found.obsolete} == {made.address, CERTIFICATE.address}
    assert made.address in {each.address for each in found.resources}
    released = live(domain(), made, **ends, finalizers=["example.com/other"])
    assert plan.plan(world(domain(), released)).obsolete == ()


def test_of_several_certificates_the_newest_stays() -> None:
    later = (NOW + timedelta(hours=1)).isoformat()
    second = resources.gardener_certificate(domain(), ObjectKey("shop", "second"), CREDENTIAL)
    newest = issued_by_gardener(domain(), second, creationTimestamp=later)
    found = plan.plan(world(domain(), live(domain(), CERTIFICATE), newest))
    assert found.resources[0].address.key.name == "second"
    assert [address for address, _ in found.obsolete] == [CERTIFICATE.address]


def test_several_gateways_are_a_problem_that_a_user_decides() -> None:
    second = resources.gateway(domain(), ObjectKey("shop", "second"), CREDENTIAL)
    found = plan.plan(world(domain(), live(domain(), GATEWAY), live(domain(), second)))
    assert found.obsolete == ()
    assert "more than one Gateway belongs to Domain.shop.primary.one" in found.problems[0]


@pytest.mark.req("R-401")
def test_an_application_that_cannot_be_read_may_refer_to_a_domain() -> None:
    hidden = (ObjectKey("shop", "odd"),)
    assert plan.next_step(snapshot(deleted(), hidden=hidden)) == Block((), hidden)
    policy = resources.network_policy(domain(), ObjectKey("shop", "policy"))
    found = plan.plan(world(domain(), live(domain(), policy), live(domain(), ENTRY), hidden=hidden))
    assert found.obsolete == ()


def test_dns_entries_stay_while_it_is_unknown_which_are_needed() -> None:
    found = plan.plan(world(domain(), live(domain(), ENTRY), records=None))
    assert found.obsolete == ()


@pytest.mark.parametrize("missing", [GardenerCertificate.resource, Gateway.resource, DnsEntry.resource])
def test_a_kind_that_is_not_served_is_named_and_the_others_are_maintained(missing: Any) -> None:
    found = plan.plan(world(domain(), records=(RECORD,), references=(reference(),), unserved={missing: "not there"}))
    kinds = {GardenerCertificate.resource, Gateway.resource, DnsEntry.resource, NetworkPolicy.resource}
    assert {each.address.resource for each in found.resources} == kinds - {missing}
    assert found.problems == (f"{missing.kind} of {missing.api_version} is missing: not there",)


# ---- readiness


def with_status(status: dict[str, Any], resource: Any = CERTIFICATE) -> Unstructured:
    _, obj = live(domain(), resource)
    return Unstructured.of({**obj.body, "status": status})  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("status", "progress"),
    [
        ({}, Progress.WAITING),
        ({"state": "Pending"}, Progress.WAITING),
        ({"state": "Ready"}, Progress.READY),
        ({"state": "Ready", "observedGeneration": 1}, Progress.READY),
        ({"state": "Error", "message": "no"}, Progress.FAILED),
        ({"state": "Invalid"}, Progress.FAILED),
        ({"state": 7}, Progress.WAITING),
    ],
)
def test_gardener_reports_by_its_state(status: dict[str, Any], progress: Progress) -> None:
    assert readiness.of(with_status(status)).progress is progress


ODD_TIME = "2020-01-01T00:00:00+99:99"
"""The API server lets it through."""


def test_a_report_about_an_older_generation_counts_for_nothing() -> None:
    _, obj = live(domain(), CERTIFICATE, generation=2)
    body = {**obj.body, "status": {"state": "Ready", "observedGeneration": 1}}  # type: ignore[union-attr]
    assert readiness.of(Unstructured.of(body)).progress is Progress.WAITING


@pytest.mark.parametrize(
    ("conditions", "progress"),
    [
        (None, Progress.WAITING),
        ([], Progress.WAITING),
        ([{"type": "Issuing", "status": "True"}], Progress.WAITING),
        ([{"type": "Ready", "status": "Unknown"}], Progress.WAITING),
        ([{"type": "Ready", "status": "True"}], Progress.READY),
        ([{"type": "Else"}, {"type": "Ready", "status": "True", "lastTransitionTime": ODD_TIME}], Progress.READY),
        ([{"type": "Ready", "status": "False", "message": "no"}], Progress.FAILED),
        (["odd"], Progress.WAITING),
    ],
)
def test_cert_manager_reports_by_its_condition(conditions: Any, progress: Progress) -> None:
    credential = resources.credential(domain(), "cert-manager.io", "cap-system", "istio-system")
    made = resources.cert_manager_certificate(domain(), credential)
    assert readiness.of(with_status({"conditions": conditions}, made)).progress is progress


def test_the_name_of_a_failed_entry_is_the_one_that_it_has() -> None:
    address, obj = live(domain(), ENTRY)
    edited = {**obj.body, "spec": {"dnsName": "edited.example.com"}, "status": {"state": "Error"}}  # type: ignore[union-attr]
    assert plan.failed_names({address: Unstructured.of(edited)}, [ENTRY]) == {"edited.example.com"}


def test_failed_objects_are_named_before_those_that_are_waited_for() -> None:
    objects = {
        CERTIFICATE.address: with_status({"state": "Pending"}),
        ENTRY.address: with_status({"state": "Error", "message": "no zone"}, ENTRY),
    }
    failed, waiting = plan.unready(objects, [CERTIFICATE, ENTRY])
    assert str(failed) == f"DNSEntry {KEY} is in error: no zone"
    assert str(waiting) == f"Certificate {KEY} is not ready yet: Pending"


def test_the_selector_is_the_one_of_the_domain() -> None:
    assert domain().spec.ingress_selector == SELECTOR
