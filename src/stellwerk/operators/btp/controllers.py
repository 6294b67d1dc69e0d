"""The controllers, caches and servers of the BTP Manager, added to a manager."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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
from stellwerk.operators.btp.module.chart import Charts
from stellwerk.operators.btp.module.release import SHIPPED
from stellwerk.operators.btp.module.source import ReleaseSupplier
from stellwerk.operators.btp.rights import RIGHTS
from stellwerk.operators.btp.settings import TABLE, CrSelection, ModuleSource, Settings
from stellwerk.operators.btp.watches import Caches, caches
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


def require_image(environment: Mapping[str, str]) -> None:
    """Raise CannotStart where the environment does not name the operand's image."""
    if IMAGE_VARIABLE not in environment:
        raise CannotStart(
            f"the environment variable {IMAGE_VARIABLE} is not set: it names the image of the SAP BTP service operator",
            fix="set it to the image that the operand's Deployment runs",
        )


def launch(process: ProcessSettings, settings: Settings, environment: Mapping[str, str]) -> Launch:
    """Prepare a process of the BTP Manager. Raises CannotStart where the environment names no image."""
    require_image(environment)
    identity = OperatorIdentity(
        component=api.OPERATOR_NAME, lease=api.LEASE_NAME, namespace=settings.chart_namespace, rights=RIGHTS
    )
    resolved = in_force(settings, Path.cwd())

    def add(parts: Parts) -> None:
        renderer = add_renderer(parts, process)
        install(parts.manager, resolved, environment, renderer=renderer, recorder=parts.recorder)

    return Launch(identity, add)


@dataclass(frozen=True, slots=True)
class BtpManager:
    """The parts that others may ask for."""

    controller: Controller[BtpOperator, BtpOperatorStatus]
    tunables: Tunables
    caches: Caches
    observer: Observer


def install(
    manager: Manager,
    settings: Settings,
    environment: Mapping[str, str],
    *,
    recorder: EventSink | None = None,
    renderer: Renderer,
    keys: KeyStock | None = None,
    token_server: TokenService | None = None,
) -> BtpManager:
    """Give the BTP Manager to a manager. `environment` is read again at each pass, as the original does.

    `renderer` is asked only while the module comes from a chart, and stays the caller's to close. `token_server` checks
    credentials; it is asked only where `CredentialCheckInterval` is above zero.

    Raises CannotStart where SAP_BTP_SERVICE_OPERATOR is not set at all.
    """
    require_image(environment)
    metrics = BtpMetrics(manager.metrics)
    tunables = Tunables(settings, metrics.custom_config, recorder)
    woken: list[BtpOperatorController] = []
    seen, observer = _observed(manager, settings, tunables, woken)
    webhooks = _webhooks(manager, observer, tunables, metrics, keys or KeyStock())
    source = ReleaseSupplier(lambda: tunables.settings, Charts(renderer, manager.client))
    reconciler = _reconciler(manager, observer, tunables, environment, webhooks, source)
    controller = _controller(manager, seen, reconciler, recorder)
    metrics.show(lambda: TABLE.as_text(tunables.settings))
    metrics.show_certificates(webhooks.ends)
    _wire(controller, seen, tunables, observer)
    woken.append(controller)
    manager.add_controller(controller)
    manager.add_controller(webhooks)
    manager.add_controller(
        _credential_check(token_server or TokenServer(), manager, seen, tunables, observer, metrics, recorder)
    )
    if probing := ProbeSettings.of(environment):
        manager.add_controller(_probe(manager, probing, tunables, observer, metrics))
    return BtpManager(controller, tunables, seen, observer)


BtpOperatorController = Controller[BtpOperator, BtpOperatorStatus]


def in_force(settings: Settings, working_directory: Path) -> Settings:
    """The settings with the module's folders resolved.

    Relative ones lie in the working directory, as with the original. Each folder that is not there is taken from the
    module that we ship, whichever of the others are there. What we ship is no chart: if a chart is asked for and not
    there, the error names the place in the working directory.
    """
    here, shipped = _below(working_directory, settings), _below(SHIPPED, settings)
    has_policies = _has(working_directory, settings.manager_resources_path)
    policies = (here if has_policies else shipped).manager_resources_path
    has_chart = _has(working_directory, settings.chart_path)
    if settings.module_source is ModuleSource.CHART or (release.comes_from_chart(here) and has_chart):
        return replace(here, manager_resources_path=policies)
    has_resources = _has(working_directory, settings.resources_path)
    return replace(
        settings,
        resources_path=(here if has_resources else shipped).resources_path,
        manager_resources_path=policies,
        chart_path=(here if has_chart else shipped).chart_path,
    )


def _has(root: Path, folder: str) -> bool:
    return bool(folder) and (root / folder).is_dir()


