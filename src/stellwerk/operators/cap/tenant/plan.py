"""What a tenant needs next (pure; spec section 9).

The operations decide, not the state that the status shows: an operation that has ended and is not recorded yet is
recorded, whatever was written before a crash. An operation is recorded when the status names its version as the current
one. So no operation is started twice, and none is forgotten.

| the tenant | needs |
| --- | --- |
| is being deleted, and never had a version | nothing: it is released |
| is being deleted, and a duplicate has or takes over its data | nothing: it is released |
| has the data of an older tenant | to be shown as a duplicate |
| is being deleted, and one that cannot be read may have its data | to wait |
| is being deleted | deprovisioning of its current version |
| may have the data of an older tenant that cannot be read | to wait before it starts an operation |
| has an operation that cannot be read | to wait before it starts another one, or goes without a version |
| has no current version | provisioning |
| has another version than it should have, and follows versions | an upgrade |
| shows an upgrade, and has the version that it should have, or never follows | to be shown as Ready again |

The last row is a tenant that is back at its version after an upgrade failed: an application moves no tenant that shows
an upgrade, and counts one that shows a failure as failed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

import msgspec

from stellwerk.apply.objects.desired import Desired
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, owner_reference
from stellwerk.kube.types.object_meta import ObjectMeta, kubernetes_time
from stellwerk.operators.cap import duplicates, names, preparation, retries
from stellwerk.operators.cap.kinds import references
from stellwerk.operators.cap.kinds.application import ApplicationState, CAPApplication
from stellwerk.operators.cap.kinds.status import READY, condition, observed, see_why
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    Operation,
    OperationState,
    TenantState,
    TenantStatus,
    UpgradeStrategy,
)
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, hidden_versions_message
from stellwerk.operators.cap.operation import jobs
from stellwerk.operators.cap.operation.plan import is_released, is_unrecorded, marks_of, newest
from stellwerk.operators.cap.reasons import ApplicationReason, TenantReason
from stellwerk.operators.cap.version.order import latest_ready
from stellwerk.runtime import conditions
from stellwerk.runtime.reconciler import Notice, ReconcileError

PREVIOUS_VERSIONS = 10
"""How many previous versions a tenant shows, unless the settings name another number."""


class TenantFailed(ReconcileError):
    """A tenant cannot be worked on now. Its condition keeps the reason that it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSnapshot:
    """What the caches show of a tenant and around it."""

    tenant: CAPTenant
    application: CAPApplication | None = None
    applications: Sequence[str] = ()
    """The names of those in the namespace, where its own does not exist."""
    is_application_hidden: bool = False
    """Whether the application exists and could not be read so far."""
    versions: Sequence[CAPApplicationVersion] = ()
    """All versions of the application that can be read."""
    hidden_versions: Sequence[ObjectKey] = ()
    """Versions that could not be read so far and may be of the application."""
    operations: Sequence[CAPTenantOperation] = ()
    """The operations that the tenant controls."""
    hidden_operations: Sequence[ObjectKey] = ()
    """Those that could not be read so far."""
    duplicates: Sequence[CAPTenant] = ()
    """Other tenants that stand for the same data."""
    hidden_duplicates: Sequence[ObjectMeta] = ()
    """Other tenants that could not be read so far and may stand for the same data."""

    def version_named(self, name: str) -> CAPApplicationVersion | None:
        """The version object of this name; None where there is none."""
        return next((version for version in self.versions if version.metadata.name == name), None)

    def hides(self, version: str) -> bool:
        """Whether the version object of this name exists and could not be read so far."""
        return ObjectKey(self.tenant.metadata.namespace, version) in self.hidden_versions


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


# ---- what may be decided


@dataclass(frozen=True, slots=True)
class Rest:
    """The tenant is as it should be."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The tenant refers to something that does not exist or cannot be read."""

    message: str


@dataclass(frozen=True, slots=True)
class Prepare:
    """Labels, annotations, the owner or the finalizer are absent: write them."""

    lacking: JsonObject
    version: str = ""
    """The version that a new tenant gets with them, in the same write."""


@dataclass(frozen=True, slots=True)
class AwaitVersion:
    """The tenant has no version yet, or its version is not Ready."""

    message: str


@dataclass(frozen=True, slots=True)
class AwaitOperation:
    """An operation is under way."""

    operation: CAPTenantOperation


@dataclass(frozen=True, slots=True)
class Record:
    """An operation succeeded: its version becomes the current one."""

    operation: CAPTenantOperation


