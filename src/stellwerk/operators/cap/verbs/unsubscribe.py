"""Tenants that go, with their data."""

from __future__ import annotations

from stellwerk.delivery.verb_plans import Deletion, VerbPlan, VerbRefused, VerbRequest
from stellwerk.kube.types import lenient
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenant, TenantState
from stellwerk.operators.cap.verbs import ends
from stellwerk.operators.cap.verbs.declared import TENANT


async def plan(request: VerbRequest) -> VerbPlan:
    """Decide what to delete. Raises VerbRefused."""
    tenants = [lenient.convert(obj.body, CAPTenant) for obj in request.objects[TENANT]]
    for tenant in tenants:
        _check(tenant)
    leaving = [tenant for tenant in tenants if tenant.metadata.is_terminating]
    staying = [tenant for tenant in tenants if not tenant.metadata.is_terminating]
    return VerbPlan(
        writes=[
            Deletion(
                resource=CAPTenant.resource,
                key=tenant.key,
                uid=tenant.metadata.uid,
                done=f"{tenant.ref} is asked to go",
            )
            for tenant in staying
        ],
        awaited=[ends.gone(tenant.key) for tenant in tenants],
        notes=[_note(tenant) for tenant in leaving],
        destroys=f"{', '.join(str(tenant.ref) for tenant in staying)} with all data" if staying else "",
    )


def _check(tenant: CAPTenant) -> None:
    is_provider = tenant.metadata.labels.get(names.TENANT_TYPE_LABEL) == names.PROVIDER
    if is_provider and tenant.status.state == TenantState.READY:
        key = tenant.key
        application = f"ca/{tenant.spec.cap_application_instance} -n {key.namespace}"
        raise VerbRefused(
            f"{tenant.ref} is the tenant of the application's provider, which goes with the application",
            fix=f"see what else the application has: stellwerk tree {application}",
        )


def _note(tenant: CAPTenant) -> str:
    key = tenant.key
    if ends.has_failed(tenant):
        return (
            f"{tenant.ref} could not be deprovisioned. Try again: stellwerk cap retry cat/{key.name} -n {key.namespace}"
        )
    return f"{tenant.ref} is being deleted already"
