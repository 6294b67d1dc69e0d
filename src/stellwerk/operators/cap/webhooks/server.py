"""The server of the webhooks, added to a manager. Every replica serves; none needs to lead."""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.webhooks import registration
from stellwerk.operators.cap.webhooks.judges import Judges
from stellwerk.runtime.certificates.store import Profile, Registration, ServingCertificates
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.serving.http import ListenAddress
from stellwerk.runtime.serving.webhook import AdmissionServer, WebhookCertificates


def install(
    manager: Manager, address: ListenAddress, certificates: WebhookCertificates, *, derives_tenant_jobs: bool = False
) -> AdmissionServer:
    """Serve the webhooks at an address with a certificate."""
    judges = Judges(
        client=manager.client,
        applications=manager.informer(CAPApplication, required=True),
        tenants=manager.informer(CAPTenant, required=True),
        domains=manager.informer(Domain, required=True),
        cluster_domains=manager.informer(ClusterDomain, required=True),
        derives_tenant_jobs=derives_tenant_jobs,
    )
    server = AdmissionServer(address, judges.webhooks(), certificates, metrics=manager.metrics)
    manager.add_server("webhooks", server)
    manager.ready_when("webhooks", server.unready)
    return server


def shared_certificate(
    manager: Manager, secret: ObjectKey, hosts: Sequence[str], *, former: ObjectKey | None = None
) -> ServingCertificates:
    """A certificate for `hosts` that the replicas share by a Secret, and that API servers trust.

    `former`: as of `ServingCertificates`.
    """
    registrations = (Registration.validating(registration.NAME), Registration.mutating(registration.NAME))
    certificates = ServingCertificates(
        manager.client,
        secret,
        Profile(names=hosts),
        former=former,
        registrations=registrations,
        clock=manager.clock,
        metrics=manager.metrics,
    )
    for each in registrations:
        found = manager.informer(metadata_of(each.view.resource), fields=f"metadata.name={each.name}")
        found.on_change(lambda _: certificates.doubt())
    return certificates
