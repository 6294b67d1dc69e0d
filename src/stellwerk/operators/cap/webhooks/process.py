"""The process of the webhooks. Every replica serves; none needs to lead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stellwerk.api.core import Namespace
from stellwerk.delivery.operator_spec import CannotStart, Launch
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap import duplicates
from stellwerk.operators.cap.duplicates import BY_SPEC_ID
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.tenant import CAPTenant
from stellwerk.operators.cap.variables import check_watched
from stellwerk.operators.cap.webhooks import registration
from stellwerk.operators.cap.webhooks.installation import INSTALLATION
from stellwerk.operators.cap.webhooks.judges import Judges
from stellwerk.operators.cap.webhooks.settings import SERVICE, Settings
from stellwerk.runtime.certificates.store import Profile, Registration, ServingCertificates
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.process.process import Parts
from stellwerk.runtime.serving.http import ListenAddress
from stellwerk.runtime.serving.tls import MountedCertificates
from stellwerk.runtime.serving.webhook import AdmissionServer, WebhookCertificates
from stellwerk.runtime.settings.process_settings import ProcessSettings


def launch(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> Launch:
    """Prepare a process of the webhooks. Raises `CannotStart` where its certificate cannot be found."""
    if settings.tls_enabled and not (settings.tls_cert and settings.tls_key):
        raise CannotStart(
            "TLS_ENABLED is true, and TLS_CERT or TLS_KEY names no file",
            fix="set TLS_CERT and TLS_KEY, or leave TLS_ENABLED out: the program then creates a certificate",
        )
    check_watched(settings.watch_namespaces)
    identity = replace(
        INSTALLATION.identity(settings.limits), namespace=settings.pod_namespace, namespaces=settings.watch_namespaces
    )

    def add(parts: Parts) -> None:
        namespace = identity.home(parts.manager.client.config)
        address = ListenAddress(settings.webhook_host, settings.webhook_port)
        certificates = _certificates(parts.manager, settings, namespace)
        install(
            parts.manager,
            address,
            certificates,
            derives_tenant_jobs=settings.derived_tenant_jobs,
            allowed_headers=settings.allowed_route_headers,
        )

    return Launch(identity, add)


def install(
    manager: Manager,
    address: ListenAddress,
    certificates: WebhookCertificates,
    *,
    derives_tenant_jobs: bool = False,
    allowed_headers: Collection[str] = (),
) -> AdmissionServer:
    """Serve the webhooks at an address with a certificate."""
    tenants = manager.informer(CAPTenant, required=True)
    tenants.store.add_index(BY_SPEC_ID, duplicates.by_tenant_id)
    judges = Judges(
        client=manager.client,
        applications=manager.informer(CAPApplication, required=True),
        tenants=tenants,
        domains=manager.informer(Domain, required=True),
        cluster_domains=manager.informer(ClusterDomain, required=True),
        namespaces=manager.informer(metadata_of(Namespace), required=True),
        derives_tenant_jobs=derives_tenant_jobs,
        allowed_headers=allowed_headers,
    )
    server = AdmissionServer(address, judges.webhooks(), certificates, metrics=manager.metrics)
    manager.add_server("webhooks", server)
    manager.ready_when("webhooks", server.unready)
    return server


def _certificates(manager: Manager, settings: Settings, namespace: str) -> WebhookCertificates:
    if settings.tls_enabled:
        return MountedCertificates(Path(), certificate=settings.tls_cert, key=settings.tls_key)
    secret = ObjectKey(namespace, registration.secret_of(settings.webhook_service))
    # Releases before the Service could have another name kept the certificate in this one, whatever its name.
    former = ObjectKey(namespace, registration.secret_of(SERVICE))
    return shared_certificate(manager, secret, hosts(settings, namespace), former=former if former != secret else None)


def hosts(settings: Settings, namespace: str) -> tuple[str, ...]:
    """The names that API servers may call the webhooks by; the first is that of the Service."""
    service = f"{settings.webhook_service}.{namespace}"
    names = (f"{service}.svc", service, f"{service}.svc.cluster.local", settings.webhook_host)
    return tuple(name for name in names if name)


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
