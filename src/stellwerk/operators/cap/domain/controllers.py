"""The controllers of Domains and ClusterDomains, added to a manager."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import reasons, watches
from stellwerk.operators.cap.domain.plan import DomainSettings
from stellwerk.operators.cap.domain.reconcile import DomainReconciler
from stellwerk.operators.cap.domain.writer import DomainWriter
from stellwerk.operators.cap.hashed_objects import HashedObjects
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain, DomainStatus
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.requests import Answering
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager

K = TypeVar("K", Domain, ClusterDomain)


def install(
    manager: Manager,
    settings: DomainSettings,
    *,
    renderer: Renderer,
    counts: CapMetrics,
    recorder: EventSink | None = None,
    workers: int = 1,
    cluster_workers: int = 1,
) -> Sequence[Controller[Any, Any]]:
    """Give both controllers to a manager. `renderer` executes DNS templates, and stays the caller's to close."""
    caches = watches.caches(manager, settings)
    client, clock = manager.client.with_field_manager(names.OPERATOR_NAME).for_tenants_by_namespace(), manager.clock
    throttled = manager.metrics.drift_throttled
    objects = HashedObjects(client=client, clock=clock, informers=caches.children, on_throttled=throttled)
    writer = DomainWriter(objects)

    def add(primary: Informer[K], count: int) -> None:
        reconciler = DomainReconciler(
            client=client,
            clock=clock,
            caches=caches,
            writer=writer,
            settings=settings,
            renderer=renderer,
            recorder=recorder,
        )
        made: Controller[K, DomainStatus] = Controller(
            primary.view.resource.kind,
            primary,
            Answering(reconciler, clock),
            write_status=StatusWriter(client=client, clock=clock),
            workers=count,
            tenant_of=lambda key: key.namespace,
            memos=reconciler.memos,
            recorder=recorder,
            explain_unreadable=reasons.unreadable,
            on_failure=counts.failed,
            metrics=manager.metrics,
            clock=clock,
        )
        primary.on_change(counts.on_change)
        made.ignore_updates(only_status_changed)
        caches.controllers.append(made)
        manager.add_controller(made)

    add(caches.domains, workers)
    add(caches.cluster_domains, cluster_workers)
    watches.wire(caches)
    return caches.controllers