@dataclass(frozen=True, slots=True)
class ShowFailure:
    """An operation failed, and the tenant should not have another version than the one that it failed for."""

    operation: CAPTenantOperation


@dataclass(frozen=True, slots=True)
class ShowReady:
    """No operation brings the tenant to another version, and its status shows one: it is Ready with what it has."""


@dataclass(frozen=True, slots=True)
class Start:
    """An operation has to be created."""

    operation: Operation
    version: CAPApplicationVersion
    replaces: Sequence[CAPTenantOperation]
    """Earlier operations of the same type, which are deleted first."""


@dataclass(frozen=True, slots=True)
class Release:
    """The tenant is deprovisioned, or was never provisioned: remove the finalizer."""

    operation: CAPTenantOperation | None = None


@dataclass(frozen=True, slots=True)
class ShowDuplicate:
    """An older tenant has the data: this one runs no Job."""

    older: CAPTenant


Decision: TypeAlias = (
    Rest
    | Refuse
    | Prepare
    | AwaitVersion
    | AwaitOperation
    | Record
    | ShowFailure
    | ShowReady
    | Start
    | Release
    | ShowDuplicate
)


def decide(seen: TenantSnapshot) -> Decision:
    """Decide what the tenant needs next."""
    decision, tenant = _decide(seen), seen.tenant
    if not isinstance(decision, Start):
        return decision
    if seen.hidden_operations:
        return Refuse(hidden_operation_message(tenant, seen.hidden_operations[0]))
    for hidden in seen.hidden_duplicates:
        if tenant.metadata.is_terminating or duplicates.is_older(hidden, tenant):
            return Refuse(hidden_duplicate_message(tenant, ObjectKey(hidden.namespace, hidden.name)))
    return decision


def _decide(seen: TenantSnapshot) -> Decision:
    tenant = seen.tenant
    is_deleted = tenant.metadata.is_terminating
    if is_deleted and names.TENANT_FINALIZER not in tenant.metadata.finalizers:
        return Rest()
    if not is_deleted:
        if seen.application is None:
            return _without_application(seen)
        if (lacking := absent(tenant, seen.application)) is not None:
            return Prepare(lacking, _first_version(seen))
    if (active := newest(each for each in seen.operations if retries.is_under_way(each))) is not None:
        return AwaitOperation(active)
    older = duplicates.oldest(tenant, seen.duplicates)
    if is_deleted:
        uses_data = older is tenant and duplicates.heir(tenant, seen.duplicates) is None
        return _deprovision(seen) if uses_data else Release()
    if older is not tenant:
        return ShowDuplicate(older)
    if not tenant.status.current_version:
        return _bring_to_version(seen, Operation.PROVISIONING)
    wanted = _wanted_version(seen)
    current = tenant.status.current_version
    has_wanted = wanted.metadata.name == current if wanted is not None else seen.hides(current) and _was_ready(tenant)
    if tenant.spec.version_upgrade_strategy == UpgradeStrategy.NEVER or has_wanted:
        return _unrecorded(seen, Operation.UPGRADE) or _stay(seen, has_wanted=has_wanted)
    return _bring_to_version(seen, Operation.UPGRADE)


def _stay(seen: TenantSnapshot, *, has_wanted: bool) -> Rest | ShowFailure | ShowReady:
    """A tenant that stays at its current version. It never follows, unless it has the wanted one."""
    if seen.tenant.status.state == TenantState.READY:
        return Rest()
    failed = None if has_wanted else _failure(seen, Operation.UPGRADE, _wanted_version(seen))
    return ShowReady() if failed is None else ShowFailure(failed)


def _without_application(seen: TenantSnapshot) -> Rest | Refuse:
    tenant = seen.tenant
    named = f"CAPApplication {tenant.spec.cap_application_instance} of {tenant.ref}"
    if not seen.is_application_hidden:
        others = references.other_applications(tenant.metadata.namespace, seen.applications)
        return Refuse(f"{named} does not exist {others}")
    if _was_ready(tenant):
        return Rest()
    return Refuse(f"{named} cannot be read; {see_why('ca', tenant.application_key)}")


def _was_ready(tenant: CAPTenant) -> bool:
    """Whether a tenant was as it should be, and its spec has not changed since."""
    status = tenant.status
    return status.state == TenantState.READY and status.observed_generation == tenant.metadata.generation


