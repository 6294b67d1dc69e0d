"""What an operation on a tenant needs next, as a value.

An operation whose condition Ready is True has ended, well or not; its reason shows which. A deletion waits for the end,
and after a success until the tenant has recorded it: a tenant that finds no operation starts another one.
An operation that failed runs its failed step again on request; a step that has failed runs again by itself if the
application asks for that, before the operation ends (see `cap.retries`).

An operation that needs a Job of a version that does not exist has failed: its tenant waits for the end of each
operation, and could neither get another version nor go. One whose Job cannot be created has failed as well if its
version is being deleted, or if it is an upgrade of a tenant that is: these wait for its end, and would do so for
ever. A deprovisioning waits for the version, and for the cause to be corrected, because its tenant can go with no
other.

An operation that failed stays `Failed`, as with the original, also after its tenant has gone on. The condition
`Superseded` shows that: nothing waits for such an operation, and no user has to act.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from stellwerk.api.batch import Job
from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap import names, preparation, retries
from stellwerk.operators.cap.collections import (
    APPLICATIONS,
    BINDINGS,
    CREDENTIALS,
    JOBS,
    OPERATIONS,
    TENANTS,
    VERSIONS,
    VERSIONS_IN,
    name_of,
)
from stellwerk.operators.cap.kinds.status import READY, RetryProgress
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenantOperation,
    Operation,
    OperationState,
    OperationStatus,
    OperationStep,
    TenantState,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.operation import ingredients, jobs, plan
from stellwerk.operators.cap.operation.around import OperationContext, former_identity, trial
from stellwerk.operators.cap.operation.ingredients import Unready
from stellwerk.operators.cap.operation.plan import TRACK_JOB, Report, is_released, is_unrecorded, newest
from stellwerk.operators.cap.pods.last_words import LastWords
from stellwerk.operators.cap.pods.vcap import CredentialsUnusable
from stellwerk.operators.cap.pods.workload_pods import ReservedVariable, check_variables
from stellwerk.operators.cap.reasons import OperationReason
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control.jobs import (
    JobStep,
    JobStepFailed,
    RestartJob,
    StartJob,
    StepBlocked,
    StepsDone,
    next_step,
    writes_of,
)
from stellwerk.runtime.control.step import Create, Delete, Failure, Patch, Refusal, RemoveFinalizer, Step, Wait
from stellwerk.runtime.reading.known import Absent, NotKnown, Present, Unknown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.reconciler import Notice, Severity

StepOfOperation: TypeAlias = Step[OperationStatus]

OWN = Use(OPERATIONS, "no CAPTenantOperation is seen, or held until it has ended", (Patch, RemoveFinalizer))
USES = (
    Use(APPLICATIONS, "no CAPTenantOperation finds its CAPApplication"),
    Use(VERSIONS, "no CAPTenantOperation finds its CAPApplicationVersion"),
    Use(TENANTS, "no CAPTenantOperation finds its CAPTenant"),
    Use(JOBS, "no operation runs", (Create, Delete), {"delete": "a failed Job runs again"}),
    Use(CREDENTIALS, "Jobs have no credentials of services", (Create,)),
    Use(BINDINGS, "it is not known which services are bound"),
)
"""What passes ask about and steps write, for the rights."""

# ---- the decision


def decide(operation: CAPTenantOperation, view: View) -> StepOfOperation:
    """What the operation needs next."""
    seen = OperationContext(operation, view)
    if is_released(operation):
        return Step()
    if operation.metadata.is_terminating:
        if operation.has_ended:
            return _leave(seen)
    elif (lacking := _absent(seen)) is not None:
        return _prepare(seen, lacking)
    if operation.has_ended:
        return _after_the_end(seen)
    if not operation.spec.steps:
        reason, message = OperationReason.StepProcessingError, f"{operation.ref} has no steps"
        return _reported(seen, Report(reason, message, OperationState.FAILED, action=TRACK_JOB, has_ended=True))
    return _run(seen, _number(seen))


def _leave(seen: OperationContext) -> StepOfOperation:
    """Of an operation that has ended and is being deleted."""
    if not _awaits_record(seen):
        return _release()
    message = "waiting until the tenant has recorded that the operation has succeeded"
    namespace, controller = seen.operation.metadata.namespace, seen.operation.metadata.controller
    return Step(waits=(Wait((TENANTS, ObjectKey(namespace, controller.name)) if controller else message, message),))


def _release() -> StepOfOperation:
    return Step(writes=(RemoveFinalizer(names.OPERATION_FINALIZER),))


def _absent(seen: OperationContext) -> JsonObject | None:
    operation, tenant = seen.operation, seen.tenant
    marks = plan.marks_of(tenant, operation.spec.operation) if tenant is not None else {"labels": {}, "annotations": {}}
    found = seen.view.get(APPLICATIONS, tenant.application_key, former_identity) if tenant is not None else Absent()
    former = found.value if isinstance(found, Present) else ()
    lacking = preparation.absent(
        operation, names.OPERATION_FINALIZER, marks["labels"], marks["annotations"], tenant, former=former
    )
    # The annotation with the Secret of the payload goes along with another write, and is worth none of its own.
    payload = {names.CONTEXT_SECRET_ANNOTATION: marks["annotations"].get(names.CONTEXT_SECRET_ANNOTATION, "")}
    return lacking if lacking != {"annotations": payload} else None


def _prepare(seen: OperationContext, lacking: JsonObject) -> StepOfOperation:
    operation = seen.operation
    if operation.metadata.controller is not None or seen.tenant is not None:
        return Step(writes=(Patch(OPERATIONS, operation, {"metadata": lacking}, _refused),))
    if isinstance(seen.known_version, Unknown):
        message = ingredients.unreadable(seen, CAPApplicationVersion.resource.kind, "cav", seen.version_key)
    elif isinstance(found := seen.known_tenant, Unknown):
        message = f"{operation.ref} may belong to a tenant that cannot be read: {found.why}"
    else:
        versions = seen.view.by(VERSIONS_IN, operation.metadata.namespace, name_of).values
        message = plan.without_tenant(operation, seen.version, versions)
    return Step(failure=Failure(message=message, event_reason=OperationReason.InvalidReference, action="Prepare"))


def _after_the_end(seen: OperationContext) -> StepOfOperation:
    """An operation that has ended rests, until a user asks for its failed step."""
    operation = seen.operation
    if retries.is_asked_again(operation):
        number = _number(seen)
        own = [job for job in seen.jobs if plan.step_of(job) == str(number)]
        failed = own[0] if len(own) == 1 and own[0].failure is not None else None
        return _run_again(seen, number, retries.on_request(operation.status.retry, failed), failed)
    if retries.is_unread(operation):
        return _acknowledge(seen)
    cause = superseded(seen)
    if bool(cause) == plan.is_superseded(operation):
        return Step()
    return Step(status=plan.status_if_superseded(operation, cause, seen.view.now))


def _acknowledge(seen: OperationContext) -> StepOfOperation:
    """There is a request to run a failed Job again, and none has failed: show it as handled."""
    return Step(status=retries.acknowledged(seen.operation, seen.operation.status))


def superseded(seen: OperationContext) -> str:
    """Why a failed operation is history, by what its tenant has become; empty if the tenant waits for its repetition.

    It decides as the tenant does, which acts on the newest operation of a type, if it should have that version.
    """
    operation = seen.operation
    kind = operation.spec.operation
    if operation.status.state != OperationState.FAILED:
        return ""
    tenant = seen.tenant
    if tenant is None:
        is_gone = operation.metadata.controller is not None and isinstance(seen.known_tenant, Absent)
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
    version = seen.version
    if version is not None and tenant.spec.version not in ("", version.spec.version):
        return f"{tenant.ref} is to have version {tenant.spec.version}, not {version.spec.version}"
    if isinstance(seen.known_version, Absent) and tenant.status.state == TenantState.READY:
        return f"its CAPApplicationVersion is gone, and {tenant.ref} is Ready without it"
    return ""


def _awaits_record(seen: OperationContext) -> bool:
    """Whether the tenant needs an operation that has ended, to see that it succeeded."""
    operation, tenant = seen.operation, seen.tenant
    if operation.status.state != OperationState.COMPLETED:
        return False
    if tenant is None:
        return operation.metadata.controller is not None and isinstance(seen.known_tenant, Unknown)
    if tenant.metadata.is_terminating and names.TENANT_FINALIZER not in tenant.metadata.finalizers:
        return False
    same = [each for each in seen.siblings if each.spec.operation == operation.spec.operation]
    latest = newest((*same, operation))
    return latest is not None and latest.metadata.uid == operation.metadata.uid and is_unrecorded(operation, tenant)


# ---- steps


def _run(seen: OperationContext, number: int) -> StepOfOperation:
    """Go on with a step; `number` counts from 1."""
    operation, status, now = seen.operation, seen.operation.status, seen.view.now
    step = operation.spec.steps[number - 1]
    job_step, is_retry = _job_step(seen, number, step), retries.is_recorded(status.retry, seen.jobs)
    decision = next_step(operation, (job_step,), seen.jobs, finished=(), retry=is_retry)
    needs_tenant = isinstance(decision, StartJob | RestartJob | StepBlocked)
    is_orphan = operation.metadata.is_terminating and isinstance(seen.known_tenant, Absent)
    if is_orphan and needs_tenant and not seen.has_running_job:
        return _release()
    lost = _lost_version(seen)
    failed = decision.job if isinstance(decision, JobStepFailed | RestartJob) else None
    # While it is not known what the application asks for, nothing is repeated that no user asks for.
    application = seen.application if isinstance(decision, JobStepFailed) else None
    if not lost and (retry := retries.to_record(operation, application, decision, now)) is not None:
        return _run_again(seen, number, retry, failed)
    # A failure that is not repeated ends the operation at once: a request that is gone is acknowledged after the end.
    # A request that a lost version leaves without effect is not: to its tenant, the operation would be under way again.
    if (lost or not isinstance(decision, JobStepFailed)) and retries.is_unread(operation):
        return _acknowledge(seen)
    if lost and isinstance(decision, StartJob | RestartJob) and not seen.has_running_job:
        return _reported(seen, plan.without_job(operation, number, lost))
    match decision:
        case StartJob():
            return _start(seen, number, step, job_step)
        case RestartJob():
            due = status.retry.next_attempt_time if status.retry is not None else None
            if due is not None and not seen.view.is_past(due):
                return Step(waits=(Wait(due, "waiting for the next attempt"),))
            return Step(writes=writes_of(decision, operation, JOBS, _refused))
        case StepBlocked(_, message):  # no Job failed, and those there are may run: the operation goes on
            return _failing(message)
        case StepsDone():
            raise AssertionError("the step is not finished")
        case _:
            words = _last_words(seen, failed) if failed is not None else ""
            return _reported(seen, plan.report_of(operation, number, decision, words))


def _run_again(seen: OperationContext, number: int, retry: RetryProgress, job: Job | None) -> StepOfOperation:
    """The failed Job of a step has to run again. This is recorded before the Job is deleted; None: it is gone."""
    words = _last_words(seen, job) if job is not None else ""
    return _reported(seen, plan.retry_report(seen.operation, number, retry, job, words))


def _last_words(seen: OperationContext, job: Job) -> str:
    found = seen.view.load(LastWords(job.key, job.metadata.uid))
    if isinstance(found, Unknown):
        raise NotKnown(f"the pods of Job {job.key}", found.why)
    return found.value if isinstance(found, Present) else ""


def _reported(seen: OperationContext, report: Report) -> StepOfOperation:
    """The status with a report, its Event, and the Job that is waited for."""
    operation = seen.operation
    job = (JOBS, ObjectKey(operation.metadata.namespace, report.job))
    waits = (Wait(job, report.message),) if report.job else ()
    if plan.is_implied(report, operation):
        return Step(waits=waits)
    return Step(status=plan.status_of(operation, report, seen.view.now), events=_events(report), waits=waits)


def _events(report: Report) -> tuple[Notice, ...]:
    severity = Severity.WARNING if report.state == OperationState.FAILED else Severity.NORMAL
    return (Notice(report.reason, report.message, severity, report.action),) if report.action else ()


def _start(seen: OperationContext, number: int, step: OperationStep, job_step: JobStep) -> StepOfOperation:
    """Create the Job of a step, and the Secret that it reads."""
    operation, key = seen.operation, ObjectKey(seen.operation.metadata.namespace, job_step.job_name)
    refused = _refusal_of(seen, number)
    try:
        context = ingredients.job_context(seen)
        workload = ingredients.workload_of(seen, context.version, step)
        check_variables(workload.name, jobs.job_details(workload))
        secret, writes = ingredients.secret(seen, number, context.application, workload, refused)
    except Unready as unready:
        return _failing(str(unready))
    except (ReservedVariable, CredentialsUnusable) as error:
        end = given_up(seen, number, str(error))
        return _reported(seen, end) if end is not None else _failing(str(error))
    if (there := seen.view.find(JOBS, key, trial)) is not None:
        blocked = next_step(operation, (job_step,), (there,), finished=())
        return _failing(blocked.message if isinstance(blocked, StepBlocked) else f"waiting until {there.ref} is seen")
    body = jobs.job(context, number, step, workload, secret)
    report = plan.started(operation, number, key)
    return replace(
        _reported(seen, report),
        writes=(*writes, *writes_of(StartJob(replace(job_step, build=lambda: body)), operation, JOBS, refused)),
    )


def _lost_version(seen: OperationContext) -> str:
    """Why the version of an operation will never have another Job for it, with the next step; empty if it may.

    A version that is being deleted does not become Ready any more. One without a tenant may be of a stale cache.
    """
    operation, tenant = seen.operation, seen.tenant
    if tenant is None or operation.spec.operation == Operation.DEPROVISIONING:
        return ""
    found, named = seen.known_version, f"CAPApplicationVersion {operation.spec.version_name} of {operation.ref}"
    if isinstance(found, Absent):
        return f"{named} does not exist: create it again, or set another spec.version of {tenant.ref}"
    version = seen.version
    is_leaving = version is not None and version.metadata.is_terminating
    if version is not None and is_leaving and not conditions.is_true(version.status.conditions, READY):
        return f"{named} is being deleted, and is not Ready: set another spec.version of {tenant.ref}"
    return ""


def given_up(seen: OperationContext, number: int, cause: str) -> Report | None:
    """The end of an operation whose Job cannot be created, if what waits for the end goes; None if it goes on."""
    operation, tenant, version = seen.operation, seen.tenant, seen.version
    if seen.has_running_job or tenant is None or operation.spec.operation == Operation.DEPROVISIONING:
        return None
    # A provisioning may have left data behind, which a tenant without a version is not deprovisioned of.
    leaves = tenant.metadata.is_terminating and operation.spec.operation == Operation.UPGRADE
    if leaves or (version is not None and version.metadata.is_terminating):
        return plan.without_job(operation, number, cause)
    return None


def _job_step(seen: OperationContext, number: int, step: OperationStep) -> JobStep:
    """A step as the engine runs it. Its Job is made when it starts."""
    operation, tenant = seen.operation, seen.tenant
    return JobStep(
        name=str(number),
        job_name=plan.job_name(operation, tenant, number, step),
        build=dict,
        labels={
            names.OWNER_HASH_LABEL: names.owner_hash(operation.key),
            names.OPERATION_STEP_LABEL: str(number),
        },
        may_fail=step.continue_on_failure,
    )


def _number(seen: OperationContext) -> int:
    """The step that is under way, or that failed. The original does not show the latter: the failed Job does."""
    status, steps = seen.operation.status, seen.operation.spec.steps
    number = status.current_step or status.failed_step
    if number is None and seen.operation.has_ended:
        by_job = [(job, plan.step_of(job)) for job in seen.jobs]
        failed = [int(step) for job, step in by_job if job.failure is not None and step.isdecimal()]
        number = max(failed, default=1)
    return min(max(number or 1, 1), len(steps))


# ---- failures


def _failing(message: str) -> StepOfOperation:
    return Step(failure=_refused(message, None))


def _refused(message: str, error: StatusError | None) -> Failure:
    return Failure(message=message, action=TRACK_JOB)


def _refusal_of(seen: OperationContext, number: int) -> Refusal:
    """What it means if the Job or its Secret cannot be created: the operation ends, or it is tried again."""

    def refused(message: str, error: StatusError | None) -> Failure:
        if (end := given_up(seen, number, message)) is None:
            return _refused(message, error)
        status = plan.status_of(seen.operation, end, seen.view.now)
        return Failure(message=end.message, event_reason=end.reason, action=end.action, status=status)

    return refused


@dataclass(slots=True)
class OperationLogic:
    """An operation, for the engine."""

    clock: Clock
    collection: Collection[CAPTenantOperation] = OPERATIONS

    def decide(self, operation: CAPTenantOperation, view: View) -> StepOfOperation:
        """As `Logic.decide`."""
        return decide(operation, view)

    def unknown(self, operation: CAPTenantOperation, view: View, missing: NotKnown) -> StepOfOperation:
        """Mostly something that is being loaded, which is not worth a write."""
        return Step(waits=(Wait(str(missing)),))

    def failed(self, operation: CAPTenantOperation, failure: Failure) -> OperationStatus:
        """The failure, on top of how far the operation is. One that has ended stays as it is."""
        return self._told(operation, OperationReason.StepProcessingError, failure.message)

    def unexpected(self, operation: CAPTenantOperation, message: str) -> OperationStatus:
        """As `failed`, for a bug."""
        return self._told(operation, OperationReason.RecoveredPanic, message)

    def _told(self, operation: CAPTenantOperation, reason: OperationReason, message: str) -> OperationStatus:
        status = operation.status
        if operation.has_ended:
            return status
        report = Report(reason, message, step=status.current_step, job=status.active_job)
        return plan.status_of(operation, report, self.clock.now())
