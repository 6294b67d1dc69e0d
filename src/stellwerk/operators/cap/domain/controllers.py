"""The controllers of Domains and ClusterDomains, added to a manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from stellwerk.operators.cap import names
from stellwerk.operators.cap.domain import reasons, watches
from stellwerk.operators.cap.domain.plan import DomainSettings
from stellwerk.operators.cap.domain.reconcile import DomainReconciler
from stellwerk.operators.cap.domain.watches import DomainCaches
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


@dataclass(frozen=True, slots=True)
class DomainControllers:
    """The parts that others may ask for."""

    domains: Controller[Domain, DomainStatus]
    cluster_domains: Controller[ClusterDomain, DomainStatus]
    caches: DomainCaches


def install(
    manager: Manager,
    settings: DomainSettings,
    *,
    renderer: Renderer,
    counts: CapMetrics,
    recorder: EventSink | None = None,
    workers: int = 1,
    cluster_workers: int = 1,
) -> DomainControllers:
    """Give both controllers to a manager. `renderer` executes DNS templates, and stays the caller's to close."""
    caches = watches.caches(manager, settings)

    client, clock = manager.client.with_field_manager(names.OPERATOR_NAME), manager.clock

    def controller(name: str, primary: Informer[K], count: int) -> Controller[K, DomainStatus]:
        reconciler = DomainReconciler(
            client=client,
            clock=clock,
            caches=caches,
            writer=DomainWriter(
                client=client, objects=HashedObjects(client=client, clock=clock, informers=caches.children)
            ),
            settings=settings,
            renderer=renderer,
            recorder=recorder,
        )
        made: Controller[K, DomainStatus] = Controller(
            name,
            primary,
            Answering(reconciler),
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
        return made

    domains = controller("Domain", caches.domains, workers)
    cluster_domains = controller("ClusterDomain", caches.cluster_domains, cluster_workers)
    watches.wire(caches)
    return DomainControllers(domains, cluster_domains, caches)
