"""The reconciler of CAPOperators, and its pass.

    apply    the only one -> spec and surroundings -> chart -> objects -> Ready
    delete   no users -> objects -> finalizer

What is done with the objects, and when the status is saved on the way: `delivery.sets.set_pass`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta

from stellwerk.apply.errors import ApplyError
from stellwerk.apply.set.model import inventory_codec
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.plan.inventory_update import newcomers
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.pass_report import SetReason
from stellwerk.delivery.sets.set_pass import SetEngine, SetMemory, SetPass, SetWork
from stellwerk.delivery.watched_objects import Unwatchable
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable
from stellwerk.operators.cap_manager.api import CAPOperator, CAPOperatorStatus
from stellwerk.operators.cap_manager.capoperator import observe, plan, resources
from stellwerk.operators.cap_manager.capoperator.chart import Chart
from stellwerk.operators.cap_manager.capoperator.installer import Installer, PreparedSet
from stellwerk.operators.cap_manager.capoperator.observe import GatewayMemory
from stellwerk.operators.cap_manager.capoperator.plan import DnsTarget
from stellwerk.operators.cap_manager.errors import CapOperatorFailed, EndedUnexpectedly, failure_of, writes_failed
from stellwerk.operators.cap_manager.reasons import CapOperatorEvent, Cause, PassReport
from stellwerk.operators.cap_manager.watches import Watches
from stellwerk.render.errors import RenderError
from stellwerk.runtime import conditions
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity
from stellwerk.runtime.telemetry.metrics import Metrics

REQUEUE_SECONDS = 600.0
"""How often a CAPOperator is looked at without a change: what is due again is due by the clock."""

Answer = Next[CAPOperatorStatus]


@dataclass(slots=True)
class CapOperatorMemo:
    """What is remembered about a CAPOperator from pass to pass. Losing it costs requests and repeated Events."""

    objects: SetMemory = field(default_factory=SetMemory)
    gateway: GatewayMemory = field(default_factory=GatewayMemory)
    prepared: PreparedSet | None = None
    reported: dict[CapOperatorEvent, str] = field(default_factory=dict)
    """The messages of the Events that were sent last, by their reasons."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CapOperatorReconciler:
    """Brings installations to what their CAPOperators ask for. Its fields are what all passes work with."""

    engine: SetEngine[CAPOperator, CAPOperatorStatus]
    watches: Watches
    chart: Chart
    image: str
    installer: Installer
    metrics: Metrics
    memos: Memos[CapOperatorMemo]

    def begin(self, capoperator: CAPOperator) -> CapOperatorPass:
        """A pass over one CAPOperator."""
        memo = self.memos.of(capoperator.key)
        return CapOperatorPass(self.engine, memo.objects, capoperator, self, memo)

    async def forget(self, key: ObjectKey) -> None:
        """Nothing is remembered besides the memo."""


@dataclass(slots=True)
class CapOperatorPass(SetPass[CAPOperator, CAPOperatorStatus]):
    """One pass."""

    services: CapOperatorReconciler
    memo: CapOperatorMemo
    words = PassReport

    async def run(self) -> Answer:
        """Bring the installation as far as possible now. Raises CapOperatorFailed."""
        try:
            return await (self.delete() if self.subject.metadata.is_terminating else self._apply())
        except (RenderError, ApplyError, ApiError, Unwatchable) as error:
            raise failure_of(error) from error

    def report(self, failure: ReconcileError) -> CAPOperatorStatus:
        """The status that reports a failure, on top of what the pass has come to."""
        if not isinstance(failure, CapOperatorFailed):
            failure = EndedUnexpectedly(str(failure))
        return self.show(self.reported(SetReason.Error, str(failure), failure.cause))

    async def _apply(self) -> Answer:
        services = self.services
        plan.check_inventory(self.subject)
        observe.check_only(self.subject, services.watches.capoperators.store.all())
        async with self.shown_if_slow():
            content = await observe.content(
                self.subject,
                services.watches,
                services.chart,
                services.image,
                self.memo.gateway,
                self.engine.clock.monotonic(),
            )
        status = self.status
        is_restart = status.processing_digest not in ("", content.digest)
        self.draft = plan.start_content(self.subject, content.digest)
        await self.add_finalizer()
        async with self.shown_if_slow():
            self.memo.prepared = await services.installer.prepared(
                self.subject, self.draft, content, self.memo.prepared
            )
        work = await services.installer.work(self.subject, self.memo.prepared)
        reason = SetReason.Restarting if is_restart else SetReason.Processing
        announces = is_restart and status.state is State.Ready and not newcomers(work.wanted, work.known)
        progress, _ = await self.bring(work, reason, announces=announces)
        answer = await self.progressed(work, progress, reason)
        return answer.with_events(*self._news(content.target, progress))

    async def leaving(self) -> SetWork | Answer:
        """See `SetPass`. An installation stays as long as CAP objects need it, also new ones."""
        plan.check_inventory(self.subject)
        if others := self.foreign_finalizers():
            return self.blocked(f"deletion blocked: finalizers of others are on it: {others}", Cause.ForeignFinalizers)
        known = inventory_codec.read(self.status.inventory)
        if self.subject.retains_objects:
            known = resources.retained(known)
        if users := await self.services.installer.users(self.subject, known):
            shown = conditions.first_of(users, most=3, separator="; ")
            return self.blocked(
                f"deletion blocked: CAP objects exist: {shown}. Have their owners delete them, CAPApplications first: "
                "kubectl get capapplications -A",
                Cause.CapObjectsExist,
            )
        return await self.services.installer.work_of_deletion(self.subject, known)

    # ---- what else `SetPass` asks for

    @property
    def status(self) -> CAPOperatorStatus:
        """See `SetPass`."""
        return self.subject.status

    @property
    def timeout(self) -> timedelta:
        """As with the original."""
        return plan.TIMEOUT

    @property
    def requeue_seconds(self) -> float:
        """Also the end of what is kept for a while, or doubted."""
        now, apis = self.engine.clock.monotonic(), self.services.installer.apis
        kept = self.memo.gateway.seconds_left(now) or math.inf
        doubted = apis.doubted_until - now if now < apis.doubted_until else math.inf
        return min(REQUEUE_SECONDS, kept, doubted)

    def refused(self, progress: SetProgress) -> CapOperatorFailed:
        """See `SetPass`."""
        return writes_failed(progress.failures)

    def noted(self, progress: SetProgress, unreadable: list[Unreadable]) -> None:
        """See `SetPass`."""
        del unreadable
        self.services.metrics.drift_throttled(len(progress.throttled))

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
