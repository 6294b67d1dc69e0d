"""All kinds of the CAP Operator, as CustomResourceDefinitions."""

from __future__ import annotations

from stellwerk.kube.schema.crd import Definition
from stellwerk.operators.cap.kinds import application, domain, tenant, version

DEFINITIONS: tuple[Definition, ...] = (
    application.DEFINITION,
    version.DEFINITION,
    tenant.TENANTS,
    tenant.OPERATIONS,
    tenant.OUTPUTS,
    domain.DOMAINS,
    domain.CLUSTER_DOMAINS,
)
