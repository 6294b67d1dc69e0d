"""When objects have come to an end, and whether it is the one that was asked for (pure)."""

from __future__ import annotations

from stellwerk.delivery.verb_plans import AwaitedObject, Obstacle
from stellwerk.kube.types import lenient
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unstructured
from stellwerk.operators.cap.kinds.application import ApplicationState, ApplicationStatus, CAPApplication, UpgradePhase
from stellwerk.operators.cap.kinds.status import READY
from stellwerk.operators.cap.kinds.tenant import FAILED_STATES, CAPTenant, TenantState
from stellwerk.operators.cap.reasons import ApplicationReason, TenantReason
from stellwerk.runtime import conditions


def has_failed(tenant: CAPTenant) -> bool:
    """Whether the last operation of a tenant has failed."""
    ready = conditions.find(tenant.status.conditions, READY)
    is_stuck = ready is not None and ready.reason == TenantReason.DeprovisioningFailed
    return tenant.status.state in FAILED_STATES or is_stuck


def is_ready(tenant: CAPTenant) -> bool:
    """Whether a tenant is Ready."""
    return tenant.status.state == TenantState.READY


def provisioned(key: ObjectKey) -> AwaitedObject[CAPTenant]:
    """A tenant that becomes Ready."""
    return AwaitedObject(
        kind=CAPTenant, key=key, ended=lambda tenant: is_ready(tenant) or has_failed(tenant), good=is_ready
    )


def gone(key: ObjectKey) -> AwaitedObject[CAPTenant]:
    """A tenant that is deprovisioned."""
    return AwaitedObject(
        kind=CAPTenant,
        key=key,
        ended=lambda tenant: tenant.metadata.is_terminating and has_failed(tenant),
        good=lambda _: False,
        may_go=True,
    )


def upgraded(key: ObjectKey, version: str) -> AwaitedObject[CAPTenant]:
    """A tenant that uses the CAPApplicationVersion `version`."""

    def is_good(tenant: CAPTenant) -> bool:
        return is_ready(tenant) and tenant.status.current_version == version

    def has_ended(tenant: CAPTenant) -> bool:
        shows_change = tenant.status.observed_generation >= tenant.metadata.generation
        return is_good(tenant) or (has_failed(tenant) and shows_change)

    return AwaitedObject(kind=CAPTenant, key=key, ended=has_ended, good=is_good)


def is_stuck(status: ApplicationStatus) -> bool:
    """Whether an application moves no tenant because of an error.

    Where a change is refused, the others follow; in waves, until none is under way: then refused ones are awaited only.
    """
    ready, progress = conditions.find(status.conditions, READY), status.tenant_upgrade
    if ready is None or ready.reason != ApplicationReason.TenantChangeRefused:
        return status.state == ApplicationState.ERROR
    if progress is None or progress.upgrading:
        return False
    return progress.phase in (UpgradePhase.CANARY, UpgradePhase.ROLLING)


def standstill(application: ObjectKey, number: str) -> Obstacle:
    """The application of tenants that follow to version `number` in waves: it moves none of them for now."""

    def blocks(seen: Unstructured) -> bool:
        status = lenient.convert(seen.body, CAPApplication).status
        progress = status.tenant_upgrade
        is_paused = progress is not None and (progress.version, progress.phase) == (number, UpgradePhase.PAUSED)
        is_over = progress is None or not progress.upgrading
        return (is_paused and is_over) or is_stuck(status)

    return Obstacle(resource=CAPApplication.resource, key=application, blocks=blocks)
