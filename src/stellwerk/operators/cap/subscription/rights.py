"""What the subscription server may do in a cluster, each right with its purpose."""

from __future__ import annotations

from stellwerk.delivery import limited_grants
from stellwerk.delivery.grants import SECURE_METRICS, grant
from stellwerk.delivery.limited_grants import LimitedGrants
from stellwerk.operators.cap.kinds.status import GROUP
from stellwerk.operators.cap.subscription.settings import TABLE

ACCOUNT = "cap-operator-subscription-server"

_ADOPTED = "a name of a new tenant is taken, or a callback is due"

_PODS = grant("", "pods", "list watch", "client certificates from the ingress gateway are not accepted")

GRANTS = (
    grant(GROUP, "capapplications domains clusterdomains", "list watch", "no application and no domain is found"),
    grant(
        GROUP,
        "capapplications/status",
        "update",
        "no condition shows that an application does not answer its registry, or that this one does not know a result",
        update="the identity of an application is not proved, two have it, or a callback was given up",
    ),
    grant(
        GROUP,
        "captenants",
        "get list watch create patch delete",
        "subscriptions make no tenants, and their ends delete none",
        get=_ADOPTED,
    ),
    grant(
        GROUP,
        "captenants/finalizers",
        "update",
        "payloads of subscriptions stay when their tenants go",
        update="the admission plugin OwnerReferencesPermissionEnforcement is on",
    ),
    grant(GROUP, "captenantoutputs", "list", "registries do not get what the Jobs of tenants add to the answer"),
    grant(
        "",
        "secrets",
        "get list watch create patch delete",
        "tenants have no payload, registries are not known, and callbacks are not stored",
        delete="a request is refused after its callback was stored, or a callback that has ended is a day old",
    ),
    _PODS,
    grant("events.k8s.io", "events", "create patch", "callbacks that fail are seen in the log only"),
    *SECURE_METRICS,
)
HOME_GRANTS = (
    grant("", "secrets", "list watch", "client certificates are refused"),
    grant("coordination.k8s.io", "leases", "get create patch", "replicas cannot agree on which sends callbacks"),
)
"""In the namespace of the server."""

_NAMESPACED, _OF_CLUSTER = limited_grants.split(GRANTS)
LIMITED = LimitedGrants(
    limits=lambda words, variables: TABLE.of_process(words, variables).limits,
    watched=tuple(each for each in _NAMESPACED if each != _PODS),
    of_cluster=(
        *_OF_CLUSTER,
        grant("", "namespaces", "list watch", "the end of a watched namespace is taken for a missing right"),
    ),
    ingress=(_PODS,),
    ingress_setting="gateway_namespace",
)
"""If it works on some namespaces only."""
