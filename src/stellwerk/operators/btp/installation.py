"""What a cluster needs before the BTP Manager starts, and how the local system starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stellwerk.delivery.installation import Installation
from stellwerk.kube.schema.crd import to_yaml
from stellwerk.operators.btp import api, rights
from stellwerk.operators.btp.module import operand, rehearsal

DEMO_IMAGE = "stellwerk.local/sap-btp-service-operator:demo"
"""The local system simulates pods, so nothing pulls this image."""


def _local_flags(folder: Path) -> Sequence[str]:
    return rehearsal.flags(rehearsal.copy_module(folder / rehearsal.FOLDER))


def _files() -> Mapping[str, str]:
    kinds = (operand.SERVICE_BINDINGS, operand.SERVICE_INSTANCES)
    return {
        "src/stellwerk/operators/btp/data/module-resources/apply/crds.yml": "---\n".join(
            to_yaml(kind.body()) for kind in kinds
        ),
        "deploy/rbac/btp-manager.yaml": rights.as_yaml(),
    }


INSTALLATION = Installation(
    namespace=api.STANDARD_NAMESPACE,
    account=rights.ACCOUNT,
    lease=api.LEASE_NAME,
    original="btp-manager-controller-manager",
    definitions=(api.DEFINITION,),
    grants=rights.GRANTS,
    manifests=rights.manifests,
    local_flags=_local_flags,
    local_environment={"SAP_BTP_SERVICE_OPERATOR": DEMO_IMAGE},
    files=_files,
)
