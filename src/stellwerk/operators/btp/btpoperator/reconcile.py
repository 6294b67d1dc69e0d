"""One pass over a BtpOperator: observe, decide, act, report."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Never

import msgspec

from stellwerk.api.core import Pod, Secret
from stellwerk.apply.set.plan.stage import Unready
from stellwerk.delivery import reconcile_request
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.btp import api, reasons
from stellwerk.operators.btp.api import BtpOperator, BtpOperatorStatus, State
from stellwerk.operators.btp.btpoperator import deprovisioning, events, plan
from stellwerk.operators.btp.btpoperator.deprovisioning import Removal
from stellwerk.operators.btp.btpoperator.diagnose import OperandDiagnosis
from stellwerk.operators.btp.btpoperator.observe import Observer
from stellwerk.operators.btp.btpoperator.plan import FailedRemoval, Snapshot, Step
from stellwerk.operators.btp.btpoperator.provisioning import ModuleProgress, Provisioner
from stellwerk.operators.btp.credentials import credentials
from stellwerk.operators.btp.credentials.credentials import BtpCredentials, CredentialsComparison
from stellwerk.operators.btp.errors import (
    AnnotatingFailed,
    CleanupFailed,
    ModuleFailed,
    NotReadyInTime,
    RemovalFailed,
    SecretUnusable,
    StaleClusterIdNotDeleted,
    StepFailed,
    of_chart,
    or_fail,
)
from stellwerk.operators.btp.module.release import comes_from_chart
from stellwerk.operators.btp.reasons import Reason
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.outcome import Unexpected
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.reconciler import Next, ReconcileError, SimpleReconciler

_log = logging.getLogger(__name__)

FIRST_RETRY_SECONDS = 30.0
MOST_DOUBLINGS = 20
"""A year. A CR may fail for days, and a float cannot be doubled more than a thousand times."""
EXPLAIN_AFTER_SECONDS = 5.0
"""For how long an operand may start before the condition names what it waits for: a normal start needs no write."""
RESIST_SECONDS = 5.0
CHART_SUCCEEDED = "Reconcile succeeded"
"""The message of `ReconcileSucceeded` where the module comes from a chart; alerts compare it."""


@dataclass(slots=True)
class BtpMemo:
    """What is remembered about a BtpOperator from pass to pass."""

    failures: int = 0
    """How often in a row it ended in an error: its retries become rarer."""
    waiting_since: float | None = None
    """Since when it waits for its module to become ready, or to be deleted, on the clock's seconds."""
    failed_removal: FailedRemoval | None = None
    """The last try of its removal, where that failed."""
    sweep_refusal: str = ""
    """What the API server refused of the sweep that is given up; empty where it refused nothing."""
    shown_soft: bool = False
    """Whether the CR has shown, since the sweep was given up, that its deletion is soft."""


