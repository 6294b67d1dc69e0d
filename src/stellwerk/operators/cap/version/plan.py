"""What a version needs next, and what its status shows (pure; spec section 6).

A version is Ready when its content jobs have ended, its Deployments are available, and the domains of its application
serve the subdomains that it exposes. It stays Ready then: Deployments that become unavailable later keep neither
tenants from being provisioned nor requests from being routed, and a status that follows them would only flap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import msgspec

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import Condition
from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.cap import names, preparation, retries
from stellwerk.operators.cap.kinds import references
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.status import (
    GRANT_SECRETS,
    READY,
    SUPERSEDED,
    RetryProgress,
    condition,
    observed,
    see_why,
)
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, hidden_message
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionState, VersionStatus
from stellwerk.operators.cap.reasons import VersionReason
from stellwerk.operators.cap.version.content import recorded_as
from stellwerk.operators.cap.version.order import latest_ready
from stellwerk.runtime import conditions
from stellwerk.runtime.control.jobs import AwaitJob, JobStepFailed, RestartJob, StepDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionSnapshot:
    """What the caches show of a version and around it."""

    version: CAPApplicationVersion
    application: CAPApplication | None = None
    applications: Sequence[str] = ()
    """The names of those in the namespace, where its own does not exist."""
    is_application_hidden: bool = False
    """Whether the application exists and could not be read so far."""
    missing_secrets: Sequence[str] = ()
    """Secrets of the application's services that do not exist."""
    unknown_secrets: str = ""
    """Why it is not known which Secrets exist; empty where it is."""
    jobs: Sequence[Job] = ()
    deployments: Sequence[Deployment] = ()
    """Jobs and Deployments that the version controls."""
    tenants: Sequence[CAPTenant] = ()
    hidden_tenants: Sequence[ObjectKey] = ()
    """Tenants of the namespace that could not be read so far: they may use the version."""
    operations: Sequence[CAPTenantOperation] = ()
    """Those that name the version."""
    versions: Sequence[CAPApplicationVersion] = ()
    """All of the application."""
    unready_domain: str = ""
    """What keeps a domain of the application from being ready; empty where all are."""
    unusable_rules: str = ""
    """Why the version is never found to be unused, if its application asks for that."""


@dataclass(frozen=True, slots=True)
class Rest:
    """There is nothing to do until something changes."""


