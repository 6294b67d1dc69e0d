"""The controllers and caches of the CAP Operator, added to a manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from stellwerk.api.apps import Deployment
from stellwerk.api.istio import VirtualService
from stellwerk.delivery.operator_spec import CannotStart, Launch
from stellwerk.delivery.rendering import add_renderer
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import Kind
from stellwerk.operators.cap import collections, names, watches
from stellwerk.operators.cap.application.exposures import ServiceNetworking
from stellwerk.operators.cap.application.reconcile import ApplicationReconciler
from stellwerk.operators.cap.domain import controllers as domain_controllers
from stellwerk.operators.cap.domain import ingress
from stellwerk.operators.cap.hashed_objects import HashedObjects
from stellwerk.operators.cap.installation import INSTALLATION
from stellwerk.operators.cap.kinds import status
from stellwerk.operators.cap.kinds.application import ApplicationStatus, CAPApplication
from stellwerk.operators.cap.kinds.status import ReconciledStatus
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, OperationStatus, TenantStatus
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionStatus
from stellwerk.operators.cap.kstatus import server_findings
from stellwerk.operators.cap.log_fields import log_fields
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.operation.decide import OperationLogic
from stellwerk.operators.cap.operation.ingredients import OperationSettings
from stellwerk.operators.cap.pods.credentials import BindingSecrets, CredentialSecrets
from stellwerk.operators.cap.requests import Answering
from stellwerk.operators.cap.settings import Settings
from stellwerk.operators.cap.tenant.decide import TenantLogic
from stellwerk.operators.cap.tenant.routes import RouteWriter, TenantSettings
from stellwerk.operators.cap.variables import check_watched
from stellwerk.operators.cap.version.children import VersionChildren
from stellwerk.operators.cap.version.monitor import NAME, VersionMonitor
from stellwerk.operators.cap.version.prometheus import PrometheusAccess
from stellwerk.operators.cap.version.reconcile import VersionReconciler
from stellwerk.operators.cap.version.rollout import CredentialRollout
from stellwerk.operators.cap.watches import Caches
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.access.permission_check import Rights
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.executor import Deciding, InformerSources
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.periodic import Periodic
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.process.process import OperatorIdentity, Parts
from stellwerk.runtime.reconciler import Reconciler
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.backoff import Backoff

S = TypeVar("S", bound=ReconciledStatus)
K = TypeVar("K", bound=Kind)

_TENANT_BACKOFF = Backoff(first_seconds=0.01, limit_seconds=300.0)
"""Of tenants and their operations, as in the original: a subscriber waits for them."""


@dataclass(frozen=True, slots=True)
class ApplicationControllers:
    """Those of applications, and of what belongs to them."""

    caches: Caches
    loads: Loads
    applications: Controller[CAPApplication, ApplicationStatus]
    versions: Controller[CAPApplicationVersion, VersionStatus]
    tenants: Controller[CAPTenant, TenantStatus]
    operations: Controller[CAPTenantOperation, OperationStatus]


def launch(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> Launch:
    """Prepare a process of the CAP Operator. Raises CannotStart."""
    check_watched(settings.watch_namespaces)
    if settings.watch_namespaces and ingress.ALL in settings.ingress_namespaces:
        raise CannotStart(
            "WATCH_NAMESPACES limits the program to some namespaces, and INGRESS_NAMESPACES is *",
            fix="name the namespaces of your ingress gateways in INGRESS_NAMESPACES",
        )
    identity = OperatorIdentity(
        component=names.OPERATOR_NAME,
        lease=names.LEASE_NAME,
        namespace=settings.pod_namespace,
        rights=Rights(INSTALLATION.needs(settings.limits), "stellwerk install cap"),
        namespaces=settings.watch_namespaces,
    )

    def add(parts: Parts) -> None:
        renderer = add_renderer(parts, process)
        namespace = identity.home(parts.manager.client.config)
        install(parts.manager, settings, namespace, renderer=renderer, recorder=parts.recorder)

    return Launch(identity, add)


def install(
    manager: Manager, settings: Settings, namespace: str, *, renderer: Renderer, recorder: EventSink | None = None
) -> None:
    """Give the CAP Operator to a manager. `namespace`: its own; `renderer` stays the caller's to close."""
    counts = CapMetrics(manager.metrics, detailed=settings.detailed_operational_metrics)
    domain_controllers.install(
        manager,
        settings.of_domains(namespace),
        renderer=renderer,
        counts=counts,
        recorder=recorder,
        workers=settings.max_concurrent_reconciles_domain,
        cluster_workers=settings.max_concurrent_reconciles_cluster_domain,
    )
    install_applications(manager, settings, namespace, counts=counts, recorder=recorder)


