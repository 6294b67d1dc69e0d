"""What the Component operator may do in a cluster, as RBAC.

Components deploy anything, so the original runs as cluster-admin, and a user who may create a Component is one, too.
That is offered here as a binding of its own (`deploy/rbac/component-operator-cluster-admin.yaml`). Without it the
operator has a role that is enough for itself: it reads what Components refer to, watches what they consist of, and
impersonates the ServiceAccounts that they name; `--tenancy=strict` then asks each Component for one. There is no
wildcard.

The kinds of the parts of Components are not known beforehand. The operator's right to watch them is therefore an
aggregated role: the built-in kinds are in it, and a ClusterRole with the label `AGGREGATE` adds others. A kind that is
missing there is watched in the namespaces where it is needed, if that is allowed, and else named by the Component.

There is no role that gives editors of a namespace a right on Components: with the operator as cluster-admin it would
make them cluster-admins. A right that is seldom used states the occasion.
"""

from __future__ import annotations

from stellwerk.api import flux, rbac
from stellwerk.delivery import grants
from stellwerk.delivery.grants import SECURE_METRICS, OperatorAccount, added_to, cluster_role, grant, rule
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.component import api
from stellwerk.runtime.access.permission_check import Rights

NAME = "component-operator"
ACCOUNT = "component-operator"
NAMESPACE = "component-operator"
"""The default namespace of the operator."""

AGGREGATE = f"{api.RECONCILER}/aggregate-to-dependents"
"""On a ClusterRole: its kinds may be watched as parts of Components."""

_CONFLICT = "another client changed the finalizers at the same time, or the object was replaced during a pass"

GRANTS = (
    grant(api.GROUP, "components", "get list watch patch", "no Component is seen, or none can be held", get=_CONFLICT),
    grant(
        api.GROUP,
        "components/status",
        "update patch",
        "no Component shows how it is, nor what it consists of",
        patch="another client changed the object during a pass",
    ),
    grant(api.GROUP, "blueprints", "get list watch patch", "Components with a Blueprint have no content"),
    grant(
        api.GROUP,
        "blueprintversions",
        "get list watch create patch delete",
        "sticky Components have no content",
        get="a sticky Component goes on with a content that its Blueprint no longer has",
    ),
    grant(
        flux.GROUP,
        " ".join(kind.resource.plural for kind in flux.KINDS),
        "list watch",
        "Components that name a source of Flux have no content",
    ),
    grant("", "secrets configmaps", "get list watch", "what Components refer to is not found"),
    grant("", "namespaces", "get list watch", "whether a namespace is there, or on its way out, is not seen"),
    grant("", "serviceaccounts", "impersonate", "Components that name a ServiceAccount are not applied"),
    grant(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "list watch",
        "objects of kinds that have just been defined wait longer than they must",
    ),
    grant(
        "events.k8s.io",
        "events",
        "create patch",
        "the operator writes no Events",
        patch="the same thing happens to an object again and again",
    ),
    *SECURE_METRICS,
)
"""What the operator itself needs, in the whole cluster."""

LEASES = (
    grant("coordination.k8s.io", "leases", "get create patch", "replicas cannot agree on who acts, so that none does"),
    grant(
        "",
        "secrets",
        "create",
        "Components with delete hooks are not applied, and deletions act as the account that the spec names then",
        create=f"there is no Secret {api.SEALS} yet, which holds the key of the operator's seals",
    ),
)
"""What it needs in its own namespace."""

SELDOM = grants.occasions((*GRANTS, *LEASES))
RIGHTS = Rights(
    (*grants.needs(GRANTS), *grants.needs(LEASES, at_home=True)),
    f"apply deploy/rbac/{NAME}.yaml, or have the right in another role of the operator's account",
)
"""What the operator asks about when it starts. Not the kinds of dependents: there less is a choice, not a lack."""

BUILT_IN = (
    ("", "configmaps secrets services serviceaccounts pods persistentvolumeclaims persistentvolumes"),
    ("", "namespaces endpoints limitranges resourcequotas replicationcontrollers podtemplates"),
    ("apps", "deployments statefulsets daemonsets replicasets controllerrevisions"),
    ("batch", "jobs cronjobs"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("policy", "poddisruptionbudgets"),
    ("networking.k8s.io", "ingresses ingressclasses networkpolicies"),
    ("discovery.k8s.io", "endpointslices"),
    (rbac.GROUP, "roles rolebindings clusterroles clusterrolebindings"),
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


_BUILT_IN_RULES = tuple(rule(group, names, "list watch") for group, names in BUILT_IN)
_VIEW = rule(api.GROUP, "components blueprints blueprintversions", "get list watch")


def manifests(namespace: str = NAMESPACE) -> list[JsonObject]:
    """What an administrator installs: the account, its roles, and a role for those who only look."""
    account = OperatorAccount(ACCOUNT, namespace)
    dependents = f"{NAME}-dependents"
    return [
        account.body(),
        cluster_role(NAME, [one.rule for one in GRANTS]),
        # Not NAME: an API server refuses another role in a binding, and the original's may be named so.
        account.is_given_everywhere(NAME, binding=f"{NAME}-manager"),
        grants.role(NAME, namespace, [lease.rule for lease in LEASES]),
        account.is_given_at_home(NAME, binding=NAME),
        grants.collecting_role(dependents, AGGREGATE),
        account.is_given_everywhere(dependents, binding=dependents),
        cluster_role(f"{NAME}-built-in-dependents", _BUILT_IN_RULES, **{AGGREGATE: "true"}),
        cluster_role(f"{NAME}-view", [_VIEW], **{added_to("view"): "true"}),
    ]


def cluster_admin(namespace: str = NAMESPACE) -> list[JsonObject]:
    """What the original has instead: everything."""
    account = OperatorAccount(ACCOUNT, namespace)
    return [account.is_given_everywhere("cluster-admin", binding=f"{NAME}-cluster-admin")]
