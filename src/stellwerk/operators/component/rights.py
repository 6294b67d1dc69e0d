"""What the Component operator may do in a cluster, as RBAC.

Components deploy anything, so the original runs as cluster-admin, and whoever may create a Component is one, too. That
is offered here as a binding of its own (`deploy/rbac/component-operator-cluster-admin.yaml`). Without it the operator
has a role that is enough for itself: it reads what Components refer to, watches what they consist of, and impersonates
the ServiceAccounts that they name; `--tenancy=strict` then asks each Component for one. There is no wildcard.

Which kinds Components consist of nobody can know beforehand. The operator's right to watch them is therefore an
aggregated role: the built-in kinds are in it, and a ClusterRole with the label `AGGREGATE` adds others. A kind that is
missing there is watched in the namespaces where it is needed, if that is allowed, and else named by the Component.

There is no role that gives editors of a namespace a right on Components: with the operator as cluster-admin it would
make them cluster-admins. A right that an ordinary life does not use says on which occasion it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from stellwerk.api import flux
from stellwerk.api.rbac import PolicyRule
from stellwerk.kube.model import JsonObject, JsonValue, to_json_object
from stellwerk.operators.component import api

NAME = "component-operator"
ACCOUNT = "component-operator"
NAMESPACE = "component-operator"
"""Where the operator runs, unless its installer says otherwise."""

AGGREGATE = f"{api.RECONCILER}/aggregate-to-dependents"
"""On a ClusterRole: its kinds may be watched as parts of Components."""

_RBAC = "rbac.authorization.k8s.io"


@dataclass(frozen=True, slots=True)
class Grant:
    """Verbs on resources. `seldom` says of a verb on which rare occasion it is needed."""

    rule: PolicyRule
    seldom: Mapping[str, str]


def _rule(group: str, names: str, verbs: str) -> PolicyRule:
    return PolicyRule(api_groups=(group,), resources=tuple(names.split()), verbs=tuple(verbs.split()))


def _grant(group: str, names: str, verbs: str, **seldom: str) -> Grant:
    return Grant(_rule(group, names, verbs), seldom)


_SECURE = "metrics are secure, and somebody asks for them"
_CONFLICT = "somebody changed the finalizers at the same time, or the object was replaced during a pass"

GRANTS = (
    _grant(api.GROUP, "components", "get list watch patch", get=_CONFLICT),
    _grant(api.GROUP, "components/status", "patch"),
    _grant(api.GROUP, "blueprints", "get list watch patch", get=_CONFLICT),
    _grant(
        api.GROUP,
        "blueprintversions",
        "get list watch create patch delete",
        get="a sticky Component goes on with a content that its Blueprint no longer has",
    ),
    _grant(flux.GROUP, " ".join(kind.resource.plural for kind in flux.KINDS), "list watch"),
    _grant("", "secrets configmaps", "get list watch"),
    _grant("", "namespaces", "get list watch"),
    _grant("", "serviceaccounts", "impersonate"),
    _grant("apiextensions.k8s.io", "customresourcedefinitions", "list watch"),
    _grant("events.k8s.io", "events", "create patch", patch="the same thing happens to an object again and again"),
    _grant("authentication.k8s.io", "tokenreviews", "create", create=_SECURE),
    _grant("authorization.k8s.io", "subjectaccessreviews", "create", create=_SECURE),
)
"""What the operator itself needs, in the whole cluster."""

LEASES = (_grant("coordination.k8s.io", "leases", "get create update patch"),)
"""What it needs in its own namespace."""

SELDOM = {
    (group, resource, verb): occasion
    for grant in (*GRANTS, *LEASES)
    for verb, occasion in grant.seldom.items()
    for group in grant.rule.api_groups
    for resource in grant.rule.resources
}
"""The occasion of each right that an ordinary life does not use, by group, resource and verb."""

BUILT_IN = (
    ("", "configmaps secrets services serviceaccounts pods persistentvolumeclaims persistentvolumes"),
    ("", "namespaces endpoints limitranges resourcequotas replicationcontrollers podtemplates"),
    ("apps", "deployments statefulsets daemonsets replicasets controllerrevisions"),
    ("batch", "jobs cronjobs"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("policy", "poddisruptionbudgets"),
    ("networking.k8s.io", "ingresses ingressclasses networkpolicies"),
    ("discovery.k8s.io", "endpointslices"),
    (_RBAC, "roles rolebindings clusterroles clusterrolebindings"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations validatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingadmissionpolicies validatingadmissionpolicybindings"),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("storage.k8s.io", "storageclasses csidrivers"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("node.k8s.io", "runtimeclasses"),
    ("coordination.k8s.io", "leases"),
    (api.GROUP, "components blueprints"),
)
"""The kinds that are watched as parts of Components without anybody's doing."""


def manifests(namespace: str = NAMESPACE) -> list[JsonObject]:
    """What an administrator installs: the account, its roles, and a role for those who only look."""
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": namespace}},
        _cluster_role(NAME, tuple(grant.rule for grant in GRANTS)),
        _cluster_binding(NAME, NAME, namespace),
        _in_namespace("Role", namespace, rules=[to_json_object(grant.rule) for grant in LEASES]),
        _in_namespace("RoleBinding", namespace, roleRef=_ref("Role", NAME), subjects=[_subject(namespace)]),
        _aggregated(),
        _cluster_binding(f"{NAME}-dependents", f"{NAME}-dependents", namespace),
        _cluster_role(
            f"{NAME}-built-in-dependents",
            tuple(_rule(group, names, "list watch") for group, names in BUILT_IN),
            {AGGREGATE: "true"},
        ),
        _cluster_role(
            f"{NAME}-view",
            (_rule(api.GROUP, "components blueprints blueprintversions", "get list watch"),),
            {f"{_RBAC}/aggregate-to-view": "true"},
        ),
    ]


def cluster_admin(namespace: str = NAMESPACE) -> list[JsonObject]:
    """What the original has instead: everything."""
    return [_cluster_binding(f"{NAME}-cluster-admin", "cluster-admin", namespace)]


def as_yaml() -> str:
    """The least that the operator needs, as the file has it."""
    return str(yaml.safe_dump_all(manifests(), sort_keys=False))


def cluster_admin_as_yaml() -> str:
    """The binding to cluster-admin, as the file has it."""
    return str(yaml.safe_dump_all(cluster_admin(), sort_keys=False))


def _cluster_role(name: str, rules: tuple[PolicyRule, ...], labels: JsonObject | None = None) -> JsonObject:
    metadata: JsonObject = {"name": name, **({"labels": labels} if labels else {})}
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": metadata,
        "rules": [to_json_object(rule) for rule in rules],
    }


def _aggregated() -> JsonObject:
    """The role whose rules the control plane collects. It says none itself, or each apply would empty it."""
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": f"{NAME}-dependents"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {AGGREGATE: "true"}}]},
    }


def _cluster_binding(name: str, role: str, namespace: str) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": _ref("ClusterRole", role),
        "subjects": [_subject(namespace)],
    }


def _in_namespace(kind: str, namespace: str, **fields: JsonValue) -> JsonObject:
    metadata: JsonObject = {"name": NAME, "namespace": namespace}
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": metadata, **fields}


def _ref(kind: str, name: str) -> JsonObject:
    return {"apiGroup": _RBAC, "kind": kind, "name": name}


def _subject(namespace: str) -> JsonObject:
    return {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace}
