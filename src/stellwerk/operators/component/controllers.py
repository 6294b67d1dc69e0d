"""The controllers, caches and servers of the component-operator, added to a manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from socket import gethostname

from stellwerk.apply.fields.managed_fields import beginning_with
from stellwerk.apply.set.plan.plan_input import ApplyOptions
from stellwerk.delivery.operator_spec import Launch
from stellwerk.delivery.rendering import add_renderer
from stellwerk.delivery.server_addresses import Addresses
from stellwerk.delivery.sets.cluster_identity import ClusterIdentity
from stellwerk.delivery.sets.set_pass import SetEngine
from stellwerk.operators.component.api import CONTROLLER, FINALIZER, LEASE_NAME, RECONCILER, Component
from stellwerk.operators.component.api_status import ComponentStatus
from stellwerk.operators.component.component.component_pass import ComponentMemo, Services
from stellwerk.operators.component.component.deployment import Deployer
from stellwerk.operators.component.component.reconcile import ComponentReconciler
from stellwerk.operators.component.component.weights import Weights
from stellwerk.operators.component.observers.flux_notifications import Receiver
from stellwerk.operators.component.observers.metrics import ComponentMetrics, artifact_cache
from stellwerk.operators.component.observers.observers import AnnotatedSink, PassObserver, Reports
from stellwerk.operators.component.reasons import PassReport
from stellwerk.operators.component.references.inputs import Inputs
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.rights import RIGHTS
from stellwerk.operators.component.settings import DriftPolicy, Settings
from stellwerk.operators.component.sources import blueprints
from stellwerk.operators.component.sources.artifacts import Artifacts
from stellwerk.operators.component.sources.blueprints import BlueprintReconciler, BlueprintStore
from stellwerk.operators.component.sources.http_repositories import Poller
from stellwerk.operators.component.targets.privileges import PrivilegeCheck
from stellwerk.operators.component.targets.seal_key import SealKey
from stellwerk.operators.component.targets.targets import Targets
from stellwerk.operators.component.watches import ComponentController, Watches, watches, wire
from stellwerk.render.binary import renderer_path
from stellwerk.render.sources.artifact_disk_cache import Shelf
from stellwerk.render.sources.downloads import Downloads
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.cache.remote_clusters import Connect, RemoteLimits
from stellwerk.runtime.control.controller import Controller, EventSink
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.server_concurrency import ServerConcurrency
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.process.process import OperatorIdentity, Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing
from stellwerk.runtime.telemetry.metrics import Metrics


@dataclass(frozen=True, slots=True)
class ComponentOperator:
    """The parts that others may ask for."""

    controller: ComponentController
    reconciler: ComponentReconciler
    watches: Watches


def launch(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> Launch:
    """Prepare a process of the component-operator. Raises RendererMissing."""
    renderer_path()
    identity = OperatorIdentity(component=RECONCILER, lease=LEASE_NAME, rights=RIGHTS)

    def add(parts: Parts) -> None:
        downloads = Downloads(shelf=shelf(settings, parts.manager.metrics))
        parts.manager.add_server("downloads", Closing(downloads.close))
        install(
            parts.manager,
            settings,
            renderer=add_renderer(parts, process),
            downloads=downloads,
            connect=parts.connect,
            recorder=parts.recorder,
            namespace=identity.home(parts.manager.client.config),
        )

    return Launch(identity, add)


def install(
    manager: Manager,
    settings: Settings,
    *,
    renderer: Renderer,
    downloads: Downloads,
    connect: Connect,
    recorder: EventSink,
    namespace: str,
) -> ComponentOperator:
    """Give the Component operator to a manager. `connect` opens clients for other clusters; their writes pass the same
    fence as the manager's. `namespace` is the operator's own."""
    seen = watches(manager)
    client = manager.client.with_field_manager(RECONCILER)
    contents = ReferenceReader(client, seen.contents)
    store = BlueprintStore(client, seen.blueprints, seen.blueprint_versions)
    artifacts = Artifacts(
        watches=seen.sources,
        blueprints=store,
        downloads=downloads,
        contents=contents,
        flux_rules=settings.flux_egress,
        tenant_rules=settings.egress,
    )
    metrics = ComponentMetrics.registered(manager.metrics)
    targets, deployer = _deployment(manager, settings, seen, renderer, connect, metrics)
    events = AnnotatedSink(recorder)
    reports = Reports(
        recorder=events,
        dependent_events=settings.dependent_events,
        watchers=(metrics, events, *_receivers(manager, settings)),
        on_throttled=manager.metrics.drift_throttled,
    )
    checkpoints: Checkpoints[Component, ComponentStatus] = Checkpoints(
        seen.components, StatusWriter(client=client, clock=manager.clock)
    )
    services = Services(
        engine=SetEngine(client=client, checkpoints=checkpoints, finalizer=FINALIZER, clock=manager.clock),
        components=seen.components,
        graph=seen.graph,
        waiting=seen.waiting,
        missing_kinds=seen.missing_kinds,
        contents=contents,
        artifacts=artifacts,
        targets=targets,
        deployer=deployer,
        seal_key=SealKey(client, namespace, manager.clock),
        servers=ServerConcurrency(workers=settings.max_concurrent_reconciles, wake=seen.wake),
        weights=Weights(wake=seen.wake),
        addresses=Addresses(manager.clock),
        reports=reports,
        settings=settings,
    )
    reconciler = ComponentReconciler(services, Memos(ComponentMemo))
    controller = Controller(
        CONTROLLER,
        seen.components,
        reconciler,
        write_status=checkpoints.write_status,
        checkpoints=checkpoints,
        memos=reconciler.memos,
        workers=settings.max_concurrent_reconciles,
        tenant_of=lambda key: key.namespace,
        recorder=events,
        explain_unreadable=PassReport.unreadable,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    wire(controller, seen)
    keeper = BlueprintReconciler(
        store=store,
        components=seen.components,
        clock=manager.clock,
        cross_namespace_refs=not settings.no_cross_namespace_refs,
    )
    blueprints.install(manager, keeper, recorder=recorder)
    manager.add_server("target clusters", targets)
    manager.add_controller(
        PrivilegeCheck(
            client, namespace, events=recorder, metrics=manager.metrics, clock=manager.clock, tenancy=settings.tenancy
        )
    )
    manager.add_controller(controller)
    manager.add_controller(
        Poller(
            components=seen.components.store,
            poll=artifacts.poll,
            wake=controller.queue.add,
            interval_seconds=settings.http_repository_interval.total_seconds(),
            border=manager.border,
        )
    )
    return ComponentOperator(controller, reconciler, seen)


def _deployment(
    manager: Manager, settings: Settings, seen: Watches, renderer: Renderer, connect: Connect, metrics: ComponentMetrics
) -> tuple[Targets, Deployer]:
    """Where objects go and who brings them there: a change in a target cluster wakes the Component it belongs to."""

    def wake_owner(label: str) -> None:
        if (key := deployer.owners.get(label)) is not None:
            seen.wake([key])

    targets = Targets(
        manager.home,
        connect=connect,
        wake=wake_owner,
        clock=manager.clock,
        border=manager.border,
        settings=settings,
        on_client=metrics.clients,
        on_gone=manager.metrics.forget_host,
        limits=RemoteLimits(
            clusters=settings.max_remote_clusters,
            clusters_of_namespace=settings.max_remote_clusters_per_namespace,
            bytes=settings.max_remote_objects_mib << 20,
        ),
    )
    seen.definitions.on_change(lambda _: targets.kinds_changed())
    deployer = Deployer(
        renderer=renderer,
        targets=targets,
        cluster_uid=ClusterIdentity(manager.client),
        options=ApplyOptions(
            beginning_with(*settings.reclaim_managers), repairs_drift=settings.drift_policy is DriftPolicy.REPAIR
        ),
        inputs=Inputs(manager.clock),
        clock=manager.clock,
        find=seen.components.store.get,
    )
    return targets, deployer


def shelf(settings: Settings, metrics: Metrics) -> Shelf | None:
    """Where artifacts lie on disk; None: nowhere."""
    if not settings.artifact_cache_dir:
        return None
    most = settings.artifact_cache_mib * 2**20
    return Shelf(Path(settings.artifact_cache_dir), most_bytes=most, tell=artifact_cache(metrics))


def _receivers(manager: Manager, settings: Settings) -> tuple[PassObserver, ...]:
    """The receivers outside of the cluster."""
    if not settings.events_address:
        return ()
    receiver = Receiver(settings.events_address, instance=gethostname(), clock=manager.clock, metrics=manager.metrics)
    manager.add_server("notifications", receiver)
    return (receiver,)
