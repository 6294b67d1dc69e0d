"""What the BTP Manager may do in a cluster, as RBAC.

It grants the operand's roles, and nobody may grant what they do not hold; so the rules of those roles are here too,
even where we ourselves never use them. There is no wildcard, and no right on anything that the module does not have.
A right that an ordinary life of the module does not use says on which occasion it is needed; the audit log of such a
life is compared with this file by a test.

`deploy/rbac/btp-manager.yaml` is made from these.
"""

from __future__ import annotations

import yaml

from stellwerk.api.rbac import PolicyRule
from stellwerk.kube.model import JsonObject
from stellwerk.operators import grants
from stellwerk.operators.btp import api
from stellwerk.operators.grants import Account, added_to, cluster_role, grant, rule

NAME = "btp-manager"
ACCOUNT = "btp-manager-controller-manager"

KEEP = "get list watch create update patch delete"
"""What keeping objects as they shall be takes, and what the operand's roles grant on most of them."""

GRANTS = (
    grant(
        api.GROUP,
        "btpoperators",
        "get list watch patch",
        get="somebody changed the finalizers at the same time, or the probe of CA bundles has written its finding",
    ),
    grant(api.GROUP, "btpoperators/status", "update patch", patch="somebody changed the object during a pass"),
    grant(api.SERVICES_GROUP, "serviceinstances servicebindings", f"{KEEP} deletecollection"),
    grant(api.SERVICES_GROUP, "serviceinstances/status servicebindings/status", "get update patch"),
    grant("", "secrets configmaps events", KEEP),
    grant("", "configmaps/status", "get update patch"),
    grant("", "services serviceaccounts", "get list watch create patch delete"),
    grant("", "pods", "list watch delete"),
    grant("apps", "deployments", "get list watch create patch delete"),
    grant("apps", "replicasets", "list", list="the operand does not come up, and the condition shall say why"),
    grant("batch", "jobs", "get create delete"),
    grant("networking.k8s.io", "networkpolicies", "get list watch create patch delete"),
    grant(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        "get list watch create patch delete",
    ),
    grant("apiextensions.k8s.io", "customresourcedefinitions", "get list watch create patch delete"),
    grant(
        "rbac.authorization.k8s.io",
        "clusterroles clusterrolebindings roles rolebindings",
        "get list watch create patch delete",
    ),
    grant("coordination.k8s.io", "leases", "get list create update patch"),
    grant("events.k8s.io", "events", "create patch"),
    grant("authentication.k8s.io", "tokenreviews", "create", create="metrics are secure, and somebody asks for them"),
    grant(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        create="metrics are secure, and somebody asks for them",
    ),
)
RULES = tuple(one.rule for one in GRANTS)
SELDOM = grants.occasions(GRANTS)


def manifests(namespace: str = api.STANDARD_NAMESPACE) -> list[JsonObject]:
    """What an administrator installs: the account and its role, the operand's priority class, roles for others."""
    account = Account(ACCOUNT, namespace)
    return [
        account.body(),
        cluster_role(f"{NAME}-manager-role", RULES),
        account.is_given_everywhere(f"{NAME}-manager-role", binding=f"{NAME}-manager-rolebinding"),
        _priority_class(),
        _metrics_reader(),
        *_aggregated(),
    ]


def _priority_class() -> JsonObject:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": api.PRIORITY_CLASS_NAME},
        "value": 2100000,
        "globalDefault": False,
        "description": "The SAP BTP service operator and its manager",
    }


def _metrics_reader() -> JsonObject:
    """For scrapers, where metrics are secure: bind it to their account."""
    return cluster_role(f"{NAME}-metrics-reader", [PolicyRule(non_resource_urls=("/metrics",), verbs=("get",))])


def _aggregated() -> list[JsonObject]:
    """For people: whoever may edit or view a namespace may do so with our kinds."""
    edit = (
        rule(api.GROUP, "btpoperators", KEEP),
        rule(api.SERVICES_GROUP, "serviceinstances servicebindings", KEEP),
    )
    status = (
        rule(api.GROUP, "btpoperators/status", "get"),
        rule(api.SERVICES_GROUP, "serviceinstances/status servicebindings/status", "get"),
    )
    view = (
        rule(api.GROUP, "btpoperators btpoperators/status", "get list watch"),
        rule(api.SERVICES_GROUP, "serviceinstances servicebindings", "get list watch"),
        *status[1:],
    )
    return [
        cluster_role(f"kyma-btp-operator-{who}", rules, **{added_to(who): "true"})
        for who, rules in (("edit", (*edit, *status)), ("view", view))
    ]


def as_yaml() -> str:
    """The manifests as the file has them."""
    return str(yaml.safe_dump_all(manifests(), sort_keys=False))
