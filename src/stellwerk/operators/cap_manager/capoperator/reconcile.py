"""The reconciler of CAPOperators, and its pass.

    apply    the only one -> spec and surroundings -> chart -> objects -> Ready
    delete   no users -> objects -> finalizer

The draft of the status grows with the pass; a failure is reported on top of it. Where the status has to be saved before
the cluster may be touched, it is saved on the way, at a checkpoint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

from stellwerk.apply.errors import ApplyError
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.object_set import ObservedState, SetProgress
from stellwerk.delivery.sets import set_reports, workload_causes
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.workload_causes import WorkloadCauses
from stellwerk.delivery.watched_objects import Unwatchable
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap_manager.api import FINALIZER, CAPOperator, CAPOperatorStatus
from stellwerk.operators.cap_manager.capoperator import observe, plan, resources
from stellwerk.operators.cap_manager.capoperator.chart import Chart
from stellwerk.operators.cap_manager.capoperator.installer import Installer, PreparedSet
from stellwerk.operators.cap_manager.capoperator.observe import GatewayMemory
from stellwerk.operators.cap_manager.capoperator.plan import DnsTarget
from stellwerk.operators.cap_manager.errors import CapOperatorFailed, EndedUnexpectedly, failure_of, writes_failed
from stellwerk.operators.cap_manager.reasons import CapOperatorEvent, Cause, Reason
from stellwerk.operators.cap_manager.status_report import PassReport
from stellwerk.operators.cap_manager.watches import Watches
from stellwerk.render.errors import RenderError
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity
from stellwerk.runtime.telemetry.metrics import Metrics

REQUEUE_SECONDS = 600.0
"""How often a CAPOperator is looked at without a change: what is due again is due by the clock."""
SHORTEST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 10.0
"""How often the manager asks whether CAP objects exist that block a deletion. They are not watched."""
OUTDATED_SECONDS = 10.0
"""When to look again at a CAPOperator that only an outdated view shows, unless a watch shows its end earlier."""

Answer = Next[CAPOperatorStatus]


@dataclass(slots=True)
class CapOperatorMemo:
    """What is remembered about a CAPOperator from pass to pass. Losing it costs requests and repeated Events."""

    observed: ObservedState = field(default_factory=ObservedState)
    gateway: GatewayMemory = field(default_factory=GatewayMemory)
    prepared: PreparedSet | None = None
    workload_causes: WorkloadCauses = field(default_factory=WorkloadCauses)
    deleting_since: float | None = None
    confirmed_uid: str = ""
    """The UID that a successful write of this process confirmed, so that the CAPOperator is no outdated view."""
    reported: dict[CapOperatorEvent, str] = field(default_factory=dict)
    """The messages of the Events that were sent last, by their reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapOperatorReconciler:
    """Brings installations to what their CAPOperators ask for. Its fields are what all passes work with."""

    client: Client
    watches: Watches
    chart: Chart
    image: str
    installer: Installer
    checkpoints: Checkpoints[CAPOperator, CAPOperatorStatus]
    metrics: Metrics
    clock: Clock
    memos: Memos[CapOperatorMemo]

    def begin(self, capoperator: CAPOperator) -> CapOperatorPass:
        """A pass over one CAPOperator."""
        return CapOperatorPass(self, capoperator, self.memos.of(capoperator.key))

    async def forget(self, key: ObjectKey) -> None:
        """Nothing is remembered besides the memo."""


