"""The controllers and caches of the CAP Operator, added to a manager."""

from __future__ import annotations

from dataclasses import dataclass

from stellwerk.api.apps import Deployment
from stellwerk.api.istio import VirtualService
from stellwerk.delivery.children import owners
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import names
from stellwerk.operators.cap.api_application import ApplicationStatus, CAPApplication
from stellwerk.operators.cap.api_domain import ClusterDomain, Domain
from stellwerk.operators.cap.api_tenant import CAPTenant, CAPTenantOperation, OperationStatus, TenantStatus
from stellwerk.operators.cap.api_version import CAPApplicationVersion, VersionStatus
from stellwerk.operators.cap.application.exposures import ServiceNetworking
from stellwerk.operators.cap.application.reconcile import ApplicationReconciler
from stellwerk.operators.cap.credentials import BindingSecrets, CredentialSecrets
from stellwerk.operators.cap.domain import naming
from stellwerk.operators.cap.domain.naming import AnyDomain
from stellwerk.operators.cap.domain.watches import BY_DOMAIN
from stellwerk.operators.cap.hashed_objects import HashedObjects
from stellwerk.operators.cap.operation.reconcile import OperationReconciler
from stellwerk.operators.cap.tenant.networking import TenantNetworking
from stellwerk.operators.cap.tenant.reconcile import TenantReconciler
from stellwerk.operators.cap.version.children import VersionChildren
from stellwerk.operators.cap.version.reconcile import VersionReconciler
from stellwerk.operators.cap.watches import BY_APPLICATION, BY_OWNER, BY_SECRET, BY_VERSION, Caches, caches
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager

OPERATION_WORKERS = 10
"""How many operations are worked on at once."""

TENANT_WORKERS = 10
"""How many tenants are worked on at once."""

VERSION_WORKERS = 3
"""How many versions are worked on at once."""

OperationController = Controller[CAPTenantOperation, OperationStatus]
TenantController = Controller[CAPTenant, TenantStatus]
ApplicationController = Controller[CAPApplication, ApplicationStatus]
VersionController = Controller[CAPApplicationVersion, VersionStatus]


@dataclass(frozen=True, slots=True)
class CapOperator:
    """The parts that others may ask for."""

    caches: Caches
    applications: ApplicationController
    versions: VersionController
    tenants: TenantController
    operations: OperationController


def install(manager: Manager, namespace: str, *, recorder: EventSink | None = None) -> CapOperator:
    """Give the CAP Operator to a manager. `namespace`: its own."""
    seen = caches(manager)
    client = manager.client.with_field_manager(names.OPERATOR_NAME)
    credentials = CredentialSecrets(client, BindingSecrets(client, seen.secrets), seen.credentials)
    versions = _versions(manager, seen, credentials, recorder)
    operations = _operations(manager, seen, credentials, recorder)
    tenants = _tenants(manager, seen, namespace, recorder)
    applications = _applications(manager, seen, namespace, recorder)
    for controller in (versions, operations, tenants, applications):
        manager.add_controller(controller)
    return CapOperator(seen, applications, versions, tenants, operations)


