"""What the webhooks may do in a cluster, each right with its purpose.

They read what they decide by, and write their certificate and its authority.
"""

from __future__ import annotations

from stellwerk.api import admission
from stellwerk.delivery import limited_grants
from stellwerk.delivery.grants import SECURE_METRICS, grant, grant_on
from stellwerk.delivery.limited_grants import LimitedGrants
from stellwerk.operators.cap.kinds.status import GROUP
from stellwerk.operators.cap.webhooks.registration import NAME, secret_of
from stellwerk.operators.cap.webhooks.settings import SERVICE, TABLE

ACCOUNT = "cap-operator-webhook"

_TRUST = "API servers do not trust the certificate of the webhooks, and refuse what users write"
_KEPT = "the webhooks have no certificate, or one that their replicas do not share"

GRANTS = (
    grant(
        GROUP,
        "capapplications",
        "get list watch",
        "no CAPApplicationVersion or CAPTenant can be created",
        get="a version or a tenant is created right after its application",
    ),
    grant(GROUP, "captenants", "list watch", "no CAPTenantOutput can be created"),
    grant(
        GROUP,
        "domains clusterdomains",
        "list watch",
        "two domains may have the same host",
    ),
    grant("", "namespaces", "list watch", "it is not known which hosts administrators grant to namespaces"),
    grant_on(
        NAME,
        admission.GROUP,
        "validatingwebhookconfigurations mutatingwebhookconfigurations",
        "get list watch patch",
        _TRUST,
        patch="the authority of the certificate is new",
    ),
    *SECURE_METRICS,
)
HOME_GRANTS = (
    grant("", "secrets", "create", _KEPT, create="there is no certificate yet"),
    grant_on(secret_of(SERVICE), "", "secrets", "get patch", _KEPT, patch="the certificate is renewed"),
)
"""In the namespace of the webhooks."""

_NAMESPACED, _OF_CLUSTER = limited_grants.split(GRANTS)
LIMITED = LimitedGrants(
    limits=lambda words, variables: TABLE.of_process(words, variables).limits,
    watched=_NAMESPACED,
    of_cluster=_OF_CLUSTER,
)
"""If they work on some namespaces only."""