@dataclass(slots=True, kw_only=True)
class BtpReconciler(SimpleReconciler[BtpOperator, BtpOperatorStatus]):
    """Brings one BtpOperator one step closer to what it asks for."""

    client: Client
    observer: Observer
    provisioner: Provisioner
    removal: Removal
    diagnosis: OperandDiagnosis
    status_writer: StatusWriter
    memos: Memos[BtpMemo] = field(default_factory=lambda: Memos(BtpMemo))
    _update_checked: bool = False
    """Whether this process has shown, since the module comes from a chart, that it looks for an update."""

    async def reconcile(self, operator: BtpOperator) -> Next[BtpOperatorStatus]:
        """Observe, decide, act. Raises StepFailed for failures that the user should read about."""
        if operator.metadata.uid in self.observer.leading.finished:
            return Next.done()  # the finalizer is removed already; the cache is behind
        done = await self._attempt(operator)
        severity = done.severity
        if done.status is not None:
            severity = reasons.severity_of(Reason(done.status.conditions[0].reason))
        return replace(done, status=answered(operator, done.status), severity=severity)

    async def _attempt(self, operator: BtpOperator) -> Next[BtpOperatorStatus]:
        try:
            seen = await self._with_failed_removal(self._with_update_check(await self.observer.snapshot(operator)))
            step = plan.next_step(seen)
            if not isinstance(step, plan.Pause):
                self._forget_failed_removal(seen)
            if seen.reason == Reason.SoftDeleting:
                self.memos.of(operator.key).shown_soft = True
            if isinstance(step, plan.ReportSecretProblem | plan.Provision):
                self.observer.check_sight()
            return await self._carry_out(step, seen)
        except StepFailed as failure:
            settings, state = self.observer.settings(), operator.status.state if operator.status else None
            reported = of_chart(failure, settings.chart_path, state) if comes_from_chart(settings) else failure
            if reported.retry_after_seconds is None:
                reported.retry_after_seconds = self._retry_seconds(operator.key)
            raise reported from failure.__cause__

    def _with_update_check(self, seen: Snapshot) -> Snapshot:
        """The check is due after a start, and done as soon as the CR shows that something is under way."""
        if not seen.leads:
            return seen
        due = seen.from_chart and not self._update_checked
        self._update_checked = seen.from_chart and not (due and seen.state in (State.Ready, State.Error))
        return replace(seen, update_unchecked=due)

    async def _with_failed_removal(self, seen: Snapshot) -> Snapshot:
        """The try that failed, while the next one is not due.

        The end of what users have would end the pause, and take the module away again. The word of a cache is not
        enough for that: it may be behind by seconds.
        """
        failed = self.memos.of(seen.operator.key).failed_removal
        if failed is None or self.observer.clock.monotonic() >= failed.due:
            return seen
        hides = seen.hides_users
        if failed.users_had_objects and not seen.blockers and not hides:
            try:
                hides = not await self._users_have_nothing()
            except RemovalFailed:
                hides = True
        return replace(seen, failed_removal=failed, hides_users=hides)

    def _forget_failed_removal(self, seen: Snapshot) -> None:
        memo = self.memos.of(seen.operator.key)
        if memo.failed_removal is not None:
            early = seen.failed_removal and plan.end_of_pause(seen, seen.failed_removal)
            why = early or ("it does not lead, or is not held" if seen.failed_removal else "its time has come")
            _log.info("the removal of the module of %s is tried again: %s", seen.operator.ref, why)
            memo.failed_removal = None

    def report(self, obj: BtpOperator, failure: ReconcileError) -> BtpOperatorStatus | None:
        """The status that shows a failure."""
        state = obj.status.state if obj.status else None
        match failure:
            case StepFailed():
                reason = failure.reason_in(state)
            case Unexpected() if obj.metadata.is_terminating:
                reason = Reason.ResourceRemovalFailed
            case Unexpected():
                reason = Reason.ReconcileFailed if state is State.Ready else Reason.ProvisioningFailed
            case _:
                reason = Reason(failure.reason)
        now = self.observer.clock.now()
        return answered(obj, reasons.status_for(obj.status, reason, str(failure), obj.metadata.generation, now))

    async def _carry_out(self, step: Step, seen: Snapshot) -> Next[BtpOperatorStatus]:
        match step:
            case plan.Rest():
                return Next.done(self._as_shown(seen))
            case plan.NotLeader():
                return await self._stand_aside(seen, step)
            case plan.Adopt():
                return await self._adopt(seen)
            case plan.SetStatus(Reason.SoftDeleting):
                return await self._give_up_hard_delete(seen)
            case plan.SetStatus(reason, message):
                return Next.now(self._status(seen, reason, message))
            case plan.ReportSecretProblem(problem):
                raise SecretUnusable(problem)
            case plan.Provision(wanted):
                return await self._provision(seen, wanted)
            case plan.Wait(message):
                return await self._wait_for_users(seen, message)
            case plan.HardDelete():
                return await self._hard_delete(seen, step)
            case plan.SoftDelete():
                return await self._soft_delete(seen)
            case plan.RemoveModule():
                return await self._remove_module(seen)
            case plan.Pause(failed):
                return await self._keep_up_until_due(seen, failed)

    # Leading

    async def _stand_aside(self, seen: Snapshot, step: plan.NotLeader) -> Next[BtpOperatorStatus]:
        if step.release:
            await self._release(seen.operator)
            return Next.done()
        return Next.done(self._status(seen, step.reason, step.message))

    async def _adopt(self, seen: Snapshot) -> Next[BtpOperatorStatus]:
        adopted = await finalizer.add(self.client, seen.operator, api.FINALIZER)
        self.observer.caches.operators.expect(adopted.key, adopted.metadata.resource_version)
        return Next.now()

    async def _release(self, operator: BtpOperator) -> None:
        for name in (api.CHART_ERA_FINALIZER, api.FINALIZER):
            await finalizer.remove(self.client, operator, name)

    # Bringing the module up

    async def _provision(self, seen: Snapshot, wanted: BtpCredentials) -> Next[BtpOperatorStatus]:
        if seen.state is State.Ready:
            turn = await self.provisioner.inspect(seen.operator, wanted)
            if turn is not None:
                return Next.now(self._status(seen, turn.reason, turn.message))
        if seen.comparison is None or seen.state is not State.Processing:
            return await self._bring_up(seen, wanted)
        deleted = await self._prepare_move(seen.comparison)
        return (await self._bring_up(seen, wanted)).with_events(*events.of_pods(deleted))

    async def _bring_up(self, seen: Snapshot, wanted: BtpCredentials) -> Next[BtpOperatorStatus]:
        progress = await self.provisioner.bring_up(seen.operator, wanted)
        if progress.changed:
            self.memos.of(seen.operator.key).waiting_since = None
        if progress.written:  # a restoration starts no new wait, which another client could then prolong without end
            return Next[BtpOperatorStatus].now().with_events(*events.of_progress(progress))
        if progress.unready is not None:
            return await self._wait_for_module(seen, progress, progress.unready)
        self.memos.of(seen.operator.key).waiting_since = None
        if seen.comparison is not None and seen.state is State.Processing:
            # The credentials last: while they are there, this is done again. The operand's pods were replaced when its
            # configuration changed; the checksum in their template sees to it.
            for key in seen.comparison.former_secrets:
                await or_fail(self._delete_secret(key), CleanupFailed)
        replaces, outdated = await self.provisioner.finish(progress.release, wanted)
        self.memos.of(seen.operator.key).failures = 0
        interval = self.observer.settings().ready_state_requeue_interval.total_seconds()
        status = self._ready(seen, replaces)
        notices = (*events.of_progress(progress), *events.of_outdated(outdated))
        return Next.after(self._no_later_than_held(progress, interval), status).with_events(*notices)

    def _no_later_than_held(self, progress: ModuleProgress, seconds: float) -> float:
        """When to look again where others keep changing something: nothing wakes us when its pause is over."""
        if progress.held_until is None:
            return seconds
        return min(seconds, max(0.0, progress.held_until - self.observer.clock.monotonic()))

    def _ready(self, seen: Snapshot, is_new: bool) -> BtpOperatorStatus:
        if seen.state is State.Ready:  # for the present spec; nothing is written where it is the same already
            return self._status(seen, Reason(seen.reason), seen.message)
        if not seen.from_chart:
            return self._status(seen, Reason.ReconcileSucceeded)
        if is_new:
            return self._status(seen, Reason.UpdateDone)
        if seen.reason == Reason.UpdateCheck:
            return self._status(seen, Reason.UpdateCheckSucceeded)
        return self._status(seen, Reason.ReconcileSucceeded, CHART_SUCCEEDED)

    async def _wait_for_module(
        self, seen: Snapshot, progress: ModuleProgress, unready: Unready
    ) -> Next[BtpOperatorStatus]:
        """The module is applied and not ready yet: report what it waits for, and give up for now after ReadyTimeout."""
        waited, timeout = self._waited_seconds(seen), self.observer.settings().ready_timeout.total_seconds()
        again, status = min(EXPLAIN_AFTER_SECONDS, timeout) - waited, None
        if again <= 0 or self.diagnosis.is_obvious(unready):
            why = await self.diagnosis.why(unready)
            if waited >= timeout:
                self.memos.of(seen.operator.key).waiting_since = None
                raise NotReadyInTime(unready.ref, why)
            again = timeout - waited
            if seen.state is not State.Ready:
                message = plan.waiting_message(seen.message, str(unready.ref), why)
                status = self._status(seen, Reason(seen.reason), message)
        held = self._no_later_than_held(progress, again)
        return Next.after(held, status).with_events(*events.of_progress(progress))

    # Former credentials

    async def _prepare_move(self, found: CredentialsComparison) -> Sequence[ObjectRef]:
        """Remember the former values on the required Secret, and take away what keeps the operand from starting.

        Returns the pods of the operand that were deleted.
        """
        deleted: Sequence[ObjectRef] = ()
        if found.annotations:
            await or_fail(self._annotate_required_secret({**found.annotations}), AnnotatingFailed)
        if found.stale_cluster_id_secret is not None:
            # The pods first: once the Secret is gone, nothing shows that they must be deleted.
            failing_only = not found.restarts_operand
            deleted = await or_fail(self._delete_pods(failing_only=failing_only), StaleClusterIdNotDeleted)
            await or_fail(self._delete_secret(found.stale_cluster_id_secret), StaleClusterIdNotDeleted)
        return deleted

    async def _annotate_required_secret(self, notes: JsonObject) -> None:
        settings = self.observer.settings()
        patch = MergePatch({"metadata": {"annotations": notes}})
        target = metadata_of(Secret)
        written = await self.client.patch(target, settings.secret_name, settings.chart_namespace, patch)
        if (shown_by := self.observer.caches.secrets.of(written.key)) is not None:
            shown_by.expect(written.key, written.metadata.resource_version)

    async def _delete_secret(self, key: ObjectKey) -> None:
        seen = self.observer.caches.secrets.get(key)
        if seen is None or (key.name == api.OPERAND_SECRET_NAME and not self.observer.holds_credentials(seen)):
            return
        await self.client.delete(metadata_of(Secret), key.name, key.namespace, uid=seen.metadata.uid)

    async def _delete_pods(self, *, failing_only: bool) -> Sequence[ObjectRef]:
        pods, namespace = self.observer.caches.pods.store.all(), self.observer.chart_namespace
        restarted = credentials.pods_to_restart(pods, namespace, failing_only=failing_only)
        for pod in restarted:
            await self.client.delete(metadata_of(Pod), pod.key.name, pod.key.namespace, uid=pod.metadata.uid)
        return [pod.ref for pod in restarted]

    # Taking the module away

    async def _wait_for_users(self, seen: Snapshot, message: str) -> Next[BtpOperatorStatus]:
        """Report what blocks the deletion, and keep the module working so that users can delete what they have."""
        await self.removal.forget_start(seen.operator)
        memo = self.memos.of(seen.operator.key)
        memo.waiting_since, memo.sweep_refusal, memo.shown_soft = None, "", False
        status = self._status(seen, Reason.ServiceInstancesAndBindingsNotCleaned, message)
        if seen.reason != Reason.ServiceInstancesAndBindingsNotCleaned:
            return Next.now(status)
        interval = self.observer.settings().ready_state_requeue_interval.total_seconds()
        if not isinstance(seen.required_secret, BtpCredentials):
            self.memos.of(seen.operator.key).failures = 0
            return Next.after(interval, status)
        try:
            progress = await self.provisioner.bring_up(seen.operator, seen.required_secret)
        except StepFailed as failure:
            # What blocks the deletion is what users must read; that the module does not work is second to it.
            return Next.after(self._retry_seconds(seen.operator.key), status).with_events(events.not_kept_up(failure))
        self.memos.of(seen.operator.key).failures = 0
        kept_up = Next.after(self._no_later_than_held(progress, interval), status)
        return kept_up.with_events(*events.of_progress(progress))

    async def _hard_delete(self, seen: Snapshot, step: plan.HardDelete) -> Next[BtpOperatorStatus]:
        if not await or_fail(deprovisioning.is_forced_still(self.client, seen.operator), RemovalFailed):
            return Next.after(RESIST_SECONDS)  # the cache is behind; its change wakes the CR
        begins = await self.removal.note_start(seen.operator, api.HARD_DELETE_STARTED_ANNOTATION)
        notices = (events.forced(seen.blockers, seen.hard_delete_timeout),) if begins else ()
        memo = self.memos.of(seen.operator.key)
        try:
            answered = await self.removal.sweep(with_instances=not step.bindings_alone)
        except ApiError as refusal:
            memo.sweep_refusal = str(refusal)
            return (await self._give_up_hard_delete(seen)).with_events(*notices)
        memo.sweep_refusal = ""
        left = plan.soft_deletion_message(seen.blockers, seen.now + step.remaining)
        within = min(step.until_next.total_seconds(), inf if answered else RESIST_SECONDS)
        waiting = self._saying_what_is_left(seen, f"{seen.blockers.counts} to go", left, within=within)
        return waiting.with_events(*notices)

    def _saying_what_is_left(
        self, seen: Snapshot, what: str, why: str, *, within: float = inf
    ) -> Next[BtpOperatorStatus]:
        """A deletion wakes the CR. What takes longer than usual is named, and named again with each deletion."""
        waited = self._waited_seconds(seen)
        if waited < EXPLAIN_AFTER_SECONDS:
            return Next.after(min(EXPLAIN_AFTER_SECONDS - waited, within))
        message = plan.waiting_message(seen.message, what, why)
        return Next(self._status(seen, Reason(seen.reason), message), within if within < inf else None)

    async def _give_up_hard_delete(self, seen: Snapshot) -> Next[BtpOperatorStatus]:
        """Turn to the soft deletion, and send once what was not deleted the hard way.

        The Event follows the status, so it is due until the CR shows the soft deletion. The annotation cannot decide
        about it: it precedes the status, whose write may fail, or a restart may come between.
        """
        await or_fail(self.removal.note_start(seen.operator, api.SOFT_DELETE_STARTED_ANNOTATION), RemovalFailed)
        memo, soft = self.memos.of(seen.operator.key), Next.now(self._status(seen, Reason.SoftDeleting))
        if memo.shown_soft:
            return soft
        return soft.with_events(*events.given_up(await self.removal.resisting(), memo.sweep_refusal))

    async def _soft_delete(self, seen: Snapshot) -> Next[BtpOperatorStatus]:
        """Cut what is left loose. What resists more than once may do so for long: the module is brought back meanwhile.

        The operand may then still end instances and bindings as it should, until the pause is over. A first failure is
        mostly a passing one, and the next try, half a minute later, would take away again what has just come up.
        """
        if not await or_fail(deprovisioning.is_forced_still(self.client, seen.operator), RemovalFailed):
            return Next.after(RESIST_SECONDS)
        try:
            if await self.removal.misses_bindings():
                return self._waiting_for_sight(seen)
            kept = await self.removal.cut_loose()
        except RemovalFailed as failure:
            self._begin_pause(seen, failure, brings_back=self.memos.of(seen.operator.key).failures > 0)
            raise
        return Next[BtpOperatorStatus].after(RESIST_SECONDS).with_events(*events.kept(kept))

    async def _remove_module(self, seen: Snapshot) -> Next[BtpOperatorStatus]:
        try:
            await self.provisioner.history.watch_all()
        except ModuleFailed as failure:
            raise RemovalFailed(str(failure)) from failure
        if self.removal.endangers_users() and not await self._users_have_nothing():
            return self._waiting_for_sight(seen)
        if why := self.observer.unseen():
            unseen = RemovalFailed(why)
            try:
                await self._restore(seen)
            except StepFailed as not_restored:
                raise (unseen if why in str(not_restored) else unseen.with_module_down(not_restored)) from not_restored
            raise unseen
        try:
            if not await self.removal.step():
                return self._saying_what_is_left(seen, "the module to go", self.removal.left())
        except RemovalFailed as failure:
            self._begin_pause(seen, failure, brings_back=True)
            raise
        if not await self._users_have_nothing():
            return self._waiting_for_sight(seen)
        self.provisioner.forget()
        await self._hand_over(seen)
        return Next[BtpOperatorStatus].done().with_events(events.removed())

    def _waiting_for_sight(self, seen: Snapshot) -> Next[BtpOperatorStatus]:
        """Users have objects that the caches do not show: mostly these are behind, and their change wakes the CR."""
        if why := self.observer.caches.users_unseen():
            raise RemovalFailed(f"users have service instances or bindings, and which ones is not seen: {why}")
        what = "service instances and bindings to go"
        return self._saying_what_is_left(seen, what, "the watch does not show them yet", within=RESIST_SECONDS)

    async def _users_have_nothing(self) -> bool:
        return await or_fail(self.removal.users_have_nothing(), RemovalFailed)

    def _begin_pause(self, seen: Snapshot, failure: RemovalFailed, *, brings_back: bool) -> None:
        """The removal failed: from the next pass on the module is kept up, until the removal is tried again."""
        seconds = self._retry_seconds(seen.operator.key)
        failure.retry_after_seconds = 0.0 if brings_back else seconds
        self.memos.of(seen.operator.key).failed_removal = FailedRemoval(
            failure=failure,
            due=self.observer.clock.monotonic() + seconds,
            operator=seen.operator,
            users_had_objects=bool(seen.blockers),
            brings_back=brings_back,
        )

    def end_pause(self) -> None:
        """What a removal failed for may be mended, though no watch shows it: try it again."""
        for key in self.observer.leader_key():
            if self.memos.of(key).failed_removal is not None:
                _log.info("the removal of the module of BtpOperator %s is tried again: rights were granted", key)
            self.memos.of(key).failed_removal = None

    async def _keep_up_until_due(self, seen: Snapshot, failed: FailedRemoval) -> Never:
        """Bring the module back as far as it goes now, and raise the failure again, which is what users must read."""
        longest, failure = inf, failed.failure
        if failed.brings_back:
            try:
                longest = await self._restore(seen)
            except StepFailed as not_restored:
                longest, failure = FIRST_RETRY_SECONDS, failed.failure.with_module_down(not_restored)
        seconds = min(failed.due - self.observer.clock.monotonic(), longest)
        failure.retry_after_seconds = max(0.0, seconds)
        raise failure.with_traceback(None)

    async def _restore(self, seen: Snapshot) -> float:
        """A half-removed module is of no use: restore it while the removal waits for its next try.

        Returns after which time to look again at the latest. Raises StepFailed.
        """
        if not isinstance(seen.required_secret, BtpCredentials):
            return inf
        progress = await self.provisioner.bring_up(seen.operator, seen.required_secret)
        return self._no_later_than_held(progress, inf)

    async def _hand_over(self, seen: Snapshot) -> None:
        """Let the CR go, and the next one begin; where only one place may lead, there is no next one."""
        await self._release(seen.operator)
        self.observer.leading.finish(seen.operator)
        if seen.fixed:
            return
        for other in self.observer.caches.operators.store.all():
            if other.metadata.uid not in self.observer.leading.finished and not other.metadata.is_terminating:
                await self._show_after_deprovisioning(other)

    async def _show_after_deprovisioning(self, other: BtpOperator) -> None:
        now, generation = self.observer.clock.now(), other.metadata.generation
        status = reasons.status_for(other.status, Reason.Processing, "After deprovisioning", generation, now)
        try:
            version = await self.status_writer.write(other, status)
        except ApiError as error:
            _log.warning("%s cannot be shown as free to take over the module: %s", other.ref, error)
            return  # it is woken all the same, because another CR leads now
        if version is not None:
            self.observer.caches.operators.expect(other.key, version)

    # Telling

    def _status(self, seen: Snapshot, reason: Reason, message: str = "") -> BtpOperatorStatus:
        operator = seen.operator
        return reasons.status_for(operator.status, reason, message, operator.metadata.generation, seen.now)

    def _as_shown(self, seen: Snapshot) -> BtpOperatorStatus | None:
        """What the CR shows, in the form that is written now: a release before may have written less of it."""
        if seen.operator.metadata.is_terminating or not seen.message or seen.reason not in Reason.__members__:
            return None
        return self._status(seen, Reason(seen.reason), seen.message)

    def _waited_seconds(self, seen: Snapshot) -> float:
        """For how long the CR has waited for its module; the wait begins with the first call."""
        memo, now = self.memos.of(seen.operator.key), self.observer.clock.monotonic()
        memo.waiting_since = now if memo.waiting_since is None else memo.waiting_since
        return now - memo.waiting_since

    def _retry_seconds(self, key: ObjectKey) -> float:
        memo = self.memos.of(key)
        memo.failures += 1
        longest = self.observer.settings().processing_state_requeue_interval.total_seconds()
        return retry_seconds(memo.failures, longest)


def retry_seconds(failures: int, longest: float) -> float:
    """The delay after so many failures in a row: 30 s, doubling up to `longest`, the delay of the original (pure)."""
    doublings = min(failures - 1, MOST_DOUBLINGS)
    return min(FIRST_RETRY_SECONDS * 2.0**doublings, longest)


def answered(operator: BtpOperator, status: BtpOperatorStatus | None) -> BtpOperatorStatus | None:
    """The result of a pass, with its request. None stays None where there is nothing to report."""
    asked = reconcile_request.asked(operator.metadata)
    shown = status or operator.status
    if shown is None or shown.last_handled_reconcile_at == asked:
        return status
    return msgspec.structs.replace(shown, last_handled_reconcile_at=asked)
