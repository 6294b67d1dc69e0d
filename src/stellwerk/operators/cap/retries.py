"""Runs a failed Job again, on request or by itself (pure).

A request is a value of the annotation `names.RETRY_ANNOTATION` that the status does not show as handled: each value
acts once. A retry is recorded in the status before anything is deleted, and it names the failed Job by its uid. So a
crash at any moment neither loses a retry nor counts it twice: the Job with this uid is deleted, and the one that takes
its place has another uid.

By itself a Job runs again only where the application asks for it (`spec.jobRetry`).
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypeAlias, TypeVar

import msgspec

from stellwerk.api.batch import Job
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.status import RetryProgress
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    OperationState,
    OperationStatus,
    TenantStatus,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionStatus
from stellwerk.runtime.control.jobs import JobStepFailed, RestartJob, StepDecision

Retried: TypeAlias = CAPTenant | CAPTenantOperation | CAPApplicationVersion
S = TypeVar("S", OperationStatus, TenantStatus, VersionStatus)

LONGEST_REQUEST = 256
"""Characters of a request that count. The status repeats them."""

LONGEST_PAUSE = timedelta(hours=1)


def request(obj: Retried) -> str:
    """The latest request; empty where there is none."""
    return obj.metadata.annotations.get(names.RETRY_ANNOTATION, "")[:LONGEST_REQUEST]


def is_pending(obj: Retried) -> bool:
    """Whether there is a request that the status does not show as handled."""
    return request(obj) not in ("", obj.status.last_handled_retry)


def is_unread(obj: Retried) -> bool:
    """Whether the status has to show another request as handled, or none: a request that is gone may come again."""
    return request(obj) != obj.status.last_handled_retry


def is_under_way(operation: CAPTenantOperation) -> bool:
    """Whether an operation has not ended, or runs its failed step again because a user asks for that."""
    return not operation.has_ended or is_asked_again(operation)


def is_asked_again(operation: CAPTenantOperation) -> bool:
    """Whether a user asks for the failed step of an operation that has ended."""
    has_failed = operation.status.state == OperationState.FAILED and bool(operation.spec.steps)
    return has_failed and is_pending(operation)


def acknowledged(obj: Retried, status: S) -> S:
    """The status that shows the request of an object as handled."""
    return msgspec.structs.replace(status, last_handled_retry=request(obj))


def is_recorded(progress: RetryProgress | None, jobs: Iterable[Job]) -> bool:
    """Whether one of the Jobs is the failed one that runs again."""
    return progress is not None and any(job.metadata.uid == progress.job for job in jobs)


def attempts(progress: RetryProgress | None) -> int:
    """How often a Job was started."""
    return progress.attempts if progress is not None else 1


def on_request(progress: RetryProgress | None, job: Job | None) -> RetryProgress:
    """The retry that a user asks for. `job` is the failed one; None where it is gone."""
    return RetryProgress(attempts=attempts(progress) + 1, job=job.metadata.uid if job is not None else "")


def to_record(
    obj: CAPApplicationVersion | CAPTenantOperation,
    application: CAPApplication | None,
    decision: StepDecision,
    now: datetime,
) -> RetryProgress | None:
    """The retry of a failed Job that has to be recorded; None where nothing has to.

    One that is recorded already, and waits, runs at once on request.
    """
    progress, is_asked = obj.status.retry, is_pending(obj)
    match decision:
        case JobStepFailed(_, _, job):
            return on_request(progress, job) if is_asked else by_itself(application, progress, job, now)
        case RestartJob() if is_asked and progress is not None and seconds_left(progress, now):
            return msgspec.structs.replace(progress, next_attempt_time=None)
        case _:
            return None


def by_itself(
    application: CAPApplication | None, progress: RetryProgress | None, job: Job, now: datetime
) -> RetryProgress | None:
    """The retry that the application asks for; None where it asks for none, or no attempt is left."""
    policy = application.spec.job_retry if application is not None else None
    tried = attempts(progress)
    if policy is None or tried >= policy.max_attempts:
        return None
    pause = timedelta(seconds=policy.delay_seconds) * 2 ** (tried - 1)
    due = now + min(pause, LONGEST_PAUSE)
    return RetryProgress(attempts=tried + 1, job=job.metadata.uid, next_attempt_time=due)


def seconds_left(progress: RetryProgress | None, now: datetime) -> float:
    """How long a recorded retry has to wait."""
    due = progress.next_attempt_time if progress is not None else None
    return max((due - now).total_seconds(), 0.0) if due is not None else 0.0


def tried(progress: RetryProgress | None) -> str:
    """How often a Job was started, to be appended to a sentence; empty after the first time."""
    count = attempts(progress)
    return f". It was tried {count} times" if count > 1 else ""