def _first_version(seen: TenantSnapshot) -> str:
    """The version that the application would give a new tenant in its next pass; empty where it would give none."""
    tenant, application = seen.tenant, seen.application
    assert application is not None
    if not is_new(tenant) or tenant.spec.version_upgrade_strategy == UpgradeStrategy.NEVER:
        return ""
    status = application.status
    is_consistent = (
        status.state == ApplicationState.CONSISTENT
        and status.observed_generation == application.metadata.generation
        and not status.services_only
        and not application.metadata.is_terminating
    )
    version = latest_ready(seen.versions) if is_consistent else None
    return version.spec.version if version is not None else ""


def version_changed(tenant: CAPTenant, version: str) -> Notice:
    """The Event about a version that a tenant gets from the operator."""
    message = f"version changed from {tenant.spec.version or 'none'} to {version}"
    return Notice(ApplicationReason.AutoVersionUpdate, message, action="Upgrade")


def is_new(tenant: CAPTenant) -> bool:
    """Whether a tenant without a version waits for its own first pass, which gives it one if it can."""
    return not tenant.spec.version and names.TENANT_FINALIZER not in tenant.metadata.finalizers


def _deprovision(seen: TenantSnapshot) -> Decision:
    """Of a tenant with an operation that succeeded and is not recorded yet, the version is recorded first."""
    name = seen.tenant.status.current_version
    if (unrecorded := _unrecorded(seen, Operation.UPGRADE if name else Operation.PROVISIONING)) is not None:
        return unrecorded
    if not name:
        hidden = seen.hidden_operations
        return Refuse(hidden_operation_message(seen.tenant, hidden[0])) if hidden else Release()
    last = _last(seen, Operation.DEPROVISIONING)
    if last is not None:
        return Release(last) if _succeeded(last) else ShowFailure(last)
    current = seen.version_named(name)
    if current is None:
        return Refuse(f"CAPApplicationVersion {name}, which {seen.tenant.ref} uses, {_why_no_jobs(seen, name)}")
    return Start(Operation.DEPROVISIONING, current, ())


def _why_no_jobs(seen: TenantSnapshot, version: str) -> str:
    consequence = "without its Jobs the tenant cannot be deprovisioned"
    if seen.hides(version):
        key = ObjectKey(seen.tenant.metadata.namespace, version)
        return f"cannot be read, and {consequence}; {see_why('cav', key)}"
    return f"does not exist: {consequence}. Create the version again"


def _bring_to_version(seen: TenantSnapshot, operation: Operation) -> Decision:
    """Provisioning or an upgrade to the version that the tenant should have."""
    if (unrecorded := _unrecorded(seen, operation)) is not None:
        return unrecorded
    version = _wanted_version(seen)
    if (failed := _failure(seen, operation, version)) is not None:
        return ShowFailure(failed)
    if version is None:
        return AwaitVersion(_why_no_version(seen))
    return Start(operation, version, [each for each in seen.operations if each.spec.operation == operation])


def _failure(
    seen: TenantSnapshot, operation: Operation, wanted: CAPApplicationVersion | None
) -> CAPTenantOperation | None:
    """The last operation of this type, where it failed and the tenant should not have another version than its.

    Where no version is the `wanted` one, the numbers decide. A tenant that is Ready has got over a failure.
    """
    last = _last(seen, operation)
    if last is None or _succeeded(last):
        return None
    if wanted is not None:
        return last if last.spec.version_name == wanted.metadata.name else None
    if seen.version_named(last.spec.version_name) is None:
        return None if _was_ready(seen.tenant) else last
    return last if is_wanted(seen, last.spec.version_name) else None


def _unrecorded(seen: TenantSnapshot, operation: Operation) -> Record | None:
    """An operation of this type that succeeded and whose version is not the current one yet."""
    last = _last(seen, operation)
    return Record(last) if last is not None and is_unrecorded(last, seen.tenant) else None


def _wanted_version(seen: TenantSnapshot) -> CAPApplicationVersion | None:
    """The Ready version that the tenant should have.

    Of several with the same number it is the one that the tenant has, else the first by name: the order of the cache
    changes with each update, and would move tenants from one to the other and back.
    """
    wanted, current = seen.tenant.spec.version, seen.tenant.status.current_version
    fitting = (
        version
        for version in seen.versions
        if wanted and version.spec.version == wanted and conditions.is_true(version.status.conditions, READY)
    )
    return min(fitting, key=lambda each: (each.metadata.name != current, each.metadata.name), default=None)


