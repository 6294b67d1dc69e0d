"""The controllers of Kymas, and of what every Kyma gets, added to a manager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.kyma.decide import KymaLogic, KymaSettings
from stellwerk.operators.kyma.mandatory.decide import MandatoryLogic, MandatorySettings, MetaLogic, TemplateLogic
from stellwerk.runtime.cache.remote_clusters import RemoteClusters
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.executor import Deciding, InformerSources, Logic, RemoteSources
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.loads import LoadSource
from stellwerk.runtime.supervision.backoff import Backoff

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Adding:
    """What the controllers have in common: they share caches, loads and remote clusters with other kinds."""

    manager: Manager
    client: Client
    sources: InformerSources
    loads: LoadSource
    backoff: Backoff | None = None
    recorder: EventSink | None = None

    def kymas(
        self, settings: KymaSettings, clusters: RemoteClusters[RemoteSources], *, workers: int = 1
    ) -> Deciding[Kyma, KymaStatus]:
        """Have the manager run the controller of Kymas."""
        logic = KymaLogic(self.manager.clock)
        return self._added("kyma", logic, (settings,), workers, clusters)

    def mandatory_modules(self, settings: MandatorySettings, *, workers: int = 1, removals: int = 1) -> None:
        """Have the manager install mandatory modules, and remove those whose meta or template is deleted.

        `workers` and `removals`: how many Kymas, and how many metas, are looked at at once.
        """
        self._added("mandatory-module-installation", MandatoryLogic(), (settings,), workers)
        self._added("mandatory-module-deletion", MetaLogic(), (), removals)
        self._added("mandatory-module-template-deletion", TemplateLogic(), (), removals)

    def _added(
        self,
        name: str,
        logic: Logic[K, S],
        settings: tuple[object, ...],
        workers: int,
        clusters: RemoteClusters[RemoteSources] | None = None,
    ) -> Deciding[K, S]:
        clock = self.manager.clock
        engine: Deciding[K, S] = Deciding(
            logic=logic,
            sources=self.sources,
            client=self.client,
            clock=clock,
            settings=settings,
            loads=self.loads,
            clusters=clusters,
        )
        controller: Controller[K, S] = Controller(
            name,
            self.sources.informer(logic.collection),
            engine,
            write_status=StatusWriter(client=self.client, clock=clock),
            workers=workers,
            backoff=self.backoff,
            tenant_of=str,
            recorder=self.recorder,
            metrics=self.manager.metrics,
            clock=clock,
        )
        controller.ignore_updates(only_status_changed)
        engine.serve(controller)
        self.manager.add_controller(controller)
        return engine
