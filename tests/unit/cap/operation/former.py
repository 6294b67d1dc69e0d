"""The passes of an operation before they were steps, for the comparison with them (`test_same_as_former`).

Nothing else uses this. It goes as soon as the form of steps is no pilot any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import msgspec

from stellwerk.api.batch import Job
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import REFUSED
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names, preparation, retries
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.references import names_in, there_are
from stellwerk.operators.cap.kinds.status import READY, SUPERSEDED, RetryProgress, condition, observed
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    Operation,
    OperationState,
    OperationStatus,
    OperationStep,
    TenantState,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.metrics import CapMetrics
from stellwerk.operators.cap.operation import jobs
from stellwerk.operators.cap.pods.credentials import CredentialSecrets
from stellwerk.operators.cap.pods.last_words import last_words
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
from stellwerk.operators.cap.pods.workload_pods import ReservedVariable, check_variables
from stellwerk.operators.cap.reasons import OperationReason
from stellwerk.operators.cap.watches import BY_APPLICATION, BY_OWNER, Caches
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control import jobs as job_steps
from stellwerk.runtime.control.jobs import (
    Advance,
    AwaitJob,
    JobStep,
    JobStepFailed,
    RestartJob,
    StartJob,
    StepBlocked,
    StepDecision,
    failure_message,
    next_step,
)
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity, SimpleReconciler


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What the caches show of an operation and around it."""

    operation: CAPTenantOperation
    tenant: CAPTenant | None = None
    is_tenant_hidden: bool = False
    """Whether the tenant exists and could not be read so far."""
    siblings: Sequence[CAPTenantOperation] = ()
    """The operations that the tenant controls. They matter for one that is being deleted."""
    application: CAPApplication | None = None
    version: CAPApplicationVersion | None = None
    is_version_hidden: bool = False
    """Whether the version exists and could not be read so far."""
    jobs: Sequence[Job] = ()
    """The Jobs that the operation controls."""

    @property
    def has_running_job(self) -> bool:
        """Whether a Job of the operation has not ended."""
        return not all(job.has_ended for job in self.jobs)


@dataclass(frozen=True, slots=True)
class Rest:
    """There is nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class Release:
    """The operation is being deleted, and has ended and is recorded, or its tenant is gone: remove the finalizer."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Labels, annotations, the owner or the finalizer are absent: write them."""

    lacking: JsonObject


@dataclass(frozen=True, slots=True)
class RunStep:
    """Go on with a step; `number` counts from 1."""

    number: int
    step: OperationStep
    decision: StepDecision


@dataclass(frozen=True, slots=True)
class RunAgain:
    """The failed Job of a step has to run again. This is recorded before the Job is deleted."""

    number: int
    retry: RetryProgress
    job: Job | None
    """The failed one; None where it is gone."""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """There is a request to run a failed Job again, and none has failed: show it as handled."""


@dataclass(frozen=True, slots=True)
class Supersede:
    """The operation failed, and its tenant has gone on: show `cause`. Empty: it counts again."""

    cause: str


@dataclass(frozen=True, slots=True)
class Pause:
    """A failed Job runs again after this time."""

    seconds: float


CREATE_JOB, TRACK_JOB, RETRY_JOB = "CreateJob", "TrackJob", "RetryJob"
"""The actions of Events."""


@dataclass(frozen=True, slots=True)
class Report:
    """What the status of an operation shows, and the Event about it."""

    reason: OperationReason
    message: str
    state: OperationState = OperationState.PROCESSING
    step: int | None = None
    job: str = ""
    action: str = ""
    """Of the Event; empty for none."""
    has_ended: bool = False
    starts_next: bool = False
    """Whether another step is due now."""
    failed_step: int | None = None
    retry: RetryProgress | None = None
    """The retry that has to be recorded, with which a request is handled. It also sets when the next pass is due.

    Without one, that which is recorded stays until the step has ended.
    """


Action: TypeAlias = Rest | Release | Prepare | Report | RunStep | RunAgain | Acknowledge | Supersede | Pause


