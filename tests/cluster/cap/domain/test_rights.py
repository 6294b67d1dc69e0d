"""The controllers of domains have what they need and nothing else: every right is used, or its occasion is named."""

from __future__ import annotations

import base64

import pytest
from tests.cluster import rights as audited
from tests.cluster.cap.domain.running import OPERATOR, RunningDomains
from tests.cluster.cap.domain.scenario import Given, Then

from stellwerk.api.core import Secret
from stellwerk.api.networking import NetworkPolicy
from stellwerk.delivery import grants
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap.domain import rights
from stellwerk.operators.cap.domain.plan import CertManager
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

OTHER = base64.b64encode(b"other").decode()
AUTHORITIES: JsonObject = {"additionalCACertificate": "ca"}


async def lives_of_domains(given: Given, then: Then, host: str, *, dns_target: str = "x.example.com") -> None:
    """A Domain and a ClusterDomain with all their objects, changed and deleted."""
    domain = await given.a_domain(host, dnsMode="Wildcard", dnsTarget=dns_target, certConfig=AUTHORITIES)
    everywhere = await given.a_cluster_domain(f"all-{host}", dnsMode="Wildcard", certConfig=AUTHORITIES)
    application = await given.an_application(domain, everywhere, name=host.partition(".")[0])
    for each in (domain, everywhere):
        await then.count(each, NetworkPolicy.resource, 1)
    await given.deleted(application)
    for each in (domain, everywhere):
        await then.count(each, Secret.resource, 1)
        await given.changed(each, certConfig={"additionalCACertificate": "other"}, domain=f"new.{each.spec.domain}")
        await then.the(each, Secret.resource, lambda obj: obj.at("data") == {"ca.crt": OTHER})
        await given.changed(each, certConfig=None, dnsMode="None")
        await then.count(each, Secret.resource, 0)
        await given.deleted(each)
        await then.gone(each)


@pytest.mark.req("R-504")
@pytest.mark.timeout(180)
async def test_every_right_of_the_controllers_of_domains_is_used_or_its_rare_occasion_is_named(
    given: Given, then: Then, running: RunningDomains, audit: AuditLog
) -> None:
    await running.start()
    await lives_of_domains(given, then, "gardener.example.com")
    waiting = await given.a_domain("waiting.example.com", "waiting", dnsTarget="")
    await then.becomes(waiting, "Error", "ProcessingError")
    await given.deleted(waiting)
    await then.gone(waiting)
    await running.stop()
    await running.start(cert_manager=CertManager.CERT_MANAGER)
    await lives_of_domains(given, then, "manager.example.com")

    granted, seldom = audited.spelled_out(each.rule for each in rights.GRANTS), set(grants.occasions(rights.GRANTS))

    def are_used() -> bool:
        used = audited.used(audit.entries(lambda entry: entry.user == OPERATOR))
        unused = sorted(granted - used - seldom)
        assert not unused, f"granted and not used: {unused}"
        return True

    await eventually(are_used, within=10, describe="every right is used")  # an Event may be on its way
    here = ("", given.namespace, given.ingress)  # namespaces of other tests are on their way out, and take nothing more
    assert not audit.entries(lambda entry: entry.user == OPERATOR and entry.status == 403 and entry.namespace in here)