@dataclass(frozen=True, slots=True)
class Release:
    """No tenant and no operation uses the version: remove the finalizer."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Labels, annotations, the owner or the finalizer are absent: write them, and go on."""

    lacking: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Show this in the status."""

    state: VersionState = VersionState.PROCESSING
    reason: VersionReason
    message: str
    is_ready: bool = False
    finished: str = ""
    """A content job that has ended just now."""
    unfinished: str = ""
    """A content job that has failed: the original records it as finished."""
    again_seconds: float | None = None
    """When another pass is due; None: when something changes."""
    retry: RetryProgress | None = None
    """The retry of a content job that has to be recorded."""


@dataclass(frozen=True, slots=True)
class RunWorkloads:
    """All that the workloads need is there: create what is absent."""


@dataclass(frozen=True, slots=True)
class KeepUp:
    """Tenants still use the version, which is being deleted: create what is absent, then report."""

    report: Report


Action: TypeAlias = Rest | Release | Prepare | Report | RunWorkloads | KeepUp


def next_action(seen: VersionSnapshot) -> Action:
    """Decide what the version needs next."""
    version, application = seen.version, seen.application
    if version.metadata.is_terminating:
        return _deletion(seen)
    if application is None:
        return _without_application(seen)
    spec = application.spec
    lacking = preparation.absent(
        version,
        names.VERSION_FINALIZER,
        names.application_labels(spec) | names.owner_labels(application.key, application.metadata.generation),
        names.application_annotations(spec) | names.owner_annotations(application.key),
        application,
        former=names.former_identity(spec),
    )
    if lacking is not None:
        return Prepare(lacking)
    if is_ready(version):
        return RunWorkloads()
    if seen.unknown_secrets:
        return Report(reason=VersionReason.WaitingForSecrets, message=f"{seen.unknown_secrets}. {GRANT_SECRETS}")
    if seen.missing_secrets:
        named = f"{conditions.first_of(seen.missing_secrets)} in namespace {version.metadata.namespace}"
        message = f"Missing secrets; {named}: create the service bindings that write them"
        return Report(reason=VersionReason.WaitingForSecrets, message=message)
    return RunWorkloads()


def _without_application(seen: VersionSnapshot) -> Action:
    """A version that is Ready stays so: while several are not, tenants would follow to the first that becomes so again.

    While the application only cannot be read, there is nothing to report about a version that has come to an end.
    """
    version, reason = seen.version, VersionReason.InvalidReference
    key = version.application_key
    if seen.is_application_hidden:
        if version.status.state in (VersionState.READY, VersionState.ERROR):
            return Rest()
        message = f"waiting for CAPApplication {key}, which cannot be read; {see_why('ca', key)}"
        return Report(reason=reason, message=message)
    message = f"waiting for CAPApplication {key}, which does not exist "
    message += references.other_applications(key.namespace, seen.applications)
    if is_ready(version):
        return Report(state=VersionState.READY, reason=reason, message=message, is_ready=True)
    return Report(reason=reason, message=message)


def is_ready(version: CAPApplicationVersion) -> bool:
    """Whether the version was found to be complete."""
    return version.status.state == VersionState.READY and conditions.is_true(version.status.conditions, READY)


def progress(seen: VersionSnapshot, content: StepDecision, names_of_deployments: Sequence[str]) -> Report:
    """What is reported when all objects exist: what the version waits for, or that it is Ready.

    `content` is the state of its content jobs. A service that the application does not have keeps no version from being
    Ready, as with the original, and may be why a workload fails.
    """
    report = _progress(seen, content, names_of_deployments)
    unknown = references.problem_of_services(seen.version, seen.application) if seen.application is not None else ""
    return replace(report, message=f"{report.message}. {unknown}") if unknown else report


def _progress(seen: VersionSnapshot, content: StepDecision, names_of_deployments: Sequence[str]) -> Report:
    version = seen.version
    if isinstance(content, JobStepFailed):
        failure = _failure(f"content job: {content.message}{retries.tried(version.status.retry)}. {_retry(version)}")
        return replace(failure, unfinished=content.step.job_name)
    if is_ready(version):
        return _ready(seen)
    shown = {deployment.metadata.name: deployment for deployment in seen.deployments}
    for name in names_of_deployments:
        failed = shown[name].condition("ReplicaFailure") if name in shown else None
        if failed is not None and failed.is_true:
            return _failure(f"Deployment {version.metadata.namespace}/{name} cannot create pods: {failed.message}")
    waits = [f"content job {content.job.metadata.name}"] if isinstance(content, AwaitJob | RestartJob) else []
    waits += [f"Deployment {name}" for name in names_of_deployments if not _is_available(shown.get(name))]
    if waits:
        message = f"waiting for {conditions.first_of(waits)}"
        return Report(reason=VersionReason.WaitingForWorkloads, message=message)
    if version.spec.service_exposures and seen.unready_domain:
        message = f"waiting for domains: {seen.unready_domain}"
        return Report(reason=VersionReason.WaitingForServiceDNSEntries, message=message)
    return _ready(seen)


def renews_credentials(seen: VersionSnapshot) -> bool:
    """Whether Deployments of the version get new credentials: it is the newest, or a Ready tenant has it."""
    if seen.application is None or not seen.application.spec.rollout_on_credential_update:
        return False
    newest = latest_ready(seen.versions)
    if newest is not None and newest.metadata.uid == seen.version.metadata.uid:
        return True
    return any(
        tenant.status.current_version == seen.version.metadata.name
        and conditions.is_true(tenant.status.conditions, READY)
        for tenant in seen.tenants
    )


def record(content_job: str) -> Report:
    """What is reported when a content job has ended: the next one is due."""
    message = f"content job {content_job} completed"
    return Report(reason=VersionReason.ReadyForProcessing, message=message, finished=content_job, again_seconds=0.0)


def run_again(job: str, retry: RetryProgress, cause: str, now: datetime) -> Report:
    """What is reported of a content job that runs again: this is recorded before the failed Job is deleted."""
    asked = " on request" if retry.next_attempt_time is None else ""
    return Report(
        reason=VersionReason.ReadyForProcessing,
        message=f"content job {job}: attempt {retry.attempts} follows{asked}: {cause}",
        again_seconds=retries.seconds_left(retry, now),
        retry=retry,
        unfinished=job,
    )


def _retry(version: CAPApplicationVersion) -> str:
    key = version.key
    return f"Run it again with: stellwerk cap retry cav/{key.name} -n {key.namespace}"


def _ready(seen: VersionSnapshot) -> Report:
    generation = str(seen.version.metadata.generation)
    outdated = [
        each.metadata.name
        for each in seen.deployments
        if each.metadata.labels.get(names.OWNER_GENERATION_LABEL, generation) != generation
    ]
    message = "all workloads are ready"
    if outdated:
        message += (
            f". The spec has changed since Deployment {outdated[0]} was created, which has no effect: create another "
            "CAPApplicationVersion instead"
        )
    if seen.unusable_rules:
        message += f". It is never deleted as unused: {seen.unusable_rules}"
    return Report(state=VersionState.READY, reason=VersionReason.WorkloadsReady, message=message, is_ready=True)


def _failure(message: str) -> Report:
    return Report(state=VersionState.ERROR, reason=VersionReason.ErrorInWorkloadStatus, message=message)


def _is_available(deployment: Deployment | None) -> bool:
    available = deployment.condition("Available") if deployment is not None else None
    return available is not None and available.is_true


# ---- deletion

_FOREGROUND = "foregroundDeletion"
"""The finalizer by which the garbage collector of Kubernetes deletes dependents first."""


def _deletion(seen: VersionSnapshot) -> Action:
    version, shown = seen.version, conditions.find(seen.version.status.conditions, READY)
    if names.VERSION_FINALIZER not in version.metadata.finalizers:
        return Rest()
    if users := awaited(version, seen.tenants, seen.versions, seen.operations):
        message = users
    elif seen.hidden_tenants:
        message = hidden_message(seen.hidden_tenants)
    elif version.status.state == VersionState.DELETING:
        return Release()
    else:
        message = shown.message if shown is not None else "the version is being deleted"
    report = Report(
        state=VersionState.DELETING,
        reason=VersionReason.DeleteTriggered,
        message=message,
        is_ready=shown is not None and shown.is_true,
        again_seconds=None if users or seen.hidden_tenants else 0.0,
    )
    return KeepUp(report) if report.is_ready and users and _is_kept_up(seen) else report


def awaited(
    version: CAPApplicationVersion,
    tenants: Sequence[CAPTenant],
    versions: Sequence[CAPApplicationVersion],
    operations: Sequence[CAPTenantOperation],
) -> str:
    """Which tenants, or else which operations, a version that is being deleted waits for; empty where none uses it."""
    numbers = numbers_of(versions)
    if users := [tenant.metadata.name for tenant in tenants if uses(tenant, version, numbers)]:
        return f"the version is deleted when no tenant uses it any more: {conditions.first_of(users)}"
    if under_way := [each.metadata.name for each in operations if needed_version(each) == version.key]:
        return f"the version is deleted when no operation runs its Jobs any more: {conditions.first_of(under_way)}"
    return ""


def superseding(
    version: CAPApplicationVersion,
    tenants: Sequence[CAPTenant],
    versions: Sequence[CAPApplicationVersion],
    operations: Sequence[CAPTenantOperation],
) -> CAPApplicationVersion | None:
    """The newer version that is Ready, if nothing needs a version that is not; None while a failure of it counts."""
    newest = latest_ready(versions)
    is_older = newest is not None and precedence(version.spec.version) < precedence(newest.spec.version)
    if not is_older or version.metadata.is_terminating or awaited(version, tenants, versions, operations):
        return None
    return newest


def needed_version(operation: CAPTenantOperation) -> ObjectKey | None:
    """The version of which an operation may have Jobs to run, or None. One without a controller has no tenant to run
    them for.

    A tenant may have turned to another version meanwhile: its operation goes on all the same.
    """
    if operation.metadata.controller is None or not retries.is_under_way(operation):
        return None
    return ObjectKey(operation.key.namespace, operation.spec.version_name)


def _is_kept_up(seen: VersionSnapshot) -> bool:
    """Whether objects of a version that is being deleted are created again.

    They are not where all goes, as with a namespace, nor where the garbage collector deletes them before the version.
    """
    goes_after_its_objects = _FOREGROUND in seen.version.metadata.finalizers
    return seen.application is not None and not seen.application.metadata.is_terminating and not goes_after_its_objects


def numbers_of(versions: Iterable[CAPApplicationVersion]) -> Mapping[str, str]:
    """The numbers of versions of one application, by their names."""
    return {each.metadata.name: each.spec.version for each in versions}


def uses(tenant: CAPTenant, version: CAPApplicationVersion, numbers: Mapping[str, str]) -> bool:
    """Whether a tenant of the same application has the version, or follows to it.

    It does not follow to one that has the same number as the one that it has. `numbers`: those of all versions.
    """
    current, wanted = tenant.status.current_version, tenant.spec.version
    return current == version.metadata.name or (wanted == version.spec.version != numbers.get(current))


# ---- the status


def status_of(
    version: CAPApplicationVersion, report: Report, now: datetime, *, newer: CAPApplicationVersion | None = None
) -> VersionStatus:
    """The status with a report. `newer`: the version that has taken its place, see `superseding`."""
    status, failed = version.status, report.unfinished
    finished = tuple(name for name in status.finished_jobs if name not in recorded_as(failed))
    if report.finished and report.finished not in finished:
        finished = (*finished, report.finished)
    ready = condition(version, report.is_ready, report.reason, report.message)
    marks = list[Condition]()
    if newer is None or report.is_ready:
        status = msgspec.structs.replace(status, conditions=conditions.without(status.conditions, SUPERSEDED))
    else:
        message = f"{newer.ref} is newer and Ready, and no tenant needs this version"
        marks.append(condition(version, True, VersionReason.Superseded, message, type=SUPERSEDED))
    return msgspec.structs.replace(
        observed(version, status, now, ready, *marks),
        retry=report.retry or (None if report.finished or report.is_ready else status.retry),
        state=report.state,
        finished_jobs=finished,
    )
