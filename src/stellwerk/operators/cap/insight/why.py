"""Why an object of the CAP Operator is not ready: from its own condition to the object that is the cause.

An application waits for domains, versions and tenants, a tenant for its operation, an operation for its version or its
Job, and a version for its Deployments. Each of them reports its own part, so the cause is at the end of that chain.
An application that is ready may need attention all the same: for the newest version, its tenants, or a paused upgrade.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.delivery import forced_deletion, workloads
from stellwerk.kube.types import lenient
from stellwerk.kube.types.model import UNREADABLE, Unstructured
from stellwerk.kube.types.object_meta import Condition, rfc3339
from stellwerk.operators.cap import names
from stellwerk.operators.cap.application import waves
from stellwerk.operators.cap.insight import causes
from stellwerk.operators.cap.insight.causes import Problem, problem_of
from stellwerk.operators.cap.insight.help_topics import HELP
from stellwerk.operators.cap.kinds import references
from stellwerk.operators.cap.kinds.application import (
    ALL_TENANTS_READY,
    CALLBACKS_DELIVERED,
    IDENTITY_PROVED,
    LATEST_VERSION_READY,
    SECRETS_AVAILABLE,
    CAPApplication,
    UpgradePhase,
)
from stellwerk.operators.cap.kinds.domain import ClusterDomain
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, Operation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import ApplicationReason
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.diagnosis import ClusterReader, Diagnosis, Finding
from stellwerk.runtime.insight.reason_catalog import YOURS

if TYPE_CHECKING:
    from stellwerk.kube.client.client import Client

_DELETING = "Deleting"
"""The state of each kind while an object is being deleted."""
MOST_CAUSES = 3
"""Objects that are followed from one object: an application may have a thousand tenants that fail alike."""
FINALIZERS: Mapping[str, tuple[str, ...]] = {
    "CAPApplication": (names.APPLICATION_FINALIZER,),
    "CAPApplicationVersion": (names.VERSION_FINALIZER,),
    "CAPTenant": (names.TENANT_FINALIZER,),
    "CAPTenantOperation": (names.OPERATION_FINALIZER,),
    "Domain": (names.DOMAIN_FINALIZER,),
    "ClusterDomain": (names.DOMAIN_FINALIZER,),
}
"""Those of the operator, by kind."""
LONG = timedelta(minutes=10)
"""After this time a Job may hang, so the next step contains the command that ends its pods."""


class CapDiagnostician:
    """Explains why an object is not ready, and what an application that is ready still needs."""

    async def diagnose(self, client: Client, subject: Unstructured) -> Diagnosis:
        """See `Diagnostician`."""
        return await explain(ClusterReader(client), subject)


async def explain(reader: ClusterReader, subject: Unstructured) -> Diagnosis:
    """The diagnosis of an object, from what the reader may read."""
    problem = problem_of(subject)
    if problem is not None:
        chains = [await _follow(reader, subject, problem, frozenset())]
    elif subject.gvk.kind == CAPApplication.resource.kind:
        chains = [chain async for chain in _concerns(reader, subject)]
    else:
        chains = []
    if not chains:
        return Diagnosis(remarks=await _remarks(reader, subject), hidden=reader.hidden)
    first = chains[0]
    return Diagnosis(tuple(chain.finding for chain in chains), first.next_step, first.turn, hidden=reader.hidden)


async def _remarks(reader: ClusterReader, subject: Unstructured) -> tuple[str, ...]:
    """What a version that is ready goes without. Objects that cannot be read are shown elsewhere."""
    if subject.gvk.kind != CAPApplicationVersion.resource.kind:
        return ()
    name = str(subject.at("spec", "capApplicationInstance") or "")
    found = await reader.find(CAPApplication.resource, name, subject.key.namespace)
    if found is None:
        return ()
    try:
        version = lenient.convert(subject.body, CAPApplicationVersion)
        unknown = references.problem_of_services(version, lenient.convert(found.body, CAPApplication))
    except UNREADABLE:
        return ()
    return (unknown,) if unknown else ()


@dataclass(frozen=True, slots=True)
class _Chain:
    """A finding with its causes, and what helps against the first of them."""

    finding: Finding
    next_step: str = ""
    turn: str = ""


async def _follow(reader: ClusterReader, obj: Unstructured, problem: Problem, above: frozenset[str]) -> _Chain:
    """The finding of an object with those of its causes. `above` has the uids of the objects that it explains."""
    held = forced_deletion.held_by_others(obj, FINALIZERS.get(obj.gvk.kind, ()))
    if held is not None:
        text = f"{obj.ref}: {held.findings[0].text}" if above else held.findings[0].text
        return _Chain(Finding(text, is_root_cause=True), held.next_step, held.turn)
    finding = Finding(f"{obj.ref}: {problem.message}" if above else problem.message, problem.reason)
    found = await causes.causes_of(reader, obj, problem)
    chains = await _followed(reader, found, above | {obj.metadata.uid})
    if chains:
        return _below(finding, chains)
    next_step, turn = _advice(obj, problem.reason)
    if obj.gvk.kind == CAPApplicationVersion.resource.kind and not obj.metadata.is_terminating:
        unready = await _deployments(reader, obj) or await _content_jobs(reader, obj)
    elif obj.gvk.kind == CAPTenantOperation.resource.kind:
        unready = await _attempt(reader, obj)
        next_step = await _without_version(reader, obj) or next_step
    else:
        unready = None
    if unready is None:
        return _Chain(replace(finding, is_root_cause=True), next_step, turn)
    below = replace(finding, because=unready.finding.because, is_root_cause=not unready.finding.because)
    return _Chain(below, unready.next_step, unready.turn or turn)


async def _followed(reader: ClusterReader, found: Iterable[Unstructured], above: frozenset[str]) -> list[_Chain]:
    """The chains of those objects that have a problem and are not explained already."""
    followed = [(each, its) for each in found if each.metadata.uid not in above and (its := problem_of(each))]
    return [await _follow(reader, each, its, above) for each, its in followed[:MOST_CAUSES]]


def _below(finding: Finding, chains: Sequence[_Chain]) -> _Chain:
    return replace(chains[0], finding=replace(finding, because=tuple(chain.finding for chain in chains)))


def _advice(obj: Unstructured, reason: str) -> tuple[str, str]:
    """The next step, and who has to act."""
    catalogue = HELP[obj.gvk.kind].catalogue
    meaning = next((each for word, each in catalogue.meanings.items() if word == reason), None)
    if meaning is None or (obj.metadata.is_terminating and meaning.state != _DELETING):
        return "", ""  # a tenant keeps the reason that it had before its deletion
    step = meaning.next_step(obj.key)
    if obj.gvk.kind == ClusterDomain.resource.kind:  # it shares its texts with Domain
        step = step.replace(f"dom/{obj.key.name}", f"cdom/{obj.key.name}")
    return step, catalogue.turn_of(meaning)


# ---- an application that is ready


async def _concerns(reader: ClusterReader, obj: Unstructured) -> AsyncIterator[_Chain]:
    """What needs attention of an application that is ready, the most urgent first."""
    application, above = lenient.convert(obj.body, CAPApplication), frozenset({obj.metadata.uid})
    shown = conditions.listed_in(obj.body)
    tenants = await _followed(reader, await causes.tenants_of(reader, obj), above)
    is_calm = True
    progress = application.status.tenant_upgrade
    if progress is not None and progress.phase == UpgradePhase.PAUSED:
        because, is_calm = tuple(chain.finding for chain in tenants), False
        far = conditions.find(shown, ALL_TENANTS_READY)  # it has the cause, which the progress has not
        text = far.message if far is not None and far.message else waves.described(progress)
        finding = Finding(text, ApplicationReason.UpgradePaused, because, not because)
        resume = waves.resume_command(application.key)
        yield _Chain(finding, f"correct the cause, then resume the upgrade: {resume}", YOURS)
    for concern in (*_untrue(shown, IDENTITY_PROVED), *_untrue(shown, CALLBACKS_DELIVERED)):
        is_calm = False
        text, _, step = concern.message.partition("; next: ")
        yield _Chain(Finding(text, concern.reason, is_root_cause=True), step, YOURS)
    for concern in _untrue(shown, SECRETS_AVAILABLE):
        is_calm = False
        yield _of_condition(obj, concern, [])
    for concern in _untrue(shown, LATEST_VERSION_READY):
        newest = causes.newest(await causes.versions_of(reader, obj))
        is_calm = False
        yield _of_condition(obj, concern, await _followed(reader, newest, above))
    if progress is not None and progress.phase == UpgradePhase.PAUSED:
        return
    untrue = [*_untrue(shown, ALL_TENANTS_READY)]
    for concern in untrue:
        if tenants or is_calm:  # else they wait for the newest version
            yield _of_condition(obj, concern, tenants)
    if tenants and not untrue:  # a tenant is ready also after its upgrade has failed
        yield _below(Finding("some tenants have failed, or are being changed"), tenants)


def _untrue(shown: Iterable[Condition], type_: str) -> Iterator[Condition]:
    """The condition of a type where it is False."""
    return (each for each in shown if each.type == type_ and each.status == "False")


def _of_condition(obj: Unstructured, concern: Condition, chains: Sequence[_Chain]) -> _Chain:
    finding = Finding(concern.message.removesuffix("."), concern.reason)
    if chains:
        return _below(finding, chains)
    return _Chain(replace(finding, is_root_cause=True), *_advice(obj, concern.reason))


# ---- what runs for an object


async def _deployments(reader: ClusterReader, version: Unstructured) -> _Chain | None:
    """Why Deployments of a version are not ready, and what helps; None where all are."""
    now = datetime.now(UTC)
    for deployment in await reader.list(Deployment.resource, version.key.namespace):
        if not deployment.metadata.is_controlled_by(version.metadata):
            continue
        workload = await workloads.read_first(reader, deployment)
        if found := workloads.findings(workload, now):
            advice = workloads.advice(workload)
            return _Chain(Finding("", because=found), advice, YOURS if advice else "")
    return None


async def _content_jobs(reader: ClusterReader, version: Unstructured) -> _Chain | None:
    """Why a content Job of a version has not ended, from its first failed pod on; None if none has failed or waits."""
    for job in await reader.list(Job.resource, version.key.namespace):
        if job.metadata.is_controlled_by(version.metadata) and (chain := await _unfinished(reader, job)):
            return chain
    return None


async def _unfinished(reader: ClusterReader, job: Unstructured) -> _Chain | None:
    """What keeps a Job, and what helps; None if it has ended."""
    workload, now = await workloads.read_first(reader, job), datetime.now(UTC)
    found = workloads.findings(workload, now)
    if not found:
        return None
    if found[0].because:
        return _Chain(Finding("", because=found), workloads.advice(workload) or _see_pods(job, now), YOURS)
    began = job.at("status", "startTime")
    text = f"{job.ref}: it runs since {began}" if began else found[0].text
    return _Chain(Finding("", because=(Finding(text, is_root_cause=True),)), _see_pods(job, now))


async def _attempt(reader: ClusterReader, operation: Unstructured) -> _Chain | None:
    """The Job that an operation waits for, or the pause before it runs again; None where it waits for neither."""
    key, status = operation.key, lenient.convert(operation.body, CAPTenantOperation).status
    if causes.has_failed(operation) or not status.active_job:
        return None
    job = await reader.find(Job.resource, status.active_job, key.namespace)
    if job is None:
        return None
    if status.retry is not None and status.retry.job == job.metadata.uid:
        due = status.retry.next_attempt_time
        pause = (Finding(f"the next attempt begins at {rfc3339(due)}", is_root_cause=True),) if due is not None else ()
        again = f"to run it now: stellwerk cap retry ctop/{key.name} -n {key.namespace}"
        return _Chain(Finding("", because=pause), again)
    return await _unfinished(reader, job)


async def _without_version(reader: ClusterReader, operation: Unstructured) -> str:
    """What helps a failed operation whose version is gone, with which no step of it can run; empty if it is there."""
    name, namespace = str(operation.at("spec", "capApplicationVersionInstance") or ""), operation.key.namespace
    kind = CAPApplicationVersion.resource
    if not causes.has_failed(operation):
        return ""
    if await reader.find(kind, name, namespace) is not None or reader.may_not_see(kind, namespace):
        return ""
    again = f"create {kind.kind} {name} again"
    owner = operation.metadata.controller
    tenant = await reader.find(CAPTenant.resource, owner.name, namespace) if owner is not None else None
    if tenant is None or operation.at("spec", "operation") == Operation.DEPROVISIONING:
        return again
    application = tenant.at("spec", "capApplicationInstance")
    return f"{again}, or set another version: stellwerk cap upgrade {application} {tenant.key.name} -n {namespace}"


def _see_pods(job: Unstructured, now: datetime) -> str:
    """How to look at the pods of a Job and, where it has run for long, how to end them."""
    pods = f"-n {job.key.namespace} -l job-name={job.key.name}"
    step = f"see the pods of the Job: kubectl get pods {pods}"
    created = job.metadata.creation_timestamp
    if created is None or now - created < LONG:
        return step
    return f"{step}; if they hang, delete them, so that the attempt fails: kubectl delete pods {pods}"
