"""The controllers of the lifecycle manager, added to a manager of the engine.

All kinds share the caches of the control plane, the remote clusters with their caches, and what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.api_manifest import Manifest, ManifestStatus
from stellwerk.operators.kyma.api_watcher import Watcher, WatcherStatus
from stellwerk.operators.kyma.collections import (
    GATEWAYS,
    HOME_COLLECTIONS,
    KYMAS,
    MANIFESTS,
    METAS,
    RUNTIME_COLLECTIONS,
    is_of_modules,
)
from stellwerk.operators.kyma.fleet.figures import FleetFigures
from stellwerk.operators.kyma.fleet.rollout import ROLLOUTS, VERSIONS, ModuleVersion, RolloutLogic, RolloutSettings
from stellwerk.operators.kyma.kyma.decide import KymaLogic, KymaSettings
from stellwerk.operators.kyma.kyma.purge import PurgeLogic, PurgeMetrics
from stellwerk.operators.kyma.mandatory.decide import MandatoryLogic, MandatorySettings, MetaLogic, TemplateLogic
from stellwerk.operators.kyma.manifest.decide import ManifestLogic, ManifestSettings
from stellwerk.operators.kyma.manifest.objects import DEPLOYER
from stellwerk.operators.kyma.metrics import KymaMetrics, KymaPasses, Listings, ManifestPasses
from stellwerk.operators.kyma.module.resolution import Offers
from stellwerk.operators.kyma.module.windows import Policy
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.sources.loads import Sources
from stellwerk.operators.kyma.watcher import leftovers, listener, webhook
from stellwerk.operators.kyma.watcher.certificates import (
    CERTIFICATE_SECRETS,
    GATEWAY_SECRETS,
    ISTIO_COLLECTIONS,
    gateway_secret,
    is_close_to_expiry,
    overdue,
)
from stellwerk.operators.kyma.watcher.decide import WatcherLogic, WatcherSettings
from stellwerk.operators.kyma.watcher.gateway import GatewayLogic
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.cache.remote_clusters import Connect, RemoteClusters, RemoteLimits
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.executor import Deciding, InformerSources, Logic, Observer, RemoteSources
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.supervision.backoff import Backoff

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)

MOST_CLUSTERS = 10_000
"""All are of one namespace, and an administrator makes them: the bound is for mistakes."""


@dataclass(frozen=True, slots=True)
class LifecycleManager:
    """The parts that others may ask for."""

    kymas: Deciding[Kyma, KymaStatus]
    manifests: Deciding[Manifest, ManifestStatus]
    watchers: Deciding[Watcher, WatcherStatus]
    rollouts: Deciding[ModuleVersion, Record] | None
    """None: they are not limited."""
    clusters: RemoteClusters[RemoteSources]
    metrics: KymaMetrics


def install(
    manager: Manager,
    settings: Settings,
    *,
    modules: Sources,
    connect: Connect,
    policy: Policy | None = None,
    recorder: EventSink | None = None,
) -> LifecycleManager:
    """Give the lifecycle manager to a manager. `modules`: where they come from; `policy`: the maintenance windows.

    `connect` opens clients for other clusters, whose writes pass the same fence as the manager's.
    """
    adding = Adding.to(manager, settings, connect, recorder)
    metrics = KymaMetrics(manager.metrics, _listings(adding, settings), settings.fips_mode)
    offers = partial(offers_of, settings, modules, policy)
    kymas = adding.kind(
        KymaLogic(manager.clock),
        (replace(settings_of_kymas(settings, offers), has_series=metrics.shows, hide_series=metrics.hide),),
        settings.max_concurrent_kyma_reconciles,
        looks_abroad=True,
        observer=KymaPasses(metrics),
    )
    adding.mandatory_modules(
        MandatorySettings(offers=offers),
        workers=settings.max_concurrent_mandatory_modules_reconciles,
        removals=settings.max_concurrent_mandatory_modules_deletion_reconciles,
    )
    if settings.enable_purge_finalizer:
        purge = (settings, PurgeMetrics(manager.metrics))
        adding.kind(PurgeLogic(), purge, settings.max_concurrent_kyma_reconciles, name="purge", looks_abroad=True)
    listener.install(manager, settings, adding.sources.informer(KYMAS), kymas.wake)
    logic = ManifestLogic(manager.clock)
    injects = DEPLOYER in settings.restricted_default_modules
    manifests = adding.kind(
        logic,
        (modules, ManifestSettings(pull_secret=settings.skr_image_pull_secret, injects_data=injects)),
        settings.max_concurrent_manifest_reconciles,
        logic.memos,
        looks_abroad=True,
        observer=ManifestPasses(metrics),
    )
    watchers = adding.kind(
        WatcherLogic(manager.clock),
        (WatcherSettings(gateway_namespace=settings.istio_gateway_namespace),),
        settings.max_concurrent_watcher_reconciles,
    )
    if not settings.disable_watcher:
        # All of a Secret counts: it has no generation that would change with its content.
        adding.kind(GatewayLogic(), (settings,), 1, is_read_whole=True)
        for each in leftovers.collections(settings):
            adding.kind(leftovers.LeftoverLogic(each), (settings,), 1, name=f"leftover-{each.resource.plural}")
    rollouts, turns = None, Store[ConfigMap]()
    if settings.module_rollout_at_once:
        limits = RolloutSettings(
            at_once=settings.module_rollout_at_once,
            stop_share=settings.module_rollout_stop_share,
            patience=settings.module_rollout_patience,
        )
        rollouts = adding.kind(RolloutLogic(), (limits,), 1, name="Rollout")
        turns = adding.sources.informer(ROLLOUTS).store
    manager.metrics.register(
        FleetFigures(adding.sources.informer(MANIFESTS).store, turns, adding.sources.informer(KYMAS).store)
    )
    return LifecycleManager(kymas, manifests, watchers, rollouts, adding.clusters, metrics)


def _listings(adding: Adding, settings: Settings) -> Listings:
    """The caches that the metrics are read from. Without the watcher no certificate is looked at."""
    stores = adding.sources
    listings = Listings(
        kymas=stores.informer(KYMAS).store.all,
        manifests=stores.informer(MANIFESTS).store.all,
        release_metas=stores.informer(METAS).store.all,
    )
    if settings.disable_watcher:
        return listings
    secrets, gateways = stores.informer(CERTIFICATE_SECRETS).store, stores.informer(GATEWAY_SECRETS).store
    now, window = adding.manager.clock.now, settings.istio_gateway_server_cert_expiry_window

    def gateway_ends_soon() -> bool:
        gateway = gateways.get(gateway_secret(settings))
        return gateway is not None and is_close_to_expiry(gateway, window, now())

    return replace(
        listings,
        overdue_certificates=lambda: overdue(secrets.all(), settings, now()),
        gateway_ends_soon=gateway_ends_soon,
    )


def offers_of(settings: Settings, modules: Sources, policy: Policy | None, view: View) -> Offers:
    """What decides about modules in a process with these settings."""
    return Offers(
        component=partial(modules.component, view),
        windows=policy,
        least_window=settings.min_maintenance_window_size,
        restricted=frozenset(settings.restricted_default_modules),
        sync_namespace=settings.sync_namespace,
        limits_rollouts=settings.module_rollout_at_once > 0,
        longest_delay=settings.module_upgrade_rollout_max_delay,
    )


def settings_of_kymas(settings: Settings, offers: Callable[[View], Offers]) -> KymaSettings:
    """What passes on Kymas get of the settings."""
    return KymaSettings(
        offers=offers,
        pull_secret=settings.skr_image_pull_secret,
        success_interval=settings.kyma_requeue_success_interval,
        warning_interval=settings.kyma_requeue_warning_interval,
        busy_interval=settings.kyma_requeue_busy_interval,
        is_deleted_as_before=settings.enable_legacy_kyma_deletion,
        is_purged=settings.enable_purge_finalizer,
        watcher=settings,
    )


@dataclass(frozen=True, slots=True)
class _Here:
    """Makes the caches of the control plane. Each is of one namespace, mostly that of the lifecycle manager."""

    manager: Manager
    places: Mapping[Any, str]
    """The other namespaces, by what is cached."""

    @classmethod
    def of(cls, manager: Manager, settings: Settings) -> _Here:
        istio = dict.fromkeys((each.target for each in ISTIO_COLLECTIONS), settings.istio_namespace)
        return cls(manager, {**istio, GATEWAYS.target: settings.istio_gateway_namespace})

    def informer(self, target: Any, *, labels: str = "", fields: str = "", optional: bool = False) -> Informer[Any]:
        place = self.places.get(target, HOME)
        return self.manager.informer(target, namespace=place, labels=labels, fields=fields, optional=optional)


HOME = labels.KCP_NAMESPACE


@dataclass(frozen=True, slots=True)
class Adding:
    """What all controllers have in common."""

    manager: Manager
    client: Client
    sources: InformerSources
    clusters: RemoteClusters[RemoteSources]
    loads: Loads
    backoff: Backoff
    recorder: EventSink | None

    @classmethod
    def to(cls, manager: Manager, settings: Settings, connect: Connect, recorder: EventSink | None) -> Adding:
        client, clock = manager.client.with_field_manager(labels.FIELD_MANAGER), manager.clock
        collections = (*HOME_COLLECTIONS, *ISTIO_COLLECTIONS, ROLLOUTS, VERSIONS)
        sources = InformerSources(_Here.of(manager, settings), collections)

        def build(cluster: Cluster, _: object) -> RemoteSources:
            return RemoteSources(cluster, (*RUNTIME_COLLECTIONS, *webhook.RUNTIME_COLLECTIONS), is_of_modules)

        clusters = RemoteClusters(
            manager.home,
            connect=connect,
            build=build,
            clock=clock,
            border=manager.border,
            field_manager=labels.FIELD_MANAGER,
            limits=RemoteLimits(clusters=MOST_CLUSTERS, clusters_of_namespace=MOST_CLUSTERS),
            on_trouble=RemoteSources.note,
            on_gone=manager.metrics.forget_host,
        )
        manager.add_server("remote clusters", clusters)
        loads = Loads(client, clock, sources.wakes)
        manager.add_controller(loads)
        first, longest = settings.failure_base_delay.total_seconds(), settings.failure_max_delay.total_seconds()
        return cls(manager, client, sources, clusters, loads, Backoff(first, longest), recorder)

    def mandatory_modules(self, settings: MandatorySettings, *, workers: int = 1, removals: int = 1) -> None:
        """Add what installs mandatory modules, and removes those whose meta or template is deleted.

        `workers` and `removals`: how many Kymas, and how many metas, are looked at at once.
        """
        self.kind(MandatoryLogic(), (settings,), workers, name="mandatory-module-installation")
        self.kind(MetaLogic(), (), removals, name="mandatory-module-deletion")
        self.kind(TemplateLogic(), (), removals, name="mandatory-module-template-deletion")

    def kind(
        self,
        logic: Logic[K, S],
        settings: tuple[object, ...],
        workers: int,
        memos: Memos[Any] | None = None,
        *,
        name: str = "",
        is_read_whole: bool = False,
        looks_abroad: bool = False,
        observer: Observer[K, S] | None = None,
    ) -> Deciding[K, S]:
        """Add the controller of a kind; `name`: of one of several that it has.

        Objects that are not read whole change with generation and metadata.
        """
        clock, informer = self.manager.clock, self.sources.informer(logic.collection)
        engine: Deciding[K, S] = Deciding(
            logic=logic,
            sources=self.sources,
            client=self.client,
            clock=clock,
            settings=settings,
            loads=self.loads,
            clusters=self.clusters if looks_abroad else None,
            observer=observer,
        )
        controller: Controller[K, S] = Controller(
            name or logic.collection.resource.kind,
            informer,
            engine,
            write_status=StatusWriter(client=self.client, clock=clock),
            memos=memos,
            workers=workers,
            backoff=self.backoff,
            tenant_of=str,
            recorder=self.recorder,
            metrics=self.manager.metrics,
            clock=clock,
        )
        if not is_read_whole:
            controller.ignore_updates(only_status_changed)
        engine.serve(controller)
        self.manager.add_controller(controller)
        return engine
