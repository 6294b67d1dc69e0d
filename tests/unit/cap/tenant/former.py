"""The passes of a tenant before they were steps, for the comparison with them (`test_same_as_former`).

Nothing else uses this. It goes as soon as the form of steps is no pilot any more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import msgspec

from stellwerk.api.istio import VirtualService
from stellwerk.apply.errors import Obstacle
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.apply.set.model.owner import Standing
from stellwerk.apply.set.observed_state import ObservedState
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import REFUSED, AlreadyExists
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.kube.types.object_meta import Condition, ObjectMeta
from stellwerk.operators.cap import duplicates, names, preparation, retries
from stellwerk.operators.cap.collections import OUTPUTS_OF
from stellwerk.operators.cap.duplicates import BY_SPEC_ID
from stellwerk.operators.cap.hashed_objects import HashedObjects, Written, owner_of
from stellwerk.operators.cap.kinds import references
from stellwerk.operators.cap.kinds.application import ApplicationState, CAPApplication
from stellwerk.operators.cap.kinds.references import names_in
from stellwerk.operators.cap.kinds.status import READY, condition, observed, see_why
from stellwerk.operators.cap.kinds.tenant import (
    CAPTenant,
    CAPTenantOperation,
    CAPTenantOutput,
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
from stellwerk.operators.cap.routing import claims, headers
from stellwerk.operators.cap.routing.targets import unready_domain
from stellwerk.operators.cap.tenant import plan
from stellwerk.operators.cap.tenant.networking import (
    NETWORKING,
    NetworkingFailed,
    is_kept,
    lacking_metadata,
    routed_hosts,
    routes,
    unrouted,
)
from stellwerk.operators.cap.tenant.plan import Phase, TenantFailed
from stellwerk.operators.cap.version.order import latest_ready
from stellwerk.operators.cap.watches import BY_APPLICATION, BY_HOST, BY_OWNER, Caches
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Severity, SimpleReconciler

Answer: TypeAlias = Next[TenantStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantNetworking:
    """Keeps the VirtualServices of tenants."""

    caches: Caches
    objects: HashedObjects
    operator_namespace: str
    allowed_headers: Collection[str] = ()
    """As of `headers.of_annotations`."""

    async def keep(
        self, tenant: CAPTenant, application: CAPApplication, version: CAPApplicationVersion, memory: ObservedState
    ) -> str:
        """Have the VirtualService lead to `version`. Returns what became of its routes; empty where they stay.

        A tenant without domains, or whose version has no router, has none. While a domain cannot be read it stays as it
        is: without the host of that domain, clients could not reach the tenant. Raises NetworkingFailed, ApiError.
        """
        caches = self.caches
        if any(caches.is_hidden(tenant.metadata.namespace, each) for each in application.spec.served_refs):
            return ""
        live = caches.virtual_services.store.get(tenant.key)
        if (why := unrouted(application, version)) and live is not None and is_kept(tenant, live):
            await self.objects.delete(Address(VirtualService.resource, live.key), live)
            return f"VirtualService {live.key} is deleted: {why}"
        hosts = routed_hosts(application, live, caches.domain, self.operator_namespace)
        find_version, refused = caches.versions.store.get, None
        try:
            found = routes(tenant, application, version, hosts, find_version, self.allowed_headers)
        except NetworkingFailed as error:
            if live is None or not headers.are_refused(live, self.allowed_headers):
                raise
            refused, lawful = error, headers.reduced(application, self.allowed_headers)
            found = routes(tenant, lawful, version, hosts, find_version, self.allowed_headers)
        if found is None:
            return ""
        desired, _ = found
        taken = claims.taken(
            desired, live, lambda host: caches.virtual_services.store.by(BY_HOST, host), of_tenant=True
        )
        allowed = claims.without(found, taken) if taken else found
        if allowed is None:
            if live is not None and is_kept(tenant, live):
                await self.objects.delete(Address(VirtualService.resource, live.key), live)
            raise NetworkingFailed(claims.message(desired, taken))
        desired, _ = allowed
        written = Written()
        shown = {desired.address: live} if live is not None else {}
        await self.objects.apply(owner_of(tenant), {desired.address: allowed}, shown, memory, written)
        is_ours = live is not None and owner_of(tenant).standing(live.metadata) is Standing.OURS
        # The end of one that is not ours wakes no tenant.
        if unmet := written.unmet or ([] if is_ours or written.is_changed else written.waits):
            cause = f"invalid owner reference found for {desired.ref}: " if Obstacle.OWNED in written.obstacles else ""
            raise NetworkingFailed(cause + "; ".join(unmet))
        if taken:
            raise NetworkingFailed(claims.message(desired, taken))
        if refused is not None:
            raise refused
        if live is not None and not written.is_changed and (lacking := lacking_metadata(desired, live)):
            await self._complete(live, lacking)
        return f"VirtualService {desired.address.key} leads to the current version" if written.is_changed else ""

    async def _complete(self, live: Live, lacking: JsonObject) -> None:
        metadata = live.metadata
        patch = MergePatch({"metadata": {"uid": metadata.uid, **lacking}})
        target = metadata_of(VirtualService.resource)
        written = await self.objects.client.patch(target, metadata.name, metadata.namespace, patch)
        self.caches.virtual_services.expect(live.key, written.metadata.resource_version)


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
        return Refuse(plan.hidden_operation_message(tenant, seen.hidden_operations[0]))
    for hidden in seen.hidden_duplicates:
        if tenant.metadata.is_terminating or duplicates.is_older(hidden, tenant):
            return Refuse(plan.hidden_duplicate_message(tenant, ObjectKey(hidden.namespace, hidden.name)))
    return decision


def _decide(seen: TenantSnapshot) -> Decision:
    tenant = seen.tenant
    is_deleted = tenant.metadata.is_terminating
    if is_deleted and names.TENANT_FINALIZER not in tenant.metadata.finalizers:
        return Rest()
    if not is_deleted:
        if seen.application is None:
            return _without_application(seen)
        if (lacking := plan.absent(tenant, seen.application)) is not None:
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
    if not plan.is_new(tenant) or tenant.spec.version_upgrade_strategy == UpgradeStrategy.NEVER:
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


def _deprovision(seen: TenantSnapshot) -> Decision:
    """Of a tenant with an operation that succeeded and is not recorded yet, the version is recorded first."""
    name = seen.tenant.status.current_version
    if (unrecorded := _unrecorded(seen, Operation.UPGRADE if name else Operation.PROVISIONING)) is not None:
        return unrecorded
    if not name:
        hidden = seen.hidden_operations
        return Refuse(plan.hidden_operation_message(seen.tenant, hidden[0])) if hidden else Release()
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


def after_failure(seen: TenantSnapshot, operation: CAPTenantOperation) -> str:
    """The next step after an operation failed."""
    name = operation.spec.version_name
    if seen.version_named(name) is not None or seen.hides(name):
        return plan.run_again(operation)
    other = latest_ready(seen.versions) or seen.version_named(seen.tenant.status.current_version)
    return plan.without_version(seen.tenant, operation, other)


class InvalidReference(TenantFailed):
    """The tenant refers to something that does not exist or cannot be read."""

    event_reason = TenantReason.InvalidReference
    action = "Prepare"


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantReconciler(SimpleReconciler[CAPTenant, TenantStatus]):
    """Brings one tenant one step further."""

    client: Client
    caches: Caches
    networking: TenantNetworking
    clock: Clock
    memos: Memos[ObservedState] = field(default_factory=lambda: Memos(ObservedState))
    """What is known of the VirtualServices of tenants."""
    most_previous_versions: int = plan.PREVIOUS_VERSIONS

    async def reconcile(self, tenant: CAPTenant) -> Answer:
        """Observe, decide, act. Raises TenantFailed, ApiError."""
        seen = self._snapshot(tenant)
        decision = decide(seen)
        if isinstance(decision, ShowFailure):
            decision = await self._retry(seen, decision)
        answer = await self._carry_out(seen, decision)
        if isinstance(decision, Prepare | Release) or not retries.is_unread(tenant):
            return answer
        return replace(answer, status=retries.acknowledged(tenant, answer.status or tenant.status))

    async def _retry(self, seen: TenantSnapshot, failure: ShowFailure) -> ShowFailure | AwaitOperation:
        """Ask the failed operation to run again where the tenant is asked to."""
        if not retries.is_pending(seen.tenant):
            return failure
        asked = await preparation.write(self.client, failure.operation, plan.forwarded(seen.tenant, failure.operation))
        self.caches.operations.expect(asked.key, asked.metadata.resource_version)
        return AwaitOperation(asked) if retries.is_under_way(asked) else failure

    async def _carry_out(self, seen: TenantSnapshot, decision: Decision) -> Answer:
        tenant = seen.tenant
        match decision:
            case Rest():
                return await self._at_rest(seen)
            case Refuse(message):
                raise InvalidReference(message)
            case Prepare(lacking, version):
                return await self._prepare(tenant, lacking, version)
            case AwaitVersion(message):
                return await self._await_version(seen, message)
            case AwaitOperation(operation):
                return Next.done(plan.under_way(tenant, operation, self.clock.now())).without_event()
            case Record(operation):
                return await self._record(seen, operation)
            case ShowFailure(operation):
                return await self._show_failure(seen, operation)
            case ShowReady():
                return await self._show_ready(seen)
            case Start() as start:
                return await self._start(seen, start)
            case Release(operation):
                return await self._release(tenant, operation)
            case ShowDuplicate(older):
                return self._show_duplicate(tenant, older)

    def report(self, tenant: CAPTenant, failure: ReconcileError) -> TenantStatus:
        """The failure as the message of Ready; state and versions stay as they are."""
        shown = _ready_of(tenant)
        reason = shown.reason if isinstance(failure, TenantFailed) else TenantReason.RecoveredPanic
        status = self._with_ready(tenant, shown.is_true, reason, str(failure))
        # That a request is gone is noted at once: it may come again.
        return status if retries.request(tenant) else retries.acknowledged(tenant, status)

    def _snapshot(self, tenant: CAPTenant) -> TenantSnapshot:
        caches = self.caches
        application = tenant.application_key
        found = caches.applications.store.get(application)
        unreadable = caches.tenants.unreadable
        return TenantSnapshot(
            tenant=tenant,
            application=found,
            applications=names_in(application.namespace, caches.applications.store.all()) if found is None else (),
            is_application_hidden=application in caches.applications.hidden,
            versions=caches.versions.store.by(BY_APPLICATION, str(application)),
            hidden_versions=caches.hidden_versions(application),
            operations=caches.operations.store.by(BY_OWNER, tenant.metadata.uid),
            hidden_operations=hidden_operations(caches, tenant),
            duplicates=duplicates.of_tenant(
                tenant,
                caches.tenants.store.by(BY_SPEC_ID, *duplicates.by_tenant_id(tenant)),
                caches.applications.store.get,
            ),
            hidden_duplicates=duplicates.hidden_from(
                tenant,
                (unreadable[key] for key in caches.hidden_tenants(tenant.metadata.namespace)),
                caches.applications.store.get,
            ),
        )

    async def _prepare(self, tenant: CAPTenant, lacking: JsonObject, version: str) -> Answer:
        try:
            await preparation.write(self.client, tenant, lacking, {"version": version} if version else None)
        except REFUSED as error:  # a tenant id that cannot be a label, for example
            raise TenantFailed(str(error)) from error
        again = Next[TenantStatus].now()
        return again.with_events(plan.version_changed(tenant, version)) if version else again

    # ---- operations

    async def _await_version(self, seen: TenantSnapshot, message: str) -> Answer:
        """Without a version the tenant waits; one that has a former version goes on using it."""
        notices = await self._keep_routes(seen)
        status = plan.waiting(seen.tenant, message, self.clock.now())
        return Next.done(status).without_event().with_events(*notices)

    async def _start(self, seen: TenantSnapshot, start: Start) -> Answer:
        """Create an operation, after earlier ones of its type and the outputs of earlier Jobs are deleted."""
        tenant, client = seen.tenant, self.client
        namespace = tenant.metadata.namespace
        try:
            wanted = plan.new_operation(tenant, start.operation, start.version)
        except NoTenantOperation as error:
            raise TenantFailed(str(error)) from error
        for earlier in start.replaces:
            metadata = earlier.metadata
            await client.delete(metadata_of(CAPTenantOperation), metadata.name, namespace, uid=metadata.uid)
        for output in self.caches.outputs.store.by(OUTPUTS_OF.name, f"{namespace}/{tenant.spec.tenant_id}"):
            await client.delete(metadata_of(CAPTenantOutput), output.metadata.name, namespace, uid=output.metadata.uid)
        try:
            created = await client.create(CAPTenantOperation, wanted.body)
        except REFUSED as error:
            raise TenantFailed(plan.refusal_message(tenant, error)) from error
        except AlreadyExists:  # an earlier one is being deleted, or the cache is behind: either change wakes the tenant
            return Next.done()
        self.caches.operations.expect(created.key, created.metadata.resource_version)
        notice = _event(plan.UNDER_WAY[start.operation], plan.waiting_message(created.key, start.operation))
        return Next.done(plan.under_way(tenant, created, self.clock.now())).without_event().with_events(notice)

    async def _record(self, seen: TenantSnapshot, operation: CAPTenantOperation) -> Answer:
        """The version of an operation that succeeded becomes the current one, as soon as its domains serve it."""
        tenant, application = seen.tenant, seen.application
        status = plan.recorded(tenant, operation, self.clock.now(), self.most_previous_versions)
        if tenant.metadata.is_terminating:
            return Next.now(status).without_event()
        notices = [_event(plan.SUCCEEDED[operation.spec.operation], plan.success_message(operation))]
        if application is not None and seen.version_named(status.current_version) is not None:
            if waits := unready_domain(application, self.caches.domain):
                shown = _ready_of(tenant)
                return Next.done(self._with_ready(tenant, shown.is_true, shown.reason, waits)).without_event()
            # The version that it leaves is among the previous ones already: sessions that began there stay there.
            notices += await self._keep_routes(replace(seen, tenant=msgspec.structs.replace(tenant, status=status)))
        # No change may follow that wakes a tenant which got another version during the operation.
        answer = Next.done(status) if is_wanted(seen, status.current_version) else Next.now(status)
        return answer.without_event().with_events(*notices)

    async def _show_failure(self, seen: TenantSnapshot, operation: CAPTenantOperation) -> Answer:
        notices = await self._keep_routes(seen)
        phase, message = (
            plan.FAILED[operation.spec.operation],
            plan.failure_message(operation, after_failure(seen, operation)),
        )
        shown = _ready_of(seen.tenant)
        answer = Next.done(plan.status_of(seen.tenant, phase, message, self.clock.now())).without_event()
        if (shown.reason, shown.message) != (phase.reason, conditions.truncated(message)):
            notices = [_event(phase, message, Severity.WARNING), *notices]
        return answer.with_events(*notices)

    def _show_duplicate(self, tenant: CAPTenant, older: CAPTenant) -> Answer:
        message = plan.duplicate_message(tenant, older)
        answer = Next.done(plan.duplicate(tenant, older, self.clock.now())).without_event()
        if _ready_of(tenant).message == conditions.truncated(message):
            return answer
        return answer.with_events(_event(plan.DUPLICATE, message, Severity.WARNING))

    async def _show_ready(self, seen: TenantSnapshot) -> Answer:
        notices = await self._keep_routes(seen)
        return Next.done(plan.at_rest(seen.tenant, self.clock.now())).without_event().with_events(*notices)

    async def _release(self, tenant: CAPTenant, operation: CAPTenantOperation | None) -> Answer:
        await finalizer.remove(self.client, tenant, names.TENANT_FINALIZER)
        if operation is None:
            return Next.done()
        notice = _event(plan.SUCCEEDED[Operation.DEPROVISIONING], plan.success_message(operation))
        return Next[TenantStatus].done().with_events(notice)

    # ---- routes

    async def _at_rest(self, seen: TenantSnapshot) -> Answer:
        """A tenant that is as it should be: only its routes may have to follow domains and annotations."""
        tenant = seen.tenant
        shown = conditions.find(tenant.status.conditions, READY)
        if notices := await self._keep_routes(seen):
            is_ready, reason = shown is None or shown.is_true, TenantReason.TenantNetworkingModified
            status = self._with_ready(tenant, is_ready, reason, "the VirtualService has changed")
            return Next.done(status).without_event().with_events(*notices)
        if shown is None or shown.observed_generation == tenant.metadata.generation:
            return Next.done()
        return Next.done(self._with_ready(tenant, shown.is_true, shown.reason, shown.message)).without_event()

    async def _keep_routes(self, seen: TenantSnapshot) -> list[Notice]:
        """Have the routes follow. Returns the Event about what became of them; none where they stay."""
        tenant, application = seen.tenant, seen.application
        version = seen.version_named(tenant.status.current_version)
        if application is None or version is None or tenant.metadata.is_terminating:
            return []
        changed = await self.networking.keep(tenant, application, version, self.memos.of(tenant.key))
        return [Notice(TenantReason.TenantNetworkingModified, changed, action=NETWORKING)] if changed else []

    def _with_ready(self, tenant: CAPTenant, is_ready: bool, reason: str, message: str) -> TenantStatus:
        return observed(tenant, tenant.status, self.clock.now(), condition(tenant, is_ready, reason, message))


def _ready_of(tenant: CAPTenant) -> Condition:
    """The condition Ready of a tenant, as it is before the first one where there is none."""
    shown = conditions.find(tenant.status.conditions, READY)
    return shown or condition(tenant, False, TenantReason.ProcessingStarted, "")


def _event(phase: Phase, message: str, severity: Severity = Severity.NORMAL) -> Notice:
    return Notice(phase.reason, message, severity, phase.state)


def hidden_operations(caches: Caches, tenant: CAPTenant) -> Sequence[ObjectKey]:
    """The operations of a tenant that exist and could not be read since the process started."""
    found = caches.operations
    hidden = [key for key in found.hidden if key.namespace == tenant.metadata.namespace]
    return [key for key in hidden if found.unreadable[key].metadata.is_controlled_by(tenant.metadata)]