def next_action(seen: Snapshot, now: datetime) -> Action:
    """Decide what the operation needs next."""
    operation, status = seen.operation, seen.operation.status
    if is_released(operation):
        return Rest()
    if operation.metadata.is_terminating:
        if operation.has_ended:
            return Rest() if _awaits_record(seen) else Release()
    elif (lacking := _absent(seen)) is not None:
        return Prepare(lacking)
    if operation.has_ended:
        return _after_the_end(seen)
    if not operation.spec.steps:
        reason, message = OperationReason.StepProcessingError, f"{operation.ref} has no steps"
        return Report(reason, message, OperationState.FAILED, action=TRACK_JOB, has_ended=True)
    number = _number(seen)
    step = operation.spec.steps[number - 1]
    is_retry = retries.is_recorded(status.retry, seen.jobs)
    decision = next_step(operation, (_job_step(seen, number, step),), seen.jobs, finished=(), retry=is_retry)
    needs_tenant = isinstance(decision, StartJob | RestartJob | StepBlocked)
    if operation.metadata.is_terminating and seen.tenant is None and needs_tenant and not seen.has_running_job:
        return Release()
    lost = _lost_version(seen)
    failed = decision.job if isinstance(decision, JobStepFailed | RestartJob) else None
    if not lost and (retry := retries.to_record(operation, seen.application, decision, now)) is not None:
        return RunAgain(number, retry, failed)
    # A failure that is not repeated ends the operation at once: a request that is gone is acknowledged after the end.
    # A request that a lost version leaves without effect is not: to its tenant, the operation would be under way again.
    if (lost or not isinstance(decision, JobStepFailed)) and retries.is_unread(operation):
        return Acknowledge()
    if lost and isinstance(decision, StartJob | RestartJob) and not seen.has_running_job:
        return _without_job(operation, number, lost)
    if isinstance(decision, RestartJob) and (seconds := retries.seconds_left(status.retry, now)):
        return Pause(seconds)
    return RunStep(number, step, decision)


def _after_the_end(seen: Snapshot) -> Action:
    """An operation that has ended rests, until a user asks for its failed step."""
    operation = seen.operation
    if retries.is_asked_again(operation):
        number = _number(seen)
        jobs = [job for job in seen.jobs if step_of(job) == str(number)]
        failed = jobs[0] if len(jobs) == 1 and jobs[0].failure is not None else None
        return RunAgain(number, retries.on_request(operation.status.retry, failed), failed)
    if retries.is_unread(operation):
        return Acknowledge()
    cause = superseded(seen)
    return Supersede(cause) if bool(cause) != is_superseded(operation) else Rest()


def superseded(seen: Snapshot) -> str:
    """Why a failed operation is history, by what its tenant has become; empty if the tenant waits for its repetition.

    It decides as the tenant does, which acts on the newest operation of a type, if it should have that version.
    """
    operation, tenant, version = seen.operation, seen.tenant, seen.version
    kind = operation.spec.operation
    if operation.status.state != OperationState.FAILED:
        return ""
    if tenant is None:
        is_gone = operation.metadata.controller is not None and not seen.is_tenant_hidden
        return "its CAPTenant is gone" if is_gone else ""
    latest = newest((operation, *(each for each in seen.siblings if each.spec.operation == kind)))
    if latest is not None and latest.metadata.uid != operation.metadata.uid:
        return f"{latest.ref} of the same type is newer"
    if kind == Operation.DEPROVISIONING:
        return ""
    if tenant.metadata.is_terminating:
        return f"{tenant.ref} is being deleted"
    if tenant.status.current_version == operation.spec.version_name:
        return f"{tenant.ref} has {CAPApplicationVersion.resource.kind} {tenant.status.current_version}"
    if version is not None and tenant.spec.version not in ("", version.spec.version):
        return f"{tenant.ref} is to have version {tenant.spec.version}, not {version.spec.version}"
    if version is None and not seen.is_version_hidden and _is_settled(tenant):
        return f"its CAPApplicationVersion is gone, and {tenant.ref} is Ready without it"
    return ""


def _is_settled(tenant: CAPTenant) -> bool:
    status = tenant.status
    return status.state == TenantState.READY and status.observed_generation == tenant.metadata.generation


def is_superseded(operation: CAPTenantOperation) -> bool:
    """Whether a failed operation is shown as history."""
    return conditions.is_true(operation.status.conditions, SUPERSEDED)


