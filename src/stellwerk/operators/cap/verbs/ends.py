"""When objects have come to an end, and whether it is the one that was asked for (pure)."""

from __future__ import annotations

from stellwerk.delivery.operator_verbs import AwaitedObject, Obstacle
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.cap.kinds.application import ApplicationState, CAPApplication, UpgradePhase
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import FAILED_STATES, CAPTenant, TenantState
from stellwerk.operators.cap.reasons import TenantReason
from stellwerk.runtime import conditions


def has_failed(tenant: CAPTenant) -> bool:
    """Whether the last operation of a tenant has failed."""
    ready = conditions.find(tenant.status.conditions, READY)
    is_stuck = ready is not None and ready.reason == TenantReason.DeprovisioningFailed
    return tenant.status.state in FAILED_STATES or is_stuck


def provisioned(key: ObjectKey) -> AwaitedObject:
    """A tenant that becomes Ready."""
    return AwaitedObject(
        resource=CAPTenant.resource,
        key=key,
        has_ended=lambda seen: seen is None or _state(seen) == TenantState.READY or has_failed(typed(seen)),
        is_good=lambda seen: seen is not None and _state(seen) == TenantState.READY,
    )


def gone(key: ObjectKey) -> AwaitedObject:
    """A tenant that is deprovisioned."""
    return AwaitedObject(
        resource=CAPTenant.resource,
        key=key,
        has_ended=lambda seen: seen is None or _cannot_go(typed(seen)),
        is_good=lambda seen: seen is None,
    )


def upgraded(key: ObjectKey, version: str) -> AwaitedObject:
    """A tenant that uses the CAPApplicationVersion `version`."""

    def is_good(seen: Unstructured | None) -> bool:
        if seen is None:
            return False
        status = typed(seen).status
        return (status.state, status.current_version) == (TenantState.READY, version)

    def has_ended(seen: Unstructured | None) -> bool:
        if seen is None or is_good(seen):
            return True
        tenant = typed(seen)
        return has_failed(tenant) and tenant.status.observed_generation >= tenant.metadata.generation

    return AwaitedObject(resource=CAPTenant.resource, key=key, has_ended=has_ended, is_good=is_good)


def standstill(application: ObjectKey, number: str) -> Obstacle:
    """The application of tenants that follow to version `number` in waves: it moves none of them for now."""

    def blocks(seen: Unstructured) -> bool:
        status = lenient.convert(seen.body, CAPApplication).status
        progress = status.tenant_upgrade
        is_paused = progress is not None and (progress.version, progress.phase) == (number, UpgradePhase.PAUSED)
        is_over = progress is None or not progress.upgrading
        return (is_paused and is_over) or status.state == ApplicationState.ERROR

    return Obstacle(resource=CAPApplication.resource, key=application, blocks=blocks)


def typed(seen: Unstructured) -> CAPTenant:
    """A tenant as its kind has it; what cannot be read is left out."""
    return lenient.convert(seen.body, CAPTenant)


def _state(seen: Unstructured) -> str:
    return typed(seen).status.state


def _cannot_go(tenant: CAPTenant) -> bool:
    return tenant.metadata.is_terminating and has_failed(tenant)
