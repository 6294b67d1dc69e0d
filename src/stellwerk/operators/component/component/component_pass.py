"""One pass over one Component: what it works on, what it has found so far, and the status that it will report.

    apply    references -> source -> content -> dependencies -> manifests -> objects -> Ready
    delete   references -> no dependants -> no users -> objects -> finalizer

Each step either comes to something for the next one, or fails with what is missing. What is done with the objects, and
when the status is saved on the way: `delivery.sets.set_pass`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from stellwerk.apply.set.checks import permission_precheck
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.object_set import SetProgress
from stellwerk.apply.set.plan.plan_delete_hooks import DeleteHookPlan
from stellwerk.delivery.server_addresses import Addresses
from stellwerk.delivery.sets import set_status
from stellwerk.delivery.sets.inventory_status import State
from stellwerk.delivery.sets.pass_report import SetReason, SetReport
from stellwerk.delivery.sets.set_pass import SetEngine, SetMemory, SetPass, SetWork
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError, Forbidden, is_refused_by_admission
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable
from stellwerk.operators.component import errors
from stellwerk.operators.component.api import SUSPEND_REASON_ANNOTATION, Component
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
from stellwerk.operators.component.reasons import Cause, PassReport, Reason
from stellwerk.operators.component.references import references
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.references.references import Resolved
from stellwerk.operators.component.settings import Settings
from stellwerk.operators.component.sources import sources
from stellwerk.operators.component.sources.artifacts import Artifacts
from stellwerk.operators.component.targets import abandon_remote, tenancy
from stellwerk.operators.component.targets.seal_key import SealKey
from stellwerk.operators.component.targets.seals import Purpose, Scope, Signet
from stellwerk.operators.component.targets.targets import Target, Targets
from stellwerk.operators.component.targets.tenancy import ActingAccount
from stellwerk.render.files.files import Files
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.server_concurrency import ServerConcurrency
from stellwerk.runtime.reconciler import Next, Notice

Answer = Next[ComponentStatus]

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ComponentMemo:
    """What is remembered about a Component from pass to pass. Moments are seconds of the monotonic clock.

    Losing it costs requests and repeated Events, and nothing else.
    """

    objects: SetMemory = field(default_factory=SetMemory)
    reported: Reported = field(default_factory=Reported)
    busy_since: float | None = None
    """Since when it waits for a turn at a server, or for other large Components."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What all passes work with."""

    engine: SetEngine[Component, ComponentStatus]
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
    settings: Settings


