"""What log lines about an object show besides its kind, namespace and name: the fields of the original (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.kube.types.model import Kind
from stellwerk.operators.cap import names
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.runtime.telemetry.logs import Detail


def log_fields(obj: Kind) -> Mapping[str, Detail]:
    """The application of an object, its tenant, its version, and the step and the Job that are under way."""
    labels = obj.metadata.labels
    application: dict[str, Detail] = {"app-identifier-hash": labels.get(names.APP_HASH_LABEL, "")}
    match obj:
        case CAPApplicationVersion():
            return application | {"version": obj.spec.version}
        case CAPTenant():
            return application | {"tenantId": obj.spec.tenant_id, "version": obj.spec.version}
        case CAPTenantOperation(status=shown):
            fields = application | {"tenantId": obj.spec.tenant_id, "version": labels.get(names.VERSION_LABEL, "")}
            fields |= {"step": shown.current_step} if shown.current_step is not None else {}
            return fields | ({"dependentKind": "Job", "dependentName": shown.active_job} if shown.active_job else {})
        case _:
            return application
