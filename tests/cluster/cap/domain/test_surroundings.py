"""What domains depend on: the ingress gateway, its load balancer, kinds of others, objects of the original."""

from __future__ import annotations

import pytest
from tests.cluster.cap.domain.running import RunningDomains
from tests.cluster.cap.domain.scenario import Given, Then
from tests.cluster.component.kinds import established, removed
from tests.cluster.component.world import free_definition

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.cert_manager import CertManagerCertificate
from stellwerk.api.core import Service
from stellwerk.api.discovery import EndpointSlice
from stellwerk.api.gardener import DnsEntry, GardenerCertificate
from stellwerk.api.istio import Gateway
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Invalid
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, owner_reference, to_json_object, unstructured
from stellwerk.local.build import published_definitions
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api import DEFINITIONS
from stellwerk.operators.cap.domain import naming, resources
from stellwerk.operators.cap.domain.plan import CertManager
from stellwerk.operators.cap.domain.resources import DnsRecord, DomainResource
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.writes import Writes

DNS_NAMES = "dns.gardener.cloud/dnsnames"
ALL = ("domains", "certificates", "gateways", "networkpolicies", "dnsentries", "secrets")


async def test_a_domain_waits_for_the_pods_of_its_ingress_gateway(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    selector = {"istio": "later", "test": given.ingress}
    domain = await given.a_domain("later.example.com", ingressSelector={**selector})
    await then.becomes(domain, "Error", "ProcessingError", "no matching ingress gateway pods found")
    await then.event(domain, "MissingIngressGatewayInfo")
    await given.changed(domain, ingressSelector={"istio": "ingressgateway"})
    await then.becomes(domain, "Processing", "Processing")
    await given.is_ready(domain)


async def test_pods_in_two_namespaces_are_refused_until_one_of_them_goes(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    other = await given.a_namespace("other")
    await given.a_gateway_pod(other)
    domain = await given.a_domain("two.example.com")
    await then.becomes(domain, "Error", "ProcessingError", "more than one matching ingress gateway namespace")
    await admin.delete(unstructured(Resource("", "v1", "Pod", "pods", True)), "gateway", other, grace_period_seconds=0)
    await given.is_ready(domain)


async def test_a_ready_domain_stays_ready_while_its_ingress_gateway_restarts(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("restart.example.com", dnsMode="Wildcard")
    await given.is_ready(domain)
    await running.settled(admin)
    before = await then.domain(domain)
    pods = unstructured(Resource("", "v1", "Pod", "pods", True))
    await admin.delete(pods, "gateway", given.ingress, grace_period_seconds=0)
    await running.settled(admin)
    await given.a_gateway_pod(name="next")
    await running.settled(admin)
    after = await then.domain(domain)
    assert after.metadata.resource_version == before.metadata.resource_version, after.status


async def test_the_dns_target_is_the_name_on_the_load_balancer_and_follows_it(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    await running.start()
    domain = await given.a_domain("lb.example.com", dnsTarget="", dnsMode="Wildcard")
    await then.becomes(domain, "Error", "ProcessingError", DNS_NAMES)
    service: JsonObject = {
        "metadata": {
            "name": "gateway",
            "namespace": given.ingress,
            "annotations": {DNS_NAMES: "*.lb.example.com, other.example.com"},
        },
        "spec": {"type": "LoadBalancer", "ports": [{"port": 443}]},
    }
    await admin.create(Service, service)
    parts: JsonObject = {
        "metadata": {
            "name": "gateway-1",
            "namespace": given.ingress,
            "labels": {"kubernetes.io/service-name": "gateway"},
        },
        "addressType": "IPv4",
        "endpoints": [
            {
                "addresses": ["10.0.0.1"],
                "targetRef": {"kind": "Pod", "namespace": given.ingress, "name": "gateway"},
            }
        ],
    }
    await admin.create(
        unstructured(EndpointSlice.resource), {**parts, "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice"}
    )
    await then.the(domain, DnsEntry.resource, lambda obj: obj.at("spec", "targets") == ["x.lb.example.com"])
    await given.patched(
        await admin.get(Service, "gateway", given.ingress), {"metadata": {"annotations": {DNS_NAMES: "b.example.com"}}}
    )
    await then.the(domain, DnsEntry.resource, lambda obj: obj.at("spec", "targets") == ["b.example.com"])


@pytest.mark.req("R-207")
async def test_a_kind_that_is_not_served_is_named_and_used_when_it_comes(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    name = DnsEntry.resource.group_resource
    await removed(admin, name)
    await running.start()
    domain = await given.a_domain("absent.example.com", dnsMode="Wildcard")
    await then.becomes(domain, "Error", "ProcessingError", "DNSEntry of dns.gardener.cloud/v1alpha1 is missing")
    await then.count(domain, Gateway.resource, 1)
    (body,) = published_definitions.definitions([name])
    await admin.create(unstructured(CustomResourceDefinition.resource), body)
    await eventually(lambda: established(admin, name))
    await then.count(domain, DnsEntry.resource, 1)
    await given.is_ready(domain)


@pytest.mark.req("CAP-55")
async def test_an_unchanged_domain_costs_no_write_also_after_a_restart(
    given: Given, then: Then, running: RunningDomains, admin: Client, writes: Writes
) -> None:
    await running.start()
    domain = await given.a_domain("calm.example.com", dnsMode="Wildcard", certConfig={"additionalCACertificate": "ca"})
    await given.an_application(domain)
    await given.is_ready(domain)
    await running.settled(admin)
    await running.stop()
    before = writes.to(*ALL), writes.to(*ALL, namespace=given.ingress)
    await running.start()
    await running.settled(admin)
    assert (writes.to(*ALL), writes.to(*ALL, namespace=given.ingress)) == before


async def test_objects_of_the_original_are_taken_over_without_a_write_and_a_change_removes_its_fields(
    given: Given, then: Then, running: RunningDomains, admin: Client, writes: Writes
) -> None:
    domain = await given.a_domain("taken.example.com", dnsMode="Wildcard")
    await given.patched(
        domain,
        {
            "metadata": {
                "finalizers": [names.DOMAIN_FINALIZER],
                "labels": {names.HOST_HASH_LABEL: naming.host_hash(domain)},
            }
        },
    )
    await given.an_application(domain)
    before = await _made_by_the_original(admin, given, await then.domain(domain))
    await running.start()
    await then.becomes(domain, "Processing", "Processing")
    await running.settled(admin)
    shown = [obj for made in before for obj in await then.objects(domain, _resource_of(made))]
    assert [obj.body for obj in shown] == [obj.body for obj in before]
    assert writes.to("certificates", "gateways", "networkpolicies", "dnsentries") == []
    # Less than the label of this test would select the gateways of others, whose namespaces may still be ending.
    await given.changed(domain, ingressSelector={"istio": None})
    gateway = await then.the(
        domain, Gateway.resource, lambda obj: obj.at("spec", "selector") == {"test": given.ingress}
    )
    assert gateway.metadata.name == "primary-x7k2p"
    await given.is_ready(domain)


async def _made_by_the_original(admin: Client, given: Given, domain: Domain) -> list[Unstructured]:
    """The objects as the original creates them: with generated names, by plain requests."""
    credential = resources.credential(domain, "gardener", given.namespace, given.ingress)
    key = ObjectKey(given.namespace, "primary-x7k2p")
    record = DnsRecord("*.taken.example.com", "lb.example.com")
    made = [
        resources.gardener_certificate(domain, key, credential),
        resources.gateway(domain, key, credential),
        resources.network_policy(domain, key),
        resources.dns_entry(domain, key, record),
    ]
    return [await _created(admin, domain, each) for each in made]


async def _created(admin: Client, domain: Domain, resource: DomainResource) -> Unstructured:
    body = resource.desired.body
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    annotations, found = metadata["annotations"], metadata["labels"]
    assert isinstance(annotations, dict)
    assert isinstance(found, dict)
    annotations[names.RESOURCE_HASH_ANNOTATION] = resource.hash
    found |= naming.owner_labels(domain)
    if resource.address.resource != GardenerCertificate.resource:
        reference = to_json_object(owner_reference(domain))
        metadata["ownerReferences"] = [reference]
    return await admin.create(unstructured(resource.address.resource), body, field_manager="controller")


def _resource_of(obj: Unstructured) -> Resource:
    return next(
        resource
        for resource in (
            GardenerCertificate.resource,
            Gateway.resource,
            NetworkPolicy.resource,
            DnsEntry.resource,
        )
        if resource.gvk == obj.gvk
    )


async def test_a_certificate_manager_that_is_absent_does_not_end_the_process(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    name = "certificates.cert-manager.io"
    await removed(admin, name)
    await running.start(cert_manager=CertManager.CERT_MANAGER)
    domain = await given.a_domain("nocm.example.com")
    await then.becomes(domain, "Error", "ProcessingError", "Certificate of cert-manager.io/v1 is missing")
    await given.deleted(domain)
    await then.gone(domain)
    (body,) = published_definitions.definitions([name])
    await admin.create(unstructured(CustomResourceDefinition.resource), body)
    await eventually(lambda: established(admin, name))


async def test_certificates_of_a_former_issuer_go_when_the_operator_uses_another_one(
    given: Given, then: Then, running: RunningDomains
) -> None:
    await running.start()
    domain = await given.a_domain("issuer.example.com")
    await given.is_ready(domain)
    await running.stop()
    await running.start(cert_manager=CertManager.CERT_MANAGER)
    await then.count(domain, CertManagerCertificate.resource, 1)
    await then.becomes(domain, "Processing", "Processing")
    await then.count(domain, GardenerCertificate.resource, 1)
    await given.issued(domain)
    await then.becomes(domain, "Ready", "Ready")
    await then.count(domain, GardenerCertificate.resource, 0)


async def test_a_dns_entry_of_a_former_release_makes_room_for_that_of_the_domain(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    domain = await given.a_domain("former.example.com", dnsMode="Wildcard")
    await given.patched(domain, {"metadata": {"annotations": {names.MIGRATED_ANNOTATION: "any/app"}}})
    application = await given.an_application(domain)
    view = unstructured(DnsEntry.resource)
    spec: JsonObject = {"dnsName": "*.former.example.com", "targets": ["lb.example.com"]}
    owner = to_json_object(owner_reference(application))
    kind: JsonObject = {"apiVersion": DnsEntry.resource.api_version, "kind": "DNSEntry", "spec": spec}
    for name, owners in (("app-primary-dns", [owner]), ("user", [])):
        metadata: JsonObject = {"name": name, "namespace": given.namespace, "ownerReferences": [*owners]}
        await admin.create(view, {**kind, "metadata": metadata})
    await running.start()
    (made,) = await then.count(domain, DnsEntry.resource, 1)
    await given.dns_entries_are(domain, "Error", "already busy for entry")
    await then.becomes(domain, "Error", "ProcessingError", "already busy")
    left = await eventually(lambda: _left(admin, given, 2))
    assert left == {made.metadata.name, "user"}
    await given.is_ready(domain)


async def _left(admin: Client, given: Given, count: int) -> set[str]:
    """The names of all DNS entries of the namespace, as soon as there are so many."""
    listed = (await admin.list(unstructured(DnsEntry.resource), given.namespace)).items
    return {each.metadata.name for each in listed} if len(listed) == count else set()


@pytest.mark.req("R-401")
async def test_an_application_that_cannot_be_read_blocks_a_deletion_until_it_is_corrected(
    given: Given, then: Then, running: RunningDomains, admin: Client
) -> None:
    domain = await given.a_domain("odd.example.com")
    application = await given.an_application(domain)
    await running.start()
    await given.is_ready(domain)
    await running.stop()
    view = unstructured(CustomResourceDefinition.resource)
    await admin.apply(view, free_definition(CAPApplication.resource))
    await eventually(lambda: _is_taken(admin, given, application))
    await running.start()
    await given.deleted(domain)
    await then.becomes(domain, "Deleting", "DeletionBlocked", "cannot be read")
    await given.deleted(application)
    await then.gone(domain)
    await admin.apply(view, DEFINITIONS[0].body())


async def _is_taken(admin: Client, given: Given, application: CAPApplication) -> bool:
    """Whether the API server stores a reference that is none: the schema may still be the former one."""
    try:
        await given.patched(application, {"spec": {"domainRefs": 7}})
    except Invalid:
        return False
    return True
