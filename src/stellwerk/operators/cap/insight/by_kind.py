"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stellwerk.api.istio import DestinationRule, VirtualService
from stellwerk.delivery import forced_deletion
from stellwerk.delivery.insight import KindInsight, Previewer, Reconcilable
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.cap import names
from stellwerk.operators.cap.insight.help_topics import HELP
from stellwerk.operators.cap.insight.related_objects import KINSHIP
from stellwerk.operators.cap.insight.why import FINALIZERS, CapDiagnostician

with lazy_imports(__name__):
    from stellwerk.operators.cap.insight.previews import application, domain, operation, tenant, version

_PREVIEWERS: Mapping[str, Callable[[], Previewer]] = {
    "CAPApplication": lambda: application.PREVIEWER,
    "CAPApplicationVersion": lambda: version.PREVIEWER,
    "CAPTenant": lambda: tenant.PREVIEWER,
    "CAPTenantOperation": lambda: operation.PREVIEWER,
    "Domain": lambda: domain.DOMAIN,
    "ClusterDomain": lambda: domain.CLUSTER_DOMAIN,
}

_UNSTICK = {
    "CAPTenant": forced_deletion.without(
        names.TENANT_FINALIZER,
        consequence="the tenant is deleted without being deprovisioned, and its data stays with the services",
    ),
    "CAPTenantOperation": forced_deletion.without(
        names.OPERATION_FINALIZER,
        consequence="its Jobs are deleted with it, and its tenant begins the operation again from its first step",
    ),
}

_ROUTES = (VirtualService.resource, DestinationRule.resource)
_OWNS = {"CAPApplication": _ROUTES, "CAPApplicationVersion": _ROUTES, "CAPTenant": _ROUTES}
"""What users look for below an object besides the kinds of this operator and workloads."""

INSIGHT = {
    kind: KindInsight(
        diagnostician=CapDiagnostician(),
        kinship=KINSHIP.get(kind),
        owns=_OWNS.get(kind, ()),
        reconcile=Reconcilable(),
        unstick=_UNSTICK.get(kind),
        finalizers=FINALIZERS[kind],
        previewer=_PREVIEWERS[kind],
    )
    for kind in HELP
}
