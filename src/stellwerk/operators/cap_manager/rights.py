"""What the CAP Operator Manager may do in a cluster, each right with its purpose.

The manager creates roles, and Kubernetes lets an account create only roles whose rights it has itself. So it has all
rights of the roles that it grants to the CAP Operator, which follow from the installation of that operator. The verbs
`escalate` and `bind` were refused: with them on any role the manager could grant itself the whole cluster, and names of
roles cannot bound them, because they contain the name of the CAPOperator. A chart that grants further rights, such as
the original's, needs them in a ClusterRole with the label `AGGREGATE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stellwerk.api import rbac
from stellwerk.api.rbac import PolicyRule
from stellwerk.delivery import grants
from stellwerk.delivery.grants import SECURE_METRICS, Grant, OperatorAccount, cluster_role, grant
from stellwerk.delivery.installation import Installation
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.cap_manager import api
from stellwerk.runtime.access.permission_check import Rights

ACCOUNT = "cap-operator-manager"
AGGREGATE = f"{api.MANAGER}/aggregate-to-manager"
"""On a ClusterRole: its rights are the manager's, so that it may grant them."""

_CONFLICT = "another client changed the object during a pass"
_READ = "a chart of yours looks objects up, or they could not be watched"


def _managed(group: str, resources: str, purpose: str) -> Grant:
    """Kinds of the objects that the chart has."""
    return grant(group, resources, "get list watch create patch delete", purpose, get=_READ)


GRANTS = (
    grant(
        api.GROUP,
        "capoperators",
        "get list watch patch",
        "no CAPOperator is seen, or held until its objects are gone",
        get=_CONFLICT,
    ),
    grant(api.GROUP, "capoperators/status", "update patch", "no CAPOperator shows how it is", patch=_CONFLICT),
    grant("", "namespaces", "get list watch", "objects in namespaces that do not exist are not noticed"),
    grant(
        "",
        "pods",
        "get list watch",
        "the ingress gateway is not found, and the cause of a pod that fails is not shown",
        get="a pod of the CAP Operator fails",
    ),
    grant("apps", "replicasets", "list", "the cause of a pod that fails is not shown", list="a pod fails"),
    _managed("", "serviceaccounts services configmaps secrets", "the CAP Operator is not installed"),
    _managed("apps", "deployments", "the CAP Operator is not installed"),
    _managed("policy", "poddisruptionbudgets", "pods of the CAP Operator are not protected"),
    _managed("networking.k8s.io", "networkpolicies", "pods of the CAP Operator are not isolated"),
    _managed(rbac.GROUP, "roles rolebindings clusterroles clusterrolebindings", "the CAP Operator has no rights"),
    _managed("apiextensions.k8s.io", "customresourcedefinitions", "the CAP kinds are not defined"),
    _managed(
        "admissionregistration.k8s.io",
        "validatingwebhookconfigurations mutatingwebhookconfigurations",
        "CAP objects of users are not checked",
    ),
    _managed("cert.gardener.cloud", "certificates", "the subscription server has no certificate"),
    _managed("cert-manager.io", "certificates issuers", "the subscription server has no certificate"),
    _managed("dns.gardener.cloud", "dnsentries", "the subscription server has no name"),
    _managed("networking.istio.io", "gateways virtualservices", "the subscription server is not reached"),
    _managed("monitoring.coreos.com", "servicemonitors", "the CAP Operator is not monitored"),
    grant(
        "events.k8s.io",
        "events",
        "create patch",
        "the manager writes no Events",
        patch="the same thing happens to an object again and again",
    ),
    *SECURE_METRICS,
)
"""What the manager itself needs."""

HOME_GRANTS = (
    grant("coordination.k8s.io", "leases", "get create patch", "replicas cannot agree on which of them acts"),
)
"""What it needs in its own namespace."""

RIGHTS = Rights((*grants.needs(GRANTS), *grants.needs(HOME_GRANTS, at_home=True)), "stellwerk install cap-manager")


def further(installed: Sequence[Installation], account: OperatorAccount) -> list[JsonObject]:
    """What the account has besides its own role: one with the rights that it grants, and one that collects others."""
    granted, collected = f"{ACCOUNT}-granted", f"{ACCOUNT}-further"
    return [
        cluster_role(granted, granted_rules(installed)),
        account.is_given_everywhere(granted, binding=granted),
        grants.collecting_role(collected, AGGREGATE),
        account.is_given_everywhere(collected, binding=collected),
    ]


def granted_rules(installed: Iterable[Installation]) -> Sequence[PolicyRule]:
    """The rules of all roles of these installations, those for users included, each once."""
    bodies = [body for each in installed for body in (*each.accounts(), *each.roles_of_users())]
    roles = [body.get("rules") or [] for body in bodies if body.get("kind") in ("ClusterRole", "Role")]
    return tuple(dict.fromkeys(rule for rules in roles for rule in msgspec.convert(rules, tuple[PolicyRule, ...])))