def status_if_superseded(operation: CAPTenantOperation, cause: str, now: datetime) -> OperationStatus:
    """The status that shows a failed operation as history; without a cause, as one that counts."""
    if not cause:
        return _without_mark(operation.status)
    message = f"the failure needs nothing any more: {cause}"
    return observed(
        operation,
        operation.status,
        now,
        condition(operation, True, OperationReason.Superseded, message, type=SUPERSEDED),
    )


def _without_mark(status: OperationStatus) -> OperationStatus:
    return msgspec.structs.replace(status, conditions=conditions.without(status.conditions, SUPERSEDED))


def _awaits_record(seen: Snapshot) -> bool:
    """Whether the tenant needs an operation that has ended, to see that it succeeded."""
    operation, tenant = seen.operation, seen.tenant
    if operation.status.state != OperationState.COMPLETED:
        return False
    if tenant is None:
        return seen.is_tenant_hidden
    if tenant.metadata.is_terminating and names.TENANT_FINALIZER not in tenant.metadata.finalizers:
        return False
    same = [each for each in seen.siblings if each.spec.operation == operation.spec.operation]
    latest = newest((*same, operation))
    return latest is not None and latest.metadata.uid == operation.metadata.uid and is_unrecorded(operation, tenant)


def is_unrecorded(operation: CAPTenantOperation, tenant: CAPTenant) -> bool:
    """Whether the tenant has yet to act on the success of an operation, the newest one of its type."""
    if operation.status.state != OperationState.COMPLETED:
        return False
    current = tenant.status.current_version
    match operation.spec.operation:
        case Operation.PROVISIONING:
            return not current
        case Operation.UPGRADE:
            return current not in ("", operation.spec.version_name)
        case _:
            return tenant.metadata.is_terminating


def is_released(operation: CAPTenantOperation) -> bool:
    """Whether an operation is being deleted and nothing of ours keeps it any more."""
    metadata = operation.metadata
    return metadata.is_terminating and names.OPERATION_FINALIZER not in metadata.finalizers


def newest(operations: Iterable[CAPTenantOperation]) -> CAPTenantOperation | None:
    """The operation that was created last; None of none."""
    return max(operations, key=lambda each: (_created(each), each.metadata.name), default=None)


def _created(operation: CAPTenantOperation) -> float:
    created = operation.metadata.creation_timestamp
    return created.timestamp() if created is not None else 0.0


def without_tenant(seen: Snapshot, versions: Iterable[str]) -> str:
    """What an operation without an owner lacks to find its tenant. `versions`: the names of those of its namespace."""
    operation, spec, namespace = seen.operation, seen.operation.spec, seen.operation.metadata.namespace
    if seen.version is None:
        return (
            f"spec.capApplicationVersionInstance of {operation.ref} is {spec.version_name}, which does not exist "
            f"({there_are(versions)}): create it, or create the operation again. See them with: kubectl get cav "
            f"-n {namespace}"
        )
    return (
        f"there is no CAPTenant with the id {spec.tenant_id} of spec.tenantId of {operation.ref} for CAPApplication "
        f"{seen.version.application_key}: create the operation again with the id of a tenant. See them with: kubectl "
        f"get cat -n {namespace} -L {names.TENANT_ID_LABEL}"
    )


def _lost_version(seen: Snapshot) -> str:
    """Why the version of an operation will never have another Job for it, with the next step; empty where it may.

    A version that is being deleted does not become Ready any more. One without a tenant may be of a stale cache.
    """
    operation, version = seen.operation, seen.version
    if seen.tenant is None or seen.is_version_hidden or operation.spec.operation == Operation.DEPROVISIONING:
        return ""
    named = f"CAPApplicationVersion {operation.spec.version_name} of {operation.ref}"
    if version is None:
        return f"{named} does not exist: create it again, or set another spec.version of {seen.tenant.ref}"
    if version.metadata.is_terminating and not conditions.is_true(version.status.conditions, READY):
        return f"{named} is being deleted, and is not Ready: set another spec.version of {seen.tenant.ref}"
    return ""


