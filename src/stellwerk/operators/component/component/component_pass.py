"""One pass over one Component: what it works on, what it has found so far, and the status that it will report.

    apply    references -> source -> content -> dependencies -> manifests -> objects -> Ready
    delete   references -> no dependants -> no users -> objects -> finalizer

Each step either comes to something for the next one, or fails with what is missing. A pass goes as far as it can. Where
the status has to be saved before the cluster may be touched, it is saved on the way, at a checkpoint. The draft of the
status grows with the pass; a failure is reported on top of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.object_set import ObservedState, SetProgress
from stellwerk.apply.set.plan.plan_delete_hooks import DeleteHookPlan
from stellwerk.delivery.server_addresses import Addresses
from stellwerk.delivery.sets import set_reports, workload_causes
from stellwerk.delivery.sets.workload_causes import WorkloadCauses
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError, Forbidden, is_refused_by_admission
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.component import errors
from stellwerk.operators.component.api import FINALIZER, SUSPEND_REASON_ANNOTATION, Component
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.api_status import Artifact, ComponentStatus, SourceStatus
from stellwerk.operators.component.component import set_checks, status_plan
from stellwerk.operators.component.component.delete_hooks import Trust
from stellwerk.operators.component.component.deployment import Deployer, DeploymentContent
from stellwerk.operators.component.component.missing_kinds import MissingKinds
from stellwerk.operators.component.component.weights import Weights
from stellwerk.operators.component.dependencies import dependencies, ready_expressions
from stellwerk.operators.component.dependencies.dependency_graph import DependencyGraph
from stellwerk.operators.component.intervals import Intervals, spread
from stellwerk.operators.component.observers import observers
from stellwerk.operators.component.observers.observers import Reported
from stellwerk.operators.component.reasons import Cause, Reason
from stellwerk.operators.component.references import references
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.references.references import Resolved
from stellwerk.operators.component.settings import Settings
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.artifacts import Artifacts
from stellwerk.operators.component.status_report import PassReport
from stellwerk.operators.component.targets import abandon_remote, tenancy
from stellwerk.operators.component.targets.seal_key import SealKey
from stellwerk.operators.component.targets.seals import Purpose, Scope, Signet
from stellwerk.operators.component.targets.targets import Target, Targets
from stellwerk.operators.component.targets.tenancy import ActingAccount
from stellwerk.render.files.files import Files
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.server_concurrency import ServerConcurrency
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.insight import diagnosis
from stellwerk.runtime.reconciler import Next

SHORTEST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 10.0
"""How often it is asked whether others still use what is to be deleted. Their objects are not watched."""

FIRST_SEEN_SECONDS = 1.0
"""After how long a source that has not answered yet leaves a new Component without a status no longer."""

OUTDATED_SECONDS = 10.0
"""When to look again at a Component that only an outdated view shows, unless a watch shows earlier that it is gone."""

Answer = Next[ComponentStatus]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ComponentMemo:
    """What is remembered about a Component from pass to pass. Moments are seconds of the monotonic clock.

    Losing it costs requests and repeated Events, and nothing else.
    """

    observed: ObservedState = field(default_factory=ObservedState)
    """What is known of its objects beyond the caches."""
    reported: Reported = field(default_factory=Reported)
    workload_causes: WorkloadCauses = field(default_factory=WorkloadCauses)
    deleting_since: float | None = None
    busy_since: float | None = None
    """Since when it waits for a turn at a server, or for other large Components."""
    confirmed_uid: str = ""
    """The UID that a successful write of this process confirmed, so that the Component is no outdated view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all passes work with."""

    client: Client
    components: Informer[Component]
    graph: DependencyGraph
    waiting: dependencies.Waiting
    missing_kinds: MissingKinds
    contents: ReferenceReader
    artifacts: Artifacts
    targets: Targets
    deployer: Deployer
    servers: ServerConcurrency
    weights: Weights
    addresses: Addresses
    seal_key: SealKey
    reports: observers.Reports
    checkpoints: Checkpoints[Component, ComponentStatus]
    settings: Settings
    clock: Clock


@dataclass(slots=True)
class ComponentPass:
    """One pass. `component` is the object as it is now: a checkpoint and the finalizer replace it."""

    services: Services
    component: Component
    memo: ComponentMemo
    draft: ComponentStatus = field(init=False)
    """The status as far as the pass has come."""
    deletes_as: str = ""
    """The recorded identity that a deletion acts as; empty if the account of the spec counts."""

    def __post_init__(self) -> None:
        self.draft = self.component.status

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.component.key

    async def run(self) -> Answer:
        """Bring the Component as far as it goes now. Raises ComponentFailed and the errors of what it calls."""
        if self.component.metadata.is_terminating:
            return await self._delete()
        if self.component.status.inventory:
            await self._add_finalizer()  # where a client has removed it, a pass that comes no further must not miss it
        if self.component.spec.suspend:
            why = self.component.metadata.annotations.get(SUSPEND_REASON_ANNOTATION, "")
            message = f"suspended: {why}" if why else ""
            return Next.done(self.report(PassReport(reason=Reason.Suspended, message=message)))
        return await self._apply()

    def report(self, report: PassReport) -> ComponentStatus:
        """The status with the report of the pass."""
        return status_plan.with_report(self.component, self.draft, report, self.services.clock.now())

    def is_late(self, now: datetime) -> bool:
        """Whether objects have been waited for longer than they may take."""
        try:
            return status_plan.timed_out(self.draft, Intervals.of(self.component.spec).timeout, now)
        except errors.ComponentFailed:
            return False

    def advised(self, failure: errors.ComponentFailed, raised: Iterable[Exception]) -> errors.ComponentFailed:
        """The failure; in a deletion that is forbidden, with the identity that needs the rights."""
        forbidden = [error for error in raised if isinstance(error, Forbidden)]
        is_forbidden = any(not is_refused_by_admission(error) for error in forbidden)
        if (
            self.component.metadata.is_terminating
            and is_forbidden
            and (advice := tenancy.advice_on_rights(self.component, self.deletes_as))
        ):
            return failure.advising(advice)
        return failure

    # ---- apply

    async def _apply(self) -> Answer:
        services, component = self.services, self.component
        services.weights.enter(self.key)
        status_plan.check_inventory(component)
        tenancy.check(component, services.settings)
        status_plan.policies(component.spec)
        try:
            resolved = await self._resolved()
        except (errors.ReferencesUnresolved, errors.ReferencesUnreadable) as failure:
            raise await self._with_source(failure) from None
        source = sources.named(component)
        async with self._shown_if_slow():
            offer = await self._offer(source, resolved)
        content = await self._begin(resolved, offer)
        sources.check_pins(component.spec, content.artifact)
        target = await self._target(resolved, tenancy.account(component, services.settings))
        await self._add_finalizer()
        signet = await self._signet(target.identity)
        proof = status_plan.proof_of(await self._recorded_identity(), signet)
        self.draft = status_plan.record_attempt(self.draft, content.artifact)
        await ready_expressions.check(self._requirements(content), services.deployer.renderer.holds)
        async with self._shown_if_slow():
            files = await self._files(source, content.artifact, resolved)
        reason = Reason.Restarting if content.is_restart else Reason.Processing
        seals: list[str] = []
        before = self.component.status
        deployed = await services.deployer.apply(
            self.component,
            self.draft,
            content,
            files,
            target,
            self.memo.observed,
            proof=proof,
            save=partial(self._save_inventory, reason, content.digest),
            seal=lambda packed: seals.append(self._sealed(signet, packed)),
            weigh=partial(services.weights.hold, self.key),
        )
        await self._report_unreadable(deployed.progress, target)
        reports, reported, revision = services.reports, self.memo.reported, content.artifact.revision
        if deployed.unwatched is not None:
            reports.unwatched(self.component, reported, deployed.unwatched)
        reports.chart_warns(self.component, reported, deployed.chart_warnings, revision)
        self.draft = status_plan.acted(before, self.draft, signet, deployed.progress)
        if deployed.progress.done:
            self.draft = status_plan.sealed(self.draft, seals)
        return await self._progressed(deployed.progress, reason, target, content.digest)

    async def _begin(self, resolved: Resolved, offer: SourceStatus) -> DeploymentContent:
        """What is worked on from now on."""
        assert offer.artifact is not None  # an offer has one
        parts = {**resolved.digests, "/sourceRef": offer.digest}
        digest = await self.services.deployer.inputs.digest(self.component, parts)
        begun = status_plan.start_content(self.component, offer, digest)
        self.draft = begun.status
        is_restart = begun.is_new and bool(self.component.status.processing_digest)
        return DeploymentContent(offer.artifact, resolved, begun.digest, is_restart=is_restart)

    async def _add_finalizer(self) -> None:
        """Have our finalizer on the Component."""
        held = await finalizer.add(self.services.client, self.component, FINALIZER)
        if held is not self.component:
            self.component, self.memo.confirmed_uid = held, held.metadata.uid

    def _requirements(self, content: DeploymentContent) -> tuple[ready_expressions.ReadyRequirement, ...]:
        """As `dependencies.check`; the dependency that the Component waits for is noted."""
        find = self.services.components.store.get
        try:
            graph, is_new = self.services.graph, content.is_restart
            return dependencies.check(self.component, find, graph, content.artifact, is_new=is_new)
        except errors.DependencyNotReady as failure:
            self.services.waiting.note(self.component, failure.dependency, find)
            raise

    async def _offer(self, source: sources.Source, resolved: Resolved) -> SourceStatus:
        held = sources.held(self.component, Intervals.of(self.component.spec).timeout, self.services.clock.now())
        if held is not None:
            return held
        if source.repository is not None:
            await self._enter(source.repository.url, errors.SourceSilent)
        return await self.services.artifacts.offer(self.component, source, resolved.login)

    async def _with_source(self, failure: errors.ComponentFailed) -> errors.ComponentFailed:
        """The failure of references, with the cause why the source is not ready either.

        Only where a watch shows that: a web server is not asked for a Component that cannot be applied. Any other
        failure of the source must not hide what is missing; it is reported when nothing is.
        """
        found = sources.given(self.component)
        if len(found) != 1 or found[0].repository is not None:
            return failure
        try:
            await self._offer(found[0], Resolved())
        except errors.SourceNotReady as source:
            return errors.ReferencesUnresolved(f"{failure.why}; {source.why}")
        except (ApiError, errors.ComponentFailed):
            return failure
        return failure

    async def _files(self, source: sources.Source, artifact: Artifact, resolved: Resolved) -> Files:
        if self.services.artifacts.has_to_call(self.component, source, artifact, resolved.login):
            await self._enter(artifact.url, errors.SourceSilent)
        return await self.services.artifacts.files(self.component, source, artifact, resolved.login)

    def _sealed(self, signet: Signet, packed: bytes) -> str:
        """The seal of delete hooks, in the draft before they are written. Raises HooksNotSealed."""
        if not (seal := signet.seal(Purpose.HOOKS, packed)):
            why = f"delete hooks cannot be sealed, so that they could never run: {self.services.seal_key.why}"
            raise errors.HooksNotSealed(why)
        self.draft = status_plan.sealing(self.draft, seal)
        return seal

    async def _save_inventory(self, reason: Reason, digest: str, inventory: Inventory) -> bool:
        """Save the inventory before its objects are touched. Returns False where the pass has to end for that."""
        size = set_checks.ENTRY_BYTES * len(inventory)
        await threads.run_if_large(size, lambda: set_checks.check_size(self.component, inventory))
        self.draft = status_plan.with_content(self.draft, inventory, digest)
        return await self._save(self.report(PassReport(reason=reason)))

    async def _save(self, status: ComponentStatus) -> bool:
        """A checkpoint: write the status now, and go on with the Component as it is then."""
        saved = await self.services.checkpoints.save(self.component, status)
        if saved is None:
            return False
        self.component, self.draft = saved, saved.status
        return True

    @asynccontextmanager
    async def _shown_if_slow(self) -> AsyncIterator[None]:
        """Show that a new Component was seen if what is awaited here takes long. Nothing here may change the draft.

        Not before: each status costs the API server as much as all objects of a small Component together.
        """
        if self.component.status.observed_generation > 0:
            yield
            return
        shown = asyncio.create_task(self._show_first(), name=f"show {self.key} as seen")
        try:
            yield
        finally:
            shown.cancel()  # an answer that is lost with it is found out at the next checkpoint
            await asyncio.wait((shown,))
        if not shown.cancelled():
            shown.result()

    async def _show_first(self) -> None:
        await self.services.clock.sleep(FIRST_SEEN_SECONDS)
        with contextlib.suppress(ApiError):
            await self._save(self.report(PassReport(reason=Reason.FirstSeen)))

    async def _progressed(self, progress: SetProgress, reason: Reason, target: Target, digest: str) -> Answer:
        # Each step takes its time where the inventory has thousands of objects, and the event loop has others to serve.
        await asyncio.sleep(0)
        self.draft = status_plan.with_content(self.draft, progress.inventory, digest)
        await asyncio.sleep(0)
        if progress.failures:
            self.services.reports.carried(self.component, self.memo.reported, progress)
            raise errors.writes_failed(progress.failures)
        if progress.done:
            self.memo.workload_causes.forget()
            return self._with_events(self._ready(progress), progress)
        if progress.must_be_saved:
            # No Event reports that objects are about to be written: the next one names what is waited for, or Ready.
            return self._with_events(Next.now(self.report(PassReport(reason=reason))).without_event(), progress)
        return self._with_events(await self._waiting(progress, target), progress)

    def _ready(self, progress: SetProgress) -> Answer:
        was_waiting = self.draft.processing_since is not None
        self.draft = status_plan.finished(self.component, self.draft, self.services.clock.now())
        status = self.report(PassReport(reason=Reason.Ready))
        if self.component.spec.sticky and was_waiting:
            return Next.now(status)  # changes during the wait were ignored, and no watch shows them again
        seconds = spread(Intervals.of(self.component.spec).requeue, self.component.metadata.uid)
        if progress.again_at is not None:  # what others have changed is put back then
            seconds = max(min(seconds, progress.again_at - self.services.clock.monotonic()), 0.05)
        return Next.after(seconds, status)

    async def _waiting(self, progress: SetProgress, target: Target) -> Answer:
        now = self.services.clock.now()
        self.draft = status_plan.waiting(self.draft, now)
        late = self.is_late(now)
        waits, pause_seconds = await self.memo.workload_causes.explained(
            self.draft.processing_digest,
            progress.waits,
            workload_causes.reading(diagnosis.ClusterReader(target.client)),
            now=self.services.clock.monotonic(),
            waited_seconds=(now - (self.draft.processing_since or now)).total_seconds(),
            is_late=late,
        )
        report = PassReport(
            reason=Reason.Timeout if late else Reason.Processing,
            message=set_reports.unready(waits, late=late),
            cause=Cause.ObjectsNotReady,
        )
        seconds = min(self._until(progress, now), pause_seconds or math.inf)
        answer = Next.after(max(seconds, 0.05), self.report(report))
        return answer.with_events(*observers.first_wait(self.component, report))

    def _until(self, progress: SetProgress, now: datetime) -> float:
        """When to look again though nothing changes: when an object is due, when the time is over, or now and then."""
        waits = Intervals.of(self.component.spec)
        moments = [waits.requeue.total_seconds()]
        if progress.again_at is not None:
            moments.append(progress.again_at - self.services.clock.monotonic())
        if self.draft.processing_since is not None and not self.is_late(now):
            moments.append((self.draft.processing_since + waits.timeout - now).total_seconds())
        return max(min(moments), 0.05)

    # ---- delete

    async def _delete(self) -> Answer:
        services, component = self.services, self.component
        if not finalizer.present(component, FINALIZER):
            return Next.done()
        self.draft = status_plan.start_deletion(component.status)
        await self._note_secrets()
        status_plan.check_inventory(component)
        self._check_dependants()
        if not component.status.inventory:
            return await self._delete_without_objects()
        try:
            resolved = await self._resolved()
            account = None if resolved.kube_config is not None else await self._account_of_deletion()
            target = await self._target(resolved, account)
        except abandon_remote.OUT_OF_REACH as failure:
            return await self._out_of_reach(failure)
        except errors.ServiceAccountRequired as failure:
            raise failure.advising(tenancy.advice(component)) from None
        if blocked := self._held_by_others():
            return blocked
        if obstacle := await services.deployer.obstacle(component, target):
            return self._blocked(f"deletion blocked: {obstacle}", Cause.TypesInUse)
        if not await self._is_of_the_present():
            return Next.after(OUTDATED_SECONDS)
        trust = Trust(await self._signet(target.identity), services.settings)
        witness = None if target.is_remote else services.client
        hooks = await self._delete_hooks(target, trust, witness)
        progress = await services.deployer.delete(component, target, self.memo.observed, hooks, witness=witness)
        await self._report_unreadable(progress, target)
        if progress.done:
            await finalizer.remove(services.client, component, FINALIZER)
            return self._with_events(Next.done(), progress)
        return self._leaving(progress)

    async def _delete_hooks(self, target: Target, trust: Trust, witness: Client | None) -> DeleteHookPlan | None:
        """What is to be done before the objects are gone. Raises HooksMissing, HooksNotSealed, ApiError."""
        try:
            return await self.services.deployer.delete_hooks(self.component, target, trust, witness)
        except errors.HooksMissing as missing:
            if not target.owned.namespace_is_ending(missing.secret.namespace):
                raise
            self.services.reports.hooks_skipped(self.component, self.memo.reported, missing.secret)
            return None

    async def _is_of_the_present(self) -> bool:
        """Whether what is to be deleted is there at all. Objects are ours by the name of their Component, so one that
        is only shown by an outdated view would take those of its successor with it."""
        uid = self.component.metadata.uid
        if self.memo.confirmed_uid != uid:
            if not await finalizer.is_of_the_present(self.services.client, self.component):
                return False
            self.memo.confirmed_uid = uid
        return True

    async def _out_of_reach(self, failure: errors.ComponentFailed) -> Answer:
        """Wait for a way into the other cluster, or abandon its objects where the user requested that."""
        component = self.component
        if component.spec.kube_config is None:
            raise failure
        if not abandon_remote.is_asked_for(component) or await self._has_reappeared(failure):
            raise failure.advising(abandon_remote.advice(component))
        self._check_dependants()
        if blocked := self._held_by_others():
            return blocked
        await finalizer.remove(self.services.client, component, FINALIZER)
        left = ", ".join(abandon_remote.left_behind(component))
        _log.warning("%s: left behind in the other cluster: %s", component.ref, left or "nothing")
        return Next[ComponentStatus].done().with_events(abandon_remote.notice(component, str(failure)))

    async def _delete_without_objects(self) -> Answer:
        """Let the Component go: no identity acts, so none needs a right."""
        if blocked := self._held_by_others():
            return blocked
        await finalizer.remove(self.services.client, self.component, FINALIZER)
        return Next.done()

    async def _has_reappeared(self, failure: errors.ComponentFailed) -> bool:
        """Whether the Secret is there after all: our cache may be behind, and what is given up stays given up."""
        if not isinstance(failure, errors.ReferencesUnresolved):
            return False
        wanted = references.find(self.component)
        found = await self.services.contents.fresh(obj.target for obj in wanted)
        try:
            references.settle(self.component, wanted, found)
        except errors.ReferencesUnresolved:
            return False
        return True

    async def _note_secrets(self) -> None:
        """Have the words of all Secrets of the spec masked. A deletion needs few of them, but a template may have put
        any into the name of an object."""
        others = references.targets(self.component) - {one.target for one in references.find(self.component)}
        with contextlib.suppress(errors.InputsTooLarge):
            await self.services.contents.read(target for target in others if target.kind is ReferenceKind.Secret)

    async def _account_of_deletion(self) -> ActingAccount | None:
        """Raises ServiceAccountRequired, InvalidSpec, ApiError."""
        self.deletes_as = await self._recorded_identity()
        return tenancy.account_of_deletion(self.component, self.services.settings, self.deletes_as)

    async def _recorded_identity(self) -> str:
        """The identity that applied the objects; empty if none is known. Raises ApiError."""
        status = self.component.status
        return status_plan.proved_identity(status, await self._signet(status.applied_as))

    def _check_dependants(self) -> None:
        """Raises StillNeeded. A refused reference delays the deletion of no Component."""
        cross_namespace = not self.services.settings.no_cross_namespace_refs
        dependencies.check_deletion(self.component, self.services.graph, cross_namespace=cross_namespace)

    def _leaving(self, progress: SetProgress) -> Answer:
        self.draft = status_plan.with_inventory(self.draft, progress.inventory)
        if progress.failures:
            self.services.reports.carried(self.component, self.memo.reported, progress)
            raise self.advised(errors.writes_failed(progress.failures), [each.error for each in progress.failures])
        message = set_reports.departing(progress.waits)
        status = self.report(PassReport(reason=Reason.DeletionProcessing, message=message))
        again = Next.now(status) if progress.must_be_saved else Next.after(self._patience(), status)
        return self._with_events(again, progress)

    def _blocked(self, why: str, cause: Cause) -> Answer:
        report = PassReport(reason=Reason.DeletionBlocked, message=why, cause=cause)
        return Next.after(self._patience(), self.report(report))

    def _held_by_others(self) -> Answer | None:
        """The answer where another client has put a finalizer on the Component."""
        others = [name for name in self.component.metadata.finalizers if name != FINALIZER]
        if not others:
            return None
        why = f"deletion blocked by finalizers of others: {', '.join(others)}"
        return self._blocked(why, Cause.ForeignFinalizers)

    def _patience(self) -> float:
        """Short at first, because most obstacles go soon, and longer the longer it takes."""
        now = self.services.clock.monotonic()
        if self.memo.deleting_since is None:
            self.memo.deleting_since = now
        return min(max(SHORTEST_LOOK_SECONDS, (now - self.memo.deleting_since) / 2), LONGEST_LOOK_SECONDS)

    # ---- both

    async def _resolved(self) -> Resolved:
        wanted = references.find(self.component)
        found = await self.services.contents.read(obj.target for obj in wanted)
        return await self.services.deployer.inputs.settled(self.component, wanted, found)

    async def _target(self, resolved: Resolved, account: ActingAccount | None) -> Target:
        """Where the objects go. Raises ServiceAccountRequired, InvalidKubeConfig, ClusterUnreachable and
        ClusterChanged; ClusterBusy where others are at work there."""
        services, component = self.services, self.component
        if resolved.kube_config is not None:
            target = services.targets.remote(component, resolved.kube_config)
        else:
            target = services.targets.home(component, account)
        if target.is_remote:
            await self._enter(target.lane, errors.ClusterUnreachable)
        home = await services.deployer.cluster_uid()
        found = await _uid_of(target, component) if target.is_remote else home
        self.draft = status_plan.set_target_cluster(component, self.draft, found, home)
        return target

    async def _signet(self, identity: str) -> Signet:
        """What seals for the Component where its objects are now, under an identity. Raises ApiError."""
        scope = Scope(
            home=await self.services.deployer.cluster_uid(),
            component=self.key,
            uid=self.component.metadata.uid,
            target=self.component.target,
            cluster=self.draft.target_cluster,
            identity=identity,
        )
        return Signet(await self.services.seal_key(), scope)

    async def _enter(self, url: str, silence: type[errors.ComponentFailed]) -> None:
        """Take a place at a server outside of the cluster until the pass ends. Raises ClusterBusy."""
        self.services.servers.enter(self.key, await self.services.addresses.of(url), silence=(silence,))

    async def _report_unreadable(self, progress: SetProgress, target: Target) -> None:
        objects = await self.services.deployer.unreadable(self.component, progress.inventory, target)
        self.services.reports.unreadable(self.component, self.memo.reported, objects)

    def _with_events(self, answer: Answer, progress: SetProgress) -> Answer:
        return self.services.reports.with_events(self.component, self.memo.reported, answer, progress)


async def _uid_of(target: Target, component: Component) -> str:
    """Silence of the target is another thing than silence of our own cluster. Raises ClusterUnreachable, ApiError."""
    try:
        fingerprint = target.owned.cluster.fingerprint
        return await fingerprint.read(component.status.target_cluster, component.target.namespace)
    except errors.NO_ANSWER as error:
        raise errors.ClusterUnreachable(str(error)) from error
