"""One pass over one Component.

    apply    references -> source -> content -> dependencies -> manifests -> objects -> Ready
    delete   references -> nobody needs it -> nobody uses it -> objects -> finalizer

Each step either comes to something for the next one, or fails with what is missing; nothing is remembered between
passes but the status and what saves requests. A pass goes as far as it can. Where the status has to be saved before the
cluster may be touched, it is saved on the way, at a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stellwerk.apply.errors import ApplyError
from stellwerk.apply.rollout.inventory import Inventory
from stellwerk.apply.rollout.rollout import Progress, Save
from stellwerk.kube.client import Client
from stellwerk.kube.errors import ApiError
from stellwerk.kube.names import ObjectKey
from stellwerk.operators.component import (
    abandonment,
    dependencies,
    digests,
    plan,
    ready_expressions,
    references,
    reporting,
    room,
    sources,
    tenancy,
)
from stellwerk.operators.component.api import FINALIZER, SUSPEND_REASON_ANNOTATION, Component
from stellwerk.operators.component.api_status import ComponentStatus, SourceStatus
from stellwerk.operators.component.artifacts import Artifacts
from stellwerk.operators.component.contents import Reader
from stellwerk.operators.component.deployment import Content, Deployer
from stellwerk.operators.component.errors import (
    NO_ANSWER,
    ApplyFailed,
    ClusterUnreachable,
    ComponentFailed,
    ReferencesUnresolved,
    failure_of,
    writes_failed,
)
from stellwerk.operators.component.intervals import Intervals, spread
from stellwerk.operators.component.lanes import Full, Lanes
from stellwerk.operators.component.reasons import Cause, Reason
from stellwerk.operators.component.references import Resolved
from stellwerk.operators.component.saying import Saying
from stellwerk.operators.component.settings import Settings
from stellwerk.operators.component.targets import Target, Targets
from stellwerk.operators.owned import NoAnswer, Unwatchable
from stellwerk.render.errors import RenderError
from stellwerk.runtime import finalizer
from stellwerk.runtime.checkpoints import Checkpoints
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.contract import Next, ReconcileError
from stellwerk.runtime.informer import Informer

SHORTEST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 10.0
"""How often it is asked whether others still use what is to be deleted. Their objects are not watched."""

ROOM_SECONDS = 60.0
"""When to look again for room on a busy cluster, if nobody who has left it wakes us."""

OUTDATED_SECONDS = 10.0
"""When to look again at a Component of the past, if no watch tells before that it is gone."""

Answer = Next[ComponentStatus]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentReconciler:
    """Brings Components to what they ask for."""

    client: Client
    components: Informer[Component]
    contents: Reader
    artifacts: Artifacts
    targets: Targets
    deployer: Deployer
    holds: ready_expressions.Holds
    lanes: Lanes
    reports: reporting.Reports
    checkpoints: Checkpoints[Component, ComponentStatus]
    settings: Settings
    clock: Clock
    _drafts: dict[ObjectKey, ComponentStatus] = field(default_factory=dict)
    """How far the status of a pass that failed had come."""
    _leaving_since: dict[ObjectKey, float] = field(default_factory=dict)
    """Since when a deletion has been waiting, on the clock's seconds."""
    _met: dict[ObjectKey, str] = field(default_factory=dict)
    """By uid, the Components that have answered to a write of this process, and are no shadows of the past."""

    async def reconcile(self, component: Component) -> Answer:
        """Bring one Component as far as it goes now. Raises ComponentFailed."""
        try:
            with self.lanes.passing(component.key, ClusterUnreachable):
                return await self._attempt(component)
        except Full:
            return Next.after(ROOM_SECONDS)

    async def _attempt(self, component: Component) -> Answer:
        self._drafts[component.key] = component.status
        try:
            answer = await self._pass(component)
        except ComponentFailed as failure:
            raise self._timed(component, failure) from failure.__cause__
        except (RenderError, ApplyError, ApiError) as error:
            raise self._timed(component, failure_of(error)) from error
        except NoAnswer as error:
            raise self._timed(component, ClusterUnreachable(str(error))) from error
        except Unwatchable as error:
            raise self._timed(component, ApplyFailed(str(error))) from error
        self.reports.passed(component, answer.status)
        return answer

    def explain(self, component: Component, failure: ReconcileError) -> ComponentStatus | None:
        """The status that tells about a failure."""
        assert isinstance(failure, ComponentFailed)
        now, draft = self.clock.now(), self._drafts.get(component.key, component.status)
        saying = failure.saying(
            deleting=component.metadata.is_terminating, timed_out=self._is_late(component, draft, now)
        )
        told = plan.told(component, draft, saying, now)
        self.reports.failed(failure)
        self.reports.passed(component, told)
        return told

    async def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self._drafts.pop(key, None)
        self._leaving_since.pop(key, None)
        self._met.pop(key, None)
        self.targets.forget(key)
        self.lanes.forget(key)
        self.deployer.forget(key)
        self.reports.forget(key)

    # ---- the two ways

    async def _pass(self, component: Component) -> Answer:
        if component.metadata.is_terminating:
            return await self._delete(component)
        if component.status.observed_generation <= 0:
            first = self._say(component, Saying(reason=Reason.FirstSeen))
            seen = await self.checkpoints.save(component, first)
            if seen is None:
                return Next.now(first).quietly()
            component = seen
            self._draft(component, component.status)
        if component.spec.suspend:
            why = component.metadata.annotations.get(SUSPEND_REASON_ANNOTATION, "")
            message = f"suspended: {why}" if why else ""
            return Next.done(self._say(component, Saying(reason=Reason.Suspended, message=message)))
        return await self._apply(component)

    async def _apply(self, component: Component) -> Answer:
        tenancy.check(component, self.settings.rules)
        plan.policies(component.spec)
        resolved = await self._resolved(component)
        source = sources.named(component)
        offer = await self._offer(component, source, resolved)
        content = self._begin(component, resolved, offer)
        artifact = content.artifact
        sources.check_pins(component.spec, artifact)
        target = await self._target(component, resolved)
        component = await self._held(component)
        self._draft(component, plan.attempted(self._drafts[component.key], artifact))
        await ready_expressions.check(dependencies.check(component, self._find, artifact), self.holds)
        files = await self.artifacts.files(component, source, artifact, resolved.login)
        reason = Reason.Restarting if content.is_restart else Reason.Processing
        save = self._saving(component, reason)
        progress = await self.deployer.apply(component, self._drafts[component.key], content, files, target, save)
        return self._progressed(self.checkpoints.shown(component), progress, reason)

    async def _delete(self, component: Component) -> Answer:
        if not finalizer.present(component, FINALIZER):
            return Next.done()
        self._draft(component, plan.leaving(component.status))
        try:
            resolved = await self._resolved(component)
            dependencies.check_deletion(component, self._dependants)
            target = await self._target(component, resolved)
        except abandonment.OUT_OF_REACH as failure:
            return await self._out_of_reach(component, failure)
        if blocked := self._held_by_others(component):
            return blocked
        if obstacle := await self.deployer.obstacle(component, target):
            return self._blocked(component, f"deletion blocked: {obstacle}", Cause.TypesInUse)
        if not await self._is_of_the_present(component):
            return Next.after(OUTDATED_SECONDS)
        progress = await self.deployer.delete(component, target)
        if progress.done:
            await finalizer.remove(self.client, component, FINALIZER)
            return self.reports.noting(component, Next.done(), progress)
        return self._leaving(component, progress)

    async def _held(self, component: Component) -> Component:
        """The Component with our finalizer on it."""
        held = await finalizer.add(self.client, component, FINALIZER)
        if held is not component:
            self._met[held.key] = held.metadata.uid
        return held

    async def _is_of_the_present(self, component: Component) -> bool:
        """Whether what is to be deleted is there at all. Objects are ours by the name of their Component, so one that
        is only shown by an outdated view would take those of its successor with it."""
        uid = component.metadata.uid
        if self._met.get(component.key) != uid:
            if not await finalizer.is_of_the_present(self.client, component):
                return False
            self._met[component.key] = uid
        return True

    async def _out_of_reach(self, component: Component, failure: ComponentFailed) -> Answer:
        """Wait for a way into the other cluster, or give up what is in it where somebody has asked for that."""
        if component.spec.kube_config is None:
            raise failure
        if not abandonment.is_asked_for(component) or await self._has_reappeared(component, failure):
            raise failure.advising(abandonment.advice(component))
        dependencies.check_deletion(component, self._dependants)
        if blocked := self._held_by_others(component):
            return blocked
        await finalizer.remove(self.client, component, FINALIZER)
        left = ", ".join(abandonment.left_behind(component))
        _log.warning("%s: left behind in the other cluster: %s", component.ref, left or "nothing")
        return Next[ComponentStatus].done().noting(abandonment.notice(component, str(failure)))

    async def _has_reappeared(self, component: Component, failure: ComponentFailed) -> bool:
        """Whether the Secret is there after all: our cache may be behind, and what is given up stays given up."""
        if not isinstance(failure, ReferencesUnresolved):
            return False
        wanted = references.find(component)
        found = await self.contents.fresh(one.target for one in wanted)
        try:
            references.settle(component, wanted, found)
        except ReferencesUnresolved:
            return False
        return True

    # ---- steps

    async def _resolved(self, component: Component) -> Resolved:
        wanted = references.find(component)
        return references.settle(component, wanted, await self.contents.read(one.target for one in wanted))

    async def _offer(self, component: Component, source: sources.Source, resolved: Resolved) -> SourceStatus:
        held = sources.held(component, Intervals.of(component.spec).timeout, self.clock.now())
        return held or await self.artifacts.offer(component, source, resolved.login)

    def _begin(self, component: Component, resolved: Resolved, offer: SourceStatus) -> Content:
        """What is worked on from now on."""
        assert offer.artifact is not None  # an offer has one
        digest = digests.of_component(component, {**resolved.digests, "/sourceRef": offer.digest})
        begun = plan.begun(component, offer, digest)
        self._draft(component, begun.status)
        is_restart = begun.is_new and bool(component.status.processing_digest)
        return Content(offer.artifact, resolved, begun.status.processing_digest, is_restart=is_restart)

    async def _target(self, component: Component, resolved: Resolved) -> Target:
        """Where the objects go. Raises InvalidKubeConfig, ClusterUnreachable and ClusterChanged; Full where others are
        at work there."""
        target = self.targets.of(component, resolved.kube_config)
        self.lanes.enter(component.key, target.lane)
        home = await self.deployer.cluster_uid()
        found = await _uid_of(target) if target.is_remote else home
        self._draft(component, plan.bound_for(component, self._drafts[component.key], found, home))
        return target

    def _saving(self, component: Component, reason: Reason) -> Save:
        """Saves the inventory of a Component before its objects are touched."""

        async def save(inventory: Inventory) -> bool:
            room.check(component, inventory)
            self._draft(component, plan.with_inventory(self._drafts[component.key], inventory))
            saved = await self.checkpoints.save(component, self._say(component, Saying(reason=reason)))
            if saved is None:
                return False
            self._draft(component, saved.status)
            return True

        return save

    # ---- what came of it

    def _progressed(self, component: Component, progress: Progress, reason: Reason) -> Answer:
        self._draft(component, plan.with_inventory(self._drafts[component.key], progress.inventory))
        if progress.failures:
            self.reports.carried(component, progress)
            raise writes_failed(progress.failures)
        if progress.done:
            return self.reports.noting(component, self._ready(component), progress)
        answer = self._saved_first(component, reason) if progress.must_be_saved else self._waiting(component, progress)
        return self.reports.noting(component, answer, progress)

    def _saved_first(self, component: Component, reason: Reason) -> Answer:
        """Objects are about to be written. Of that no Event tells: the next one says what is waited for, or Ready."""
        return Next.now(self._say(component, Saying(reason=reason))).quietly()

    def _ready(self, component: Component) -> Answer:
        now = self.clock.now()
        was_waiting = self._drafts[component.key].processing_since is not None
        self._draft(component, plan.finished(component, self._drafts[component.key], now))
        status = self._say(component, Saying(reason=Reason.Ready))
        if component.spec.sticky and was_waiting:
            return Next.now(status)  # what was new meanwhile was not looked at, and nothing else will tell of it
        return Next.after(spread(Intervals.of(component.spec).requeue, component.metadata.uid), status)

    def _waiting(self, component: Component, progress: Progress) -> Answer:
        now = self.clock.now()
        draft = plan.waiting(self._drafts[component.key], now)
        self._draft(component, draft)
        late = self._is_late(component, draft, now)
        saying = Saying(
            reason=Reason.Timeout if late else Reason.Processing,
            message=reporting.unready(progress.waits, late=late),
            cause=Cause.ObjectsNotReady,
        )
        answer = Next.after(self._until(component, draft, progress, now), self._say(component, saying))
        return answer.noting(*reporting.first_wait(component, saying))

    def _until(self, component: Component, draft: ComponentStatus, progress: Progress, now: datetime) -> float:
        """When to look again though nothing changes: when an object is due, when the time is over, or now and then."""
        waits = Intervals.of(component.spec)
        moments = [waits.requeue.total_seconds()]
        if progress.again_at is not None:
            moments.append(progress.again_at - self.clock.monotonic())
        if draft.processing_since is not None and not self._is_late(component, draft, now):
            moments.append((draft.processing_since + waits.timeout - now).total_seconds())
        return max(min(moments), 0.05)

    def _leaving(self, component: Component, progress: Progress) -> Answer:
        self._draft(component, plan.with_inventory(self._drafts[component.key], progress.inventory))
        if progress.failures:
            self.reports.carried(component, progress)
            raise writes_failed(progress.failures)
        message = reporting.departing(progress.waits)
        status = self._say(component, Saying(reason=Reason.DeletionProcessing, message=message))
        if progress.must_be_saved:
            return self.reports.noting(component, Next.now(status), progress)
        return self.reports.noting(component, Next.after(self._patience(component), status), progress)

    def _blocked(self, component: Component, why: str, cause: Cause) -> Answer:
        saying = Saying(reason=Reason.DeletionBlocked, message=why, cause=cause)
        return Next.after(self._patience(component), self._say(component, saying))

    def _held_by_others(self, component: Component) -> Answer | None:
        """The answer where somebody else has put a finalizer on the Component."""
        others = [name for name in component.metadata.finalizers if name != FINALIZER]
        if not others:
            return None
        why = f"deletion blocked by finalizers of others: {', '.join(others)}"
        return self._blocked(component, why, Cause.ForeignFinalizers)

    def _patience(self, component: Component) -> float:
        """Short at first, because most obstacles go soon, and longer the longer it takes."""
        now = self.clock.monotonic()
        since = self._leaving_since.setdefault(component.key, now)
        return min(max(SHORTEST_LOOK_SECONDS, (now - since) / 2), LONGEST_LOOK_SECONDS)

    # ---- small things

    def _draft(self, component: Component, status: ComponentStatus) -> None:
        self._drafts[component.key] = status

    def _say(self, component: Component, saying: Saying) -> ComponentStatus:
        return plan.told(component, self._drafts[component.key], saying, self.clock.now())

    def _timed(self, component: Component, failure: ComponentFailed) -> ComponentFailed:
        """The failure with its delay: what may still come is looked for after the retry interval."""
        if failure.retriable and failure.retry_after_seconds is None:
            failure.retry_after_seconds = spread(_retry(component), component.metadata.uid)
        return failure

    def _is_late(self, component: Component, draft: ComponentStatus, now: datetime) -> bool:
        try:
            return plan.timed_out(draft, Intervals.of(component.spec).timeout, now)
        except ComponentFailed:
            return False

    def _find(self, key: ObjectKey) -> Component | None:
        return self.components.store.get(key)

    def _dependants(self, key: ObjectKey) -> Iterable[Component]:
        return self.components.store.by(reporting.BY_DEPENDENCY, str(key))


async def _uid_of(target: Target) -> str:
    """Silence of the target is another thing than silence of our own cluster. Raises ClusterUnreachable, ApiError."""
    try:
        return await target.uid()
    except NO_ANSWER as error:
        raise ClusterUnreachable(str(error)) from error


def _retry(component: Component) -> timedelta:
    try:
        return Intervals.of(component.spec).retry
    except ComponentFailed:
        return Intervals().retry
