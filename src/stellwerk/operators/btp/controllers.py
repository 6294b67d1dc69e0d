"""The controllers, caches and servers of the BTP Manager, added to a manager."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from stellwerk.delivery.operator_spec import CannotStart, Launch
from stellwerk.delivery.rendering import add_renderer
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable
from stellwerk.operators.btp import api, reasons
from stellwerk.operators.btp.api import BtpOperator, BtpOperatorStatus, State
from stellwerk.operators.btp.btpoperator.deprovisioning import Removal
from stellwerk.operators.btp.btpoperator.diagnose import OperandDiagnosis
from stellwerk.operators.btp.btpoperator.history import VersionHistory
from stellwerk.operators.btp.btpoperator.leading import Leading
from stellwerk.operators.btp.btpoperator.observe import Observer, SecretReader
from stellwerk.operators.btp.btpoperator.probe import Probe, ProbeSettings
from stellwerk.operators.btp.btpoperator.provisioning import Provisioner
from stellwerk.operators.btp.btpoperator.reconcile import BtpReconciler
from stellwerk.operators.btp.btpoperator.webhooks import Webhooks
from stellwerk.operators.btp.config_overrides import Tunables
from stellwerk.operators.btp.credentials.credential_check import CredentialCheck, TokenServer, TokenService
from stellwerk.operators.btp.metrics import BtpMetrics
from stellwerk.operators.btp.module import release
from stellwerk.operators.btp.module.chart import ReleaseSupplier
from stellwerk.operators.btp.rights import RIGHTS
from stellwerk.operators.btp.settings import TABLE, CrSelection, Settings
from stellwerk.operators.btp.watches import Caches
from stellwerk.render.worker.renderer import Renderer
from stellwerk.runtime.certificates.key_pool import KeyStock
from stellwerk.runtime.control.controller import Controller, EventSink, only_status_changed
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.process.process import OperatorIdentity, Parts
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.supervision.tasks import Closing

CONTROLLER = "btpoperator"
IMAGE_VARIABLE = "SAP_BTP_SERVICE_OPERATOR"


def launch(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> Launch:
    """Prepare a process of the BTP Manager. Raises CannotStart where the environment does not name an image."""
    if IMAGE_VARIABLE not in environment:
        raise CannotStart(
            f"the environment variable {IMAGE_VARIABLE} is not set: it names the image of the SAP BTP service operator",
            fix="set it to the image that the operand's Deployment runs",
        )
    identity = OperatorIdentity(
        component=api.OPERATOR_NAME, lease=api.LEASE_NAME, namespace=settings.chart_namespace, rights=RIGHTS
    )

    def add(parts: Parts) -> None:
        renderer = add_renderer(parts, process)
        install(parts.manager, settings, environment, renderer=renderer, recorder=parts.recorder)

    return Launch(identity, add)


@dataclass(frozen=True, slots=True)
class BtpManager:
    """The parts that others may ask for."""

    controller: Controller[BtpOperator, BtpOperatorStatus]
    tunables: Tunables
    caches: Caches


def install(
    manager: Manager,
    settings: Settings,
    environment: Mapping[str, str],
    *,
    recorder: EventSink,
    renderer: Renderer,
    keys: KeyStock | None = None,
    token_server: TokenService | None = None,
) -> BtpManager:
    """Give the BTP Manager to a manager. `environment` is read again at each pass, as the original does.

    `renderer` is asked only while the module comes from a chart, and stays the caller's to close. `token_server` checks
    credentials; it is asked only where `CredentialCheckInterval` is above zero.
    """
    metrics, keys = BtpMetrics(manager.metrics), keys or KeyStock()
    resolve = partial(release.in_force, working_directory=Path.cwd())
    tunables = Tunables(settings, metrics.custom_config, recorder, resolve=resolve)

    def now() -> Settings:
        return tunables.settings

    def wake() -> None:
        for key in observer.leader_key():
            controller.queue.add(key)

    seen = Caches(manager, wake=wake, settings=settings)
    leading = Leading(seen.operators.store, lambda: now().cr_selection is CrSelection.FIXED, seen.operators.unreadable)
    observer = Observer(seen, SecretReader(manager.client), now, manager.clock, leading)
    webhooks = Webhooks(observer, metrics.regenerated, keys)
    source = ReleaseSupplier(now, renderer, manager.client)
    reconciler = _reconciler(manager, observer, webhooks, source, environment)
    controller = Controller(
        CONTROLLER,
        seen.operators,
        reconciler,
        write_status=reconciler.status_writer,
        recorder=recorder,
        memos=reconciler.memos,
        explain_unreadable=reasons.unreadable,
        metrics=manager.metrics,
        clock=manager.clock,
    )
    check = CredentialCheck(
        token_server or TokenServer(),
        settings=now,
        leader=observer.leader,
        credentials=observer.required_secret,
        report=metrics.credential_check,
        recorder=recorder,
        border=manager.border,
    )
    metrics.show(lambda: TABLE.as_text(now()), webhooks.ends)
    _wire(controller, observer, tunables, check)
    manager.on_try_again(reconciler.end_pause)
    manager.add_server("keys", Closing(keys.close))  # after the last pass: one that is under way may take a key
    manager.add_controller(controller)
    manager.add_controller(webhooks)
    manager.add_controller(check)
    if probing := ProbeSettings.of(environment):
        leader, report = observer.leader, metrics.credential_probe
        manager.add_controller(Probe(manager.client, probing, now, manager.border, leader=leader, report=report))
    return BtpManager(controller, tunables, seen)


def _reconciler(
    manager: Manager, observer: Observer, webhooks: Webhooks, source: ReleaseSupplier, environment: Mapping[str, str]
) -> BtpReconciler:
    client = manager.client.with_field_manager(api.OPERATOR_NAME)
    removal = Removal(client, observer)
    return BtpReconciler(
        client=client,
        observer=observer,
        provisioner=Provisioner(
            client=client,
            observer=observer,
            webhooks=webhooks,
            image=lambda: environment.get(IMAGE_VARIABLE, ""),
            source=source,
            history=VersionHistory(client, observer),
            users_have_nothing=removal.users_have_nothing,
            on_throttled=manager.metrics.drift_throttled,
        ),
        removal=removal,
        diagnosis=OperandDiagnosis(client, observer),
        status_writer=StatusWriter(client=client, clock=manager.clock),
    )


def _wire(
    controller: Controller[BtpOperator, BtpOperatorStatus],
    observer: Observer,
    tunables: Tunables,
    check: CredentialCheck,
) -> None:
    """Which change wakes which CR. What concerns the module wakes the leader; where another CR leads, all are woken."""
    seen, leading = observer.caches, observer.leading

    def on_unreadable(key: ObjectKey, _: Unreadable | None) -> None:
        leading.invalidate()
        for woken in leading.woken_by(key):
            controller.queue.add(woken)

    seen.operators.on_change(leading.take)
    seen.operators.on_unreadable(on_unreadable)
    seen.tunables.on_change(tunables.take)
    controller.ignore_updates(_is_own_verdict)
    controller.watches(seen.operators, leading.woken_by)
    controller.watches(seen.tunables, lambda delta: (*observer.leader_key(), *leading.woken_by(delta)))
    for informer in (seen.tunables, seen.secrets, seen.operators):
        informer.on_change(lambda _: check.wake())


def _is_own_verdict(old: BtpOperator, new: BtpOperator) -> bool:
    """A status that reports a failure does not start the next try: a change or the clock does."""
    state = new.status.state if new.status else None
    return state in (State.Error, State.Warning) and only_status_changed(old, new)