def given_up(seen: Snapshot, number: int, cause: str) -> Report | None:
    """The end of an operation whose Job cannot be created, where what waits for the end goes; None where it goes on."""
    operation, tenant, version = seen.operation, seen.tenant, seen.version
    if seen.has_running_job or tenant is None or operation.spec.operation == Operation.DEPROVISIONING:
        return None
    # A provisioning may have left data behind, which a tenant without a version is not deprovisioned of.
    leaves = tenant.metadata.is_terminating and operation.spec.operation == Operation.UPGRADE
    if leaves or (version is not None and version.metadata.is_terminating):
        return _without_job(operation, number, cause)
    return None


def _without_job(operation: CAPTenantOperation, number: int, cause: str) -> Report:
    message = f"step {number}/{len(operation.spec.steps)}: {cause}"
    reason, state = OperationReason.StepFailed, OperationState.FAILED
    return Report(reason, message, state, action=TRACK_JOB, has_ended=True, failed_step=number)


def _absent(seen: Snapshot) -> JsonObject | None:
    operation, tenant = seen.operation, seen.tenant
    marks = marks_of(tenant, operation.spec.operation) if tenant is not None else {"labels": {}, "annotations": {}}
    former = names.former_identity(seen.application.spec) if seen.application is not None else ()
    lacking = preparation.absent(
        operation, names.OPERATION_FINALIZER, marks["labels"], marks["annotations"], tenant, former=former
    )
    # The annotation with the Secret of the payload goes along with another write, and is worth none of its own.
    payload = {names.CONTEXT_SECRET_ANNOTATION: marks["annotations"].get(names.CONTEXT_SECRET_ANNOTATION, "")}
    return lacking if lacking != {"annotations": payload} else None


def marks_of(tenant: CAPTenant, operation: str) -> dict[str, Mapping[str, str]]:
    """Labels and annotations of an operation on a tenant."""
    own = tenant.metadata
    copied = (names.APP_HASH_LABEL, names.LEGACY_APP_HASH_LABEL, names.TENANT_TYPE_LABEL, names.SUBSCRIPTION_GUID)
    labels = {
        **names.owner_labels(tenant.key, own.generation),
        **{label: own.labels[label] for label in copied if own.labels.get(label)},
        names.OPERATION_TYPE_LABEL: operation,
    }
    if tenant.spec.version:
        labels[names.VERSION_LABEL] = tenant.spec.version
    annotations = names.owner_annotations(tenant.key)
    if guid := own.annotations.get(names.SUBSCRIPTION_GUID, ""):
        annotations[names.SUBSCRIPTION_GUID] = guid
    if operation == Operation.PROVISIONING and (payload := own.annotations.get(names.CONTEXT_SECRET_ANNOTATION, "")):
        annotations[names.CONTEXT_SECRET_ANNOTATION] = payload
    return {"labels": labels, "annotations": annotations}


def job_name(seen: Snapshot, number: int, step: OperationStep) -> str:
    """The name of the Job of a step: the same in each pass and each process."""
    owner = seen.tenant.metadata.name if seen.tenant is not None else seen.operation.metadata.name
    return names.derived(f"{owner}-{step.name.lower()}", seen.operation.metadata.uid, str(number))


def _job_step(seen: Snapshot, number: int, step: OperationStep) -> JobStep:
    """A step as the engine runs it. Its Job is made by the reconciler, which knows what it is made from."""
    owner = names.owner_hash(seen.operation.key)
    return JobStep(
        name=str(number),
        job_name=job_name(seen, number, step),
        build=dict,
        labels={names.OWNER_HASH_LABEL: owner, names.OPERATION_STEP_LABEL: str(number)},
        may_fail=step.continue_on_failure,
    )


def _number(seen: Snapshot) -> int:
    """The step that is under way, or that failed. The original does not show the latter: the failed Job does."""
    status, steps = seen.operation.status, seen.operation.spec.steps
    number = status.current_step or status.failed_step
    if number is None and seen.operation.has_ended:
        failed = [int(step_of(job)) for job in seen.jobs if job.failure is not None and step_of(job).isdecimal()]
        number = max(failed, default=1)
    return min(max(number or 1, 1), len(steps))


# ---- the status


