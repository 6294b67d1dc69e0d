"""What an object of the CAP Operator reports about itself, and which other objects that comes from.

The reason of a condition decides which objects may be the cause. An application that waits for a Secret does not wait
for its tenants, although none of them is ready.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonValue, Unstructured, dig
from stellwerk.kube.types.semantic_version import precedence
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.domain import ClusterDomain, Domain
from stellwerk.operators.cap.kinds.status import READY, SUPERSEDED
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation, Operation, OperationState, TenantState
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.reasons import ApplicationReason, OperationReason, TenantReason
from stellwerk.runtime import conditions
from stellwerk.runtime.insight.diagnosis import ClusterReader


@dataclass(frozen=True, slots=True)
class Problem:
    """What an object reports about itself."""

    reason: str
    message: str


def problem_of(obj: Unstructured) -> Problem | None:
    """What an object waits for or has failed with, by its own status; None where it is at rest (pure).

    A failure that is superseded is none: what needed the object has gone on.

    An operation that has ended is Ready also where it failed, and so is a tenant while it is upgraded and after its
    upgrade failed: see the states. Versions and tenants that are being deleted may be Ready as well. What else a user
    has to know of an object that is ready is in Stalled or Reconciling; such an application has several concerns.
    """
    listed = conditions.listed_in(obj.body)
    shown = conditions.find(listed, READY)
    if shown is None:
        return Problem("", "it was not looked at so far")
    if conditions.is_true(listed, SUPERSEDED) and not obj.metadata.is_terminating:
        return None
    if obj.metadata.is_terminating and shown.is_true and not conditions.shows_deletion(obj, shown):
        return Problem("", "its deletion was not looked at so far")
    is_at_rest = not has_failed(obj) and obj.at("status", "state") != TenantState.UPGRADING
    if shown.is_true and is_at_rest and not obj.metadata.is_terminating:
        cause = conditions.true_cause(listed)
        if cause is None or obj.gvk.kind == CAPApplication.resource.kind:
            return None
        shown = cause
    return Problem(shown.reason, (shown.message or "it is not ready").removesuffix("."))


def has_failed(obj: Unstructured) -> bool:
    """Whether the state of an object is a failure."""
    state = str(obj.at("status", "state") or "")
    return state == OperationState.FAILED or state.endswith("Error")


async def causes_of(reader: ClusterReader, obj: Unstructured, problem: Problem) -> Sequence[Unstructured]:
    """The objects that the problem of an object may come from, the most likely one first."""
    find = _CAUSES.get(obj.gvk.kind)
    return await find(reader, obj, problem) if find is not None else []


# ---- an application


async def _of_application(reader: ClusterReader, obj: Unstructured, problem: Problem) -> Sequence[Unstructured]:
    match problem.reason:
        case ApplicationReason.ProcessingDomainReferences:
            return await _domains(reader, obj)
        case ApplicationReason.WaitingForReadyCAPApplicationVersion:
            return newest(await versions_of(reader, obj))
        case ApplicationReason.ProviderTenantProcessing | ApplicationReason.ProviderTenantError:
            return [each for each in await tenants_of(reader, obj) if _is_provider(each)]
        case ApplicationReason.NewCAVTriggeredTenantUpgrade:
            return await tenants_of(reader, obj)
        case ApplicationReason.TenantsExist:
            return [each for each in await tenants_of(reader, obj) if each.metadata.is_terminating]
        case _:
            return []


async def _domains(reader: ClusterReader, application: Unstructured) -> Sequence[Unstructured]:
    """The domains of an application; none where one does not exist, which is the cause then."""
    references = application.at("spec", "domainRefs")
    found = [
        await _domain(reader, each, application.key.namespace)
        for each in (references if isinstance(references, list) else [])
    ]
    return [] if None in found else [each for each in found if each is not None]


async def _domain(reader: ClusterReader, reference: JsonValue, namespace: str) -> Unstructured | None:
    is_cluster_wide = dig(reference, "kind") == ClusterDomain.resource.kind
    resource = ClusterDomain.resource if is_cluster_wide else Domain.resource
    name = str(dig(reference, "name") or "")
    return await reader.find(resource, name, "" if is_cluster_wide else namespace)


async def versions_of(reader: ClusterReader, application: Unstructured) -> list[Unstructured]:
    """The versions of an application."""
    return await _of(reader, CAPApplicationVersion.resource, application)


async def tenants_of(reader: ClusterReader, application: Unstructured) -> list[Unstructured]:
    """The tenants of an application; those that have failed come first."""
    return sorted(await _of(reader, CAPTenant.resource, application), key=lambda each: not has_failed(each))


async def _of(reader: ClusterReader, resource: Resource, application: Unstructured) -> list[Unstructured]:
    """The objects of a kind that name an application."""
    found = await reader.list(resource, application.key.namespace)
    return [each for each in found if each.at("spec", "capApplicationInstance") == application.key.name]


def newest(versions: Iterable[Unstructured]) -> list[Unstructured]:
    """The newest version; of those that are being deleted none, because it does not become Ready for anything."""
    staying = (each for each in versions if not each.metadata.is_terminating)
    found = max(staying, key=lambda each: precedence(str(each.at("spec", "version"))), default=None)
    return [] if found is None else [found]


def _is_provider(tenant: Unstructured) -> bool:
    return tenant.metadata.labels.get(names.TENANT_TYPE_LABEL) == names.PROVIDER


# ---- a tenant and its operations


async def _of_tenant(reader: ClusterReader, obj: Unstructured, problem: Problem) -> Sequence[Unstructured]:
    """Its newest operation; where that explains nothing, the version that it waits for, or its application."""
    if problem.reason == TenantReason.InvalidReference:  # what it names does not exist
        return []
    operations = [
        each
        for each in await reader.list(CAPTenantOperation.resource, obj.key.namespace)
        if each.metadata.is_controlled_by(obj.metadata)
    ]
    if obj.metadata.is_terminating:  # a former upgrade that has failed keeps no tenant from being deleted
        operations = [each for each in operations if _concerns_deletion(each)]
    latest = max(operations, key=lambda each: (str(each.metadata.creation_timestamp), each.key), default=None)
    if latest is not None and problem_of(latest) is not None:
        return [latest]
    if obj.metadata.is_terminating:
        return []
    name = str(obj.at("spec", "capApplicationInstance") or "")
    application = await reader.find(CAPApplication.resource, name, obj.key.namespace)
    if application is None:
        return []
    number = obj.at("spec", "version")
    awaited = [
        each for each in await versions_of(reader, application) if number and each.at("spec", "version") == number
    ]
    return [*(each for each in awaited if problem_of(each) is not None), application]


def _concerns_deletion(operation: Unstructured) -> bool:
    """Whether a tenant that is being deleted waits for an operation: one under way, or its deprovisioning."""
    shown = conditions.find(conditions.listed_in(operation.body), READY)
    is_under_way = shown is None or not shown.is_true
    return is_under_way or operation.at("spec", "operation") == Operation.DEPROVISIONING


async def _of_operation(reader: ClusterReader, obj: Unstructured, problem: Problem) -> Sequence[Unstructured]:
    """Its version, where a step cannot be carried out and the version is not Ready."""
    if problem.reason not in ("", OperationReason.StepProcessingError):
        return []
    name = str(obj.at("spec", "capApplicationVersionInstance") or "")
    version = await reader.find(CAPApplicationVersion.resource, name, obj.key.namespace)
    is_ready = version is not None and conditions.is_true(conditions.listed_in(version.body), READY)
    return [] if version is None or is_ready else [version]


_CAUSES: Mapping[str, Callable[[ClusterReader, Unstructured, Problem], Awaitable[Sequence[Unstructured]]]] = {
    CAPApplication.resource.kind: _of_application,
    CAPTenant.resource.kind: _of_tenant,
    CAPTenantOperation.resource.kind: _of_operation,
}
