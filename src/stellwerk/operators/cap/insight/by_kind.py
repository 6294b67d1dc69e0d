"""What the operator knows about objects of its kinds."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stellwerk.delivery import reconcile_request
from stellwerk.delivery.insight import KindInsight, Previewer, Reconcilable
from stellwerk.lazy_imports import lazy_imports
from stellwerk.operators.cap.insight.help_topics import HELP
from stellwerk.operators.cap.insight.why import CapDiagnostician

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

_RECONCILE = Reconcilable(request=reconcile_request.request, was_handled=reconcile_request.was_handled)

INSIGHT = {
    kind: KindInsight(diagnostician=CapDiagnostician(), reconcile=_RECONCILE, previewer=_PREVIEWERS[kind])
    for kind in HELP
}