def report_of(
    operation: CAPTenantOperation, number: int, decision: StepDecision, *, is_new: bool = False, last_words: str = ""
) -> Report | None:
    """What is reported of step `number` after its decision was carried out; None where another pass is due first.

    `is_new`: the Job was created in this pass. `last_words`: how the containers of a failed Job ended.
    """
    position = f"step {number}/{len(operation.spec.steps)}"
    match decision:
        case AwaitJob(_, job) if is_new:
            message = f"{position}: job {names.dotted(job.key)} created"
            return Report(OperationReason.StepInitiated, message, step=number, job=job.metadata.name, action=CREATE_JOB)
        case AwaitJob(_, job):
            message = f"{position}: waiting for job {names.dotted(job.key)}"
            message += ", with whose end the operation goes" if operation.metadata.is_terminating else ""
            return Report(OperationReason.StepProcessing, message, step=number, job=job.metadata.name)
        case Advance(_, job, failure):
            outcome = f"{failure}; continuing operation" if failure else f"job {names.dotted(job.key)} completed"
            message = f"{position}: {outcome}"
            if number < len(operation.spec.steps):
                return Report(
                    OperationReason.StepCompleted, message, step=number + 1, action=TRACK_JOB, starts_next=True
                )
            completed = OperationState.COMPLETED
            return Report(OperationReason.StepCompleted, message, completed, action=TRACK_JOB, has_ended=True)
        case JobStepFailed(_, cause):
            message = f"{position}: {cause}{last_words}{retries.tried(operation.status.retry)}"
            reason, failed = OperationReason.StepFailed, OperationState.FAILED
            return Report(reason, message, failed, action=TRACK_JOB, has_ended=True, failed_step=number)
        case _:
            return None


def retry_report(operation: CAPTenantOperation, again: RunAgain, last_words: str) -> Report:
    """What is reported of a step that runs again; `last_words` is how its containers ended."""
    retry = again.retry
    cause = f"{failure_message(again.job)}{last_words}" if again.job is not None else "its Job is gone"
    is_asked = retry.next_attempt_time is None
    message = (
        f"step {again.number}/{len(operation.spec.steps)}: attempt {retry.attempts} follows"
        f"{' on request' if is_asked else ''}: {cause}"
    )
    job = again.job.metadata.name if again.job is not None else ""
    return Report(OperationReason.StepProcessing, message, step=again.number, job=job, action=RETRY_JOB, retry=retry)


def is_implied(report: Report, operation: CAPTenantOperation) -> bool:
    """Whether the status shows as much already: a Job that was created is running until something else is shown.

    A change of the operation, such as its deletion, is shown all the same.
    """
    status = operation.status
    shown = conditions.find(status.conditions, READY)
    is_initiated = shown is not None and shown.reason == OperationReason.StepInitiated
    is_same = status.active_job == report.job and status.observed_generation == operation.metadata.generation
    is_waiting = report.reason == OperationReason.StepProcessing and report.retry is None
    return is_initiated and is_same and is_waiting


def step_of(job: Job) -> str:
    """The number of the step that a Job belongs to, as its label has it; empty without the label."""
    return job.metadata.labels.get(names.OPERATION_STEP_LABEL, "")


def status_of(operation: CAPTenantOperation, report: Report, now: datetime) -> OperationStatus:
    """The status with a report."""
    ready = condition(operation, report.has_ended, report.reason, report.message)
    state = report.state
    if operation.metadata.is_terminating and not report.has_ended:
        state = OperationState.DELETING
    is_same_step, handled = report.reason != OperationReason.StepCompleted, operation.status.last_handled_retry
    return msgspec.structs.replace(
        observed(operation, _without_mark(operation.status), now, ready),
        state=state,
        current_step=report.step,
        active_job=report.job,
        failed_step=report.failed_step,
        retry=report.retry or (operation.status.retry if is_same_step else None),
        last_handled_retry=handled if report.retry is None else retries.request(operation),
    )


# ---- the reconciler

Answer = Next[OperationStatus]


class OperationFailed(ReconcileError):
    """A step cannot be carried out now."""

    reason = OperationReason.StepProcessingError
    action = TRACK_JOB


