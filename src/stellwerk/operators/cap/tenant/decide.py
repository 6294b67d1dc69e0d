"""What a tenant needs next, as a value.

The operations decide, not the state that the status shows: an operation that has ended and is not recorded yet is
recorded, whatever was written before a crash. So no operation is started twice, and none is forgotten.

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
| is in use, and the version that it has, or should follow to, does not exist | to show that |
| has another version than it should have, and follows versions | an upgrade |
| shows an upgrade, and has the version that it should have, or never follows | to be shown as Ready again |

The last row is a tenant that is back at its version after an upgrade failed: an application moves no tenant that shows
an upgrade, and counts one that shows a failure as failed. An operation is recorded when the status names its version as
the current one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

import msgspec

from stellwerk.delivery.step_rights import Use
from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, JsonObject, Unreadable
from stellwerk.kube.types.object_meta import Condition
from stellwerk.operators.cap import duplicates, names, retries
from stellwerk.operators.cap.collections import (
    APPLICATIONS,
    APPLICATIONS_IN,
    CLUSTER_DOMAINS,
    DOMAINS,
    OPERATIONS,
    OPERATIONS_OF,
    OUTPUTS,
    OUTPUTS_OF,
    ROUTES,
    TENANTS,
    TENANTS_OF_ID,
    VERSIONS,
    VERSIONS_OF,
    as_asked,
    name_of,
    offer,
)
from stellwerk.operators.cap.kinds.application import ApplicationState, CAPApplication, DomainKind
from stellwerk.operators.cap.kinds.references import other_applications
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
from stellwerk.operators.cap.operation.jobs import NoTenantOperation
from stellwerk.operators.cap.operation.plan import is_released, is_unrecorded, newest
from stellwerk.operators.cap.reasons import TenantReason
from stellwerk.operators.cap.routing import targets
from stellwerk.operators.cap.tenant import plan, routes
from stellwerk.operators.cap.tenant.networking import NETWORKING, NetworkingFailed
from stellwerk.operators.cap.tenant.plan import DUPLICATE, FAILED, SUCCEEDED, UNDER_WAY, Phase
from stellwerk.operators.cap.tenant.routes import ApplyRoutes, TenantSettings
from stellwerk.operators.cap.version.order import latest_ready
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control.step import Create, Delete, Failure, Patch, RemoveFinalizer, Step, Wait
from stellwerk.runtime.reading.known import NotKnown, Present, Unknown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View, with_status
from stellwerk.runtime.reconciler import Notice, Severity

TenantStep: TypeAlias = Step[TenantStatus]

OWN = Use(
    TENANTS, "no CAPTenant is seen, or is held until its services have deprovisioned it", (Patch, RemoveFinalizer)
)
USES = (
    Use(APPLICATIONS, "no CAPTenant finds its CAPApplication"),
    Use(VERSIONS, "no CAPTenant follows to a version"),
    Use(
        OPERATIONS,
        "no CAPTenant is provisioned, upgraded or deprovisioned",
        (Create, Patch, Delete),
        {"delete": "an operation that has failed is replaced by one for another version"},
    ),
    Use(
        OUTPUTS,
        "outputs of former operations are sent for new ones",
        (Delete,),
        {"delete": "a Job of a former operation has left an output"},
    ),
    Use(DOMAINS, "no CAPTenant has the hosts of a Domain"),
    Use(CLUSTER_DOMAINS, "no CAPTenant has the hosts of a ClusterDomain"),
    Use(
        ROUTES,
        "tenants are not reached",
        (ApplyRoutes, Patch, Delete),
        {"delete": "a tenant has no host of its own any more, or a version exposes a service no longer"},
    ),
)
"""What passes ask about and steps write, for the rights."""

# ---- what is read


def offers_versions(application: CAPApplication) -> bool:
    """Whether a new tenant may get a version before the next pass of its application."""
    status = application.status
    is_current = status.observed_generation == application.metadata.generation and not status.services_only
    return status.state == ApplicationState.CONSISTENT and is_current and not application.metadata.is_terminating


def use_of_data(tenant: CAPTenant) -> CAPTenant:
    """A tenant, and of its status only whether it has data."""
    return with_status(tenant, TenantStatus(current_version=tenant.status.current_version))


def _application(tenant: CAPTenant, view: View) -> CAPApplication | None:
    """The application of the tenant; None if there is none that can be read."""
    return _application_at(view, tenant.application_key)


def _application_at(view: View, key: ObjectKey) -> CAPApplication | None:
    found = view.get(APPLICATIONS, key, as_asked)
    return found.value if isinstance(found, Present) else None


def _versions(tenant: CAPTenant, view: View) -> Sequence[CAPApplicationVersion]:
    return view.by(VERSIONS_OF, str(tenant.application_key), offer).values


def _hidden_versions(tenant: CAPTenant, view: View) -> Sequence[ObjectKey]:
    """The versions that cannot be read and may be of the application. One without an owner may be of any near it."""
    unknown = view.by(VERSIONS_OF, str(tenant.application_key), offer).unknown
    return [each.key for each in unknown if each.key.namespace == tenant.metadata.namespace]


def _version_named(tenant: CAPTenant, view: View, name: str) -> CAPApplicationVersion | None:
    return next((each for each in _versions(tenant, view) if each.metadata.name == name), None)


def _is_hidden(tenant: CAPTenant, view: View, version: str) -> bool:
    return ObjectKey(tenant.metadata.namespace, version) in _hidden_versions(tenant, view)


def _operations(tenant: CAPTenant, view: View) -> Sequence[CAPTenantOperation]:
    return view.by(OPERATIONS_OF, tenant.metadata.uid).values


def _duplicates(tenant: CAPTenant, view: View) -> Sequence[CAPTenant]:
    (id,) = duplicates.by_tenant_id(tenant)
    found = view.by(TENANTS_OF_ID, id, use_of_data).values
    return duplicates.of_tenant(tenant, found, partial(_application_at, view))


def _hidden_duplicates(tenant: CAPTenant, view: View) -> Sequence[Unreadable]:
    (id,) = duplicates.by_tenant_id(tenant)
    unknown = view.by(TENANTS_OF_ID, id, use_of_data).unknown
    may_have_data = duplicates.hidden_from(tenant, unknown, partial(_application_at, view)) if unknown else ()
    return [each for each in unknown if each.metadata in may_have_data]


# ---- the decision


def decide(tenant: CAPTenant, view: View) -> TenantStep:
    """What the tenant needs next."""
    step = _needed(tenant, view)
    if step.writes or step.failure or not retries.is_unread(tenant):
        return step
    return replace(step, status=retries.acknowledged(tenant, step.status or tenant.status))


def _needed(tenant: CAPTenant, view: View) -> TenantStep:
    is_deleted = tenant.metadata.is_terminating
    if is_deleted and names.TENANT_FINALIZER not in tenant.metadata.finalizers:
        return _rest(tenant, view)
    if not is_deleted:
        application = _application(tenant, view)
        if application is None:
            return _without_application(tenant, view)
        if (lacking := plan.absent(tenant, application)) is not None:
            return _prepare(tenant, view, lacking)
    if (active := newest(filter(retries.is_under_way, _operations(tenant, view)))) is not None:
        return _await(tenant, view, active)
    others = _duplicates(tenant, view)
    older = duplicates.oldest(tenant, others)
    if is_deleted:
        uses_data = older is tenant and duplicates.heir(tenant, others) is None
        return _leave(tenant, view) if uses_data else _release()
    if older is not tenant:
        return _show_duplicate(tenant, view, older)
    current = tenant.status.current_version
    if not current:
        return _bring_to_version(tenant, view, Operation.PROVISIONING)
    wanted = _wanted_version(tenant, view)
    if wanted is not None:
        has_wanted = wanted.metadata.name == current
    else:
        has_wanted = _was_ready(tenant) and _is_hidden(tenant, view, current)
    if tenant.spec.version_upgrade_strategy != UpgradeStrategy.NEVER and not has_wanted:
        return _bring_to_version(tenant, view, Operation.UPGRADE)
    if (done := _unrecorded(tenant, view, Operation.UPGRADE)) is not None:
        return _record(tenant, view, done)
    if tenant.status.state == TenantState.READY:
        return _rest(tenant, view)
    failed = None if has_wanted else _failure(tenant, view, Operation.UPGRADE, wanted)
    if failed is not None:
        return _show_failure(tenant, view, failed)
    return _with_routes(tenant, view, Step(status=plan.at_rest(tenant, view.now)))


def _without_application(tenant: CAPTenant, view: View) -> TenantStep:
    key = tenant.application_key
    named = f"CAPApplication {key.name} of {tenant.ref}"
    if not isinstance(view.get(APPLICATIONS, key, as_asked), Unknown):
        existing = view.by(APPLICATIONS_IN, key.namespace, name_of).values
        return _invalid(f"{named} does not exist {other_applications(key.namespace, existing)}")
    if _was_ready(tenant):
        return _rest(tenant, view)
    return _invalid(f"{named} cannot be read; {see_why('ca', key)}")


def _prepare(tenant: CAPTenant, view: View, lacking: JsonObject) -> TenantStep:
    """Write the metadata, and with them the version that the application would give a new tenant in its next pass."""
    follows = plan.is_new(tenant) and tenant.spec.version_upgrade_strategy != UpgradeStrategy.NEVER
    gets_one = follows and view.find(APPLICATIONS, tenant.application_key, offers_versions)
    version = latest_ready(_versions(tenant, view)) if gets_one else None
    if version is None:
        return Step(writes=(Patch(TENANTS, tenant, {"metadata": lacking}, _refused),))
    number = version.spec.version
    write = Patch(TENANTS, tenant, {"metadata": lacking, "spec": {"version": number}}, _refused)
    return Step(writes=(write,), events=(plan.version_changed(tenant, number),))


def _bring_to_version(tenant: CAPTenant, view: View, operation: Operation) -> TenantStep:
    """Provisioning or an upgrade to the version that the tenant should have."""
    if (done := _unrecorded(tenant, view, operation)) is not None:
        return _record(tenant, view, done)
    version = _wanted_version(tenant, view)
    if (failed := _failure(tenant, view, operation, version)) is not None:
        return _show_failure(tenant, view, failed)
    if version is not None:
        return _start(tenant, view, operation, version)
    if message := _why_lost(tenant, view):
        return _show_lost(tenant, view, message)
    message = _why_no_version(tenant, view)  # one that has a former version goes on using it
    waits = (Wait((APPLICATIONS, tenant.application_key), message),)
    return _with_routes(tenant, view, Step(status=plan.waiting(tenant, message, view.now), waits=waits))


def _show_lost(tenant: CAPTenant, view: View, message: str) -> TenantStep:
    """A tenant in use stays Ready, as with the original: Stalled shows that its version does not exist."""
    is_news = _ready_of(tenant).message != conditions.truncated(message)
    event = Notice(TenantReason.InvalidReference, message, Severity.WARNING, "Prepare")
    waits = (Wait((APPLICATIONS, tenant.application_key), message),)
    status = plan.lost(tenant, message, view.now)
    return _with_routes(tenant, view, Step(status=status, events=(event,) if is_news else (), waits=waits))


def _leave(tenant: CAPTenant, view: View) -> TenantStep:
    """Of a tenant with an operation that succeeded and is not recorded yet, the version is recorded first."""
    name = tenant.status.current_version
    if (done := _unrecorded(tenant, view, Operation.UPGRADE if name else Operation.PROVISIONING)) is not None:
        return _record(tenant, view, done)
    if not name:
        message = _hidden_operation(tenant, view)
        return _invalid(message) if message else _release()
    if (last := _last(tenant, view, Operation.DEPROVISIONING)) is not None:
        return _release(last) if _succeeded(last) else _show_failure(tenant, view, last)
    version = _version_named(tenant, view, name)
    if version is not None:
        return _start(tenant, view, Operation.DEPROVISIONING, version)
    why, consequence = "does not exist", "without its Jobs the tenant cannot be deprovisioned"
    if _is_hidden(tenant, view, name):
        why = f"cannot be read, and {consequence}; {see_why('cav', ObjectKey(tenant.metadata.namespace, name))}"
    else:
        why = f"does not exist: {consequence}. Create the version again"
    return _invalid(f"CAPApplicationVersion {name}, which {tenant.ref} uses, {why}")


def _release(last: CAPTenantOperation | None = None) -> TenantStep:
    events = (_event(SUCCEEDED[Operation.DEPROVISIONING], plan.success_message(last)),) if last is not None else ()
    return Step(writes=(RemoveFinalizer(names.TENANT_FINALIZER),), events=events)


def _show_duplicate(tenant: CAPTenant, view: View, older: CAPTenant) -> TenantStep:
    message = plan.duplicate_message(tenant, older)
    is_news = _ready_of(tenant).message != conditions.truncated(message)
    events = (_event(DUPLICATE, message, Severity.WARNING),) if is_news else ()
    waits = (Wait((TENANTS, older.key), message),)
    return Step(status=plan.duplicate(tenant, older, view.now), events=events, waits=waits)


def _hidden_operation(tenant: CAPTenant, view: View) -> str:
    """The message about an operation that cannot be read; empty if there is none."""
    hidden = view.by(OPERATIONS_OF, tenant.metadata.uid).unknown
    return plan.hidden_operation_message(tenant, hidden[0].key) if hidden else ""


def _why_no_start(tenant: CAPTenant, view: View) -> str:
    """Which object that cannot be read has to be looked at before another Job may run."""
    if message := _hidden_operation(tenant, view):
        return message
    for duplicate in _hidden_duplicates(tenant, view):
        if tenant.metadata.is_terminating or duplicates.is_older(duplicate.metadata, tenant):
            return plan.hidden_duplicate_message(tenant, duplicate.key)
    return ""


def _start(tenant: CAPTenant, view: View, operation: Operation, version: CAPApplicationVersion) -> TenantStep:
    """Create an operation, after earlier ones of its type and the outputs of earlier Jobs are deleted."""
    if message := _why_no_start(tenant, view):
        return _invalid(message)
    try:
        wanted = plan.new_operation(tenant, operation, version)
    except NoTenantOperation as error:
        return Step(failure=Failure(message=str(error)))
    is_replaced = operation != Operation.DEPROVISIONING
    former = [each for each in _operations(tenant, view) if is_replaced and each.spec.operation == operation]
    outputs = view.by(OUTPUTS_OF, f"{tenant.metadata.namespace}/{tenant.spec.tenant_id}").values
    newer, earlier = "a newer operation replaces it", "it is from a Job of an earlier operation"
    deleted = [Delete(OPERATIONS, each, _refused, newer) for each in former if _stays(each)]
    stale = [Delete(OUTPUTS, each, _refused, earlier) for each in outputs if _stays(each)]
    if deleted or stale:
        return Step(writes=(*deleted, *stale))
    key = wanted.address.key
    if isinstance(view.get(OPERATIONS, key), Present | Unknown):  # an earlier one is being deleted
        return Step(waits=(Wait((OPERATIONS, key), f"waiting for the end of {wanted.ref}, which has its name"),))
    event = _event(UNDER_WAY[operation], plan.waiting_message(key, operation))
    return Step(writes=(Create(OPERATIONS, wanted.body, partial(_operation_refused, tenant)),), events=(event,))


def _await(tenant: CAPTenant, view: View, operation: CAPTenantOperation) -> TenantStep:
    message = plan.waiting_message(operation.key, operation.spec.operation)
    status = plan.status_of(tenant, UNDER_WAY[operation.spec.operation], message, view.now)
    return Step(status=status, waits=(Wait((OPERATIONS, operation.key), message),))


def _record(tenant: CAPTenant, view: View, operation: CAPTenantOperation) -> TenantStep:
    """The version of an operation that succeeded becomes the current one, as soon as its domains serve it."""
    status = plan.recorded(tenant, operation, view.now, view.setting(TenantSettings).most_previous_versions)
    if tenant.metadata.is_terminating:
        return Step(status=status)
    application = _application(tenant, view)
    if application is not None and _version_named(tenant, view, status.current_version) is not None:
        namespace = application.metadata.namespace
        for each in application.spec.served_refs:
            found = routes.find_domain(view, namespace, each)
            if message := targets.unready(application, each, found):
                is_cluster_wide = each.kind == DomainKind.CLUSTER_DOMAIN
                collection = CLUSTER_DOMAINS if is_cluster_wide else DOMAINS
                waits = (Wait((collection, ObjectKey("" if is_cluster_wide else namespace, each.name)), message),)
                return Step(status=_with_message(tenant, message, view.now), waits=waits)
    event = _event(SUCCEEDED[operation.spec.operation], plan.success_message(operation))
    return _with_routes(tenant, view, Step(status=status, events=(event,)))


def _show_failure(tenant: CAPTenant, view: View, operation: CAPTenantOperation) -> TenantStep:
    """The failed operation runs again if the tenant is asked to; the tenant shows its failure otherwise."""
    if retries.is_pending(tenant):
        asked = Patch(OPERATIONS, operation, {"metadata": plan.forwarded(tenant, operation)}, _refused)
        return Step(status=retries.acknowledged(tenant, tenant.status), writes=(asked,))
    phase, shown = FAILED[operation.spec.operation], _ready_of(tenant)
    message = plan.failure_message(operation, _after_failure(tenant, view, operation))
    is_news = (shown.reason, shown.message) != (phase.reason, conditions.truncated(message))
    step: TenantStep = Step(
        status=plan.status_of(tenant, phase, message, view.now),
        events=(_event(phase, message, Severity.WARNING),) if is_news else (),
        waits=(Wait((OPERATIONS, operation.key), message),),
    )
    return _with_routes(tenant, view, step)


def _rest(tenant: CAPTenant, view: View) -> TenantStep:
    """A tenant that is as it should be: only its routes may have to follow domains and annotations."""
    if message := _why_lost(tenant, view):
        return _show_lost(tenant, view, message)
    shown = conditions.find(tenant.status.conditions, READY)
    step = _with_routes(tenant, view, Step())
    if step.events:
        is_ready, reason = shown is None or shown.is_true, TenantReason.TenantNetworkingModified
        ready = condition(tenant, is_ready, reason, "the VirtualService has changed")
        return replace(step, status=observed(tenant, tenant.status, view.now, ready))
    if step.writes or step.failure or shown is None:
        return step
    cause = conditions.true_cause(tenant.status.conditions)
    if cause is not None and cause.message == shown.message and not tenant.metadata.is_terminating:
        return replace(step, status=plan.at_rest(tenant, view.now))  # it is over
    if shown.observed_generation == tenant.metadata.generation:
        return step
    return Step(status=_with_message(tenant, shown.message, view.now))


def _with_routes(tenant: CAPTenant, view: View, step: TenantStep) -> TenantStep:
    """The step, which also has the routes follow the version that the tenant has then."""
    if step.status is not None:
        tenant = msgspec.structs.replace(tenant, status=step.status)
    application = None if tenant.metadata.is_terminating else _application(tenant, view)
    version = _version_named(tenant, view, tenant.status.current_version) if application is not None else None
    if application is None or version is None:
        return step
    try:
        due = routes.keep(tenant, application, version, view)
    except NetworkingFailed as error:
        return Step(failure=routes.unroutable(str(error), None))
    if due.failure is not None:
        return Step(failure=due.failure)
    if not due.news:  # what is not worth an Event is written before anything is shown
        return Step(writes=due.writes) if due.writes else replace(step, waits=(*step.waits, *due.waits))
    notice = Notice(TenantReason.TenantNetworkingModified, due.news, action=NETWORKING)
    return replace(step, writes=due.writes, events=(*step.events, notice))


# ---- what a refused write means


def _invalid(message: str) -> TenantStep:
    return Step(failure=Failure(message=message, event_reason=TenantReason.InvalidReference, action="Prepare"))


def _refused(message: str, error: StatusError | None) -> Failure:
    return Failure(message=message)


def _operation_refused(tenant: CAPTenant, message: str, error: StatusError | None) -> Failure:
    return Failure(message=plan.refusal_message(tenant, error) if error is not None else message)


# ---- of versions and operations


def _was_ready(tenant: CAPTenant) -> bool:
    """Whether a tenant was as it should be, and its spec has not changed since."""
    status = tenant.status
    return status.state == TenantState.READY and status.observed_generation == tenant.metadata.generation


def _stays(each: HasMetadata) -> bool:
    return not each.metadata.is_terminating


def _succeeded(operation: CAPTenantOperation) -> bool:
    return operation.status.state == OperationState.COMPLETED


def _last(tenant: CAPTenant, view: View, operation: Operation) -> CAPTenantOperation | None:
    """The newest operation of this type that has ended. One that is released was recorded or replaced."""
    return newest(
        each
        for each in _operations(tenant, view)
        if each.spec.operation == operation and not retries.is_under_way(each) and not is_released(each)
    )


def _unrecorded(tenant: CAPTenant, view: View, operation: Operation) -> CAPTenantOperation | None:
    """An operation of this type that succeeded and whose version is not the current one yet."""
    last = _last(tenant, view, operation)
    return last if last is not None and is_unrecorded(last, tenant) else None


def _failure(
    tenant: CAPTenant, view: View, operation: Operation, wanted: CAPApplicationVersion | None
) -> CAPTenantOperation | None:
    """The last operation of this type, if it failed and the tenant should not have another version than its.

    If no version is the `wanted` one, the numbers decide. A tenant that is Ready has got over a failure.
    """
    last = _last(tenant, view, operation)
    if last is None or _succeeded(last):
        return None
    if wanted is not None:
        return last if last.spec.version_name == wanted.metadata.name else None
    version = _version_named(tenant, view, last.spec.version_name)
    if version is None:
        return None if _was_ready(tenant) else last
    return last if version.spec.version == tenant.spec.version else None


def _wanted_version(tenant: CAPTenant, view: View) -> CAPApplicationVersion | None:
    """The Ready version that the tenant should have.

    Of several with the same number it is the one that the tenant has, else the first by name: the order of the cache
    changes with each update, and would move tenants from one to the other and back.
    """
    wanted, current = tenant.spec.version, tenant.status.current_version
    fitting = [
        version
        for version in _versions(tenant, view)
        if wanted and version.spec.version == wanted and conditions.is_true(version.status.conditions, READY)
    ]
    return min(fitting, key=lambda each: (each.metadata.name != current, each.metadata.name), default=None)


def _why_lost(tenant: CAPTenant, view: View) -> str:
    """The message of a tenant in use if the version that it has, or should have, does not exist; empty if it does."""
    current, number = tenant.status.current_version, tenant.spec.version
    is_in_use = current and tenant.status.state == TenantState.READY and _ready_of(tenant).is_true
    if not is_in_use or tenant.metadata.is_terminating:
        return ""
    other = latest_ready(_versions(tenant, view))
    if _version_named(tenant, view, current) is None and not _is_hidden(tenant, view, current):
        return plan.lost_message(tenant, other)
    follows = number and tenant.spec.version_upgrade_strategy != UpgradeStrategy.NEVER
    if not follows or _hidden_versions(tenant, view):
        return ""
    if any(each.spec.version == number for each in _versions(tenant, view)):
        return ""
    return f"{_no_ready_version(tenant)}: none has this number. Create it, or {plan.set_version(tenant, other)}"


def _no_ready_version(tenant: CAPTenant) -> str:
    return (
        "could not find a CAPApplicationVersion with status Ready for CAPApplication "
        f"{names.dotted(tenant.application_key)} and version {tenant.spec.version}"
    )


def _why_no_version(tenant: CAPTenant, view: View) -> str:
    if tenant.spec.version:
        hidden = _hidden_versions(tenant, view)
        return _no_ready_version(tenant) + (f"; {hidden_versions_message(hidden)}" if hidden else "")
    if tenant.spec.version_upgrade_strategy == UpgradeStrategy.NEVER:
        return "spec.version is empty and the upgrade strategy is never, so no version is set: set spec.version"
    return "waiting for a version: the CAPApplication sets it as soon as a CAPApplicationVersion is Ready"


def _after_failure(tenant: CAPTenant, view: View, operation: CAPTenantOperation) -> str:
    """The next step after an operation failed. Without its version no step of it can run again."""
    name = operation.spec.version_name
    if _version_named(tenant, view, name) is not None or _is_hidden(tenant, view, name):
        return plan.run_again(operation)
    current = tenant.status.current_version
    other = latest_ready(_versions(tenant, view)) or _version_named(tenant, view, current)
    return plan.without_version(tenant, operation, other)


# ---- the status


def _event(phase: Phase, message: str, severity: Severity = Severity.NORMAL) -> Notice:
    return Notice(phase.reason, message, severity, phase.state)


def _ready_of(tenant: CAPTenant) -> Condition:
    """The condition Ready of a tenant, as it is before the first one if there is none."""
    shown = conditions.find(tenant.status.conditions, READY)
    return shown or condition(tenant, False, TenantReason.ProcessingStarted, "")


def _with_message(tenant: CAPTenant, message: str, now: datetime) -> TenantStatus:
    shown = _ready_of(tenant)
    return observed(tenant, tenant.status, now, condition(tenant, shown.is_true, shown.reason, message))


@dataclass(slots=True)
class TenantLogic:
    """A tenant, for the engine."""

    clock: Clock
    collection: Collection[CAPTenant] = TENANTS

    def decide(self, tenant: CAPTenant, view: View) -> TenantStep:
        """As `Logic.decide`."""
        return decide(tenant, view)

    def unknown(self, tenant: CAPTenant, view: View, missing: NotKnown) -> TenantStep:
        """A tenant that was as it should be stays so while something is not known."""
        if _was_ready(tenant):
            return Step()
        message = f"waiting: {missing}; next: stellwerk check cap"
        return Step(status=_with_message(tenant, message, view.now), waits=(Wait(str(missing)),))

    def failed(self, tenant: CAPTenant, failure: Failure) -> TenantStatus:
        """The failure as the message of Ready; state, reason and versions stay as they are."""
        return self._told(tenant, _ready_of(tenant).reason, failure.message)

    def unexpected(self, tenant: CAPTenant, message: str) -> TenantStatus:
        """As `failed`, for a bug."""
        return self._told(tenant, TenantReason.RecoveredPanic, message)

    def _told(self, tenant: CAPTenant, reason: str, message: str) -> TenantStatus:
        ready = condition(tenant, _ready_of(tenant).is_true, reason, message)
        status = observed(tenant, tenant.status, self.clock.now(), ready)
        # That a request is gone is noted at once: it may come again.
        return status if retries.request(tenant) else retries.acknowledged(tenant, status)
