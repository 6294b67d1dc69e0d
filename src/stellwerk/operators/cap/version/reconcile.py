"""Brings versions to life: content jobs, Deployments and all that belongs to them, each created once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from stellwerk.api.batch import Job
from stellwerk.api.prometheus_operator import ServiceMonitor
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import REFUSED
from stellwerk.operators.cap import names, preparation, retries
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.references import names_in
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionState, VersionStatus, Workload
from stellwerk.operators.cap.pods.credentials import CredentialSecrets
from stellwerk.operators.cap.pods.last_words import last_words
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
from stellwerk.operators.cap.pods.workload_pods import ReservedVariable
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.routing.targets import unready_domain
from stellwerk.operators.cap.version import content, monitoring, plan, resources
from stellwerk.operators.cap.version.children import BelongsToAnother, VersionChildren
from stellwerk.operators.cap.version.content import UnknownContentJob
from stellwerk.operators.cap.version.plan import Report, VersionSnapshot
from stellwerk.operators.cap.version.resources import UnusableWorkload, VersionObjects
from stellwerk.operators.cap.version.rollout import CredentialRollout, RolloutMemo
from stellwerk.operators.cap.watches import BY_APPLICATION, BY_OWNER, BY_VERSION, Caches
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control import jobs as job_steps
from stellwerk.runtime.control.jobs import (
    Advance,
    AwaitJob,
    JobStepFailed,
    RestartJob,
    StartJob,
    StepBlocked,
    StepDecision,
)
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Retry, Severity, SimpleReconciler

Answer: TypeAlias = Next[VersionStatus]

_OF_THE_SPEC = (ReservedVariable, UnknownContentJob, UnusableWorkload)
_USABLE_LATER = (CredentialsUnusable, BelongsToAnother, *REFUSED)


class VersionFailed(ReconcileError):
    """An object of the version cannot be created."""

    def __init__(self, reason: VersionReason, cause: Exception | str) -> None:
        super().__init__(str(cause))
        self.reason = reason
        self.retry = Retry.WHEN_CHANGED if isinstance(cause, _OF_THE_SPEC) else Retry.BACKOFF


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionReconciler(SimpleReconciler[CAPApplicationVersion, VersionStatus]):
    """Brings one version one step further."""

    client: Client
    caches: Caches
    credentials: CredentialSecrets
    children: VersionChildren
    rollout: CredentialRollout
    clock: Clock
    unrestricted_queries: bool = False
    """As of `monitoring.questions`."""
    memos: Memos[RolloutMemo] = field(default_factory=lambda: Memos(RolloutMemo))

    async def reconcile(self, version: CAPApplicationVersion) -> Answer:
        """Observe, decide, act. Raises VersionFailed, ApiError."""
        seen = await self._snapshot(version)
        action = plan.next_action(seen)
        if isinstance(action, plan.Prepare):
            seen = replace(seen, version=await preparation.write(self.client, version, action.lacking))
            action = plan.next_action(seen)
        match action:
            case plan.Release():
                await finalizer.remove(self.client, version, names.VERSION_FINALIZER)
                return Next.done()
            case Report():
                return self._answer(seen, action)
            case plan.KeepUp(report):
                return await self._keep_up(seen, report)
            case plan.RunWorkloads():
                answer = await self._run(seen)
                status = retries.acknowledged(seen.version, answer.status or seen.version.status)
                return replace(answer, status=status if status != seen.version.status else answer.status)
            case plan.Prepare(lacking):
                raise VersionFailed(VersionReason.RecoveredPanic, preparation.removed_again(lacking))
            case plan.Rest():
                return Next.done()

    def report(self, version: CAPApplicationVersion, failure: ReconcileError) -> VersionStatus:
        """The failure, in state Error. A version that is being deleted keeps its state.

        So does one that is Ready when an object of it cannot be created again: tenants use those that exist.
        """
        reason = VersionReason.RecoveredPanic
        stays_ready = False
        if isinstance(failure, VersionFailed):
            reason = VersionReason(failure.reason)
            stays_ready = plan.is_ready(version)
        state, message = VersionState.READY if stays_ready else VersionState.ERROR, str(failure)
        if version.metadata.is_terminating:  # tenants keep a version that is Ready until it is gone
            state, stays_ready = VersionState.DELETING, conditions.is_true(version.status.conditions, READY)
            if awaited := plan.awaited(version, *self._surroundings(version)):
                message = f"{awaited}; {message}"
        return self._status(version, Report(state=state, reason=reason, message=message, is_ready=stays_ready))

    def _status(self, version: CAPApplicationVersion, report: Report) -> VersionStatus:
        caches, newer = self.caches, None
        are_known = not (caches.unseen_tenants or caches.hidden_tenants(version.metadata.namespace))
        if not report.is_ready and are_known:
            newer = plan.superseding(version, *self._surroundings(version))
        return plan.status_of(version, report, self.clock.now(), newer=newer)

    def _surroundings(
        self, version: CAPApplicationVersion
    ) -> tuple[Sequence[CAPTenant], Sequence[CAPApplicationVersion], Sequence[CAPTenantOperation]]:
        """The tenants and versions of the application, and the operations that name the version."""
        caches, key = self.caches, str(version.application_key)
        return (
            caches.tenants.store.by(BY_APPLICATION, key),
            caches.versions.store.by(BY_APPLICATION, key),
            caches.operations.store.by(BY_VERSION, str(version.key)),
        )

    async def _snapshot(self, version: CAPApplicationVersion) -> VersionSnapshot:
        caches, namespace = self.caches, version.metadata.namespace
        if version.metadata.is_terminating and (unseen := caches.unseen_tenants):
            raise VersionFailed(VersionReason.DeleteTriggered, unseen)
        key, uid = version.application_key, version.metadata.uid
        application = caches.applications.store.get(key)
        missing, unknown = await caches.missing_secrets(application) if application is not None else ((), "")
        return VersionSnapshot(
            version=version,
            application=application,
            applications=names_in(namespace, caches.applications.store.all()) if application is None else (),
            is_application_hidden=key in caches.applications.hidden,
            missing_secrets=missing,
            unknown_secrets=unknown,
            jobs=caches.content_jobs.store.by(BY_OWNER, uid),
            deployments=caches.deployments.store.by(BY_OWNER, uid),
            tenants=caches.tenants.store.by(BY_APPLICATION, str(key)),
            hidden_tenants=caches.hidden_tenants(namespace),
            operations=caches.operations.store.by(BY_VERSION, str(version.key)),
            versions=caches.versions.store.by(BY_APPLICATION, str(key)),
            unready_domain=unready_domain(application, caches.domain) if application is not None else "",
            unusable_rules=(
                monitoring.problem_of_rules(version, application, unrestricted=self.unrestricted_queries)
                if application is not None
                else ""
            ),
        )

    def _answer(self, seen: VersionSnapshot, report: Report) -> Answer:
        answer = Next(self._status(seen.version, report), report.again_seconds)
        if report.state == VersionState.ERROR:
            return replace(answer, severity=Severity.WARNING)
        return answer if report.is_ready else answer.without_event()

    # ---- workloads

    async def _keep_up(self, seen: VersionSnapshot, report: Report) -> Answer:
        """Create what is absent, and renew credentials, of a version that tenants still use."""
        assert seen.application is not None
        objects = VersionObjects(application=seen.application, version=seen.version)
        await self._create(objects)
        return await self._with_credentials(seen, objects, self._answer(seen, report))

    async def _run(self, seen: VersionSnapshot) -> Answer:
        """Start the content job that is due, create what is absent, and report how far the version is."""
        version, application = seen.version, seen.application
        assert application is not None
        with _failing(VersionReason.ErrorInContentDeploymentJob):
            resources.check_size(version)
            decision = await self._content(seen, application)
        if isinstance(decision, Advance):
            return self._answer(seen, plan.record(decision.step.job_name))
        failed = decision.job if isinstance(decision, JobStepFailed | RestartJob) else None
        now = self.clock.now()
        if failed is not None and (retry := retries.to_record(version, application, decision, now)) is not None:
            cause = job_steps.failure_message(failed) + await last_words(self.client, failed.key)
            return self._answer(seen, plan.run_again(failed.metadata.name, retry, cause, now))
        objects = VersionObjects(application=application, version=version)
        await self._create(objects)
        if isinstance(decision, RestartJob):
            return Next.after(retries.seconds_left(version.status.retry, now))
        deployments = [objects.name(workload) for _, workload in objects.workloads()]
        if isinstance(decision, JobStepFailed):
            decision = replace(decision, message=decision.message + await last_words(self.client, decision.job.key))
        report = plan.progress(seen, decision, deployments)
        answer = self._answer(seen, report)
        return await self._with_credentials(seen, objects, answer) if report.is_ready else answer

    async def _with_credentials(self, seen: VersionSnapshot, objects: VersionObjects, answer: Answer) -> Answer:
        """The answer of a Ready version, after its Deployments were given new credentials where that is due."""
        if not plan.renews_credentials(seen):
            self.memos.forget(seen.version.key)
            return answer
        restarted, pause_seconds = await self.rollout.keep(objects, self.memos.of(seen.version.key))
        if restarted:
            message = f"credentials of services have changed: restarting Deployments {', '.join(restarted)}"
            answer = answer.with_events(
                Notice(VersionReason.CredentialsRolledOut, message, action="RolloutCredentials")
            )
        return replace(answer, delay_seconds=pause_seconds)

    async def _create(self, objects: VersionObjects) -> None:
        """Create what is absent, in the order of the original: its reasons show how far a version came."""
        late = VersionReason.ErrorInJobWorkerDeployment
        workloads = [*objects.workloads()]
        for reason, workload in workloads:
            if reason != late:
                await self._deploy(objects, reason, workload)
        with _failing(VersionReason.ErrorInServerService):
            services = [each for _, workload in workloads for each in objects.services(workload)]
            if self.children.is_served(ServiceMonitor.resource):
                services += [each for _, workload in workloads for each in objects.monitors(workload)]
            await self.children.keep(objects.version, services)
        for reason, workload in workloads:
            if reason == late:
                await self._deploy(objects, reason, workload)
        with _failing(VersionReason.ErrorInNetworkPolicy):
            await self.children.keep(objects.version, [*objects.policies()])

    async def _deploy(self, objects: VersionObjects, reason: VersionReason, workload: Workload) -> None:
        """Have the Deployment of a workload and its companions. Its credentials are made only for a new one."""
        version = objects.version
        with _failing(reason):
            deployment = objects.deployment(workload, "")
            if self.children.find(deployment) is None:
                objects.check(workload)
                name = objects.name(workload)
                secret = await self.credentials.keep(version, name, objects.application, workload)
                deployment = objects.deployment(workload, secret)
            await self.children.keep(version, [deployment, *objects.companions(workload)])

    # ---- content jobs

    async def _content(self, seen: VersionSnapshot, application: CAPApplication) -> StepDecision:
        """The state of the content jobs, after the one that is due was started. Raises BelongsToAnother, ApiError."""
        version, retry = seen.version, seen.version.status.retry
        jobs = [*seen.jobs, *await self._unseen(seen)]
        decision = content.next_job(version, jobs, retry=retries.is_recorded(retry, jobs))
        if isinstance(decision, RestartJob) and retries.seconds_left(retry, self.clock.now()):
            return decision
        if isinstance(decision, StartJob):
            name = decision.step.job_name
            workload = dict(content.ordered(version))[name]
            secret = await self.credentials.keep(version, name, application, workload, renews=retry is not None)
            body = content.job(version, workload, secret)
            decision = StartJob(replace(decision.step, build=lambda: body))
        decision = await job_steps.carry_out(self.client, version, decision, self.caches.content_jobs)
        if isinstance(decision, StepBlocked):
            raise BelongsToAnother(decision.message)
        if isinstance(decision, AwaitJob | Advance | JobStepFailed):
            await self._adopt(version, decision.job)
        return decision

    async def _unseen(self, seen: VersionSnapshot) -> Sequence[Job]:
        """The Jobs that the status records as finished and no cache shows: the original records failed ones as well.

        A version that is Ready does not look for them, because it stays Ready.
        """
        version = seen.version
        if plan.is_ready(version):
            return ()
        names_of_jobs = content.unseen(version, seen.jobs)
        found = [await self.client.find(Job, name, version.metadata.namespace) for name in names_of_jobs]
        own = [job for job in found if job is not None and job.metadata.is_controlled_by(version.metadata)]
        return [await self._adopt(version, job) for job in own]

    async def _adopt(self, version: CAPApplicationVersion, job: Job) -> Job:
        """Have a Job of the version as `content.adoption` asks. Returns the Job as it is then."""
        change, key = content.adoption(version, job), job.key
        if change is None:
            return job
        written = await self.client.patch(Job, key.name, key.namespace, MergePatch(change))
        self.caches.content_jobs.expect(key, written.metadata.resource_version)
        return written


@contextmanager
def _failing(reason: VersionReason) -> Iterator[None]:
    """What fails inside is reported with this reason."""
    try:
        yield
    except _OF_THE_SPEC + _USABLE_LATER as error:
        raise VersionFailed(reason, error) from error
