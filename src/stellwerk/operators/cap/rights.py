"""What the CAP Operator may do in a cluster, each right with its purpose."""

from __future__ import annotations

from stellwerk.delivery.grants import SECURE_METRICS, Grant, grant, lacking
from stellwerk.delivery.step_rights import joined, rights_of
from stellwerk.operators.cap.domain import rights as domain
from stellwerk.operators.cap.kinds.status import GROUP
from stellwerk.operators.cap.operation import decide as operation
from stellwerk.operators.cap.tenant import decide as tenant

ACCOUNT = "cap-operator-controller"

_CONFLICT = "another client changed the object during a pass"
_BEHIND = "an object was created just before the operator started"
_ENFORCED = "the admission plugin OwnerReferencesPermissionEnforcement is on"


def _created(group: str, resources: str, purpose: str) -> Grant:
    """Objects that are created and never changed."""
    return grant(group, resources, "get list watch create", purpose, get=_BEHIND)


_BY_HAND = (
    grant(
        GROUP, "capapplications", "get patch", "no CAPApplication can be held until its tenants are gone", get=_CONFLICT
    ),
    grant(
        GROUP,
        "capapplicationversions",
        "get list watch patch delete",
        "no CAPApplicationVersion is seen, held, or deleted when it is unused",
        get=_CONFLICT,
        delete="version monitoring finds a version that is not used any more",
    ),
    grant(
        GROUP,
        "captenants",
        "get list watch create patch delete",
        "no CAPTenant is seen, follows to a version, or is created for the provider",
        get=_CONFLICT,
    ),
    grant(
        GROUP,
        "domains",
        "get create",
        "domains that are written into a CAPApplication are not served",
        get="a Domain has the name of one that spec.domains of a CAPApplication becomes",
        create="a CAPApplication has spec.domains",
    ),
    grant(
        GROUP,
        "capapplications/status capapplicationversions/status",
        "update patch",
        "no object shows how it is",
        patch=_CONFLICT,
    ),
    grant(
        GROUP,
        "capapplications/finalizers capapplicationversions/finalizers",
        "update",
        "no object can have one of ours as its controller",
        update=_ENFORCED,
    ),
    grant(
        "batch",
        "jobs",
        "get list watch create patch delete",
        "neither content jobs nor operations run",
        get=f"{_BEHIND}, or a content job of a version that is not Ready is gone",
        patch="the original has created a content job, or a failed one has a TTL",
        delete="a failed Job runs again",
    ),
    grant(
        "apps",
        "deployments",
        "get list watch create patch",
        "versions have no workloads, or keep credentials that are no longer valid",
        get=_BEHIND,
        patch="the credentials of a service have changed",
    ),
    _created("autoscaling", "horizontalpodautoscalers", "workloads are not scaled"),
    _created("policy", "poddisruptionbudgets", "pods of workloads are not protected"),
    grant("", "services", "get create", "workloads are not reached", get=_BEHIND),
    _created("networking.istio.io", "destinationrules", "users do not stay on one pod of a router"),
    grant(
        "networking.istio.io",
        "virtualservices",
        "get list watch create patch delete",
        "tenants and exposed services are not reached",
        get=_CONFLICT,
        delete="a version exposes a service no longer",
    ),
    _created("monitoring.coreos.com", "servicemonitors", "metrics of workloads are not read"),
    *SECURE_METRICS,
)
"""Those of applications and versions, and of all processes."""
_BY_STEPS = (*rights_of(tenant.OWN, tenant.USES), *rights_of(operation.OWN, operation.USES))
"""Those of the kinds that decide by steps."""
_OF_DOMAINS = [each.rule for each in domain.GRANTS]

OWN = joined((*_BY_HAND, *(each for each in _BY_STEPS if lacking([each.rule], _OF_DOMAINS))))
"""The rights besides those that the controllers of domains need."""

GRANTS = (*domain.GRANTS, *OWN)

HOME_GRANTS = (
    grant("coordination.k8s.io", "leases", "get create patch", "replicas cannot agree on which of them acts"),
)
"""In the operator's own namespace."""
