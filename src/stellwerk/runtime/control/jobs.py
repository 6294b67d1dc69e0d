"""Run Jobs one after the other as the steps of an operation, each exactly once.

`next_step` decides from the Jobs in the cluster and from the steps that the owner's status records as finished; it is
pure. `carry_out` makes the one write that the decision asks for. The caller records a finished step in the status after
`Advance`, and only then asks for the next step. A crash between two of these writes loses nothing:

- A Job was created, but the status was not written: the next pass finds the Job under its deterministic name.
- The cache does not show the Job yet: the API server answers AlreadyExists, and the Job is read and adopted.
- A Job ended, but its step was not recorded: the next pass returns the same `Advance`.
- A step was recorded, and the TTL controller (`ttlSecondsAfterFinished`) deleted its Job: the step does not run again.

A step that is not recorded runs again when its Job is gone. That is how a user retries a failed Job by deleting it. It
also means that a TTL must be longer than the operator may be down, and that an owner whose failed steps are final must
record the failure. A finalizer on the Job would prevent the second run, but would keep the Job and its namespace from
being deleted without the operator, so it was rejected.

A Job belongs to a step if the owner controls it (by uid) and it carries the step's labels. The name does not matter
then, so Jobs that another version of the operator created under generated names are adopted as well. A step without
labels is matched by name. A Job with the step's name that belongs to another owner is never adopted.

Such a Job, and a second Job of a step, are not failures of the step: `StepBlocked` lasts until a user deletes one Job.
An owner reports it as an error that it tries again, because its caches may not show the Job of another owner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Collection as Several
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from stellwerk.api.batch import Job
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, Kind, owner_reference
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.control.step import Create, Delete, Refusal, Write
from stellwerk.runtime.reading.questions import Collection


@dataclass(frozen=True, slots=True)
class JobStep:
    """One step of an operation.

    `name`: identifies the step in the owner's status.
    `job_name`: the deterministic name of its Job.
    `build`: returns the Job; called only when the Job must be created. `carry_out` sets its name, namespace and owner
    and adds `labels`.
    `labels`: what distinguishes the Job from Jobs of other steps of the owner; empty to find it by its name.
    `may_fail`: whether the operation continues after the Job failed.
    """

    name: str
    job_name: str
    build: Callable[[], JsonObject]
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    may_fail: bool = False


@dataclass(frozen=True, slots=True)
class StartJob:
    """The step has no Job. Next: AwaitJob, or StepBlocked if the name belongs to another owner."""

    step: JobStep


@dataclass(frozen=True, slots=True)
class AwaitJob:
    """The Job runs, or is being deleted. Next: Advance, JobStepFailed, or StartJob when it is gone."""

    step: JobStep
    job: Job


@dataclass(frozen=True, slots=True)
class RestartJob:
    """The Job failed and a retry is requested. Next: AwaitJob until the Job is gone, then StartJob."""

    step: JobStep
    job: Job


@dataclass(frozen=True, slots=True)
class Advance:
    """The step is finished and must be recorded in the status. Next: any state of the following step, or StepsDone.

    `failure` is the message of a failure that the step permits; empty if the Job succeeded.
    """

    step: JobStep
    job: Job
    failure: str = ""


@dataclass(frozen=True, slots=True)
class JobStepFailed:
    """The Job failed, and the operation stops. Next: RestartJob on request, or StartJob when the Job is deleted."""

    step: JobStep
    message: str
    job: Job


@dataclass(frozen=True, slots=True)
class StepBlocked:
    """The step has several Jobs, which may run, or another owner has its Job name. Next: any, when one Job is deleted.

    `message` names the Jobs.
    """

    step: JobStep
    message: str


@dataclass(frozen=True, slots=True)
class StepsDone:
    """All steps are recorded as finished."""


StepDecision: TypeAlias = StartJob | AwaitJob | RestartJob | Advance | JobStepFailed | StepBlocked | StepsDone


def next_step(
    owner: Kind, steps: Sequence[JobStep], jobs: Iterable[Job], *, finished: Several[str], retry: bool = False
) -> StepDecision:
    """Decide what the first unfinished step needs.

    `jobs`: the Jobs of the owner's namespace, or any part of them that contains those which the owner controls.
    `finished`: names of the steps that the status records as finished.
    `retry`: a user asks to run a failed Job again. The caller removes the request as soon as the decision is not
    RestartJob, and before `carry_out`: a request that is still there would restart the new Job when it fails.
    """
    step = next((step for step in steps if step.name not in finished), None)
    if step is None:
        return StepsDone()
    present = [job for job in jobs if job.metadata.namespace == owner.metadata.namespace]
    candidates = [job for job in present if _belongs(job, step, owner)]
    if len(candidates) > 1:
        return StepBlocked(step, _ambiguous(step, candidates))
    if candidates:
        return _progress(step, candidates[0], retry)
    stranger = next((job for job in present if job.metadata.name == step.job_name), None)
    return StartJob(step) if stranger is None else StepBlocked(step, _name_taken(step, stranger, owner))


async def carry_out(
    client: Client, owner: Kind, decision: StepDecision, cache: Informer[Job] | None = None
) -> StepDecision:
    """Make the write that a decision asks for, and return the state after it.

    StartJob creates the Job and adopts one that is already there. RestartJob deletes the Job and its pods. All others
    write nothing. `cache`: what the Jobs of the next decision come from; a controller then decides only when it shows
    the new Job. Raises ApiError.
    """
    match decision:
        case StartJob(step):
            match await conditional.ensure(client, Job, _body(step, owner), lambda job: _belongs(job, step, owner)):
                case conditional.Ensured(created, is_new=True):
                    if cache is not None:
                        cache.expect(created.key, created.metadata.resource_version)
                    return AwaitJob(step, created)
                case conditional.Ensured(existing) | conditional.Taken(existing):
                    return next_step(owner, (step,), (existing,), finished=())
        case RestartJob(step, job):
            metadata = job.metadata
            await client.delete(Job, metadata.name, metadata.namespace, uid=metadata.uid, propagation="Background")
            return AwaitJob(step, job)
        case AwaitJob() | Advance() | JobStepFailed() | StepBlocked() | StepsDone():
            return decision


def writes_of(decision: StepDecision, owner: Kind, jobs: Collection[Job], refused: Refusal) -> tuple[Write, ...]:
    """What a decision asks for, as values: for owners that decide by steps, in the place of `carry_out`.

    A Job that has the name already is laid over the view, so `next_step` must be given it as well: it may be ours.
    """
    match decision:
        case StartJob(step):
            return (Create(jobs, _body(step, owner), refused),)
        case RestartJob(_, job):
            return (Delete(jobs, job, refused, "it failed, and runs again", propagation="Background"),)
        case AwaitJob() | Advance() | JobStepFailed() | StepBlocked() | StepsDone():
            return ()


def _progress(step: JobStep, job: Job, retry: bool) -> StepDecision:
    if job.is_complete:
        return Advance(step, job)
    if job.failure is not None and step.may_fail:
        return Advance(step, job, failure_message(job))
    if job.failure is None or job.metadata.is_terminating:
        return AwaitJob(step, job)
    return RestartJob(step, job) if retry else JobStepFailed(step, failure_message(job), job)


def failure_message(job: Job) -> str:
    """Why a Job failed, and where to read more."""
    name, namespace = job.metadata.name, job.metadata.namespace
    condition = job.failure
    details = (condition.reason, condition.message.removesuffix(".")) if condition is not None else ()
    cause = ": ".join(detail for detail in details if detail) or "no reason given"
    return f"Job {namespace}/{name} failed: {cause}. Read its logs with: kubectl logs job/{name} -n {namespace}"


def _belongs(job: Job, step: JobStep, owner: Kind) -> bool:
    if not job.metadata.is_controlled_by(owner.metadata):
        return False
    if not step.labels:
        return job.metadata.name == step.job_name
    return step.labels.items() <= job.metadata.labels.items()


def _body(step: JobStep, owner: Kind) -> JsonObject:
    body = step.build()
    given = body.get("metadata")
    metadata: JsonObject = {**given} if isinstance(given, dict) else {}
    labels = metadata.get("labels")
    metadata |= {
        "name": step.job_name,
        "namespace": owner.metadata.namespace,
        "labels": {**(labels if isinstance(labels, dict) else {}), **step.labels},
        "ownerReferences": [msgspec.to_builtins(owner_reference(owner))],
    }
    return {"apiVersion": Job.resource.api_version, "kind": Job.resource.kind, **body, "metadata": metadata}


def _ambiguous(step: JobStep, jobs: Sequence[Job]) -> str:
    names = ", ".join(sorted(job.metadata.name for job in jobs))
    namespace = jobs[0].metadata.namespace
    return f"step {step.name} has {len(jobs)} Jobs in namespace {namespace}: {names}. Delete all but one of them"


def _name_taken(step: JobStep, job: Job, owner: Kind) -> str:
    controller = job.metadata.controller
    if controller is None:
        holder = "has no controlling owner"
    elif controller.uid == owner.metadata.uid:
        holder = f"does not carry the labels of step {step.name}"
    else:
        holder = f"belongs to {controller.kind} {controller.name} (uid {controller.uid})"
    return (
        f"step {step.name} of {owner.ref} cannot use Job {job.metadata.namespace}/{job.metadata.name}, which exists "
        f"and {holder}. Delete or rename that Job"
    )
