"""What a cluster needs before the CAP Operator starts, and how the local system starts it."""

from __future__ import annotations

from stellwerk.delivery import limited_grants
from stellwerk.delivery.installation import Installation
from stellwerk.delivery.limited_grants import LimitedGrants
from stellwerk.operators.cap import names, rights
from stellwerk.operators.cap.api import DEFINITIONS
from stellwerk.operators.cap.domain import rights as domain
from stellwerk.operators.cap.settings import TABLE

_NAMESPACED, _OF_CLUSTER = limited_grants.split(rights.GRANTS)
_LIMITED = LimitedGrants(
    limits=lambda words, variables: TABLE.of_process(words, variables).limits,
    watched=tuple(each for each in _NAMESPACED if each not in domain.IN_INGRESS_ONLY),
    of_cluster=_OF_CLUSTER,
    ingress=domain.IN_INGRESS,
    home=domain.AT_HOME,
    ingress_setting="ingress_namespaces",
)

NAMESPACE = "cap-operator-system"

INSTALLATION = Installation(
    namespace=NAMESPACE,
    account=rights.ACCOUNT,
    lease=names.LEASE_NAME,
    original="cap-operator-controller",
    definitions=DEFINITIONS,
    grants=rights.GRANTS,
    home_grants=rights.HOME_GRANTS,
    limited=_LIMITED,
    name_of_roles="cap-operator",
    # One process runs there, and the Lease of one that was killed would delay the next one by 15 seconds.
    local_flags=lambda _: ["--leader-elect=false"],
)
