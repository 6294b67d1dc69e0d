"""Content jobs of a version: one after the other, each exactly once (pure; spec section 6.1)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stellwerk.api.batch import Job
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, JobType, Workload
from stellwerk.operators.cap.pods import workload_pods
from stellwerk.operators.cap.version import resources
from stellwerk.runtime.control.jobs import JobStep, StepDecision, next_step

_UNNAMED = "content"


class UnknownContentJob(ValueError):
    """`spec.contentJobs` names a workload that is no content job."""


def next_job(version: CAPApplicationVersion, jobs: Sequence[Job], *, retry: bool) -> StepDecision:
    """What the first content job that has not ended needs. Raises UnknownContentJob.

    A Job that failed is not finished: the jobs after it wait until a user asks to run it again.
    """
    steps = [JobStep(name=name, job_name=name, build=dict) for name, _ in ordered(version)]
    failed = {job.metadata.name for job in jobs if job.failure is not None}
    return next_step(version, steps, jobs, finished=set(_finished(version)) - failed, retry=retry)


def unseen(version: CAPApplicationVersion, jobs: Iterable[Job]) -> Sequence[str]:
    """The Jobs that the version records as finished and that are not among `jobs`. Raises UnknownContentJob.

    A Job of the original that failed is one of them, until it has our label.
    """
    shown = {job.metadata.name for job in jobs}
    return [name for name in _finished(version) if name not in shown]


def adoption(version: CAPApplicationVersion, job: Job) -> JsonObject | None:
    """What a Job of the version has to become, as a patch; None where it is that already.

    The original gives its Jobs no label, so that no cache selects them. A failed Job loses its TTL: a Job that is gone
    runs again, and only a user, or `spec.jobRetry`, asks for that.
    """
    metadata: JsonObject = {}
    spec: JsonObject = {}
    if names.OWNER_HASH_LABEL not in job.metadata.labels:
        metadata["labels"] = {names.OWNER_HASH_LABEL: names.owner_hash(version.key)}
    if job.failure is not None and job.spec.ttl_seconds_after_finished is not None:
        spec["ttlSecondsAfterFinished"] = None
    if not metadata and not spec:
        return None
    return {"metadata": {**metadata, "uid": job.metadata.uid}, **({"spec": spec} if spec else {})}


def ordered(version: CAPApplicationVersion) -> list[tuple[str, Workload]]:
    """The content jobs in their order, each with the name of its Job. Raises UnknownContentJob.

    Without a list it is the first content job.
    """
    listed, prefix = version.spec.content_jobs, version.metadata.name
    found = {each.name: each for each in version.spec.workloads if each.job and each.job.type == JobType.CONTENT}
    if listed is None:
        return [(f"{prefix}-{_UNNAMED}", workload) for workload in [*found.values()][:1]]
    if unknown := next((name for name in listed if name not in found), None):
        raise UnknownContentJob(
            f"{version.ref} names {unknown} in spec.contentJobs, which is not a workload of type Content: name only "
            "content jobs there, in another CAPApplicationVersion"
        )
    return [(f"{prefix}-{name.lower()}", found[name]) for name in listed]


def job(version: CAPApplicationVersion, workload: Workload, secret: str) -> JsonObject:
    """The Job of a content job, without name and owner. `secret` has the credentials of the workload.

    The label is ours: it is what the cache of Jobs selects them by. Raises ReservedVariable, and UnusableWorkload where
    no Deployment of the version could be created: it does not load content that nothing uses.
    """
    details = workload.job
    assert details is not None, workload.name
    resources.check_number(version)
    workload_pods.check_variables(workload.name, details)
    env: list[JsonValue] = [{"name": workload_pods.VERSION_VARIABLE, "value": version.spec.version}]
    labels = {**(workload.labels or {}), names.CONTENT_JOB_LABEL: "true"}
    annotations: JsonObject = {**(workload.annotations or {})}
    main = workload_pods.container(workload.name, details, env, secret) | workload_pods.command(details)
    pod = workload_pods.pod_spec(
        details,
        main,
        workload_pods.init_containers(details, env, secret),
        registry_secrets=version.spec.registry_secrets,
        labels=labels,
        restart_policy=details.restart_policy or "Never",
    )
    template: JsonObject = {"metadata": {"labels": {**labels}, "annotations": annotations}, "spec": pod}
    metadata: JsonObject = {"labels": {names.OWNER_HASH_LABEL: names.owner_hash(version.key)}}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": workload_pods.job_spec(details, template)}


def recorded_as(job_name: str) -> Sequence[str]:
    """The names under which `status.finishedJobs` may have a Job; the original also records it with a suffix."""
    return (job_name, f"{job_name}-{_UNNAMED}")


def _finished(version: CAPApplicationVersion) -> Sequence[str]:
    """The content jobs that are recorded as finished. Raises UnknownContentJob."""
    recorded = {*version.status.finished_jobs}
    return [name for name, _ in ordered(version) if any(each in recorded for each in recorded_as(name))]
