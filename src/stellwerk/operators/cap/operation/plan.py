"""What the status of an operation on a tenant shows, and the messages about it (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from stellwerk.api.batch import Job
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import names, retries
from stellwerk.operators.cap.kinds.references import there_are
from stellwerk.operators.cap.kinds.status import READY, SUPERSEDED, RetryProgress, condition, observed
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    Operation,
    OperationState,
    OperationStatus,
    OperationStep,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import OperationReason
from stellwerk.runtime import conditions
from stellwerk.runtime.control.jobs import (
    Advance,
    AwaitJob,
    JobStepFailed,
    failure_message,
)

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
    failed_step: int | None = None
    retry: RetryProgress | None = None
    """The retry that has to be recorded, with which a request is handled. It also sets when the next pass is due.

    Without one, that which is recorded stays until the step has ended.
    """


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


def without_tenant(operation: CAPTenantOperation, version: CAPApplicationVersion | None, others: Iterable[str]) -> str:
    """What an operation without an owner lacks to find its tenant. `others`: the versions of its namespace."""
    spec, namespace = operation.spec, operation.metadata.namespace
    if version is None:
        return (
            f"spec.capApplicationVersionInstance of {operation.ref} is {spec.version_name}, which does not exist "
            f"({there_are(others)}): create it, or create the operation again. See them with: kubectl get cav "
            f"-n {namespace}"
        )
    return (
        f"there is no CAPTenant with the id {spec.tenant_id} of spec.tenantId of {operation.ref} for CAPApplication "
        f"{version.application_key}: create the operation again with the id of a tenant. See them with: kubectl "
        f"get cat -n {namespace} -L {names.TENANT_ID_LABEL}"
    )


def without_job(operation: CAPTenantOperation, number: int, cause: str) -> Report:
    """The end of an operation that gets no Job any more."""
    message = f"{_position(operation, number)}: {cause}"
    reason, state = OperationReason.StepFailed, OperationState.FAILED
    return Report(reason, message, state, action=TRACK_JOB, has_ended=True, failed_step=number)


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


def job_name(operation: CAPTenantOperation, tenant: CAPTenant | None, number: int, step: OperationStep) -> str:
    """The name of the Job of a step: the same in each pass and each process."""
    owner = tenant if tenant is not None else operation
    return names.derived(f"{owner.metadata.name}-{step.name.lower()}", operation.metadata.uid, str(number))


# ---- the status


def started(operation: CAPTenantOperation, number: int, job: ObjectKey) -> Report:
    """What is reported of step `number` when its Job is created."""
    message = f"{_position(operation, number)}: job {names.dotted(job)} created"
    return Report(OperationReason.StepInitiated, message, step=number, job=job.name, action=CREATE_JOB)


def report_of(
    operation: CAPTenantOperation, number: int, decision: AwaitJob | Advance | JobStepFailed, last_words: str = ""
) -> Report:
    """What is reported of step `number`. `last_words`: how the containers of a failed Job ended."""
    position = _position(operation, number)
    match decision:
        case AwaitJob(_, job):
            message = f"{position}: waiting for job {names.dotted(job.key)}"
            message += ", with whose end the operation goes" if operation.metadata.is_terminating else ""
            return Report(OperationReason.StepProcessing, message, step=number, job=job.metadata.name)
        case Advance(_, job, failure):
            outcome = f"{failure}; continuing operation" if failure else f"job {names.dotted(job.key)} completed"
            message = f"{position}: {outcome}"
            if number < len(operation.spec.steps):
                return Report(OperationReason.StepCompleted, message, step=number + 1, action=TRACK_JOB)
            completed = OperationState.COMPLETED
            return Report(OperationReason.StepCompleted, message, completed, action=TRACK_JOB, has_ended=True)
        case JobStepFailed(_, cause):
            message = f"{position}: {cause}{last_words}{retries.tried(operation.status.retry)}"
            reason, failed = OperationReason.StepFailed, OperationState.FAILED
            return Report(reason, message, failed, action=TRACK_JOB, has_ended=True, failed_step=number)


def _position(operation: CAPTenantOperation, number: int) -> str:
    return f"step {number}/{len(operation.spec.steps)}"


def retry_report(
    operation: CAPTenantOperation, number: int, retry: RetryProgress, job: Job | None, last_words: str
) -> Report:
    """What is reported of a step that runs again; `job` is the failed one, None if it is gone."""
    cause = f"{failure_message(job)}{last_words}" if job is not None else "its Job is gone"
    is_asked = retry.next_attempt_time is None
    message = (
        f"{_position(operation, number)}: attempt {retry.attempts} follows{' on request' if is_asked else ''}: {cause}"
    )
    name = job.metadata.name if job is not None else ""
    return Report(OperationReason.StepProcessing, message, step=number, job=name, action=RETRY_JOB, retry=retry)


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
