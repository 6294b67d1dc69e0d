"""What the BTP Manager may do in a cluster, as RBAC.

It grants the operand's roles, and nobody may grant what they do not hold; so the rules of those roles are here too,
even where we ourselves never use them. There is no wildcard, and no right on anything that the module does not have.
A right that an ordinary life of the module does not use says on which occasion it is needed; the audit log of such a
life is compared with this file by a test.

`deploy/rbac/btp-manager.yaml` is made from these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from stellwerk.api.rbac import PolicyRule
from stellwerk.kube.model import JsonObject, to_json_object
from stellwerk.operators.btp import api

NAME = "btp-manager"
ACCOUNT = "btp-manager-controller-manager"

KEEP = ("get", "list", "watch", "create", "update", "patch", "delete")
"""What keeping objects as they shall be takes, and what the operand's roles grant on most of them."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on resources. `seldom` says of a verb on which rare occasion it is needed."""

    rule: PolicyRule
    seldom: Mapping[str, str]


def _rule(group: str, names: str, verbs: tuple[str, ...] | str) -> PolicyRule:
    wanted = tuple(verbs.split()) if isinstance(verbs, str) else verbs
    return PolicyRule(api_groups=(group,), resources=tuple(names.split()), verbs=wanted)


def _grant(group: str, names: str, verbs: tuple[str, ...] | str, **seldom: str) -> Grant:
    return Grant(_rule(group, names, verbs), seldom)


GRANTS = (
    _grant(
        api.GROUP,
        "btpoperators",
        "get list watch patch",
        get="somebody changed the finalizers at the same time, or the probe of CA bundles has written its finding",
    ),
    _grant(api.GROUP, "btpoperators/status", "patch"),
    _grant(api.SERVICES_GROUP, "serviceinstances servicebindings", (*KEEP, "deletecollection")),
    _grant(api.SERVICES_GROUP, "serviceinstances/status servicebindings/status", "get update patch"),
    _grant("", "secrets configmaps events", KEEP),
    _grant("", "configmaps/status", "get update patch"),
    _grant("", "services serviceaccounts", "get list watch create patch delete"),
    _grant(
        "",
        "pods",
        "list watch delete",
        delete="the operand cannot start with a former cluster id, or has to read a new CA bundle",
    ),
    _grant("apps", "deployments", "get list watch create patch delete"),
    _grant("apps", "replicasets", "list", list="the operand does not come up, and the condition shall say why"),
    _grant("batch", "jobs", "get create delete"),
    _grant("networking.k8s.io", "networkpolicies", "get list watch create patch delete"),
    _grant(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        "get list watch create patch delete",
    ),
    _grant("apiextensions.k8s.io", "customresourcedefinitions", "get list watch create patch delete"),
    _grant(
        "rbac.authorization.k8s.io",
        "clusterroles clusterrolebindings roles rolebindings",
        "get list watch create patch delete",
    ),
    _grant("coordination.k8s.io", "leases", "get list create update patch"),
    _grant("events.k8s.io", "events", "create patch"),
    _grant("authentication.k8s.io", "tokenreviews", "create", create="metrics are secure, and somebody asks for them"),
    _grant(
        "authorization.k8s.io",
        "subjectaccessreviews",
        "create",
        create="metrics are secure, and somebody asks for them",
    ),
)
RULES = tuple(grant.rule for grant in GRANTS)
SELDOM = {
    (group, resource, verb): occasion
    for grant in GRANTS
    for verb, occasion in grant.seldom.items()
    for group in grant.rule.api_groups
    for resource in grant.rule.resources
}
"""The occasion of each right that an ordinary life does not use, by group, resource and verb."""


def manifests(namespace: str = api.STANDARD_NAMESPACE) -> list[JsonObject]:
    """What an administrator installs: the account and its role, the operand's priority class, roles for others."""
    return [
        _account(namespace),
        _role(),
        _binding(namespace),
        _priority_class(),
        _metrics_reader(),
        *_aggregated(),
    ]


def _account(namespace: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}}


def _role() -> JsonObject:
    return _cluster_role(f"{NAME}-manager-role", RULES)


def _cluster_role(name: str, rules: tuple[PolicyRule, ...], labels: JsonObject | None = None) -> JsonObject:
    metadata: JsonObject = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [to_json_object(rule) for rule in rules],
    }


def _binding(namespace: str) -> JsonObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"{NAME}-manager-rolebinding"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": f"{NAME}-manager-role",
        },
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}],
    }


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
    rule = PolicyRule(non_resource_urls=("/metrics",), verbs=("get",))
    return _cluster_role(f"{NAME}-metrics-reader", (rule,))


def _aggregated() -> list[JsonObject]:
    """For people: whoever may edit or view a namespace may do so with our kinds."""
    edit = (
        _rule(api.GROUP, "btpoperators", KEEP),
        _rule(api.SERVICES_GROUP, "serviceinstances servicebindings", KEEP),
    )
    status = (
        _rule(api.GROUP, "btpoperators/status", "get"),
        _rule(api.SERVICES_GROUP, "serviceinstances/status servicebindings/status", "get"),
    )
    view = (
        _rule(api.GROUP, "btpoperators btpoperators/status", "get list watch"),
        _rule(api.SERVICES_GROUP, "serviceinstances servicebindings", "get list watch"),
        *status[1:],
    )
    return [
        _cluster_role(f"kyma-btp-operator-{who}", rules, {f"rbac.authorization.k8s.io/aggregate-to-{who}": "true"})
        for who, rules in (("edit", (*edit, *status)), ("view", view))
    ]


def as_yaml() -> str:
    """The manifests as the file has them."""
    return str(yaml.safe_dump_all(manifests(), sort_keys=False))
