"""What the lifecycle manager may do in the control plane, and what the login to a remote cluster needs there.

All of it but definitions is in three namespaces: that of Kymas, that of the Gateway, which may be the same, and that of
Istio for certificates.
"""

from __future__ import annotations

from collections.abc import Sequence

from stellwerk.delivery import grants
from stellwerk.delivery.grants import SECURE_METRICS, Grant, grant
from stellwerk.delivery.step_kind import LEASES
from stellwerk.delivery.step_rights import joined, rights_of
from stellwerk.kube.types.model import JsonObject
from stellwerk.operators.kyma.fleet import rollout
from stellwerk.operators.kyma.kyma import decide as kyma
from stellwerk.operators.kyma.mandatory import decide as mandatory
from stellwerk.operators.kyma.manifest import decide as manifest
from stellwerk.operators.kyma.watcher import certificates, gateway, webhook
from stellwerk.operators.kyma.watcher import decide as watcher

ACCOUNT = "klm-controller-manager"
REMOTE_ROLE = "kyma-lifecycle-manager"
_CONTENT = "clusters cannot be logged in to, and certificates do not reach them"


def _events(create: str) -> Grant:
    seldom = {"patch": "an Event is sent again", **({"create": create} if create else {})}
    return grant("events.k8s.io", "events", "create patch", "no Event is sent", **seldom)


_HOME = joined(
    (
        *rights_of(kyma.OWN, kyma.USES),
        *rights_of(manifest.OWN, manifest.USES),
        *(each.grant() for each in mandatory.USES),
        *(each.grant() for each in rollout.USES),
        *rights_of(watcher.OWN, watcher.USES),
        grant("", "secrets", "get", _CONTENT),
        LEASES,
        _events(create=""),
    )
)
GATEWAY_GRANTS = tuple(each for each in _HOME if "gateways" in each.rule.resources)
"""In the namespace of the Gateway."""
HOME_GRANTS = tuple(each for each in _HOME if each not in GATEWAY_GRANTS)
"""In the namespace of Kymas."""
ISTIO_GRANTS = joined(
    (
        *(each.grant() for each in (*certificates.USES, *gateway.USES)),
        grant("", "secrets", "get", _CONTENT),
        grant(
            "cert-manager.io",
            "certificates/status",
            "patch",
            "certificates are not renewed after their authority",
            patch="the Gateway has got another authority",
        ),
        _events(create="the Secret of the Gateway, or a certificate, cannot be kept"),
    )
)
"""In the namespace of Istio."""
GRANTS = (
    *joined(
        (
            *(each.grant() for each in kyma.USES_OF_CLUSTER),
            grant("apiextensions.k8s.io", "customresourcedefinitions", "get", "no remote cluster gets the kinds"),
            grant(
                "apiextensions.k8s.io",
                "customresourcedefinitions/status",
                "patch",
                "definitions without former versions are refused",
                patch="a former version is among the stored versions of a definition",
            ),
        )
    ),
    *SECURE_METRICS,
)
"""In the whole cluster."""


def remote_role() -> Sequence[JsonObject]:
    """The role of a login to a remote cluster, besides the rights that the objects of modules need."""
    used = joined(each.grant() for each in (*kyma.REMOTE_USES, *webhook.REMOTE_USES))
    shown = grant("operator.kyma-project.io", "kymas/status", "update patch", "users do not see how their modules are")
    return [grants.cluster_role(REMOTE_ROLE, [each.rule for each in (*used, shown)])]
