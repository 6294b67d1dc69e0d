"""What failed runs again."""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.delivery.verb_plans import AwaitedObject, Change, VerbPlan, VerbRequest
from stellwerk.kube.types import lenient
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.status import READY, SUPERSEDED, ReconciledStatus
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, OperationState, TenantState
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion, VersionState
from stellwerk.operators.cap.verbs import ends
from stellwerk.operators.cap.verbs.declared import OBJECT
from stellwerk.runtime import conditions

_KINDS: dict[str, type[CAPTenant] | type[CAPTenantOperation] | type[CAPApplicationVersion]] = {
    each.resource.kind: each for each in (CAPTenant, CAPTenantOperation, CAPApplicationVersion)
}
_UNDER_WAY = (TenantState.PROVISIONING, TenantState.UPGRADING, TenantState.DELETING, OperationState.PROCESSING)
Failed = CAPTenant | CAPTenantOperation | CAPApplicationVersion


async def plan(request: VerbRequest) -> VerbPlan:
    """Decide what to ask. Raises ApiError."""
    due: dict[str, Failed] = {}
    notes: list[str] = []
    for obj in request.objects[OBJECT]:
        candidates = await _candidates(request, obj)
        failed = [each for each in candidates if has_failed(each)]
        due |= {each.metadata.uid: each for each in failed}
        if not failed:
            is_application = obj.gvk.kind == CAPApplication.resource.kind
            notes.append(f"no tenant or version of {obj.ref} has failed" if is_application else _not_failed(obj))
    return VerbPlan(
        writes=[_change(each, request.moment) for each in due.values()],
        awaited=[_awaited(each, request.moment) for each in due.values()],
        notes=notes,
    )


def _not_failed(obj: Unstructured) -> str:
    """The note about an object that has not failed; one under way may hang, and `why` shows the pods of its Job."""
    history = conditions.find(conditions.listed_in(obj.body), SUPERSEDED)
    if history is not None and history.is_true:
        return f"{obj.ref} is not run again: {history.message}"
    key, is_under_way = obj.key, obj.at("status", "state") in _UNDER_WAY
    hint = f", and is under way. See: stellwerk why {obj.gvk.kind.lower()}/{key.name} -n {key.namespace}"
    return f"{obj.ref} has not failed{hint if is_under_way else ''}"


async def _candidates(request: VerbRequest, obj: Unstructured) -> Sequence[Failed]:
    """The object itself; of an application, its versions and tenants; with a tenant, its operations that pause."""
    namespace, name = obj.key.namespace, obj.key.name
    match obj.gvk.kind:
        case CAPApplication.resource.kind:
            versions = await request.client.list(CAPApplicationVersion, namespace, skip_unreadable=True)
            listed = await request.client.list(CAPTenant, namespace, skip_unreadable=True)
            tenants = [each for each in listed.items if each.spec.cap_application_instance == name]
            own = [each for each in versions.items if each.spec.application == name]
        case CAPTenant.resource.kind:
            tenants, own = [lenient.convert(obj.body, CAPTenant)], []
        case _:
            return [lenient.convert(obj.body, _KINDS[obj.gvk.kind])]
    operations = await request.client.list(CAPTenantOperation, namespace, skip_unreadable=True) if tenants else None
    uids = {each.metadata.uid for each in tenants}
    pausing = [
        each
        for each in (operations.items if operations is not None else ())
        if _waits(each) and each.metadata.controller is not None and each.metadata.controller.uid in uids
    ]
    return [*own, *tenants, *pausing]


def has_failed(obj: Failed) -> bool:
    """Whether there is something to run again, now or when a pause has passed (pure)."""
    match obj:
        case CAPTenant():
            return ends.has_failed(obj)
        case CAPTenantOperation(status=status):
            return (status.state == OperationState.FAILED and not _is_history(status)) or _waits(obj)
        case CAPApplicationVersion(status=status):
            return (status.state == VersionState.ERROR and not _is_history(status)) or _waits(obj)


def _is_history(status: ReconciledStatus) -> bool:
    """Whether nothing waits for what has failed, so that another try has no use."""
    return conditions.is_true(status.conditions, SUPERSEDED)


def _waits(obj: CAPTenantOperation | CAPApplicationVersion) -> bool:
    retry = obj.status.retry
    return retry is not None and retry.next_attempt_time is not None and obj.status.state == OperationState.PROCESSING


def _change(obj: Failed, moment: str) -> Change:
    patch: JsonObject = {"uid": obj.metadata.uid, "annotations": {names.RETRY_ANNOTATION: moment}}
    return Change(
        resource=obj.resource, key=obj.key, patch={"metadata": patch}, done=f"{obj.ref} is asked to try again"
    )


def _awaited(obj: Failed, moment: str) -> AwaitedObject[Failed]:
    """The object after its next try. A tenant that is being deleted may go."""

    def has_ended(latest: Failed) -> bool:
        return latest.status.last_handled_retry == moment and (has_failed(latest) or _is_complete(latest))

    return AwaitedObject(
        kind=type(obj), key=obj.key, ended=has_ended, good=_is_complete, may_go=obj.metadata.is_terminating
    )


def _is_complete(obj: Failed) -> bool:
    match obj:
        case CAPTenant():
            return ends.is_ready(obj)
        case CAPTenantOperation(status=status):
            return status.state == OperationState.COMPLETED
        case CAPApplicationVersion(status=status):
            return status.state == VersionState.READY and conditions.is_true(status.conditions, READY)
