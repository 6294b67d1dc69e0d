"""The preview of a CAPTenant: its operation, and its VirtualService."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime

from msgspec.structs import replace

from stellwerk.api.istio import VirtualService
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import live_view
from stellwerk.delivery.insight import Preview, PreviewFailed, PreviewRequest
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.cap import duplicates, names, preparation, retries
from stellwerk.operators.cap.hashed_objects import ORIGINAL, is_written, owner_of
from stellwerk.operators.cap.insight.previews import surroundings
from stellwerk.operators.cap.insight.previews.surroundings import METADATA, KindPreviewer, Outcome, Surroundings
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, CAPTenantOutput
from stellwerk.operators.cap.operation.jobs import NoTenantOperation
from stellwerk.operators.cap.tenant import networking, plan
from stellwerk.operators.cap.tenant.networking import NetworkingFailed
from stellwerk.operators.cap.tenant.plan import TenantSnapshot


async def preview(subject: CAPTenant, request: PreviewRequest) -> Preview:
    """What the operator would write for a tenant: see `Previewer`."""
    client, outcome = request.client, Outcome()
    namespace = subject.metadata.namespace
    found = await surroundings.around(client, namespace, subject.spec.cap_application_instance)
    operations = await surroundings.listed(client, CAPTenantOperation, namespace)
    tenants = await surroundings.listed(client, CAPTenant, namespace)
    applications = await surroundings.listed(client, CAPApplication, namespace)
    known = {each.key: each for each in applications}
    owned = [each for each in operations if each.metadata.is_controlled_by(subject.metadata)]
    seen = TenantSnapshot(
        tenant=subject,
        application=found.application,
        applications=found.applications,
        versions=found.versions,
        hidden_versions=found.hidden_versions,
        operations=owned,
        duplicates=duplicates.of_tenant(subject, tenants, known.get),
    )
    decision = plan.decide(seen)
    if isinstance(decision, plan.Prepare):
        outcome.changed[subject.ref] = METADATA
        prepared = preparation.prepared(subject, decision.lacking)
        if decision.version:
            outcome.changed[subject.ref] = f"{METADATA}, and it gets version {decision.version}"
            prepared = replace(prepared, spec=replace(prepared.spec, version=decision.version))
        seen = dataclasses.replace(seen, tenant=prepared)
        decision = plan.decide(seen)
    await _note(client, outcome, seen, decision)
    if not subject.metadata.is_terminating:
        tenant = seen.tenant
        if isinstance(decision, plan.Record):  # its VirtualService leads to the versions that it has then
            tenant = replace(tenant, status=plan.recorded(tenant, decision.operation, datetime.now(UTC)))
        await _note_routes(client, outcome, tenant, found)
    return outcome.preview(claims=ORIGINAL)


async def _note(client: Client, outcome: Outcome, seen: TenantSnapshot, decision: plan.Decision) -> None:
    tenant = seen.tenant
    match decision:
        case plan.ShowDuplicate(older):
            outcome.warnings.append(plan.duplicate_message(tenant, older))
        case plan.Refuse(message) | plan.AwaitVersion(message):
            outcome.warnings.append(message)
        case plan.AwaitOperation(operation):
            outcome.warnings.append(plan.waiting_message(operation.key, operation.spec.operation))
        case plan.ShowFailure(operation):
            if retries.is_pending(tenant):
                outcome.changed[operation.ref] = "will be asked to run its failed step again"
            else:
                outcome.warnings.append(plan.failure_message(operation, plan.after_failure(seen, operation)))
        case plan.Start() as start:
            await _note_start(client, outcome, tenant, start)
        case plan.Release():
            outcome.changed[tenant.ref] = "the finalizer goes, and the tenant with it"


async def _note_start(client: Client, outcome: Outcome, tenant: CAPTenant, start: plan.Start) -> None:
    try:
        wanted = plan.new_operation(tenant, start)
    except NoTenantOperation as error:
        raise PreviewFailed(str(error)) from error
    if tenant.metadata.uid:
        outcome.objects.append(wanted)
    else:  # of a tenant that is not stored yet, it cannot have the owner that it needs
        outcome.created[wanted.ref] = start.operation
    for earlier in start.replaces:
        outcome.deleted[earlier.ref] = "a newer operation replaces it"
    label = f"{names.TENANT_ID_LABEL}={tenant.spec.tenant_id}"
    outputs = await client.list(metadata_of(CAPTenantOutput), tenant.metadata.namespace, labels=label)
    for output in outputs.items:
        outcome.deleted[Address(CAPTenantOutput.resource, output.key).ref] = "it is from a Job of an earlier operation"


async def _note_routes(client: Client, outcome: Outcome, tenant: CAPTenant, found: Surroundings) -> None:
    current = tenant.status.current_version
    version = found.find_version(ObjectKey(tenant.metadata.namespace, current)) if current else None
    if version is None or found.application is None:
        return
    home = await surroundings.operator_namespace(client)
    try:
        live = await client.find(live_view(VirtualService.resource), tenant.metadata.name, tenant.metadata.namespace)
        hosts = networking.routed_hosts(found.application, live, found.find_domain, home)
        allowed = await surroundings.allowed_headers(client, home)
        routes = networking.routes(tenant, found.application, version, hosts, found.find_version, allowed)
    except NetworkingFailed as error:
        raise PreviewFailed(str(error)) from error
    except NotServed:
        return
    if (why := networking.unrouted(found.application, version)) and live is not None:
        if networking.is_kept(tenant, live):
            outcome.deleted[Address(VirtualService.resource, live.key).ref] = why
        return
    if routes is None:
        return
    desired, hash = routes
    owner = owner_of(tenant)
    if hosts.waits:
        outcome.warnings.append(f"{desired.ref} keeps its hosts: {hosts.waits}")
    if live is not None and is_written(owner, live, hash) and networking.lacking_metadata(desired, live):
        outcome.changed[desired.ref] = "labels and annotations are added"
        return
    outcome.hashed(owner, desired, hash, live)


PREVIEWER = KindPreviewer(CAPTenant, preview)