def is_wanted(seen: TenantSnapshot, name: str) -> bool:
    """Whether the version object of this name has the number that the tenant should have."""
    version = seen.version_named(name)
    return version is not None and version.spec.version == seen.tenant.spec.version


def _why_no_version(seen: TenantSnapshot) -> str:
    tenant, hidden = seen.tenant, seen.hidden_versions
    if tenant.spec.version:
        message = (
            "could not find a CAPApplicationVersion with status Ready for CAPApplication "
            f"{names.dotted(tenant.application_key)} and version {tenant.spec.version}"
        )
        return message + (f"; {hidden_versions_message(hidden)}" if hidden else "")
    if tenant.spec.version_upgrade_strategy == UpgradeStrategy.NEVER:
        return "spec.version is empty and the upgrade strategy is never, so no version is set: set spec.version"
    return "waiting for a version: the CAPApplication sets it as soon as a CAPApplicationVersion is Ready"


def _last(seen: TenantSnapshot, operation: Operation) -> CAPTenantOperation | None:
    """The newest operation of this type that has ended.

    One that is released was recorded or replaced: where the finalizer of someone else keeps it, newer ones may be gone.
    """
    return newest(
        each
        for each in seen.operations
        if each.spec.operation == operation and not retries.is_under_way(each) and not is_released(each)
    )


def _succeeded(operation: CAPTenantOperation) -> bool:
    return operation.status.state == OperationState.COMPLETED


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


def new_operation(tenant: CAPTenant, start: Start) -> Desired:
    """The CAPTenantOperation to create. Raises NoTenantOperation where the version has no Job for it."""
    marks = marks_of(tenant, start.operation)
    metadata: JsonObject = {
        "finalizers": [names.OPERATION_FINALIZER],
        "ownerReferences": [msgspec.to_builtins(owner_reference(tenant))],
        "labels": {**marks["labels"]},
        "annotations": {**marks["annotations"]},
    }
    spec: JsonObject = {
        "operation": start.operation.value,
        "subDomain": tenant.spec.sub_domain,
        "tenantId": tenant.spec.tenant_id,
        "capApplicationVersionInstance": start.version.metadata.name,
        "steps": [msgspec.to_builtins(step) for step in jobs.steps_of(start.version, start.operation)],
    }
    key = ObjectKey(tenant.metadata.namespace, _operation_name(tenant, start))
    return Desired.named(CAPTenantOperation.resource, key, metadata, spec=spec)


def _operation_name(tenant: CAPTenant, start: Start) -> str:
    """The same in each pass, so that a creation whose answer was lost is not repeated.

    The operations that it replaces are no part of it: they are deleted first, and a later pass does not know them. One
    with the same name is of the same version. The tenant waits until it is gone, and it decides nothing meanwhile.
    """
    metadata = tenant.metadata
    return names.derived(metadata.name, metadata.uid, start.operation, start.version.metadata.uid)


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
    is_ready = shown is not None and shown.is_true
    reason = shown.reason if shown is not None and is_ready else TenantReason.ProcessingStarted
    ready = condition(tenant, is_ready, reason, message)
    return msgspec.structs.replace(observed(tenant, status, now, ready), state=state)


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


def after_failure(seen: TenantSnapshot, operation: CAPTenantOperation) -> str:
    """The next step after an operation failed."""
    name = operation.spec.version_name
    if seen.version_named(name) is not None or seen.hides(name):
        return run_again(operation)
    other = latest_ready(seen.versions) or seen.version_named(seen.tenant.status.current_version)
    return without_version(seen.tenant, operation, other)


def run_again(operation: CAPTenantOperation) -> str:
    """The next step after an operation failed whose version is there."""
    key = operation.key
    return f"Run the step again with: stellwerk cap retry ctop/{key.name} -n {key.namespace}"


def without_version(tenant: CAPTenant, operation: CAPTenantOperation, other: CAPApplicationVersion | None) -> str:
    """The next step after an operation failed whose version is gone: no step of it can run again.

    `other`: the version that the tenant may get instead.
    """
    key = tenant.key
    gone = f"Its CAPApplicationVersion {operation.spec.version_name} does not exist"
    if operation.spec.operation == Operation.DEPROVISIONING:
        return f"{gone}: create it again, then r{run_again(operation)[1:]}"
    if other is None:
        return f"{gone}: create it again, or another one"
    patch = f'{{"spec":{{"version":"{other.spec.version}"}}}}'
    return f"{gone}: set another with: kubectl patch cat {key.name} -n {key.namespace} --type merge -p '{patch}'"


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
