"""The preview of a CAPApplicationVersion: what exists is left as it is, whatever the version asks for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from stellwerk.api.batch import Job
from stellwerk.api.prometheus_operator import ServiceMonitor
from stellwerk.apply.objects.desired import Address, Desired
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import PartialObjectMetadata, metadata_of
from stellwerk.operators.cap import preparation, retries
from stellwerk.operators.cap.insight.previews import surroundings
from stellwerk.operators.cap.insight.previews.surroundings import METADATA, KindPreviewer, Outcome
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.pods.workload_pods import ReservedVariable
from stellwerk.operators.cap.version import children, content, plan
from stellwerk.operators.cap.version.content import UnknownContentJob
from stellwerk.operators.cap.version.plan import VersionSnapshot
from stellwerk.operators.cap.version.resources import UnusableWorkload, VersionObjects
from stellwerk.runtime.control.jobs import JobStepFailed, RestartJob, StartJob, StepBlocked

_Present = dict[ObjectKey, PartialObjectMetadata]


async def preview(subject: CAPApplicationVersion, request: PreviewRequest) -> Preview:
    """What the operator would create for a version: see `Previewer`."""
    outcome, client = Outcome(), request.client
    seen = await _snapshot(client, subject)
    action = plan.next_action(seen)
    if isinstance(action, plan.Prepare):
        outcome.changed[subject.ref] = METADATA
        seen = replace(seen, version=preparation.prepared(subject, action.lacking))
        action = plan.next_action(seen)
    match action:
        case plan.Release():
            outcome.changed[subject.ref] = "the finalizer goes, and the version with its objects"
        case plan.Report(message=message):
            outcome.warnings.append(message)
        case plan.RunWorkloads() | plan.KeepUp():
            assert seen.application is not None
            if isinstance(action, plan.KeepUp):
                outcome.warnings.append(action.report.message)
            try:
                if isinstance(action, plan.RunWorkloads):
                    await _note_content(client, outcome, seen)
                await _note_objects(client, outcome, seen.version, seen.application)
            except (UnknownContentJob, UnusableWorkload, ReservedVariable) as error:
                raise PreviewFailed(str(error)) from error
    return outcome.preview()


async def _snapshot(client: Client, version: CAPApplicationVersion) -> VersionSnapshot:
    namespace, leaves = version.metadata.namespace, version.metadata.is_terminating
    found = await surroundings.around(client, namespace, version.spec.application)
    application = found.application
    return VersionSnapshot(
        version=version,
        application=application,
        applications=found.applications,
        missing_secrets=await surroundings.missing_secrets(client, application) if application is not None else (),
        jobs=await surroundings.jobs_of(client, version),
        tenants=found.tenants,
        versions=found.versions,
        operations=await surroundings.listed(client, CAPTenantOperation, namespace) if leaves else (),
    )


async def _note_content(client: Client, outcome: Outcome, seen: VersionSnapshot) -> None:
    """The content job that is due. Raises UnknownContentJob."""
    version = seen.version
    is_retry = retries.is_recorded(version.status.retry, seen.jobs)
    decision = content.next_job(version, seen.jobs, retry=is_retry)
    match decision:
        case StartJob(step):
            ref = Address(Job.resource, ObjectKey(version.metadata.namespace, step.job_name)).ref
            outcome.created[ref] = "the content job that is due"
            await surroundings.note_credentials(client, outcome, version, step.job_name)
        case RestartJob(_, job):
            outcome.changed[job.ref] = "will be deleted and created again, because it failed"
        case JobStepFailed(_, message) | StepBlocked(_, message):
            outcome.warnings.append(message)
    outcome.kept += len(seen.jobs)


async def _note_objects(
    client: Client, outcome: Outcome, version: CAPApplicationVersion, application: CAPApplication
) -> None:
    """Deployments and all that belongs to them. Raises UnusableWorkload, ReservedVariable."""
    objects = VersionObjects(application=application, version=version)
    there: dict[Resource, _Present | None] = {}

    async def shown(resource: Resource) -> _Present | None:
        if resource not in there:
            try:
                found = await client.list(metadata_of(resource), version.metadata.namespace)
                there[resource] = {each.key: each for each in found.items}
            except NotServed:
                there[resource] = None
        return there[resource]

    async def note(wanted: Iterable[Desired]) -> None:
        for desired in wanted:
            known = await shown(desired.resource)
            if known is None:  # the operator leaves out what the cluster does not serve
                continue
            if desired.key in known:
                try:
                    children.check(version, desired, known[desired.key])
                    outcome.kept += 1
                except children.BelongsToAnother as error:
                    outcome.warnings.append(str(error))
            else:
                outcome.objects.append(Desired(desired.address, children.owned(version, desired)))

    for _, workload in objects.workloads():
        deployment = objects.deployment(workload, "")
        await note([deployment])
        if outcome.objects and outcome.objects[-1].address == deployment.address:
            objects.check(workload)
            secret = await surroundings.note_credentials(client, outcome, version, objects.name(workload))
            with_secret = objects.deployment(workload, secret)
            outcome.objects[-1] = Desired(with_secret.address, children.owned(version, with_secret))
        await note([*objects.companions(workload), *objects.services(workload)])
        if await shown(ServiceMonitor.resource) is not None:
            await note(objects.monitors(workload))
    await note([*objects.policies()])


PREVIEWER = KindPreviewer(CAPApplicationVersion, preview)