def install_applications(
    manager: Manager, settings: Settings, namespace: str, *, counts: CapMetrics, recorder: EventSink | None = None
) -> ApplicationControllers:
    """Give all controllers but those of domains to a manager. `namespace`: the operator's own."""
    client = manager.client.with_field_manager(names.OPERATOR_NAME).for_tenants_by_namespace()
    clock, border = manager.clock, manager.border
    seen = watches.Caches(manager)
    address, delay = settings.prometheus_address, settings.prom_acquire_client_retry_delay
    prometheus = PrometheusAccess(address, delay, clock) if address else None
    monitor = VersionMonitor(
        client=client,
        caches=seen,
        prometheus=prometheus,
        border=border,
        unrestricted=settings.unrestricted_metric_queries,
        recorder=recorder,
    )
    seconds = settings.metrics_eval_interval.total_seconds()
    manager.add_controller(Periodic(NAME, monitor.look, interval_seconds=seconds, border=border))

    credentials = CredentialSecrets(client, BindingSecrets(client, seen.secrets), seen.credentials)
    routes = HashedObjects(
        client=client,
        clock=clock,
        informers={VirtualService.resource: seen.virtual_services},
        on_throttled=manager.metrics.drift_throttled,
    )
    applications = ApplicationReconciler(
        client=client,
        caches=seen,
        clock=clock,
        networking=ServiceNetworking(
            caches=seen,
            objects=routes,
            operator_namespace=namespace,
            allowed_headers=settings.allowed_route_headers,
        ),
        counts=counts,
        recorder=recorder,
    )
    versions = VersionReconciler(
        client=client,
        caches=seen,
        credentials=credentials,
        children=VersionChildren(
            client=client, informers={Deployment.resource: seen.deployments, **seen.version_objects}
        ),
        rollout=CredentialRollout(
            client=client,
            credentials=credentials,
            deployments=seen.deployments,
            clock=clock,
            delay=settings.rollout_delay,
        ),
        clock=clock,
        unrestricted_queries=settings.unrestricted_metric_queries,
    )
    writer = RouteWriter(objects=routes)
    sources = InformerSources(manager, collections.ALL)
    sources.by_namespace(collections.BINDINGS, seen.secrets)
    loads = Loads(client, clock, sources.wakes)
    manager.add_controller(loads)
    tenants: Deciding[CAPTenant, TenantStatus] = Deciding(
        logic=TenantLogic(clock),
        sources=sources,
        client=client,
        clock=clock,
        settings=(
            TenantSettings(
                home=namespace,
                allowed_headers=settings.allowed_route_headers,
                most_previous_versions=settings.max_tenant_version_history,
                writer=writer,
            ),
        ),
    )
    operations: Deciding[CAPTenantOperation, OperationStatus] = Deciding(
        logic=OperationLogic(clock),
        sources=sources,
        client=client,
        clock=clock,
        settings=(OperationSettings(bindings=credentials.bindings),),
        loads=loads,
    )
    seen.operations.on_change(lambda delta: counts.on_operation(delta, clock.now()) if manager.leads else None)

    adding = _Adding(manager, client, counts, recorder)
    made = ApplicationControllers(
        seen,
        loads,
        adding.controller(
            seen.applications, applications, settings.max_concurrent_reconciles_cap_application, applications.memos
        ),
        adding.controller(
            seen.versions, versions, settings.max_concurrent_reconciles_cap_application_version, versions.memos
        ),
        adding.controller(
            seen.tenants, tenants, settings.max_concurrent_reconciles_cap_tenant, writer.memos, _TENANT_BACKOFF
        ),
        adding.controller(
            seen.operations,
            operations,
            settings.max_concurrent_reconciles_cap_tenant_operation,
            backoff=_TENANT_BACKOFF,
        ),
    )
    watches.wire_applications(made.applications, seen)
    watches.wire_versions(made.versions, seen)
    tenants.serve(made.tenants)
    operations.serve(made.operations)
    return made


def _only_own_status_changed(old: Kind, new: Kind) -> bool:
    """Whether an update is one of our own: the subscription server writes conditions of applications."""
    return only_status_changed(old, new) and server_findings(old) == server_findings(new)


@dataclass(frozen=True, slots=True)
class _Adding:
    """What all controllers have in common."""

    manager: Manager
    client: Client
    counts: CapMetrics
    recorder: EventSink | None

    def controller(
        self,
        primary: Informer[K],
        reconciler: Reconciler[K, S],
        workers: int,
        memos: Memos[Any] | None = None,
        backoff: Backoff | None = None,
    ) -> Controller[K, S]:
        """Add a controller to the manager."""
        clock = self.manager.clock
        made: Controller[K, S] = Controller(
            primary.view.resource.kind,
            primary,
            Answering(reconciler, clock),
            write_status=StatusWriter(client=self.client, clock=clock, keeps_conditions=True),
            explain_unreadable=status.unreadable,
            memos=memos,
            workers=workers,
            backoff=backoff,
            tenant_of=lambda key: key.namespace,
            recorder=self.recorder,
            on_failure=self.counts.failed,
            log_fields=log_fields,
            metrics=self.manager.metrics,
            clock=clock,
        )
        primary.on_change(self.counts.on_change)
        made.ignore_updates(_only_own_status_changed)
        self.manager.add_controller(made)
        return made
