"""What a cluster needs before the component-operator starts, and how the local system starts it.

The operator gets all rights, as the original does: Components may contain anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.delivery.installation import Installation
from stellwerk.operators.component import api, rights


def _files() -> Mapping[str, str]:
    return {
        "deploy/rbac/component-operator.yaml": rights.as_yaml(),
        "deploy/rbac/component-operator-cluster-admin.yaml": rights.cluster_admin_as_yaml(),
    }


INSTALLATION = Installation(
    namespace=rights.NAMESPACE,
    account=rights.ACCOUNT,
    lease=api.LEASE_NAME,
    original="component-operator",
    definitions=api.DEFINITIONS,
    grants=(*rights.GRANTS, *rights.LEASES),
    manifests=rights.manifests,
    cluster_admin=rights.cluster_admin,
    local_flags=lambda _: ["--egress-allow-networks=127.0.0.0/8"],
    files=_files,
)