class TenantMissing(OperationFailed):
    """There is no tenant for the operation."""

    event_reason = OperationReason.InvalidReference
    action = "Prepare"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationReconciler(SimpleReconciler[CAPTenantOperation, OperationStatus]):
    """Brings one operation one step further."""

    client: Client
    caches: Caches
    credentials: CredentialSecrets
    clock: Clock
    counts: CapMetrics

    async def reconcile(self, operation: CAPTenantOperation) -> Answer:
        """Observe, decide, act. Raises OperationFailed, ApiError."""
        seen = self._snapshot(operation)
        match next_action(seen, self.clock.now()):
            case Rest():
                return Next.done()
            case Release():
                await finalizer.remove(self.client, operation, names.OPERATION_FINALIZER)
                return Next.done()
            case Prepare(lacking):
                return await self._prepare(seen, lacking)
            case Report() as report:
                return self._answer(operation, report)
            case Acknowledge():
                return Next.now(retries.acknowledged(operation, operation.status)).without_event()
            case Supersede(cause):
                return Next.done(status_if_superseded(operation, cause, self.clock.now())).without_event()
            case Pause(seconds):
                return Next.after(seconds)
            case RunAgain() as again:
                words = await last_words(self.client, again.job.key) if again.job is not None else ""
                return self._answer(operation, retry_report(operation, again, words))
            case RunStep() as action:
                return await self._run(seen, action)

    def report(self, operation: CAPTenantOperation, failure: ReconcileError) -> OperationStatus:
        """The failure, on top of how far the operation is. One that has ended stays as it is."""
        status = operation.status
        if operation.has_ended:
            return status
        reason = OperationReason.StepProcessingError
        if not isinstance(failure, OperationFailed):
            reason = OperationReason.RecoveredPanic
        report = Report(reason, str(failure), step=status.current_step, job=status.active_job)
        return status_of(operation, report, self.clock.now())

    def _snapshot(self, operation: CAPTenantOperation) -> Snapshot:
        caches = self.caches
        namespace = operation.metadata.namespace
        key = ObjectKey(namespace, operation.spec.version_name)
        version = caches.versions.store.get(key)
        tenant = self._tenant(operation, version)
        application = caches.applications.store.get(tenant.application_key) if tenant is not None else None
        owned = caches.jobs.store.by(BY_OWNER, operation.metadata.uid)
        controller = operation.metadata.controller
        return Snapshot(
            operation=operation,
            tenant=tenant,
            is_tenant_hidden=controller is not None and ObjectKey(namespace, controller.name) in caches.tenants.hidden,
            siblings=caches.operations.store.by(BY_OWNER, tenant.metadata.uid) if tenant is not None else (),
            application=application,
            version=version,
            is_version_hidden=key in caches.versions.hidden,
            jobs=owned,
        )

    def _tenant(self, operation: CAPTenantOperation, version: CAPApplicationVersion | None) -> CAPTenant | None:
        """The tenant that controls the operation; for one without a controller, the tenant with its id.

        Applications of one namespace may have the same subscriber, so the application must be that of the version.
        """
        controller = operation.metadata.controller
        store = self.caches.tenants.store
        if controller is not None:
            tenant = store.get(ObjectKey(operation.metadata.namespace, controller.name))
            return tenant if tenant is not None and tenant.metadata.uid == controller.uid else None
        if version is None:
            return None
        tenants = store.by(BY_APPLICATION, str(version.application_key))
        return next((tenant for tenant in tenants if tenant.spec.tenant_id == operation.spec.tenant_id), None)

    async def _prepare(self, seen: Snapshot, lacking: JsonObject) -> Answer:
        operation = seen.operation
        if seen.tenant is None and operation.metadata.controller is None:
            versions = names_in(operation.metadata.namespace, self.caches.versions.store.all())
            raise TenantMissing(without_tenant(seen, versions))
        try:
            await preparation.write(self.client, operation, lacking)
        except REFUSED as error:
            raise OperationFailed(str(error)) from error
        return Next.now()

    # ---- steps

    async def _run(self, seen: Snapshot, action: RunStep) -> Answer:
        decision, operation = action.decision, seen.operation
        is_new, words = isinstance(decision, StartJob), ""
        if isinstance(decision, StartJob):
            try:
                step = await self._with_job(seen, action, decision.step)
                decision = await job_steps.carry_out(self.client, operation, StartJob(step), self.caches.jobs)
            except (ReservedVariable, CredentialsUnusable, *REFUSED) as error:
                if (end := given_up(seen, action.number, str(error))) is not None:
                    return self._answer(operation, end)
                raise OperationFailed(str(error)) from error
        elif isinstance(decision, RestartJob):
            decision = await job_steps.carry_out(self.client, operation, decision)
        elif isinstance(decision, JobStepFailed):
            words = await last_words(self.client, decision.job.key)
        if isinstance(decision, StepBlocked):  # no Job failed, and those there are may run: the operation goes on
            raise OperationFailed(decision.message)
        report = report_of(operation, action.number, decision, is_new=is_new, last_words=words)
        return self._answer(operation, report)

    def _answer(self, operation: CAPTenantOperation, report: Report | None) -> Answer:
        """The status with a report, and its Event. Without a report, the next step is due."""
        if report is None:
            return Next.now()
        if is_implied(report, operation):
            return Next.done()
        now = self.clock.now()
        if report.has_ended:
            self.counts.ended(operation, report.state, now)
        status = status_of(operation, report, now)
        is_due = report.starts_next or (report.has_ended and operation.metadata.is_terminating)
        delay = 0.0 if is_due else None
        if report.retry is not None:  # the pass after it deletes the failed Job
            delay = retries.seconds_left(report.retry, now)
        answer = Next(status, delay).without_event()
        if not report.action:
            return answer
        severity = Severity.WARNING if report.state == OperationState.FAILED else Severity.NORMAL
        return answer.with_events(Notice(report.reason, report.message, severity, report.action))

    async def _with_job(self, seen: Snapshot, action: RunStep, step: JobStep) -> JobStep:
        """The step with the Job that it creates. Raises OperationFailed, ReservedVariable, CredentialsUnusable."""
        context, operation = _context(seen), seen.operation
        workload = jobs.workload_of(context.version, action.step)
        if workload is None:
            workloads = there_are(each.name for each in context.version.spec.workloads)
            raise OperationFailed(
                f"spec.steps of {operation.ref} names the workload {action.step.name}, which {context.version.ref} "
                f"does not have ({workloads}): create the operation again with another one"
            )
        check_variables(workload.name, jobs.job_details(workload))
        prefix, is_retry = f"{operation.metadata.name}-{workload.name.lower()}", operation.status.retry is not None
        secret = await self.credentials.keep(operation, prefix, context.application, workload, renews=is_retry)
        body = jobs.job(context, action.number, action.step, workload, secret)
        return replace(step, build=lambda: body)


