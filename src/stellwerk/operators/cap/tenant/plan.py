"""What a tenant and its operations are written with, and what a tenant shows (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, owner_reference
from stellwerk.kube.types.object_meta import Condition, kubernetes_time
from stellwerk.operators.cap import names, preparation, retries
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.status import READY, condition, observed, see_why
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    Operation,
    TenantState,
    TenantStatus,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.operation import jobs
from stellwerk.operators.cap.operation.plan import marks_of
from stellwerk.operators.cap.reasons import ApplicationReason, TenantReason
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import Notice, ReconcileError

PREVIOUS_VERSIONS = 10
"""How many previous versions a tenant shows, unless the settings name another number."""


class TenantFailed(ReconcileError):
    """A tenant cannot be worked on now. Its condition keeps the reason that it has."""


@dataclass(frozen=True, slots=True)
class Phase:
    """What a tenant shows of an operation: state, the status of Ready, and the reason."""

    state: TenantState
    is_ready: bool
    reason: TenantReason


UNDER_WAY: Mapping[str, Phase] = {
    Operation.PROVISIONING: Phase(TenantState.PROVISIONING, False, TenantReason.ProvisioningOperationCreated),
    Operation.UPGRADE: Phase(TenantState.UPGRADING, True, TenantReason.UpgradeOperationCreated),
    Operation.DEPROVISIONING: Phase(TenantState.DELETING, False, TenantReason.DeprovisioningOperationCreated),
}
SUCCEEDED: Mapping[str, Phase] = {
    Operation.PROVISIONING: Phase(TenantState.READY, True, TenantReason.ProvisioningCompleted),
    Operation.UPGRADE: Phase(TenantState.READY, True, TenantReason.UpgradeCompleted),
    Operation.DEPROVISIONING: Phase(TenantState.DELETING, False, TenantReason.DeprovisioningCompleted),
}
FAILED: Mapping[str, Phase] = {
    Operation.PROVISIONING: Phase(TenantState.PROVISIONING_ERROR, False, TenantReason.ProvisioningFailed),
    Operation.UPGRADE: Phase(TenantState.UPGRADE_ERROR, True, TenantReason.UpgradeFailed),
    Operation.DEPROVISIONING: Phase(TenantState.DELETING, False, TenantReason.DeprovisioningFailed),
}
"""A tenant stays ready during an upgrade and after a failed one: it uses its former version."""
DUPLICATE = Phase(TenantState.PROVISIONING_ERROR, False, TenantReason.DuplicateTenant)


def version_changed(tenant: CAPTenant, version: str) -> Notice:
    """The Event about a version that a tenant gets from the operator."""
    message = f"version changed from {tenant.spec.version or 'none'} to {version}"
    return Notice(ApplicationReason.AutoVersionUpdate, message, action="Upgrade")


def is_new(tenant: CAPTenant) -> bool:
    """Whether a tenant without a version waits for its own first pass, which gives it one if it can."""
    return not tenant.spec.version and names.TENANT_FINALIZER not in tenant.metadata.finalizers


# ---- metadata


def absent(tenant: CAPTenant, application: CAPApplication) -> JsonObject | None:
    """What the tenant lacks of finalizer, owner, labels and annotations; None where it lacks nothing."""
    labels = {
        **names.application_labels(application.spec),
        **names.owner_labels(application.key, application.metadata.generation),
        names.TENANT_ID_LABEL: tenant.spec.tenant_id,
    }
    annotations = {**names.application_annotations(application.spec), **names.owner_annotations(application.key)}
    if guid := tenant.metadata.labels.get(names.SUBSCRIPTION_GUID, ""):  # earlier releases had the label alone
        annotations[names.SUBSCRIPTION_GUID] = guid
    former = names.former_identity(application.spec)
    return preparation.absent(tenant, names.TENANT_FINALIZER, labels, annotations, application, former=former)


# ---- a new operation


def new_operation(tenant: CAPTenant, operation: Operation, version: CAPApplicationVersion) -> Desired:
    """The CAPTenantOperation to create. Raises NoTenantOperation if the version has no Job for it."""
    marks = marks_of(tenant, operation)
    metadata: JsonObject = {
        "finalizers": [names.OPERATION_FINALIZER],
        "ownerReferences": [msgspec.to_builtins(owner_reference(tenant))],
        "labels": {**marks["labels"]},
        "annotations": {**marks["annotations"]},
    }
    spec: JsonObject = {
        "operation": operation.value,
        "subDomain": tenant.spec.sub_domain,
        "tenantId": tenant.spec.tenant_id,
        "capApplicationVersionInstance": version.metadata.name,
        "steps": [msgspec.to_builtins(step) for step in jobs.steps_of(version, operation)],
    }
    key = ObjectKey(tenant.metadata.namespace, _operation_name(tenant, operation, version))
    return Desired.named(CAPTenantOperation.resource, key, metadata, spec=spec)


def _operation_name(tenant: CAPTenant, operation: Operation, version: CAPApplicationVersion) -> str:
    """The same in each pass, so that a creation whose answer was lost is not repeated.

    The operations that it replaces are no part of it: they are deleted first, and a later pass does not know them. One
    with the same name is of the same version. The tenant waits until it is gone, and it decides nothing meanwhile.
    """
    metadata = tenant.metadata
    return names.derived(metadata.name, metadata.uid, operation, version.metadata.uid)


# ---- the status


def status_of(tenant: CAPTenant, phase: Phase, message: str, now: datetime) -> TenantStatus:
    """The status in a phase."""
    ready = condition(tenant, phase.is_ready, phase.reason, message)
    return msgspec.structs.replace(observed(tenant, tenant.status, now, ready), state=phase.state)


def under_way(tenant: CAPTenant, operation: CAPTenantOperation, now: datetime) -> TenantStatus:
    """The status while an operation is under way."""
    message = waiting_message(operation.key, operation.spec.operation)
    return status_of(tenant, UNDER_WAY[operation.spec.operation], message, now)


def duplicate(tenant: CAPTenant, older: CAPTenant, now: datetime) -> TenantStatus:
    """The status of a tenant whose data an older one has. Its versions stay: it may take over."""
    return status_of(tenant, DUPLICATE, duplicate_message(tenant, older), now)


def duplicate_message(tenant: CAPTenant, older: CAPTenant) -> str:
    """The message of a tenant whose data an older one has."""
    key = tenant.key
    return (
        f"{older.ref} is older, and has the tenant id {tenant.spec.tenant_id} of the same provider, so no Job runs for "
        f"{tenant.ref}: its deletion leaves the data alone. Delete it with: "
        f"kubectl delete cat {key.name} -n {key.namespace}"
    )


def recorded(
    tenant: CAPTenant, operation: CAPTenantOperation, now: datetime, most: int = PREVIOUS_VERSIONS
) -> TenantStatus:
    """The status that shows an operation that succeeded: its version is the current one, and the tenant complete.

    It shows at most `most` previous versions.
    """
    former, version = tenant.status.current_version, operation.spec.version_name
    previous = tenant.status.previous_versions
    if former not in ("", version):
        previous = (*previous, former)
        if len(previous) > max(most, 3):  # shorter lists were never cut, and one entry goes at a time
            previous = previous[1:]
    return msgspec.structs.replace(
        status_of(tenant, SUCCEEDED[operation.spec.operation], success_message(operation), now),
        current_version=version,
        previous_versions=previous,
        last_full_reconciliation_time=kubernetes_time(now),
    )


def at_rest(tenant: CAPTenant, now: datetime) -> TenantStatus:
    """The status of a tenant that stays at its current version: that of the operation which brought it there."""
    brought = Operation.UPGRADE if tenant.status.previous_versions else Operation.PROVISIONING
    message = f"CAPApplicationVersion {tenant.status.current_version} is in use, and no operation is under way"
    return status_of(tenant, SUCCEEDED[brought], message, now)


def waiting(tenant: CAPTenant, message: str, now: datetime) -> TenantStatus:
    """The status of a tenant that waits for its version.

    It shows no operation as under way: an application gives no version to a tenant that shows one.
    """
    status = tenant.status
    state = status.state
    if state == TenantState.UPGRADING:
        status, state = at_rest(tenant, now), TenantState.READY
    elif state == TenantState.PROVISIONING:
        state = TenantState.UNKNOWN
    shown = conditions.find(status.conditions, READY)
    if shown is None or not shown.is_true:
        ready = condition(tenant, False, TenantReason.ProcessingStarted, message)
        return msgspec.structs.replace(observed(tenant, status, now, ready), state=state)
    cause = condition(tenant, True, TenantReason.ProcessingStarted, message, type=conditions.RECONCILING)
    return msgspec.structs.replace(_in_use(tenant, status, shown, cause, now), state=state)


def lost(tenant: CAPTenant, message: str, now: datetime) -> TenantStatus:
    """The status of a tenant in use whose version does not exist."""
    cause = condition(tenant, True, TenantReason.InvalidReference, message, type=conditions.STALLED)
    shown = conditions.find(tenant.status.conditions, READY)
    assert shown is not None, "a tenant in use has been Ready"
    return _in_use(tenant, tenant.status, shown, cause, now)


def _in_use(tenant: CAPTenant, status: TenantStatus, ready: Condition, cause: Condition, now: datetime) -> TenantStatus:
    """The status of a tenant that stays Ready, with what it lacks besides; see `kstatus.cause_of`."""
    told = condition(tenant, True, ready.reason, cause.message)
    ready_first = observed(tenant, status, now, told)
    return msgspec.structs.replace(ready_first, conditions=conditions.with_cause(ready_first.conditions, cause, now))


def lost_message(tenant: CAPTenant, other: CAPApplicationVersion | None) -> str:
    """The message of a tenant in use whose version object is gone. `other`: a version that it may get instead."""
    return (
        f"CAPApplicationVersion {tenant.status.current_version}, which {tenant.ref} uses, does not exist: its requests "
        f"find no workload, and it cannot be deprovisioned. Create the version again, or {set_version(tenant, other)}"
    )


def set_version(tenant: CAPTenant, other: CAPApplicationVersion | None) -> str:
    """How a tenant gets another version: the command, or that which lists the versions if none is Ready."""
    key = tenant.key
    if other is None:
        return f"another one. See those that exist: kubectl get cav -n {key.namespace}"
    patch = f'{{"spec":{{"version":"{other.spec.version}"}}}}'
    return f"set another with: kubectl patch cat {key.name} -n {key.namespace} --type merge -p '{patch}'"


def waiting_message(operation: ObjectKey, type: str) -> str:
    """The message while an operation is under way."""
    return f"waiting for CAPTenantOperation {names.dotted(operation)} of type {type} to complete"


def hidden_operation_message(tenant: CAPTenant, operation: ObjectKey) -> str:
    """The message of a tenant that waits for an operation which cannot be read."""
    return (
        f"waiting for CAPTenantOperation {operation}, which cannot be read and may run Jobs of {tenant.ref}: two "
        f"operations must not run at the same time; {see_why('ctop', operation)}"
    )


def hidden_duplicate_message(tenant: CAPTenant, other: ObjectKey) -> str:
    """The message of a tenant that waits for another one which cannot be read."""
    return (
        f"waiting for CAPTenant {other}, which cannot be read and may have the tenantId of {tenant.ref}: two of "
        f"one id must not run Jobs; {see_why('cat', other)}"
    )


def success_message(operation: CAPTenantOperation) -> str:
    """The message after an operation succeeded."""
    return f"CAPTenantOperation {names.dotted(operation.key)} successfully completed"


def failure_message(operation: CAPTenantOperation, next_step: str) -> str:
    """The message after an operation failed, with its cause and the next step."""
    ready = conditions.find(operation.status.conditions, READY)
    cause = f": {ready.message}" if ready is not None and ready.message else ""
    return f"CAPTenantOperation {names.dotted(operation.key)} failed{cause}. {next_step}"


def run_again(operation: CAPTenantOperation) -> str:
    """The next step after an operation failed whose version is there."""
    key = operation.key
    return f"Run the step again with: stellwerk cap retry ctop/{key.name} -n {key.namespace}"


def without_version(tenant: CAPTenant, operation: CAPTenantOperation, other: CAPApplicationVersion | None) -> str:
    """The next step after an operation failed whose version is gone: no step of it can run again.

    `other`: the version that the tenant may get instead.
    """
    gone = f"Its CAPApplicationVersion {operation.spec.version_name} does not exist"
    if operation.spec.operation == Operation.DEPROVISIONING:
        return f"{gone}: create it again, then r{run_again(operation)[1:]}"
    return f"{gone}: {'create it again, or ' if other is None else ''}{set_version(tenant, other)}"


def forwarded(tenant: CAPTenant, operation: CAPTenantOperation) -> JsonObject:
    """The metadata by which a request of the tenant becomes one of its operation, distinct from a user's own.

    The resourceVersion makes it a new one: a request that was withdrawn from the tenant acts again when it comes again.
    """
    request = f"tenant:{operation.metadata.resource_version}:{retries.request(tenant)}"
    return {"annotations": {names.RETRY_ANNOTATION: request[: retries.LONGEST_REQUEST]}}


def refusal_message(tenant: CAPTenant, error: StatusError) -> str:
    """The message where the API server refuses an operation. A namespace that is being deleted takes no Jobs."""
    if all(cause.reason != "NamespaceTerminating" for cause in error.status.details.causes):
        return str(error)
    key = tenant.key
    release = (
        f'kubectl patch cat {key.name} -n {key.namespace} --type merge -p \'{{"metadata":{{"finalizers":null}}}}\''
    )
    return (
        f"Namespace {key.namespace} is being deleted, so no Job can run in it. Without one, {tenant.ref} is not "
        f"deprovisioned, and its data stays with the services. To delete the tenant all the same: {release}"
    )
