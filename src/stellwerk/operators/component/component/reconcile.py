"""One pass over one Component.

    apply    references -> source -> content -> dependencies -> manifests -> objects -> Ready
    delete   references -> no dependants -> no users -> objects -> finalizer

Each step either comes to something for the next one, or fails with what is missing; nothing is remembered between
passes but the status and what saves requests. A pass goes as far as it can. Where the status has to be saved before the
cluster may be touched, it is saved on the way, at a checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from stellwerk.apply.errors import ApplyError
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.object_set import Save, SetProgress
from stellwerk.apply.set.plan.plan_delete_hooks import Farewell
from stellwerk.delivery.watched_objects import NotListed, TooMuch, Unwatchable
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError, Forbidden
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component.api import FINALIZER, SUSPEND_REASON_ANNOTATION, Component
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.api_status import READY, Artifact, ComponentStatus, SourceStatus, State
from stellwerk.operators.component.component import status_plan, status_size_limit, workload_causes
from stellwerk.operators.component.component.delete_hooks import Trust
from stellwerk.operators.component.component.deployment import Deployer, DeploymentContent
from stellwerk.operators.component.component.weights import NoRoom, Weights
from stellwerk.operators.component.component.workload_causes import WorkloadCauses
from stellwerk.operators.component.dependencies import dependencies, ready_expressions
from stellwerk.operators.component.dependencies.dependency_graph import DependencyGraph
from stellwerk.operators.component.errors import (
    NO_ANSWER,
    ApplyFailed,
    ClusterTooLarge,
    ClusterUnreachable,
    ComponentFailed,
    DependencyNotReady,
    EndedUnexpectedly,
    HooksMissing,
    HooksNotSealed,
    InputsTooLarge,
    ReferencesUnresolved,
    ServiceAccountRequired,
    SourceSilent,
    failure_of,
    writes_failed,
)
from stellwerk.operators.component.intervals import Intervals, spread
from stellwerk.operators.component.observers import observers
from stellwerk.operators.component.reasons import Cause, Reason
from stellwerk.operators.component.references import references
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.references.references import Resolved
from stellwerk.operators.component.settings import Settings
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.addresses import Addresses
from stellwerk.operators.component.sources.artifacts import Artifacts
from stellwerk.operators.component.status_report import Saying
from stellwerk.operators.component.targets import abandon_remote, tenancy
from stellwerk.operators.component.targets.cluster_concurrency import ClusterBusy, Lanes
from stellwerk.operators.component.targets.seal_key import SealKey
from stellwerk.operators.component.targets.seals import Purpose, Scope, Signet
from stellwerk.operators.component.targets.targets import Target, Targets
from stellwerk.operators.component.targets.tenancy import ActingAccount
from stellwerk.render.errors import RenderError
from stellwerk.render.files.files import Files
from stellwerk.runtime import conditions
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.insight import diagnosis
from stellwerk.runtime.reconciler import Next, ReconcileError

SHORTEST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 10.0
"""How often it is asked whether others still use what is to be deleted. Their objects are not watched."""

ROOM_SECONDS = 60.0
"""When to look again for room at a busy server, if no Component that has left it wakes us."""

SILENT_SECONDS = 5.0
"""For how long a Component waits for a turn before its status reports it."""

_TELLING = {
    False: (State.Pending, State.Processing, State.Error, State.Ready),
    True: (State.Deleting, State.DeletionPending, State.Error),
}
"""The states that report something about a Component, by whether it is being deleted."""

OUTDATED_SECONDS = 10.0
"""When to look again at a Component that only an outdated view shows, unless a watch shows earlier that it is gone."""

Answer = Next[ComponentStatus]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ComponentMemo:
    """What the reconciler remembers about a Component. Moments are seconds of the monotonic clock."""

    draft: ComponentStatus | None = None
    """The status as far as the pass has come; after a failure, the basis of the status that reports it."""
    deleting_since: float | None = None
    busy_since: float | None = None
    """Since when it waits for a turn at a server, or for other large Components."""
    confirmed_uid: str = ""
    """The UID that a successful write of this process confirmed, so that the Component is no outdated view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentReconciler:
    """Brings Components to what they ask for."""

    client: Client
    components: Informer[Component]
    graph: DependencyGraph
    waiting: dependencies.Waiting
    contents: ReferenceReader
    artifacts: Artifacts
    targets: Targets
    deployer: Deployer
    holds: ready_expressions.Holds
    lanes: Lanes
    weights: Weights
    addresses: Addresses
    seal_key: SealKey
    reports: observers.Reports
    checkpoints: Checkpoints[Component, ComponentStatus]
    settings: Settings
    clock: Clock
    workload_causes: WorkloadCauses
    memos: Memos[ComponentMemo]

    async def reconcile(self, component: Component) -> Answer:
        """Bring one Component as far as it goes now. Raises ComponentFailed."""
        self.waiting.forget(component.key)
        try:
            with self.lanes.passing(component.key), self.weights.passing(component.key):
                answer = await self._attempt(component)
        except ClusterBusy as full:
            why = f"waiting for a turn at {full}, which keeps other components of this namespace waiting"
            return self._without_room(self.checkpoints.shown(component), why, Cause.ServerBusy)
        except NoRoom:
            why = "waiting until other large components are applied: all at once would take too much memory"
            return self._without_room(self.checkpoints.shown(component), why, Cause.LargeComponentsBusy)
        except ComponentFailed:
            self.memos.of(component.key).busy_since = None
            raise
        self.memos.of(component.key).busy_since = None
        return answer

    async def _attempt(self, component: Component) -> Answer:
        self._draft(component, component.status)
        try:
            answer = await self._pass(component)
        except ComponentFailed as failure:
            raise self._timed(component, failure) from failure.__cause__
        except (RenderError, ApplyError, ApiError) as error:
            raise self._timed(component, _failed(component, failure_of(error), [error])) from error
        except NotListed as error:
            raise self._timed(component, ClusterUnreachable(str(error))) from error
        except TooMuch as error:
            raise self._timed(component, ClusterTooLarge(str(error))) from error
        except Unwatchable as error:
            raise self._timed(component, ApplyFailed(str(error))) from error
        self.reports.passed(component, answer.status)
        return answer

    def explain(self, component: Component, failure: ReconcileError) -> ComponentStatus | None:
        """The status that reports a failure."""
        if not isinstance(failure, ComponentFailed):
            failure = EndedUnexpectedly(str(failure))
        now, draft = self.clock.now(), self._drafted(component)
        saying = failure.saying(
            deleting=component.metadata.is_terminating, timed_out=self._is_late(component, draft, now)
        )
        told = status_plan.with_report(component, draft, saying, now)
        self.reports.failed(failure)
        self.reports.passed(component, told)
        return told

    async def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self.waiting.forget(key)
        self.targets.forget(key)
        self.workload_causes.forget(key)
        self.lanes.forget(key)
        self.weights.forget(key)
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
                return Next.now(first).without_event()
            component = seen
            self._draft(component, component.status)
        if component.spec.suspend:
            why = component.metadata.annotations.get(SUSPEND_REASON_ANNOTATION, "")
            message = f"suspended: {why}" if why else ""
            return Next.done(self._say(component, Saying(reason=Reason.Suspended, message=message)))
        return await self._apply(component)

    async def _apply(self, component: Component) -> Answer:
        self.weights.enter(component.key)
        status_plan.check_inventory(component)
        tenancy.check(component, self.settings.rules)
        status_plan.policies(component.spec)
        resolved = await self._resolved(component)
        source = sources.named(component)
        offer = await self._offer(component, source, resolved)
        content = await self._begin(component, resolved, offer)
        artifact = content.artifact
        sources.check_pins(component.spec, artifact)
        target = await self._target(component, resolved, tenancy.account(component, self.settings.rules))
        component = await self._held(component)
        signet = await self._signet(component, target.identity)
        self._draft(component, status_plan.applying(self._drafted(component), signet))
        self._draft(component, status_plan.record_attempt(self._drafted(component), artifact))
        await ready_expressions.check(self._asked(component, artifact), self.holds)
        files = await self._files(component, source, artifact, resolved)
        reason = Reason.Restarting if content.is_restart else Reason.Processing
        save, draft, seals = self._saving(component, reason), self._drafted(component), list[str]()
        seal = self._sealing(component, signet, seals)
        weigh = partial(self.weights.hold, component.key)
        progress = await self.deployer.apply(component, draft, content, files, target, save, seal, weigh)
        self.reports.unreadable(component, await self.deployer.unreadable(component, progress.inventory, target))
        self.reports.unwatched(component, self.deployer.unwatched.get(component.key, ()))
        self.reports.chart_warns(component, self.deployer.warnings.get(component.key, ()), artifact.revision)
        if progress.done:
            self._draft(component, status_plan.sealed(status_plan.applied(self._drafted(component), signet), seals))
        return await self._progressed(self.checkpoints.shown(component), progress, reason, target)

    async def _delete(self, component: Component) -> Answer:
        if not finalizer.present(component, FINALIZER):
            return Next.done()
        self._draft(component, status_plan.start_deletion(component.status))
        await self._note_secrets(component)
        status_plan.check_inventory(component)
        try:
            resolved = await self._resolved(component)
            self._check_dependants(component)
            account = None if resolved.kube_config is not None else await self._account_of_deletion(component)
            target = await self._target(component, resolved, account)
        except abandon_remote.OUT_OF_REACH as failure:
            return await self._out_of_reach(component, failure)
        except ServiceAccountRequired as failure:
            return await self._without_account(component, failure)
        if blocked := self._held_by_others(component):
            return blocked
        if obstacle := await self.deployer.obstacle(component, target):
            return self._blocked(component, f"deletion blocked: {obstacle}", Cause.TypesInUse)
        if not await self._is_of_the_present(component):
            return Next.after(OUTDATED_SECONDS)
        trust = Trust(await self._signet(component, target.identity), self.settings.rules)
        progress = await self.deployer.delete(component, target, await self._farewell(component, target, trust))
        self.reports.unreadable(component, await self.deployer.unreadable(component, progress.inventory, target))
        if progress.done:
            await finalizer.remove(self.client, component, FINALIZER)
            return self.reports.with_events(component, Next.done(), progress)
        return self._leaving(component, progress)

    async def _farewell(self, component: Component, target: Target, trust: Trust) -> Farewell | None:
        """What is to be done before the objects are gone. Raises HooksMissing, HooksNotSealed, ApiError."""
        try:
            return await self.deployer.farewell(component, target, trust)
        except HooksMissing as missing:
            if not target.owned.namespace_is_ending(missing.secret.namespace):
                raise
            self.reports.hooks_skipped(component, missing.secret)
            return None

    async def _held(self, component: Component) -> Component:
        """The Component with our finalizer on it."""
        held = await finalizer.add(self.client, component, FINALIZER)
        if held is not component:
            self.memos.of(held.key).confirmed_uid = held.metadata.uid
        return held

    async def _is_of_the_present(self, component: Component) -> bool:
        """Whether what is to be deleted is there at all. Objects are ours by the name of their Component, so one that
        is only shown by an outdated view would take those of its successor with it."""
        uid = component.metadata.uid
        if self.memos.of(component.key).confirmed_uid != uid:
            if not await finalizer.is_of_the_present(self.client, component):
                return False
            self.memos.of(component.key).confirmed_uid = uid
        return True

    async def _out_of_reach(self, component: Component, failure: ComponentFailed) -> Answer:
        """Wait for a way into the other cluster, or abandon its objects where the user requested that."""
        if component.spec.kube_config is None:
            raise failure
        if not abandon_remote.is_asked_for(component) or await self._has_reappeared(component, failure):
            raise failure.advising(abandon_remote.advice(component))
        self._check_dependants(component)
        if blocked := self._held_by_others(component):
            return blocked
        await finalizer.remove(self.client, component, FINALIZER)
        left = ", ".join(abandon_remote.left_behind(component))
        _log.warning("%s: left behind in the other cluster: %s", component.ref, left or "nothing")
        return Next[ComponentStatus].done().with_events(abandon_remote.notice(component, str(failure)))

    async def _without_account(self, component: Component, failure: ServiceAccountRequired) -> Answer:
        """Refuse to delete objects as the operator. Without objects, nothing acts, and the Component goes."""
        if component.status.inventory:
            raise failure.advising(tenancy.advice(component))
        if blocked := self._held_by_others(component):
            return blocked
        await finalizer.remove(self.client, component, FINALIZER)
        return Next.done()

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
        found = await self.contents.read(one.target for one in wanted)
        return await self.deployer.inputs.settled(component, wanted, found)

    async def _note_secrets(self, component: Component) -> None:
        """Have the words of all Secrets of the spec masked. A deletion needs few of them, but a template may have put
        any into the name of an object."""
        others = references.targets(component) - {one.target for one in references.find(component)}
        with contextlib.suppress(InputsTooLarge):
            await self.contents.read(target for target in others if target.kind is ReferenceKind.Secret)

    def _asked(self, component: Component, artifact: Artifact) -> tuple[ready_expressions.ReadyRequirement, ...]:
        """As `dependencies.check`; what the Component waits for is noted."""
        try:
            return dependencies.check(component, self._find, self.graph, artifact)
        except DependencyNotReady as failure:
            self.waiting.note(component, failure.dependency, self._find)
            raise

    async def _offer(self, component: Component, source: sources.Source, resolved: Resolved) -> SourceStatus:
        held = sources.held(component, Intervals.of(component.spec).timeout, self.clock.now())
        if held is not None:
            return held
        if source.repository is not None:
            await self._enter(component, source.repository.url, SourceSilent)
        return await self.artifacts.offer(component, source, resolved.login)

    async def _files(
        self, component: Component, source: sources.Source, artifact: Artifact, resolved: Resolved
    ) -> Files:
        if self.artifacts.has_to_call(source, artifact, resolved.login):
            await self._enter(component, artifact.url, SourceSilent)
        return await self.artifacts.files(component, source, artifact, resolved.login)

    async def _begin(self, component: Component, resolved: Resolved, offer: SourceStatus) -> DeploymentContent:
        """What is worked on from now on."""
        assert offer.artifact is not None  # an offer has one
        parts = {**resolved.digests, "/sourceRef": offer.digest}
        digest = await self.deployer.inputs.digest(component, parts)
        begun = status_plan.start_content(component, offer, digest)
        self._draft(component, begun.status)
        is_restart = begun.is_new and bool(component.status.processing_digest)
        return DeploymentContent(offer.artifact, resolved, begun.status.processing_digest, is_restart=is_restart)

    async def _signet(self, component: Component, identity: str) -> Signet:
        """What seals for a Component where its objects are now, under an identity. Raises ApiError."""
        scope = Scope(
            home=await self.deployer.cluster_uid(),
            component=component.key,
            uid=component.metadata.uid,
            target=component.target,
            cluster=self._drafted(component).target_cluster,
            identity=identity,
        )
        return Signet(await self.seal_key(), scope)

    async def _account_of_deletion(self, component: Component) -> ActingAccount | None:
        """Raises ServiceAccountRequired, InvalidSpec, ApiError."""
        recorded = await self._signet(component, component.status.applied_as)
        applied_as = status_plan.proved_identity(component.status, recorded)
        return tenancy.account_of_deletion(component, self.settings.rules, applied_as)

    async def _target(self, component: Component, resolved: Resolved, account: ActingAccount | None) -> Target:
        """Where the objects go. Raises ServiceAccountRequired, InvalidKubeConfig, ClusterUnreachable and
        ClusterChanged; ClusterBusy where others are at work there."""
        if resolved.kube_config is not None:
            target = self.targets.remote(component, resolved.kube_config)
        else:
            target = self.targets.home(component, account)
        if target.is_remote:
            await self._enter(component, target.lane, ClusterUnreachable)
        home = await self.deployer.cluster_uid()
        found = await _uid_of(target, component) if target.is_remote else home
        self._draft(component, status_plan.set_target_cluster(component, self._drafted(component), found, home))
        return target

    def _saving(self, component: Component, reason: Reason) -> Save:
        """Saves the inventory of a Component before its objects are touched."""

        async def save(inventory: Inventory) -> bool:
            await threads.run_if_large(
                status_size_limit.ENTRY_BYTES * len(inventory), lambda: status_size_limit.check(component, inventory)
            )
            self._draft(component, status_plan.with_inventory(self._drafted(component), inventory))
            saved = await self.checkpoints.save(component, self._say(component, Saying(reason=reason)))
            if saved is None:
                return False
            self._draft(component, saved.status)
            return True

        return save

    def _sealing(self, component: Component, signet: Signet, seals: list[str]) -> Callable[[bytes], None]:
        """Seals the delete hooks of a Component before they are written; each seal goes into `seals`, too."""

        def seal(packed: bytes) -> None:
            if not (made := signet.seal(Purpose.HOOKS, packed)):
                raise HooksNotSealed(
                    f"delete hooks cannot be sealed, so that they could never run: {self.seal_key.why}"
                )
            seals.append(made)
            self._draft(component, status_plan.sealing(self._drafted(component), made))

        return seal

    # ---- what came of it

    async def _progressed(self, component: Component, progress: SetProgress, reason: Reason, target: Target) -> Answer:
        # Each step takes its time where the inventory has thousands of objects, and the event loop has others to serve.
        await asyncio.sleep(0)
        self._draft(component, status_plan.with_inventory(self._drafted(component), progress.inventory))
        await asyncio.sleep(0)
        if progress.failures:
            self.reports.carried(component, progress)
            raise writes_failed(progress.failures)
        if progress.done:
            self.workload_causes.forget(component.key)
            return self.reports.with_events(component, self._ready(component), progress)
        if progress.must_be_saved:
            return self.reports.with_events(component, self._saved_first(component, reason), progress)
        return self.reports.with_events(component, await self._waiting(component, progress, target), progress)

    def _saved_first(self, component: Component, reason: Reason) -> Answer:
        """Objects are about to be written. No Event reports that: the next one names what is waited for, or Ready."""
        return Next.now(self._say(component, Saying(reason=reason))).without_event()

    def _ready(self, component: Component) -> Answer:
        now = self.clock.now()
        was_waiting = self._drafted(component).processing_since is not None
        self._draft(component, status_plan.finished(component, self._drafted(component), now))
        status = self._say(component, Saying(reason=Reason.Ready))
        if component.spec.sticky and was_waiting:
            return Next.now(status)  # changes during the wait were ignored, and no watch shows them again
        return Next.after(spread(Intervals.of(component.spec).requeue, component.metadata.uid), status)

    async def _waiting(self, component: Component, progress: SetProgress, target: Target) -> Answer:
        now = self.clock.now()
        draft = status_plan.waiting(self._drafted(component), now)
        self._draft(component, draft)
        late = self._is_late(component, draft, now)
        waits, pause_seconds = await self.workload_causes.explained(
            component,
            draft.processing_digest,
            progress.waits,
            workload_causes.reading(diagnosis.ClusterReader(target.client)),
            waited_seconds=(now - (draft.processing_since or now)).total_seconds(),
            is_late=late,
        )
        saying = Saying(
            reason=Reason.Timeout if late else Reason.Processing,
            message=observers.unready(waits, late=late),
            cause=Cause.ObjectsNotReady,
        )
        seconds = min(self._until(component, draft, progress, now), pause_seconds or math.inf)
        answer = Next.after(max(seconds, 0.05), self._say(component, saying))
        return answer.with_events(*observers.first_wait(component, saying))

    def _until(self, component: Component, draft: ComponentStatus, progress: SetProgress, now: datetime) -> float:
        """When to look again though nothing changes: when an object is due, when the time is over, or now and then."""
        waits = Intervals.of(component.spec)
        moments = [waits.requeue.total_seconds()]
        if progress.again_at is not None:
            moments.append(progress.again_at - self.clock.monotonic())
        if draft.processing_since is not None and not self._is_late(component, draft, now):
            moments.append((draft.processing_since + waits.timeout - now).total_seconds())
        return max(min(moments), 0.05)

    def _leaving(self, component: Component, progress: SetProgress) -> Answer:
        self._draft(component, status_plan.with_inventory(self._drafted(component), progress.inventory))
        if progress.failures:
            self.reports.carried(component, progress)
            raise _failed(component, writes_failed(progress.failures), [one.error for one in progress.failures])
        message = observers.departing(progress.waits)
        status = self._say(component, Saying(reason=Reason.DeletionProcessing, message=message))
        if progress.must_be_saved:
            return self.reports.with_events(component, Next.now(status), progress)
        return self.reports.with_events(component, Next.after(self._patience(component), status), progress)

    def _blocked(self, component: Component, why: str, cause: Cause) -> Answer:
        saying = Saying(reason=Reason.DeletionBlocked, message=why, cause=cause)
        return Next.after(self._patience(component), self._say(component, saying))

    def _held_by_others(self, component: Component) -> Answer | None:
        """The answer where another client has put a finalizer on the Component."""
        others = [name for name in component.metadata.finalizers if name != FINALIZER]
        if not others:
            return None
        why = f"deletion blocked by finalizers of others: {', '.join(others)}"
        return self._blocked(component, why, Cause.ForeignFinalizers)

    def _patience(self, component: Component) -> float:
        """Short at first, because most obstacles go soon, and longer the longer it takes."""
        now = self.clock.monotonic()
        memo = self.memos.of(component.key)
        memo.deleting_since = now if memo.deleting_since is None else memo.deleting_since
        return min(max(SHORTEST_LOOK_SECONDS, (now - memo.deleting_since) / 2), LONGEST_LOOK_SECONDS)

    def _without_room(self, component: Component, why: str, cause: Cause) -> Answer:
        """Wait until other Components have left a server, or are applied. A status that reports something stays."""
        now, memo = self.clock.monotonic(), self.memos.of(component.key)
        memo.busy_since = now if memo.busy_since is None else memo.busy_since
        if now - memo.busy_since < SILENT_SECONDS:
            return Next.after(SILENT_SECONDS)
        deleting, status = component.metadata.is_terminating, component.status
        tells = status.state in _TELLING[deleting] and status.observed_generation == component.metadata.generation
        ready = conditions.find(status.conditions, READY)
        if tells and ready is not None and ready.reason != Reason.FirstSeen:
            return Next.after(ROOM_SECONDS)
        saying = Saying(
            reason=Reason.DeletionRetrying if deleting else Reason.Retrying,
            message=why,
            cause=cause,
        )
        return Next.after(ROOM_SECONDS, status_plan.with_report(component, status, saying, self.clock.now()))

    # ---- small things

    async def _enter(self, component: Component, url: str, silence: type[ComponentFailed]) -> None:
        """Take a place at a server outside of the cluster until the pass ends. Raises ClusterBusy."""
        self.lanes.enter(component.key, await self.addresses.of(url), silence=(silence,))

    def _draft(self, component: Component, status: ComponentStatus) -> None:
        self.memos.of(component.key).draft = status

    def _drafted(self, component: Component) -> ComponentStatus:
        return self.memos.of(component.key).draft or component.status

    def _say(self, component: Component, saying: Saying) -> ComponentStatus:
        return status_plan.with_report(component, self._drafted(component), saying, self.clock.now())

    def _timed(self, component: Component, failure: ComponentFailed) -> ComponentFailed:
        """The failure with its delay: what may still come is looked for after the retry interval."""
        if failure.retriable and failure.retry_after_seconds is None:
            failure.retry_after_seconds = spread(_retry(component), component.metadata.uid)
        return failure

    def _is_late(self, component: Component, draft: ComponentStatus, now: datetime) -> bool:
        try:
            return status_plan.timed_out(draft, Intervals.of(component.spec).timeout, now)
        except ComponentFailed:
            return False

    def _find(self, key: ObjectKey) -> Component | None:
        return self.components.store.get(key)

    def _check_dependants(self, component: Component) -> None:
        """Raises StillNeeded. A refused reference delays the deletion of no Component."""
        rules = self.settings.rules
        dependencies.check_deletion(component, self.graph, cross_namespace=rules.cross_namespace_refs)


def _failed(component: Component, failure: ComponentFailed, errors: Iterable[Exception]) -> ComponentFailed:
    """The failure; in a deletion that is forbidden, with the identity that needs the rights."""
    is_forbidden = any(isinstance(error, Forbidden) for error in errors)
    if component.metadata.is_terminating and is_forbidden and (advice := tenancy.advice_on_rights(component)):
        return failure.advising(advice)
    return failure


async def _uid_of(target: Target, component: Component) -> str:
    """Silence of the target is another thing than silence of our own cluster. Raises ClusterUnreachable, ApiError."""
    try:
        return await target.uid(component.status.target_cluster, component.target.namespace)
    except NO_ANSWER as error:
        raise ClusterUnreachable(str(error)) from error


def _retry(component: Component) -> timedelta:
    try:
        return Intervals.of(component.spec).retry
    except ComponentFailed:
        return Intervals().retry
