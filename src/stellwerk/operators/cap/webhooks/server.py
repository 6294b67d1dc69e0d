"""The server of the webhooks, added to a manager. Every replica serves; none needs to lead."""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap.api_application import CAPApplication
from stellwerk.operators.cap.api_domain import ClusterDomain, Domain
from stellwerk.operators.cap.api_tenant import CAPTenant
from stellwerk.operators.cap.webhooks import registration
from stellwerk.operators.cap.webhooks.judges import Judges
from stellwerk.runtime.certificates.store import Profile, Registration, ServingCertificates
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.serving.http import ListenAddress
from stellwerk.runtime.serving.webhook import AdmissionServer

SECRET = "cap-operator-webhook-tls"  # noqa: S105  # a name
DEFAULT_PORT = 8443


def install(
    manager: Manager, address: ListenAddress, namespace: str, hosts: Sequence[str], *, derives_tenant_jobs: bool = False
) -> AdmissionServer:
    """Serve the webhooks at an address, with a certificate for `hosts` that replicas share in `namespace`."""
    client = manager.client
    judges = Judges(
        client=client,
        applications=manager.informer(CAPApplication, required=True),
        tenants=manager.informer(CAPTenant, required=True),
        domains=manager.informer(Domain, required=True),
        cluster_domains=manager.informer(ClusterDomain, required=True),
        derives_tenant_jobs=derives_tenant_jobs,
    )
    registered = (Registration.validating(registration.NAME), Registration.mutating(registration.NAME))
    certificates = ServingCertificates(
        client,
        ObjectKey(namespace, SECRET),
        Profile(names=hosts),
        registrations=registered,
        clock=manager.clock,
        metrics=manager.metrics,
    )
    server = AdmissionServer(address, judges.webhooks(), certificates, metrics=manager.metrics)
    manager.add_server("webhooks", server)
    return server
