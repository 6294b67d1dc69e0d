"""What a cluster needs before the component-operator starts, and how the local system starts it.

The operator gets all rights, as the original does: Components may contain anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from stellwerk.delivery.installation import Installation
from stellwerk.operators.component import api, rights


def _files() -> Mapping[str, str]:
    return {
        "deploy/rbac/component-operator.yaml": yaml.safe_dump_all(rights.manifests(), sort_keys=False),
        "deploy/rbac/component-operator-cluster-admin.yaml": yaml.safe_dump_all(
            rights.cluster_admin(), sort_keys=False
        ),
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