def _below(root: Path, settings: Settings) -> Settings:
    return replace(
        settings,
        resources_path=str(root / settings.resources_path),
        manager_resources_path=str(root / settings.manager_resources_path),
        chart_path=str(root / settings.chart_path) if settings.chart_path else "",
    )


def _observed(
    manager: Manager, settings: Settings, tunables: Tunables, woken: Sequence[BtpOperatorController]
) -> tuple[Caches, Observer]:
    """The caches and their reader. A finding without a change of a cache wakes the leader's controllers."""

    def wake() -> None:
        for controller in woken:
            for key in _leading(observer):
                controller.queue.add(key)

    seen = caches(manager, wake=wake, settings=settings)
    secrets = SecretReader(manager.client)
    leading = Leading(
        seen.operators.store,
        lambda: tunables.settings.cr_selection is CrSelection.FIXED,
        seen.operators.unreadable,
    )
    seen.operators.on_change(leading.take)
    seen.operators.on_unreadable(lambda key, _: leading.invalidate())
    observer = Observer(seen, secrets, lambda: tunables.settings, manager.clock, leading)
    return seen, observer


def _webhooks(
    manager: Manager, observer: Observer, tunables: Tunables, metrics: BtpMetrics, keys: KeyStock
) -> Webhooks:
    manager.add_server("keys", Closing(keys.close))  # after the last pass: one that is under way may take a key
    return Webhooks(observer, lambda: tunables.settings, manager.clock, metrics.regenerated, keys)


def _controller(
    manager: Manager, seen: Caches, reconciler: BtpReconciler, recorder: EventSink | None
) -> BtpOperatorController:
    return Controller(
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


def _reconciler(
    manager: Manager,
    observer: Observer,
    tunables: Tunables,
    environment: Mapping[str, str],
    webhooks: Webhooks,
    source: ReleaseSupplier,
) -> BtpReconciler:
    client, clock = manager.client.with_field_manager(api.OPERATOR_NAME), manager.clock

    def settings() -> Settings:
        return tunables.settings

    def image() -> str:
        return environment.get(IMAGE_VARIABLE, "")

    history = VersionHistory(client, observer, settings)
    fights = manager.metrics.drift_throttled
    removal = Removal(client, observer, settings, clock)
    provisioner = Provisioner(
        client, observer, webhooks, settings, image, clock, source, history, removal.users_have_nothing, fights
    )
    return BtpReconciler(
        client=client,
        observer=observer,
        provisioner=provisioner,
        removal=removal,
        diagnosis=OperandDiagnosis(client, observer),
        status_writer=StatusWriter(client=client, clock=clock),
        settings=settings,
        clock=clock,
    )


def _probe(
    manager: Manager, probing: ProbeSettings, tunables: Tunables, observer: Observer, metrics: BtpMetrics
) -> Probe:
    return Probe(
        manager.client,
        probing,
        interval=lambda: tunables.settings.probe_interval,
        border=manager.border,
        leader=observer.leader,
        report=metrics.credential_probe,
        chart_namespace=lambda: tunables.settings.chart_namespace,
    )


def _credential_check(
    server: TokenService,
    manager: Manager,
    seen: Caches,
    tunables: Tunables,
    observer: Observer,
    metrics: BtpMetrics,
    recorder: EventSink | None,
) -> CredentialCheck:
    def secret() -> str:
        return str(ObjectKey(tunables.settings.chart_namespace, tunables.settings.secret_name))

    check = CredentialCheck(
        server,
        interval=lambda: tunables.settings.credential_check_interval,
        leader=observer.leader,
        credentials=observer.required_secret,
        secret=secret,
        report=metrics.credential_check,
        recorder=recorder,
        border=manager.border,
    )
    for informer in (seen.tunables, seen.secrets, seen.operators):
        informer.on_change(lambda _: check.wake())
    return check


def _wire(controller: BtpOperatorController, seen: Caches, tunables: Tunables, observer: Observer) -> None:
    """Which change wakes which CR. What concerns the module wakes the leader; where another CR leads, all are woken."""

    def leading(delta: object) -> Iterable[ObjectKey]:
        return (*_leading(observer), *observer.leading.woken_by(delta))

    seen.tunables.on_change(tunables.take)
    controller.ignore_updates(_is_own_verdict)
    controller.watches(seen.operators, observer.leading.woken_by)

    def on_unreadable(key: ObjectKey, _: Unreadable | None) -> None:
        for woken in observer.leading.woken_by(key):
            controller.queue.add(woken)

    seen.operators.on_unreadable(on_unreadable)
    controller.watches(seen.tunables, leading)


def _leading(observer: Observer) -> Iterable[ObjectKey]:
    leader = observer.leader()
    return () if leader is None else (leader.key,)


def _is_own_verdict(old: BtpOperator, new: BtpOperator) -> bool:
    """A status that reports a failure does not start the next try: a change or the clock does."""
    state = new.status.state if new.status else None
    return state in (State.Error, State.Warning) and only_status_changed(old, new)
