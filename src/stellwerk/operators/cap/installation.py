"""What a cluster needs before the CAP Operator starts, and how the local system starts it."""

from __future__ import annotations

from stellwerk.delivery.installation import Installation
from stellwerk.operators.cap import names, rights
from stellwerk.operators.cap.api import DEFINITIONS

NAMESPACE = "cap-operator-system"

INSTALLATION = Installation(
    namespace=NAMESPACE,
    account=rights.ACCOUNT,
    lease=names.LEASE_NAME,
    original="cap-operator-controller",
    definitions=DEFINITIONS,
    grants=rights.GRANTS,
    home_grants=rights.HOME_GRANTS,
    name_of_roles="cap-operator",
    # One process runs there, and the Lease of one that was killed would delay the next one by 15 seconds.
    local_flags=lambda _: ["--leader-elect=false"],
)