@dataclass(slots=True)
class ComponentPass(SetPass[Component, ComponentStatus]):
    """One pass."""

    services: Services
    memo: ComponentMemo
    digest: str = ""
    """Of the content that is worked on."""
    deletes_as: str = ""
    """The recorded identity that a deletion acts as; empty if the account of the spec counts."""
    words = PassReport

    @property
    def component(self) -> Component:
        """The Component as it is now."""
        return self.subject

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.component.key

    async def run(self) -> Answer:
        """Bring the Component as far as it goes now. Raises ComponentFailed and the errors of what it calls."""
        if self.component.metadata.is_terminating:
            return await self.delete()
        if self.component.status.inventory:
            await self.add_finalizer()  # where a client has removed it, a pass that comes no further must not miss it
        if self.component.spec.suspend:
            why = self.component.metadata.annotations.get(SUSPEND_REASON_ANNOTATION, "")
            message = f"suspended: {why}" if why else ""
            return Next.done(self.show(self.reported(Reason.Suspended, message)))
        return await self._apply()

    def is_late(self, now: datetime) -> bool:
        """Whether objects have been waited for longer than they may take."""
        try:
            return set_status.is_late(self.draft, self.timeout, now)
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
        async with self.shown_if_slow():
            offer = await self._offer(source, resolved)
        content = await self._begin(resolved, offer)
        sources.check_pins(component.spec, content.artifact)
        target = await self._target(resolved, tenancy.account(component, services.settings))
        await self.add_finalizer()
        signet = await self._signet(target.identity)
        proof = status_plan.proof_of(await self._recorded_identity(), signet)
        self.draft = status_plan.record_attempt(self.draft, content.artifact)
        await ready_expressions.check(self._requirements(content), services.deployer.renderer.holds)
        async with self.shown_if_slow():
            files = await self._files(source, content.artifact, resolved)
        reason = SetReason.Restarting if content.is_restart else SetReason.Processing
        before = self.component.status
        prepared = await services.deployer.prepared(
            self.component,
            self.draft,
            content,
            files,
            target,
            proof=proof,
            weigh=partial(services.weights.hold, self.key),
        )
        seals = [self._sealed(signet, prepared.hooks)] if prepared.hooks is not None else []
        work, announces = prepared.work, content.is_restart
        if status_plan.is_forced(component):
            work = replace(work, options=replace(work.options, repairs_drift=True))
        if announces and not prepared.new and before.state is not State.Ready:
            if not await self.save_inventory(reason, work.known):
                return await self.progressed(work, SetProgress(work.known, must_be_saved=True), reason)
            announces = False
        if target.acts_as:
            await permission_precheck.check(target.client, prepared.new, target.acts_as)
        progress, unwatched = await self.bring(work, reason, announces=announces)
        reports, reported, revision = services.reports, self.memo.reported, content.artifact.revision
        reports.unwatched(self.component, reported, unwatched)
        reports.chart_warns(self.component, reported, prepared.chart_warnings, revision)
        self.draft = status_plan.acted(before, self.draft, signet, progress)
        if progress.done:
            self.draft = status_plan.with_drift(component, status_plan.sealed(self.draft, seals), progress)
        return await self.progressed(work, progress, reason)

    async def _begin(self, resolved: Resolved, offer: SourceStatus) -> DeploymentContent:
        """What is worked on from now on."""
        assert offer.artifact is not None  # an offer has one
        parts = {**resolved.digests, "/sourceRef": offer.digest}
        digest = await self.services.deployer.inputs.digest(self.component, parts)
        begun = status_plan.start_content(self.component, offer, digest)
        self.draft, self.digest = begun.status, begun.digest
        is_restart = begun.is_new and bool(self.component.status.processing_digest)
        return DeploymentContent(offer.artifact, resolved, begun.digest, is_restart=is_restart)

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
        held = sources.held(self.component, Intervals.of(self.component.spec).timeout, self.engine.clock.now())
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

    def ready(self, progress: SetProgress) -> Answer:
        """See `SetPass`."""
        was_waiting = self.draft.processing_since is not None
        self.draft = status_plan.finished(self.component, self.draft, self.engine.clock.now())
        report = self.reported(SetReason.Ready)
        if self.component.spec.sticky and was_waiting:
            return self.answer(Next.now(), report)  # changes during the wait were ignored, and no watch shows them
        seconds = spread(Intervals.of(self.component.spec).requeue, self.component.metadata.uid)
        if progress.again_at is not None:  # what others have changed is put back then
            seconds = max(min(seconds, progress.again_at - self.engine.clock.monotonic()), 0.05)
        return self.answer(Next.after(seconds), report)

    # ---- delete

    async def leaving(self) -> SetWork | Answer:
        """See `SetPass`."""
        services, component = self.services, self.component
        await self._note_secrets()
        status_plan.check_inventory(component)
        self._check_dependants()
        if not component.status.inventory:
            return self._held_by_others() or await self.release()  # no identity acts, so none needs a right
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
            return self.blocked(f"deletion blocked: {obstacle}", Cause.TypesInUse)
        witness = None if target.is_remote else self.engine.client
        return replace(
            await services.deployer.work_of_deletion(component, target),
            witness=witness,
            hooks=partial(self._delete_hooks, target, witness),
        )

    async def _delete_hooks(self, target: Target, witness: Client | None) -> DeleteHookPlan | None:
        """What is to be done before the objects are gone. Raises HooksMissing, HooksNotSealed, ApiError."""
        trust = Trust(await self._signet(target.identity), self.services.settings)
        try:
            return await self.services.deployer.delete_hooks(self.component, target, trust, witness)
        except errors.HooksMissing as missing:
            if not target.owned.namespace_is_ending(missing.secret.namespace):
                raise
            self.services.reports.hooks_skipped(self.component, self.memo.reported, missing.secret)
            return None

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
        released = await self.release()
        left = ", ".join(abandon_remote.left_behind(component))
        _log.warning("%s: left behind in the other cluster: %s", component.ref, left or "nothing")
        return released.with_events(abandon_remote.notice(component, str(failure)))

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

    def _held_by_others(self) -> Answer | None:
        """The answer where another client has put a finalizer on the Component."""
        if not (others := self.foreign_finalizers()):
            return None
        return self.blocked(f"deletion blocked by finalizers of others: {others}", Cause.ForeignFinalizers)

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

    # ---- what else `SetPass` asks for

    @property
    def status(self) -> ComponentStatus:
        """See `SetPass`."""
        return self.subject.status

    @property
    def timeout(self) -> timedelta:
        """See `SetPass`. Raises InvalidSpec."""
        return Intervals.of(self.component.spec).timeout

    @property
    def requeue_seconds(self) -> float:
        """See `SetPass`. Raises InvalidSpec."""
        return Intervals.of(self.component.spec).requeue.total_seconds()

    def polling_pause(self, elapsed_seconds: float) -> float:
        """See `SetPass`."""
        return status_plan.polling_pause(elapsed_seconds)

    def show(self, report: SetReport) -> ComponentStatus:
        """See `SetPass`."""
        return status_plan.with_report(self.component, self.draft, report, self.engine.clock.now())

    def with_objects(self, inventory: Inventory) -> ComponentStatus:
        """See `SetPass`."""
        if self.component.metadata.is_terminating:
            return status_plan.with_inventory(self.draft, inventory)
        return status_plan.with_content(self.draft, inventory, self.digest)

    async def check_fits(self, inventory: Inventory) -> None:
        """See `SetPass`. Raises InvalidSet."""
        size = set_checks.ENTRY_BYTES * len(inventory)
        await threads.run_if_large(size, lambda: set_checks.check_size(self.component, inventory))

    def noted(self, progress: SetProgress, unreadable: list[Unreadable]) -> None:
        """See `SetPass`."""
        del progress
        self.services.reports.unreadable(self.component, self.memo.reported, unreadable)

    def refused(self, progress: SetProgress) -> errors.ComponentFailed:
        """See `SetPass`."""
        self.services.reports.carried(self.component, self.memo.reported, progress)
        return self.advised(errors.writes_failed(progress.failures), [each.error for each in progress.failures])

    def with_events(self, answer: Answer, progress: SetProgress) -> Answer:
        """See `SetPass`."""
        return self.services.reports.with_events(self.component, self.memo.reported, answer, progress)

    def first_wait(self, report: SetReport) -> Iterable[Notice]:
        """See `SetPass`."""
        return observers.first_wait(self.component, report)


async def _uid_of(target: Target, component: Component) -> str:
    """Silence of the target is another thing than silence of our own cluster. Raises ClusterUnreachable, ApiError."""
    try:
        fingerprint = target.owned.cluster.fingerprint
        return await fingerprint.read(component.status.target_cluster, component.target.namespace)
    except errors.NO_ANSWER as error:
        raise errors.ClusterUnreachable(str(error)) from error
