"""All kinds of the CAP Operator, as CustomResourceDefinitions."""

from __future__ import annotations

from stellwerk.kube.schema.crd import Definition
from stellwerk.operators.cap import api_application, api_domain, api_tenant, api_version

DEFINITIONS: tuple[Definition, ...] = (
    api_application.DEFINITION,
    api_version.DEFINITION,
    api_tenant.TENANTS,
    api_tenant.OPERATIONS,
    api_tenant.OUTPUTS,
    api_domain.DOMAINS,
    api_domain.CLUSTER_DOMAINS,
)
