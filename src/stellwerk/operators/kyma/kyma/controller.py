"""The controller of Kymas, added to a manager."""

from __future__ import annotations

from stellwerk.kube.client.client import Client
from stellwerk.operators.kyma.api import Kyma, KymaStatus
from stellwerk.operators.kyma.collections import KYMAS
from stellwerk.operators.kyma.kyma.decide import KymaLogic, KymaSettings
from stellwerk.runtime.cache.remote_clusters import RemoteClusters
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.executor import Deciding, InformerSources, RemoteSources
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.loads import LoadSource
from stellwerk.runtime.supervision.backoff import Backoff


def add_kymas(
    manager: Manager,
    client: Client,
    *,
    sources: InformerSources,
    clusters: RemoteClusters[RemoteSources],
    loads: LoadSource,
    settings: KymaSettings,
    workers: int = 1,
    backoff: Backoff | None = None,
    recorder: EventSink | None = None,
) -> Deciding[Kyma, KymaStatus]:
    """Have a manager run the controller of Kymas. `sources` and `clusters` are shared with other kinds."""
    engine: Deciding[Kyma, KymaStatus] = Deciding(
        logic=KymaLogic(manager.clock),
        sources=sources,
        client=client,
        clock=manager.clock,
        settings=(settings,),
        loads=loads,
        clusters=clusters,
    )
    controller: Controller[Kyma, KymaStatus] = Controller(
        KYMAS.resource.kind,
        sources.informer(KYMAS),
        engine,
        write_status=StatusWriter(client=client, clock=manager.clock),
        workers=workers,
        backoff=backoff,
        tenant_of=str,
        recorder=recorder,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    controller.ignore_updates(only_status_changed)
    engine.serve(controller)
    manager.add_controller(controller)
    return engine
