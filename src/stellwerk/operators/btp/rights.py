"""What the BTP Manager may do in a cluster, as RBAC.

It grants the operand's roles, and no client may grant permissions that it does not hold; so the rules of those roles
are here too, even where we ourselves never use them. There is no wildcard, and no right on anything that the module
does not have. A right that an ordinary life of the module does not use names the occasion on which it is needed; the
audit log of such a life is compared with this file by a test.

`deploy/rbac/btp-manager.yaml` is made from these.
"""

from __future__ import annotations

import yaml

from stellwerk.api.rbac import PolicyRule
from stellwerk.delivery import grants
from stellwerk.delivery.grants import SECURE_METRICS, Grant, OperatorAccount, added_to, cluster_role, grant, role, rule
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.btp import api
from stellwerk.operators.btp.btpoperator import probe
from stellwerk.runtime.access.permission_check import Rights

NAME = "btp-manager"
ACCOUNT = "btp-manager-controller-manager"

KEEP = "get list watch create update patch delete"
"""The verbs for keeping objects as desired, and what the operand's roles grant on most of them."""

_OPERAND = "the operand's roles cannot be applied, because no client may grant permissions that it does not hold"

_SLOW = "the operand does not come up, and the condition explains why"


def _module(group: str, resources: str, purpose: str) -> Grant:
    """Objects that are applied, and deleted with the module."""
    return grant(group, resources, "get list watch create patch delete", purpose)


GRANTS = (
    grant(
        api.GROUP,
        "btpoperators",
        "get list watch patch",
        "no BtpOperator is seen, or none can be held until its module is removed",
    ),
    grant(
        api.GROUP,
        "btpoperators/status",
        "update patch",
        "no BtpOperator shows how its module is",
        patch="another client changed the object during a pass",
    ),
    grant(
        api.SERVICES_GROUP,
        "serviceinstances servicebindings",
        f"{KEEP} deletecollection",
        f"a deletion is neither held back by users' instances nor able to remove them, and {_OPERAND}",
    ),
    grant(api.SERVICES_GROUP, "serviceinstances/status servicebindings/status", "get update patch", _OPERAND),
    grant("", "secrets configmaps", KEEP, f"credentials and settings do not reach the operand, and {_OPERAND}"),
    grant("", "events", KEEP, _OPERAND),
    grant("", "configmaps/status", "get update patch", _OPERAND),
    _module(
        "",
        "services serviceaccounts",
        "the operand has no account and its webhooks no address, or these stay behind when the module goes",
    ),
    grant("", "pods", "list watch delete", "an operand that cannot start is neither explained nor started again"),
    _module("apps", "deployments", "the operand is not started, or runs on when the module goes"),
    grant("apps", "replicasets", "list", "the condition does not name the cause", list=_SLOW),
    grant("batch", "jobs", "get watch create delete", "the probe of CA bundles cannot run its Job"),
    _module(
        "networking.k8s.io",
        "networkpolicies",
        "the operand is cut off where everything else is denied, or its policies stay behind when the module goes",
    ),
    _module(
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingwebhookconfigurations",
        "service instances and bindings are not checked by the operand, or none can be written once it is gone",
    ),
    _module(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "the kinds of service instances and bindings are not there, or stay behind when the module goes",
    ),
    _module(
        "rbac.authorization.k8s.io",
        "clusterroles clusterrolebindings roles rolebindings",
        "the operand has no rights, or its roles stay behind when the module goes",
    ),
    grant(
        "coordination.k8s.io",
        "leases",
        "get list create update patch",
        f"replicas cannot agree on who acts, so that none does, and {_OPERAND}",
    ),
    grant("events.k8s.io", "events", "create patch", "the operator writes no Events"),
    *SECURE_METRICS,
)
RULES = tuple(one.rule for one in GRANTS)
SELDOM = grants.occasions(GRANTS)
RIGHTS = Rights(
    grants.needs(GRANTS), f"apply deploy/rbac/{NAME}.yaml, or have the right in another role of the operator's account"
)
"""What the operator asks about when it starts."""


def manifests(namespace: str = api.STANDARD_NAMESPACE) -> list[JsonObject]:
    """What an administrator installs: accounts with their roles, the operand's priority class, roles for others."""
    account = OperatorAccount(ACCOUNT, namespace)
    return [
        account.body(),
        cluster_role(f"{NAME}-manager-role", RULES),
        account.is_given_everywhere(f"{NAME}-manager-role", binding=f"{NAME}-manager-rolebinding"),
        _priority_class(),
        # For scrapers, where metrics are secure: bind it to their account.
        cluster_role(f"{NAME}-metrics-reader", [PolicyRule(non_resource_urls=("/metrics",), verbs=("get",))]),
        *_aggregated(),
        *_probe(),
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


PROBE = (
    PolicyRule(api_groups=(api.GROUP,), resources=("btpoperators",), verbs=("get", "list", "patch")),
    PolicyRule(
        api_groups=("",),
        resources=("secrets",),
        verbs=("get",),
        resource_names=(api.REQUIRED_SECRET_NAME, api.OPERAND_SECRET_NAME),
    ),
    PolicyRule(api_groups=("",), resources=("pods",), verbs=("get", "list")),
)
"""What the probe of CA bundles does in its namespace: it reads where tokens are given out, looks for the pod whose
bundle it compares, and writes what it found on the CR."""


def _probe() -> list[JsonObject]:
    """The account of the probe's Job. The Job always runs in the standard place, wherever the operator does."""
    account = OperatorAccount(probe.SERVICE_ACCOUNT, api.STANDARD_NAMESPACE)
    return [
        account.body(),
        role(probe.SERVICE_ACCOUNT, api.STANDARD_NAMESPACE, PROBE),
        account.is_given_at_home(probe.SERVICE_ACCOUNT, binding=probe.SERVICE_ACCOUNT),
    ]


def _aggregated() -> list[JsonObject]:
    """For users: an account that may edit or view a namespace may do so with our kinds."""
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