def _context(seen: Snapshot) -> jobs.JobContext:
    """What a Job is made from. Raises OperationFailed where something is absent, or not ready."""
    operation, tenant, application, version = seen.operation, seen.tenant, seen.application, seen.version
    if tenant is None:
        raise OperationFailed(f"the CAPTenant of {operation.ref} does not exist")
    if application is None:
        raise OperationFailed(f"CAPApplication {tenant.spec.cap_application_instance} of {tenant.ref} does not exist")
    if version is None:
        raise OperationFailed(
            f"CAPApplicationVersion {operation.spec.version_name} of {operation.ref} does not exist. See those that "
            f"there are with: kubectl get cav -n {operation.metadata.namespace}"
        )
    is_provisioning = operation.spec.operation == Operation.PROVISIONING
    if is_provisioning and not tenant.metadata.annotations.get(names.CONTEXT_SECRET_ANNOTATION):
        raise OperationFailed(
            f"{tenant.ref} has no annotation {names.CONTEXT_SECRET_ANNOTATION}, which names the Secret with the "
            "payload of its subscription"
        )
    is_ready = conditions.is_true(version.status.conditions, READY)
    if not is_ready and operation.spec.operation != Operation.DEPROVISIONING:
        raise OperationFailed(
            f"{version.ref} is not Ready: stellwerk why cav/{version.metadata.name} -n {version.metadata.namespace}"
        )
    return jobs.JobContext(application=application, version=version, tenant=tenant, operation=operation)
