"""The controller and the caches of the CAP Operator Manager, added to a manager of the engine."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from stellwerk.delivery.operator_spec import CannotStart, Launch
from stellwerk.delivery.rendering import add_renderer
from stellwerk.delivery.sets.cluster_identity import ClusterIdentity
from stellwerk.delivery.sets.served_apis import ServedApis
from stellwerk.delivery.sets.set_pass import SetEngine
from stellwerk.delivery.watched_objects import OwnedObjects
from stellwerk.operators.cap_manager import rights
from stellwerk.operators.cap_manager.api import (
    CONTROLLER,
    FINALIZER,
    LEASE_NAME,
    MANAGER,
    CAPOperator,
    CAPOperatorStatus,
)
from stellwerk.operators.cap_manager.capoperator import chart as charts
from stellwerk.operators.cap_manager.capoperator.chart import Chart, UnusableChart
from stellwerk.operators.cap_manager.capoperator.installer import RENDERED_SECONDS, Installer
from stellwerk.operators.cap_manager.capoperator.reconcile import CapOperatorMemo, CapOperatorReconciler
from stellwerk.operators.cap_manager.reasons import PassReport
from stellwerk.operators.cap_manager.settings import Settings
from stellwerk.operators.cap_manager.watches import Watches, watches
from stellwerk.render.binary import renderer_path
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.process.process import OperatorIdentity, Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings

_log = logging.getLogger(__name__)

CapOperatorController = Controller[CAPOperator, CAPOperatorStatus]


@dataclass(frozen=True, slots=True)
class CapOperatorManager:
    """The parts that others may ask for."""

    controller: CapOperatorController
    watches: Watches


def launch(process: ProcessSettings, settings: Settings) -> Launch:
    """Prepare a process of the manager. Raises CannotStart, RendererMissing."""
    renderer_path()
    try:
        chart = charts.load(settings.manifest_directory, settings.chart_values)
    except UnusableChart as error:
        raise CannotStart(str(error), fix="name a folder with a chart: --manifest-directory FOLDER") from None
    whose = "this product" if chart.is_product else str(settings.manifest_directory)
    _log.info("the CAP Operator is installed with the chart of %s", whose)
    identity = OperatorIdentity(component=MANAGER, lease=LEASE_NAME, rights=rights.RIGHTS)

    def add(parts: Parts) -> None:
        renderer = add_renderer(parts, process)
        install(parts.manager, chart, settings.image, renderer=renderer, recorder=parts.recorder)

    return Launch(identity, add)


def install(
    manager: Manager, chart: Chart, image: str, *, renderer: Renderer, recorder: EventSink | None = None
) -> CapOperatorManager:
    """Give the CAP Operator Manager to a manager of the engine. `renderer` stays the caller's to close."""
    client, clock = manager.client.with_field_manager(MANAGER), manager.clock
    seen = watches(manager, ServedApis(clock, life_seconds=RENDERED_SECONDS))
    installer = Installer(
        client=client,
        renderer=renderer,
        chart=chart,
        owned=OwnedObjects(manager.home, MANAGER, lambda _: seen.wake_all(), client.mapper.invalidate),
        apis=seen.apis,
        cluster_uid=ClusterIdentity(client),
        clock=clock,
    )
    writer = StatusWriter(client=client, clock=clock)
    checkpoints: Checkpoints[CAPOperator, CAPOperatorStatus] = Checkpoints(seen.capoperators, writer)
    reconciler = CapOperatorReconciler(
        engine=SetEngine(client=client, checkpoints=checkpoints, finalizer=FINALIZER, clock=clock),
        watches=seen,
        chart=chart,
        image=image,
        installer=installer,
        metrics=manager.metrics,
        memos=Memos(CapOperatorMemo),
    )
    controller: CapOperatorController = Controller(
        CONTROLLER,
        seen.capoperators,
        reconciler,
        write_status=checkpoints.write_status,
        checkpoints=checkpoints,
        memos=reconciler.memos,
        recorder=recorder,
        explain_unreadable=PassReport.unreadable,
        metrics=manager.metrics,
        clock=clock,
    )
    controller.ignore_updates(only_status_changed)
    seen.controllers.append(controller)
    manager.add_controller(controller)
    return CapOperatorManager(controller, seen)
