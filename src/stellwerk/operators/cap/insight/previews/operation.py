"""The preview of a CAPTenantOperation: the Job of its step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from stellwerk.api.batch import Job
from stellwerk.apply.objects.desired import Address
from stellwerk.delivery.insight import Preview, PreviewRequest
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.operators.cap import preparation
from stellwerk.operators.cap.insight.previews import surroundings
from stellwerk.operators.cap.insight.previews.surroundings import METADATA, KindPreviewer, Outcome
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.operation import plan
from stellwerk.operators.cap.operation.plan import Report, RunStep, Snapshot
from stellwerk.runtime.control.jobs import RestartJob, StartJob, StepBlocked


async def preview(subject: CAPTenantOperation, request: PreviewRequest) -> Preview:
    """What the operator would write for an operation: see `Previewer`."""
    outcome, client, now = Outcome(), request.client, datetime.now(UTC)
    seen = await _snapshot(client, subject)
    action = plan.next_action(seen, now)
    if isinstance(action, plan.Prepare):
        outcome.changed[subject.ref] = METADATA
        seen = replace(seen, operation=preparation.prepared(subject, action.lacking))
        action = plan.next_action(seen, now)
    match action:
        case plan.Release():
            outcome.changed[subject.ref] = "the finalizer goes, and the operation with it"
        case Report(_, message) | RunStep(_, _, StepBlocked(_, message)):
            outcome.warnings.append(message)
        case plan.RunAgain(_, _, Job() as job) | RunStep(_, _, RestartJob(_, job)):
            outcome.changed[job.ref] = "will be deleted and created again, because it failed"
        case RunStep(number, step, StartJob(job_step)):
            ref = Address(Job.resource, ObjectKey(subject.metadata.namespace, job_step.job_name)).ref
            outcome.created[ref] = f"step {number} of {len(subject.spec.steps)}"
            prefix = f"{subject.metadata.name}-{step.name.lower()}"
            await surroundings.note_credentials(client, outcome, subject, prefix)
    outcome.kept += len(seen.jobs)
    return outcome.preview()


async def _snapshot(client: Client, operation: CAPTenantOperation) -> Snapshot:
    namespace, controller = operation.metadata.namespace, operation.metadata.controller
    tenant = await client.find(CAPTenant, controller.name, namespace) if controller is not None else None
    if tenant is None:
        tenants = await surroundings.listed(client, CAPTenant, namespace)
        tenant = next((each for each in tenants if each.spec.tenant_id == operation.spec.tenant_id), None)
    siblings: list[CAPTenantOperation] = []
    if tenant is not None and operation.metadata.is_terminating:
        operations = await surroundings.listed(client, CAPTenantOperation, namespace)
        siblings = [each for each in operations if each.metadata.is_controlled_by(tenant.metadata)]
    name = tenant.spec.cap_application_instance if tenant is not None else ""
    return Snapshot(
        operation=operation,
        tenant=tenant,
        siblings=siblings,
        application=await client.find(CAPApplication, name, namespace) if name else None,
        version=await client.find(CAPApplicationVersion, operation.spec.version_name, namespace),
        jobs=await surroundings.jobs_of(client, operation),
    )


PREVIEWER = KindPreviewer(CAPTenantOperation, preview)
