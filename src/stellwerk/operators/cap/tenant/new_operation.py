"""The operation that a tenant needs, as a whole object (pure)."""

from __future__ import annotations

import msgspec

from stellwerk.kube.types.model import JsonObject, owner_reference
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.operation import steps
from stellwerk.operators.cap.operation.plan import marks_of
from stellwerk.operators.cap.tenant.plan import Start


def body(tenant: CAPTenant, start: Start) -> JsonObject:
    """The CAPTenantOperation to create. Raises NoTenantOperation where the version has no Job for it."""
    chosen = steps.steps_of(start.version, start.operation)
    marks = marks_of(tenant, start.operation)
    resource = CAPTenantOperation.resource
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": {
            "name": _name(tenant, start),
            "namespace": tenant.metadata.namespace,
            "finalizers": [names.OPERATION_FINALIZER],
            "ownerReferences": [msgspec.to_builtins(owner_reference(tenant))],
            "labels": {**marks["labels"]},
            "annotations": {**marks["annotations"]},
        },
        "spec": {
            "operation": start.operation.value,
            "subDomain": tenant.spec.sub_domain,
            "tenantId": tenant.spec.tenant_id,
            "capApplicationVersionInstance": start.version.metadata.name,
            "steps": [msgspec.to_builtins(step) for step in chosen],
        },
    }


def _name(tenant: CAPTenant, start: Start) -> str:
    """The same in each pass, so that a creation whose answer was lost is not repeated."""
    earlier = "".join(sorted(each.metadata.uid for each in start.replaces))
    metadata = tenant.metadata
    return names.derived(metadata.name, metadata.uid, start.operation, start.version.metadata.uid, earlier)