@dataclass(slots=True)
class CapOperatorPass:
    """One pass. `capoperator` is the object as it is now: a checkpoint and the finalizer replace it."""

    services: CapOperatorReconciler
    capoperator: CAPOperator
    memo: CapOperatorMemo
    draft: CAPOperatorStatus = field(init=False)
    """The status as far as the pass has come."""

    def __post_init__(self) -> None:
        self.draft = self.capoperator.status

    async def run(self) -> Answer:
        """Bring the installation as far as possible now. Raises CapOperatorFailed."""
        try:
            return await (self._delete() if self.capoperator.metadata.is_terminating else self._apply())
        except (RenderError, ApplyError, ApiError, Unwatchable) as error:
            raise failure_of(error) from error

    def report(self, failure: ReconcileError) -> CAPOperatorStatus:
        """The status that reports a failure, on top of what the pass has come to."""
        if not isinstance(failure, CapOperatorFailed):
            failure = EndedUnexpectedly(str(failure))
        return self._with(PassReport(reason=Reason.Error, message=str(failure), cause=failure.cause))

    def _with(self, report: PassReport) -> CAPOperatorStatus:
        return plan.with_report(self.capoperator, self.draft, report, self.services.clock.now())

    # ---- apply

    async def _apply(self) -> Answer:
        services = self.services
        if self.capoperator.status.observed_generation <= 0:
            first = self._with(PassReport(reason=Reason.FirstSeen))
            if not await self._save(first):
                return Next.now(first).without_event()
        plan.check_inventory(self.capoperator)
        observe.check_only(self.capoperator, services.watches.capoperators.store.all())
        content = await observe.content(
            self.capoperator,
            services.watches,
            services.chart,
            services.image,
            self.memo.gateway,
            services.clock.monotonic(),
        )
        is_restart = self.capoperator.status.processing_digest not in ("", content.digest)
        self.draft = plan.start_content(self.capoperator, content.digest)
        await self._add_finalizer()
        self.memo.prepared = await services.installer.prepared(
            self.capoperator, self.draft, content, self.memo.prepared
        )
        reason = Reason.Restarting if is_restart else Reason.Processing
        progress = await services.installer.apply(
            self.capoperator,
            self.memo.prepared,
            self.memo.observed,
            announces=is_restart and self.capoperator.status.state is State.Ready,
            save=partial(self._save_inventory, reason),
        )
        answer = await self._progressed(progress, reason)
        return answer.with_events(*self._news(content.target, progress))

    async def _add_finalizer(self) -> None:
        held = await finalizer.add(self.services.client, self.capoperator, FINALIZER)
        if held is not self.capoperator:
            self.capoperator, self.memo.confirmed_uid = held, held.metadata.uid

    async def _save_inventory(self, reason: Reason, inventory: Inventory) -> bool:
        """Save the inventory before its objects are touched. Returns False where the pass has to end for that."""
        self.draft = plan.with_inventory(self.draft, inventory)
        return await self._save(self._with(PassReport(reason=reason)))

    async def _save(self, status: CAPOperatorStatus) -> bool:
        saved = await self.services.checkpoints.save(self.capoperator, status)
        if saved is None:
            return False
        self.capoperator, self.draft = saved, saved.status
        return True

    async def _progressed(self, progress: SetProgress, reason: Reason) -> Answer:
        self.services.metrics.drift_throttled(len(progress.throttled))
        self.draft = plan.with_inventory(self.draft, progress.inventory)
        if progress.failures:
            raise writes_failed(progress.failures)
        if progress.done:
            self.memo.workload_causes.forget()
            self.draft = plan.finished(self.capoperator, self.draft, self.services.clock.now())
            return Next.after(self._until(progress), self._with(PassReport(reason=Reason.Ready)))
        if progress.must_be_saved:
            return Next.now(self._with(PassReport(reason=reason))).without_event()
        return await self._waiting(progress)

    async def _waiting(self, progress: SetProgress) -> Answer:
        clock = self.services.clock
        now = clock.now()
        self.draft = plan.waiting(self.draft, now)
        late = plan.is_late(self.draft, now)
        since = self.draft.processing_since or now
        waits, pause_seconds = await self.memo.workload_causes.explained(
            self.draft.processing_digest,
            progress.waits,
            workload_causes.reading(ClusterReader(self.services.client)),
            now=clock.monotonic(),
            waited_seconds=(now - since).total_seconds(),
            is_late=late,
        )
        report = PassReport(
            reason=Reason.Timeout if late else Reason.Processing,
            message=set_reports.unready(waits, late=late),
            cause=Cause.ObjectsNotReady,
        )
        end = math.inf if late else (since + plan.TIMEOUT - now).total_seconds()
        seconds = min(self._until(progress), pause_seconds or math.inf, end)
        return replace(Next.after(max(seconds, 0.05), self._with(report)), severity=report.severity)

    def _until(self, progress: SetProgress) -> float:
        """When to look again though nothing changes."""
        now, apis = self.services.clock.monotonic(), self.services.installer.apis
        kept = self.memo.gateway.seconds_left(now) or math.inf
        again = progress.again_at - now if progress.again_at is not None else math.inf
        doubted = apis.doubted_until - now if now < apis.doubted_until else math.inf
        return max(min(REQUEUE_SECONDS, kept, again, doubted), 0.05)

    # ---- delete

    async def _delete(self) -> Answer:
        services = self.services
        if not finalizer.present(self.capoperator, FINALIZER):
            return Next.done()
        self.draft = plan.start_deletion(self.capoperator.status)
        plan.check_inventory(self.capoperator)
        if others := [name for name in self.capoperator.metadata.finalizers if name != FINALIZER]:
            return self._blocked(f"finalizers of others are on it: {', '.join(others)}", Cause.ForeignFinalizers)
        inventory = inventory_codec.read(self.capoperator.status.inventory)
        if self.capoperator.retains_objects:
            inventory = resources.retained(inventory)
        if users := await services.installer.users(self.capoperator, inventory):
            return self._blocked(
                f"CAP objects exist: {conditions.first_of(users, most=3, separator='; ')}. Have their owners delete "
                "them, CAPApplications first: kubectl get capapplications -A",
                Cause.CapObjectsExist,
            )
        if not await self._is_of_the_present():
            return Next.after(OUTDATED_SECONDS)
        progress = await services.installer.delete(self.capoperator, inventory, self.memo.observed)
        if progress.done:
            await finalizer.remove(services.client, self.capoperator, FINALIZER)
            return Next.done()
        self.draft = plan.with_inventory(self.draft, progress.inventory)
        if progress.failures:
            raise writes_failed(progress.failures)
        message = set_reports.departing(progress.waits)
        status = self._with(PassReport(reason=Reason.DeletionProcessing, message=message))
        return Next.now(status) if progress.must_be_saved else Next.after(self._patience(), status)

    async def _is_of_the_present(self) -> bool:
        """Whether what is to be deleted is there at all. Objects are ours by the name of their CAPOperator, so one that
        is only shown by an outdated view would take those of its successor with it."""
        uid = self.capoperator.metadata.uid
        if self.memo.confirmed_uid != uid:
            if not await finalizer.is_of_the_present(self.services.client, self.capoperator):
                return False
            self.memo.confirmed_uid = uid
        return True

    def _blocked(self, why: str, cause: Cause) -> Answer:
        report = PassReport(reason=Reason.DeletionBlocked, message=f"deletion blocked: {why}", cause=cause)
        return replace(Next.after(self._patience(), self._with(report)), severity=report.severity)

    def _patience(self) -> float:
        """Short at first, because most obstacles go soon, and longer the longer it takes."""
        now = self.services.clock.monotonic()
        if self.memo.deleting_since is None:
            self.memo.deleting_since = now
        return min(max(SHORTEST_LOOK_SECONDS, (now - self.memo.deleting_since) / 2), LONGEST_LOOK_SECONDS)

    # ---- Events

    def _news(self, target: DnsTarget, progress: SetProgress) -> list[Notice]:
        """What is reported when it begins, and when its cause changes: the fallback, and objects that others change
        again and again."""
        messages: dict[CapOperatorEvent, str] = {}
        if target.fallback_cause:
            messages[CapOperatorEvent.IngressGatewayNotFound] = (
                f"{target.fallback_cause}: the DNS target is {target.name} until then; correct "
                "spec.ingressGatewayLabels, or set spec.dnsTarget in their place"
            )
        if names := [f"{each.ref} ({', '.join(each.managers)})" for each in progress.throttled]:
            messages[CapOperatorEvent.ChangedByOthers] = (
                f"other clients keep changing objects of the installation: {conditions.first_of(names, most=3)}"
            )
        former, self.memo.reported = self.memo.reported, messages
        return [Notice(*each, Severity.WARNING) for each in messages.items() if each not in former.items()]
