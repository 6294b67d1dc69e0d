"""Domains on the real API server: certificates, gateways, network policies and DNS entries."""

from __future__ import annotations

import base64

import pytest
from tests.cluster.cap.domain.running import RunningDomains
from tests.cluster.cap.domain.scenario import DNS_TARGET, Given, Then, values

from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Namespace, Secret
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS
from stellwerk.cli.look import trace
from stellwerk.cli.objects.object_tree import Family
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, JsonValue, dig, metadata_of, unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.plan import CertManager, DnsManager
from stellwerk.runtime.insight.diagnosis import ClusterReader

CHILDREN = (GardenerCertificate.resource, Gateway.resource, NetworkPolicy.resource, DnsEntry.resource)


@pytest.mark.req("CAP-44")
async def test_given_a_wildcard_domain_on_gardener_then_it_is_ready_after_its_certificate_and_dns_entry(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    domain = await given.a_domain("app.example.com", dnsMode="Wildcard", tlsMode="Mutual")
    await given.an_application(domain)
    (certificate,) = await then.count(domain, GardenerCertificate.resource, 1)
    (gateway,) = await then.count(domain, Gateway.resource, 1)
    (entry,) = await then.count(domain, DnsEntry.resource, 1)
    (policy,) = await then.count(domain, NetworkPolicy.resource, 1)
    credential = f"{given.namespace}--primary-gardener"
    assert certificate.metadata.finalizers == (names.DOMAIN_FINALIZER,)
    assert certificate.metadata.owner_references == ()
    assert certificate.at("spec", "secretRef") == {"name": credential, "namespace": given.ingress}
    assert certificate.at("spec", "dnsNames") == ["*.app.example.com"]
    assert gateway.at("spec", "servers") == [
        {
            "hosts": ["./*.app.example.com"],
            "port": {"name": "https", "number": 443, "protocol": "HTTPS"},
            "tls": {"mode": "MUTUAL", "credentialName": credential},
        }
    ]
    assert gateway.at("spec", "selector") == given.selector
    assert (entry.at("spec", "dnsName"), entry.at("spec", "targets")) == ("*.app.example.com", [DNS_TARGET])
    assert policy.metadata.namespace == given.namespace
    assert all(obj.metadata.name.startswith("primary-") for obj in (certificate, gateway, entry, policy))
    await then.becomes(domain, "Processing", "Processing", "Certificate")
    await then.event(domain, "CertificateNotReady")
    await given.certificates_are(domain, "Ready")
    await then.becomes(domain, "Processing", "Processing", "DNSEntry")
    await given.dns_entries_are(domain, "Ready")
    status = (await then.becomes(domain, "Ready", "Ready")).status
    assert (status.gateway_name, status.dns_target) == (gateway.metadata.name, DNS_TARGET)
    assert status.observed_domain == "app.example.com"

    reader = ClusterReader(given.client)
    (top,) = [each for each in await reader.list(domain.resource, given.namespace) if each.key.name == "primary"]
    made = {certificate.ref, gateway.ref, entry.ref, policy.ref}
    assert {child.ref for child in (await Family(reader).of(top)).children} == made, "stellwerk tree"
    for one in (certificate, gateway, entry, policy):
        way = await trace.way_up(reader, one)
        assert [step.ref for step in way] == [one.ref, top.ref], "stellwerk trace, by owner reference or mark"
        assert way[-1].relation == "owned by" or way[-1].facts == (("Host", "app.example.com"),)


async def test_a_cluster_domain_with_dots_in_its_name_follows_its_certificate(
    given: Given, then: Then, running: RunningDomains
) -> None:
    """The original splits owner ids at their dots, and loses such a domain."""
    await running.start()
    domain = await given.a_cluster_domain("dotted.example.com", name="team.shop.cluster", dnsMode="Wildcard")
    (certificate,) = await then.count(domain, GardenerCertificate.resource, 1)
    assert certificate.metadata.name.startswith("team--shop--cluster-")
    await then.becomes(domain, "Processing", "Processing", "Certificate")
    await given.certificates_are(domain, "Ready")
    await given.dns_entries_are(domain, "Ready")
    await then.becomes(domain, "Ready", "Ready")


async def test_a_cluster_domain_serves_applications_of_all_namespaces(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    other = await given.a_namespace("other")
    domain = await given.a_cluster_domain("cluster.example.com", dnsMode="Wildcard")
    await given.an_application(domain)
    application = await given.an_application(domain, namespace=other)
    policies = await then.count(domain, NetworkPolicy.resource, 2)
    assert {policy.metadata.namespace for policy in policies} == {given.namespace, other}
    gateway = await then.the(domain, Gateway.resource, lambda obj: obj.metadata.namespace == given.namespace)
    assert dig(gateway.at("spec", "servers")[0], "hosts") == ["*/*.cluster.example.com"]  # type: ignore[index]
    await given.deleted(application)
    await then.the(domain, NetworkPolicy.resource, lambda obj: obj.metadata.namespace == given.namespace)


@pytest.mark.req("CAP-45")
async def test_given_another_host_then_gateway_certificate_and_dns_entry_follow(
    given: Given, then: Then, running: RunningDomains
) -> None:
    """The hosts of tenants follow as well; that is the work of the tenants."""
    await running.start()
    domain = await given.a_domain("old.example.com", dnsMode="Wildcard")
    await given.is_ready(domain)
    (before,) = await then.objects(domain, Gateway.resource)
    await given.changed(domain, domain="new.example.com")
    await then.the(domain, DnsEntry.resource, lambda obj: obj.at("spec", "dnsName") == "*.new.example.com")
    await then.the(
        domain, GardenerCertificate.resource, lambda obj: obj.at("spec", "dnsNames") == ["*.new.example.com"]
    )
    after = await then.the(domain, Gateway.resource, lambda obj: "new.example.com" in str(obj.at("spec", "servers")))
    assert after.metadata.uid == before.metadata.uid
    await then.becomes(domain, "Processing", "Processing", "its last change is not processed yet")
    await given.certificates_are(domain, "Ready")
    await given.dns_entries_are(domain, "Ready")
    ready = await then.becomes(domain, "Ready", "Ready")
    assert ready.status.observed_domain == "new.example.com"
    assert ready.metadata.labels[names.HOST_HASH_LABEL] != domain.metadata.labels.get(names.HOST_HASH_LABEL)


@pytest.mark.req("CAP-46")
async def test_given_two_domains_with_one_host_then_both_report_it_until_one_goes(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    first = await given.a_domain("twice.example.com", "first")
    await given.is_ready(first)
    second = await given.a_domain("twice.example.com", "second")
    await then.becomes(first, "Error", "DuplicateDomainHost", f"Domain.{given.namespace}.second")
    await then.becomes(second, "Error", "DuplicateDomainHost", f"Domain.{given.namespace}.first")
    await then.event(second, "DuplicateDomainHost")
    assert len(await then.objects(first, Gateway.resource)) == 1
    await given.deleted(second)
    await then.becomes(first, "Ready", "Ready")


def host_of(given: Given) -> str:
    """A host of this test: one that others have would overlap with theirs, and their namespaces may still be ending."""
    return f"{given.namespace}.example.com"


@pytest.mark.req("R-914")
async def test_given_overlapping_hosts_of_two_namespaces_then_the_older_is_served_and_conditions_name_the_other(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    base = host_of(given)
    older = await given.a_domain(f"shop.{base}")
    await given.is_ready(older)
    other = await given.a_namespace("other")
    parent = await given.a_domain(base, namespace=other)
    equal = await given.a_cluster_domain(f"shop.{base}")
    way_out = f"kubectl annotate namespace {other} {names.DOMAIN_SUFFIXES_ANNOTATION}={base}"
    await then.becomes(parent, "Error", "DuplicateDomainHost", way_out)
    refused = await then.becomes(parent, "Error", "DuplicateDomainHost", f"Domain.{given.namespace}.primary")
    assert refused.status.observed_domain == ""
    await then.becomes(equal, "Error", "DuplicateDomainHost", f"Domain.{given.namespace}.primary")
    await then.becomes(older, "Ready", "Ready", f"{base} of Domain.{other}.primary")
    await then.becomes(older, "Ready", "Ready", f"ClusterDomain.{given.namespace}")
    for each in (parent, equal):
        assert not await then.objects(each, Gateway.resource)
        assert not await then.objects(each, GardenerCertificate.resource)

    await given.deleted(equal)
    await given.deleted(older)
    await given.is_ready(parent)


@pytest.mark.req("R-914")
async def test_given_an_administrator_grants_a_host_then_its_namespace_has_it_and_nothing_is_torn_down(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    base = host_of(given)
    older = await given.a_domain(base)
    await given.is_ready(older)
    other = await given.a_namespace("other")
    child = await given.a_domain(f"shop.{base}", namespace=other)
    await then.becomes(child, "Error", "DuplicateDomainHost", f"Domain.{given.namespace}.primary")
    await given.granted(other, f"shop.{base}")
    await given.is_ready(child)
    await then.becomes(older, "Error", "DuplicateDomainHost", f"shop.{base} of Domain.{other}.primary")
    assert len(await then.objects(older, Gateway.resource)) == 1
    assert len(await then.objects(older, GardenerCertificate.resource)) == 1

    await given.granted(given.namespace, base)
    await then.becomes(older, "Ready", "Ready")
    await then.becomes(child, "Ready", "Ready")
    await given.granted(other, "example.org")
    await then.becomes(child, "Error", "ProcessingError", "outside of the suffixes")
    assert len(await then.objects(child, Gateway.resource)) == 1


@pytest.mark.req("R-914")
async def test_given_a_host_that_is_granted_to_nobody_was_stored_without_the_webhook_then_it_gets_no_certificate(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    domain = await given.a_domain("com")
    await then.becomes(domain, "Error", "ProcessingError", "belongs to no namespace")
    assert not await then.objects(domain, GardenerCertificate.resource)


@pytest.mark.req("R-914")
async def test_given_overlapping_domains_of_the_original_are_both_ready_then_the_younger_keeps_what_is_served(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    base = host_of(given)
    other = await given.a_namespace("other")
    domains = [await given.a_domain(base), await given.a_domain(f"elsewhere.{base}.org", namespace=other)]
    for each in domains:
        await given.is_ready(each)
    await running.stop()
    # Creation times have whole seconds, and ties fall to the uid.
    older, younger = sorted(domains, key=lambda each: (naming.created(each), each.metadata.uid))
    await given.changed(older, domain=base)
    await given.reports(older, {"observedDomain": base})
    await given.changed(younger, domain=f"shop.{base}")
    await given.reports(younger, {"observedDomain": f"shop.{base}"})
    await running.start()
    await then.becomes(younger, "Error", "DuplicateDomainHost", f"{base} of {naming.owner_id(older)}")
    await given.is_ready(older)
    await then.becomes(older, "Ready", "Ready", f"shop.{base} of {naming.owner_id(younger)}")
    assert len(await then.objects(younger, Gateway.resource)) == 1
    assert len(await then.objects(younger, GardenerCertificate.resource)) == 1
    await given.deleted(older)
    await given.is_ready(younger)


@pytest.mark.req("CAP-47")
async def test_given_a_referenced_domain_is_deleted_then_it_stays_with_its_objects_until_the_reference_goes(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("kept.example.com", dnsMode="Wildcard", certConfig={"additionalCACertificate": "ca"})
    application = await given.an_application(domain)
    await given.is_ready(domain)
    before = [obj.metadata.uid for resource in CHILDREN for obj in await then.objects(domain, resource)]
    await given.deleted(domain)
    blocked = await then.becomes(domain, "Deleting", "DeletionBlocked", f"CAPApplication {given.namespace}/app")
    assert blocked.status.conditions[0].is_true
    await running.settled(admin)
    assert [obj.metadata.uid for resource in CHILDREN for obj in await then.objects(domain, resource)] == before
    await given.deleted(application)
    await then.gone(domain)
    for resource in (GardenerCertificate.resource, Secret.resource):
        await then.count(domain, resource, 0)
    for resource in (Gateway.resource, DnsEntry.resource):  # the garbage collector's
        controllers = [obj.metadata.controller for obj in await then.objects(domain, resource)]
        assert all(controller is not None and controller.uid == domain.metadata.uid for controller in controllers)


@pytest.mark.req("CAP-48")
async def test_given_cert_manager_then_the_certificate_is_next_to_the_gateway_and_another_issuer_changes_it_in_place(
    given: Given, then: Then, running: RunningDomains
) -> None:
    issuers = ("Issuer/first", "Issuer/second")
    await running.start(
        cert_manager=CertManager.CERT_MANAGER, dns_manager=DnsManager.KUBERNETES, certificate_issuers=issuers
    )
    issuer: JsonObject = {"issuerRef": {"name": "first", "kind": "Issuer", "group": "cert-manager.io"}}
    domain = await given.a_domain("cm.example.com", dnsMode="Wildcard", certConfig={"certManager": issuer})
    await given.patched(domain, {"metadata": {"annotations": {names.COMMON_NAME_ANNOTATION: "cm.example.com"}}})
    made = await then.the(
        domain, CertManagerCertificate.resource, lambda obj: obj.at("spec", "commonName") == "cm.example.com"
    )
    base = f"{given.namespace}--primary"
    assert (made.metadata.namespace, made.metadata.name) == (given.ingress, base)
    assert made.at("spec", "secretName") == f"{base}-cert-manager"
    assert made.at("spec", "issuerRef") == issuer["issuerRef"]
    await given.changed(domain, certConfig={"certManager": {"issuerRef": {"name": "second"}}})
    changed = await then.the(
        domain, CertManagerCertificate.resource, lambda obj: obj.at("spec", "issuerRef", "name") == "second"
    )
    assert changed.metadata.uid == made.metadata.uid
    await given.issued(domain, "False", "no such issuer")
    await then.becomes(domain, "Error", "ProcessingError", "no such issuer")
    await given.issued(domain)
    await then.becomes(domain, "Ready", "Ready")
    assert await then.objects(domain, DnsEntry.resource) == []


@pytest.mark.req("R-912")
async def test_a_tenants_pod_with_the_gateways_labels_gets_no_key_and_stops_no_domain_of_others(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await given.a_gateway_pod(given.namespace, "decoy")
    await running.start(ingress_namespaces=(given.ingress,))
    domain = await given.a_domain("keys.example.com", dnsMode="Wildcard")
    await given.is_ready(domain)
    (certificate,) = await then.objects(domain, GardenerCertificate.resource)
    assert certificate.at("spec", "secretRef", "namespace") == given.ingress
    await running.stop()
    await running.start(ingress_namespaces=("istio-system",))
    alone = await given.a_domain("alone.example.com", name="alone")
    await then.becomes(alone, "Error", "ProcessingError", "not allowed for ingress gateways (allowed: istio-system)")
    assert await then.objects(alone, GardenerCertificate.resource) == []


@pytest.mark.req("R-912")
async def test_an_issuer_that_no_administrator_named_issues_nothing_for_a_domain(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start(cert_manager=CertManager.CERT_MANAGER, dns_manager=DnsManager.KUBERNETES)
    reference: JsonObject = {"name": "internal", "kind": "ClusterIssuer"}
    domain = await given.a_domain("issuer.example.com", certConfig={"certManager": {"issuerRef": reference}})
    await then.becomes(domain, "Error", "ProcessingError", "add ClusterIssuer/internal to CERTIFICATE_ISSUERS")
    assert await then.objects(domain, CertManagerCertificate.resource) == []
    await given.changed(domain, certConfig=None)
    await then.the(domain, CertManagerCertificate.resource, lambda obj: obj.at("spec", "issuerRef") is not None)


@pytest.mark.req("R-913")
async def test_a_template_whose_rendered_name_belongs_to_another_domain_makes_no_entry(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    name = '{{ printf "victim.%s" (trimPrefix "mine." .domain) }}'
    templates: list[JsonValue] = [{"name": name, "target": "{{ .dnsTarget }}"}]
    domain = await given.a_domain("mine.example.com", dnsMode="Custom", dnsTemplates=templates)
    await then.becomes(domain, "Error", "ProcessingError", "makes 'victim.example.com', which is neither")
    assert await then.objects(domain, DnsEntry.resource) == []


@pytest.mark.req("CAP-49")
async def test_given_an_additional_ca_then_its_secret_is_created_changed_and_deleted(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("ca.example.com", certConfig={"additionalCACertificate": "first"})

    async def content(text: str) -> None:
        encoded = base64.b64encode(text.encode()).decode()
        await then.the(domain, Secret.resource, lambda obj: obj.at("data") == {"ca.crt": encoded})

    await content("first")
    (secret,) = await then.objects(domain, Secret.resource)
    assert secret.key == (given.ingress, f"{given.namespace}--primary-gardener-cacert")
    await given.changed(domain, certConfig={"additionalCACertificate": "second"})
    await content("second")
    await given.changed(domain, certConfig=None)
    await then.count(domain, Secret.resource, 0)


@pytest.mark.req("CAP-50")
async def test_given_templates_with_subdomains_then_each_has_an_entry_while_it_is_used(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    templates: list[JsonValue] = [
        {"name": "{{.subDomain}}.{{.domain}}", "target": "{{.dnsTarget}}"},
        {"name": 'fixed-{{ .domain | replace "." "-" }}.{{ .domain }}', "target": "x.{{.dnsTarget}}"},
    ]
    domain = await given.a_domain("dns.example.com", dnsMode="Custom", dnsTemplates=templates)
    application = await given.an_application(domain)
    await given.subdomains(application, "one", "two")
    entries = await then.count(domain, DnsEntry.resource, 3)
    fixed, one, two = sorted(entries, key=lambda entry: str(entry.at("spec", "dnsName")))
    assert values([fixed, one, two], "spec", "dnsName") == [
        "fixed-dns-example-com.dns.example.com",
        "one.dns.example.com",
        "two.dns.example.com",
    ]
    assert values([fixed, one, two], "spec", "targets") == [[f"x.{DNS_TARGET}"], [DNS_TARGET], [DNS_TARGET]]
    await given.subdomains(application, "two")
    left = await then.count(domain, DnsEntry.resource, 2)
    assert {entry.metadata.uid for entry in left} == {fixed.metadata.uid, two.metadata.uid}


async def test_objects_that_another_client_deletes_are_restored_at_once(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("restored.example.com", dnsMode="Wildcard")
    await given.is_ready(domain)
    for resource in (Gateway.resource, DnsEntry.resource, GardenerCertificate.resource):
        (obj,) = await then.objects(domain, resource)
        await admin.delete(unstructured(resource), obj.metadata.name, obj.metadata.namespace)
        uid = obj.metadata.uid
        await then.the(domain, resource, lambda made, uid=uid: made.metadata.uid != uid)  # type: ignore[misc]
    await given.is_ready(domain)


async def test_a_gateway_that_another_client_edits_is_restored(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("edited.example.com", dnsMode="Wildcard")
    await given.is_ready(domain)
    (before,) = await then.objects(domain, Gateway.resource)
    edit = MergePatch({"spec": {"servers": [], "selector": {"istio": "elsewhere"}}})
    await admin.patch(unstructured(Gateway.resource), before.metadata.name, before.metadata.namespace, edit)
    await then.the(domain, Gateway.resource, lambda made: made.at("spec") == before.at("spec"))
    await given.is_ready(domain)


async def test_an_object_that_another_client_deletes_again_and_again_is_counted_and_named(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("fought.example.com", dnsMode="Wildcard")
    await given.is_ready(domain)
    (entry,) = await then.objects(domain, DnsEntry.resource)
    assert running.sample("stellwerk_drift_throttled_total", {}) == 0

    await admin.delete(unstructured(DnsEntry.resource), entry.metadata.name, entry.metadata.namespace)
    await then.the(domain, DnsEntry.resource, lambda made: made.metadata.uid != entry.metadata.uid)
    await admin.delete(unstructured(DnsEntry.resource), entry.metadata.name, entry.metadata.namespace)

    await then.becomes(domain, "Error", "ProcessingError", "again and again")
    assert running.sample("stellwerk_drift_throttled_total", {}) != 0
    await running.clock.skip(seconds=FIGHT_SECONDS)
    await given.is_ready(domain)


async def test_two_domains_whose_certificates_would_use_one_secret_do_not_overwrite_it(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    first = await given.a_domain("first.example.com", "one--two")
    await given.is_ready(first)
    second = await given.a_domain("second.example.com", "one.two")
    first_id, second_id = naming.owner_id(first), naming.owner_id(second)
    await then.becomes(second, "Error", "ProcessingError", f"{second_id} and {first_id} would use one Secret")
    await then.becomes(first, "Ready", "Ready")
    assert await then.objects(second, GardenerCertificate.resource) == []
    await given.deleted(first)
    await then.gone(first)
    await given.is_ready(second)


async def test_a_domain_waits_for_the_end_of_a_certificate_that_another_client_deletes(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("ending.example.com")
    await given.is_ready(domain)
    (made,) = await then.objects(domain, GardenerCertificate.resource)
    certificate = await admin.get(GardenerCertificate, made.metadata.name, made.metadata.namespace)
    await given.patched(certificate, {"metadata": {"finalizers": [names.DOMAIN_FINALIZER, "example.com/held"]}})
    await given.deleted(certificate)
    await then.becomes(domain, "Processing", "Processing", "waits for finalizers example.com/held")
    await given.patched(certificate, {"metadata": {"finalizers": None}})
    await then.the(domain, GardenerCertificate.resource, lambda made: made.metadata.uid != certificate.metadata.uid)
    await given.is_ready(domain)


@pytest.mark.req("R-401")
async def test_what_one_namespace_refuses_costs_only_its_own_applications_the_ingress_gateway(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    taken, leaving = await given.a_namespace("taken"), await given.a_namespace("leaving")
    domain = await given.a_cluster_domain("many.example.com")
    name = naming.child_name(domain, "network policy")
    foreign: JsonObject = {"metadata": {"name": name, "namespace": taken}, "spec": {"podSelector": {}}}
    await admin.create(
        unstructured(NetworkPolicy.resource), {**foreign, "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy"}
    )
    await given.an_application(domain)
    refused = await given.an_application(domain, namespace=taken)
    going = await given.an_application(domain, namespace=leaving)
    await given.patched(going, {"metadata": {"finalizers": ["example.com/held"]}})
    await given.is_ready(domain)
    await then.event(refused, "NetworkPolicyRefused", name)
    await admin.delete(metadata_of(Namespace), leaving)
    policies = await then.count(domain, NetworkPolicy.resource, 1)
    assert [policy.metadata.namespace for policy in policies] == [given.namespace]
    await running.settled(admin)
    await then.becomes(domain, "Ready", "Ready")
    await given.patched(going, {"metadata": {"finalizers": None}})
    given.namespaces.remove(leaving)


@pytest.mark.req("R-401")
async def test_a_subdomain_of_another_application_or_of_no_dns_name_costs_only_itself_a_record(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    domain = await given.a_domain("shared.example.com", dnsMode="Subdomain")
    first = await given.an_application(domain, name="first")
    await given.subdomains(first, "one")
    await then.count(domain, DnsEntry.resource, 1)
    second = await given.an_application(domain, name="second")
    await given.subdomains(second, "one", "Not_A_Name", "two")
    entries = await then.count(domain, DnsEntry.resource, 2)
    assert {*values(entries, "spec", "dnsName")} == {"one.shared.example.com", "two.shared.example.com"}
    await then.event(second, "SubdomainAlreadyInUse", "one")
    await then.event(second, "SubdomainInvalid", "Not_A_Name")
    await given.certificates_are(domain, "Ready")
    await given.dns_entries_are(domain, "Ready")
    await then.becomes(domain, "Ready", "Ready")


@pytest.mark.req("R-401")
async def test_a_template_that_fails_is_named_and_what_exists_stays(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    template: JsonObject = {"name": "www.{{.domain}}", "target": "{{.dnsTarget}}"}
    domain = await given.a_domain("bad.example.com", dnsMode="Custom", dnsTemplates=[template])
    await then.count(domain, DnsEntry.resource, 1)
    await given.changed(domain, dnsTemplates=[{"name": "{{ .domian }}", "target": "x"}])
    await then.becomes(domain, "Error", "ProcessingError", "spec.dnsTemplates[0].name")
    await then.count(domain, DnsEntry.resource, 1)
    key = domain.metadata
    counted = f'cap_op_reconcile_errors{{kind="Domain",name="{key.name}",namespace="{key.namespace}"}}'
    assert counted in running.exposition()
    await given.changed(domain, dnsTemplates=[template])
    await given.is_ready(domain)


@pytest.mark.req("R-404")
@pytest.mark.parametrize(
    "template",
    [
        '{{ repeat 2000000000 "x" }}',
        "{{ range $i := until 100000 }}{{ range $j := until 100000 }}{{ $j }}{{ end }}{{ end }}",
        '{{ define "t" }}{{ template "t" . }}{{ end }}{{ template "t" . }}',
        '{{ env "HOME" }}.{{ .domain }}',
        "*.*.{{ .domain }}",
    ],
    ids=["a long text", "a long loop", "an endless recursion", "the environment", "no DNS name"],
)
async def test_a_hostile_template_costs_only_its_domain(
    given: Given, then: Then, running: RunningDomains, template: str
) -> None:
    await running.start()
    templates: list[JsonValue] = [{"name": template, "target": "{{ .dnsTarget }}"}]
    hostile = await given.a_domain("hostile.example.com", dnsMode="Custom", dnsTemplates=templates)
    other = await given.a_domain("other.example.com", name="other", dnsMode="Wildcard")
    await given.is_ready(other)
    await then.becomes(hostile, "Error", "ProcessingError", "spec.dnsTemplates")