def _versions(
    manager: Manager, seen: Caches, credentials: CredentialSecrets, recorder: EventSink | None
) -> VersionController:
    client = manager.client.with_field_manager(names.OPERATOR_NAME)
    children = VersionChildren(client=client, informers={Deployment.resource: seen.deployments, **seen.version_objects})
    reconciler = VersionReconciler(
        client=client, caches=seen, credentials=credentials, children=children, clock=manager.clock
    )
    versions: VersionController = Controller(
        "CAPApplicationVersion",
        seen.versions,
        reconciler,
        write_status=StatusWriter(client=client, clock=manager.clock),
        workers=VERSION_WORKERS,
        tenant_of=lambda key: key.namespace,
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    _wire_versions(versions, seen)
    return versions


def _wire_versions(controller: VersionController, seen: Caches) -> None:
    """A version goes on when its objects, its application, its domains or the Secrets of its services change.

    One that is being deleted waits for the tenants that use it.
    """
    store = seen.versions.store

    def of_application(application: ObjectKey) -> list[ObjectKey]:
        return [each.key for each in store.by(BY_APPLICATION, str(application))]

    def of_tenant(delta: Delta[CAPTenant]) -> list[ObjectKey]:
        application = ObjectKey(delta.key.namespace, delta.latest.spec.cap_application_instance)
        versions = store.by(BY_APPLICATION, str(application))
        return [each.key for each in versions if each.metadata.is_terminating]

    def of_domain(delta: Delta[Domain] | Delta[ClusterDomain]) -> list[ObjectKey]:
        applications = _users_of(seen, delta.latest)
        return [version for application in applications for version in of_application(application)]

    def on_secret(secret: ObjectKey) -> None:
        for application in seen.applications.store.by(BY_SECRET, str(secret)):
            for key in of_application(application.key):
                controller.queue.add(key)

    controller.ignore_updates(only_status_changed)
    controller.watches(seen.content_jobs, owners(CAPApplicationVersion.resource))
    controller.watches(seen.deployments, owners(CAPApplicationVersion.resource))
    for informer in seen.version_objects.values():
        controller.watches(informer, owners(CAPApplicationVersion.resource))
    controller.watches(
        seen.applications,
        lambda delta: (
            of_application(delta.key)
            if delta.old is None or delta.new is None or not only_status_changed(delta.old, delta.new)
            else []
        ),
    )
    controller.watches(seen.tenants, of_tenant)
    controller.watches(seen.domains, of_domain)
    controller.watches(seen.cluster_domains, of_domain)
    seen.on_secret(on_secret)


def _operations(
    manager: Manager, seen: Caches, credentials: CredentialSecrets, recorder: EventSink | None
) -> OperationController:
    client = manager.client.with_field_manager(names.OPERATOR_NAME)
    reconciler = OperationReconciler(client=client, caches=seen, credentials=credentials, clock=manager.clock)
    operations: OperationController = Controller(
        "CAPTenantOperation",
        seen.operations,
        reconciler,
        write_status=StatusWriter(client=client, clock=manager.clock),
        workers=OPERATION_WORKERS,
        tenant_of=lambda key: key.namespace,
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    _wire_operations(operations, seen)
    return operations


def _wire_operations(controller: OperationController, seen: Caches) -> None:
    """An operation goes on when its Job, its tenant or its version changes."""
    store = seen.operations.store
    controller.ignore_updates(only_status_changed)
    controller.watches(seen.jobs, owners(CAPTenantOperation.resource))
    controller.watches(seen.tenants, lambda delta: [each.key for each in store.by(BY_OWNER, delta.latest.metadata.uid)])
    controller.watches(seen.versions, lambda delta: [each.key for each in store.by(BY_VERSION, str(delta.key))])


def _tenants(manager: Manager, seen: Caches, namespace: str, recorder: EventSink | None) -> TenantController:
    client = manager.client.with_field_manager(names.OPERATOR_NAME)
    networking = TenantNetworking(
        cache=seen.virtual_services,
        objects=_virtual_services(manager, seen),
        find_domain=seen.domain,
        find_version=seen.versions.store.get,
        operator_namespace=namespace,
    )
    reconciler = TenantReconciler(client=client, caches=seen, networking=networking, clock=manager.clock)
    tenants: TenantController = Controller(
        "CAPTenant",
        seen.tenants,
        reconciler,
        write_status=StatusWriter(client=client, clock=manager.clock),
        memos=reconciler.memos,
        workers=TENANT_WORKERS,
        tenant_of=lambda key: key.namespace,
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    _wire_tenants(tenants, seen)
    return tenants


def _virtual_services(manager: Manager, seen: Caches) -> HashedObjects:
    client = manager.client.with_field_manager(names.OPERATOR_NAME)
    return HashedObjects(client=client, clock=manager.clock, informers={VirtualService.resource: seen.virtual_services})


def _wire_tenants(controller: TenantController, seen: Caches) -> None:
    """A tenant goes on when its operations, its application, its versions, its domains or its routes change."""

    def of_application(application: ObjectKey) -> list[ObjectKey]:
        return [each.key for each in seen.tenants.store.by(BY_APPLICATION, str(application))]

    def of_changed(delta: Delta[CAPApplication]) -> list[ObjectKey]:
        changed = delta.old is None or delta.new is None or not only_status_changed(delta.old, delta.new)
        return of_application(delta.key) if changed else []

    def of_domain(delta: Delta[Domain] | Delta[ClusterDomain]) -> list[ObjectKey]:
        applications = _users_of(seen, delta.latest)
        return [tenant for application in applications for tenant in of_application(application)]

    controller.ignore_updates(only_status_changed)
    controller.watches(seen.operations, owners(CAPTenant.resource))
    controller.watches(seen.virtual_services, owners(CAPTenant.resource))
    controller.watches(seen.applications, of_changed)
    controller.watches(
        seen.versions,
        lambda delta: of_application(ObjectKey(delta.key.namespace, delta.latest.spec.application)),
    )
    controller.watches(seen.domains, of_domain)
    controller.watches(seen.cluster_domains, of_domain)


def _users_of(seen: Caches, domain: AnyDomain) -> list[ObjectKey]:
    """The applications that refer to a domain."""
    return [each.key for each in seen.applications.store.by(BY_DOMAIN, naming.owner_id(domain))]


def _applications(manager: Manager, seen: Caches, namespace: str, recorder: EventSink | None) -> ApplicationController:
    client = manager.client.with_field_manager(names.OPERATOR_NAME)
    networking = ServiceNetworking(
        client=client,
        objects=_virtual_services(manager, seen),
        live=lambda application: seen.virtual_services.store.by(BY_OWNER, application.metadata.uid),
        find_domain=seen.domain,
        operator_namespace=namespace,
    )
    reconciler = ApplicationReconciler(
        client=client, caches=seen, clock=manager.clock, networking=networking, recorder=recorder
    )
    applications: ApplicationController = Controller(
        "CAPApplication",
        seen.applications,
        reconciler,
        write_status=StatusWriter(client=client, clock=manager.clock),
        tenant_of=lambda key: key.namespace,
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )

    def on_secret(secret: ObjectKey) -> None:
        for application in seen.applications.store.by(BY_SECRET, str(secret)):
            applications.queue.add(application.key)

    seen.on_secret(on_secret)
    applications.ignore_updates(only_status_changed)
    applications.watches(seen.virtual_services, owners(CAPApplication.resource))
    applications.watches(
        seen.tenants, lambda delta: [ObjectKey(delta.key.namespace, delta.latest.spec.cap_application_instance)]
    )
    applications.watches(seen.versions, lambda delta: [ObjectKey(delta.key.namespace, delta.latest.spec.application)])
    applications.watches(seen.domains, lambda delta: _users_of(seen, delta.latest))
    applications.watches(seen.cluster_domains, lambda delta: _users_of(seen, delta.latest))
    return applications
