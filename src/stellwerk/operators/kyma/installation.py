"""What a cluster needs before the lifecycle manager starts, and how the local system starts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import yaml

from stellwerk.delivery.installation import GrantsIn, Installation, Port
from stellwerk.operators.kyma import admission, labels, rights
from stellwerk.operators.kyma.api import DEFINITIONS
from stellwerk.operators.kyma.settings import Settings
from stellwerk.runtime.access.permission_check import Rights
from stellwerk.runtime.process.process import OperatorIdentity

_LISTENER = Port(name="listener", flag="kyma-skr-listener-bind-address", number=8082)


def _local_flags(_: Path) -> Sequence[str]:
    """Modules come from files of this machine; no remote cluster could report to it."""
    return [
        *("--leader-elect=false", "--log-level=1", "--disable-watcher"),
        *("--without-registry", "--raw-manifest-links=file", "--egress-allow-networks=127.0.0.0/8"),
    ]


def _files() -> Mapping[str, str]:
    return {
        "deploy/rbac/kyma-remote-cluster.yaml": yaml.safe_dump_all(rights.remote_role(), sort_keys=False),
        admission.FILE: yaml.safe_dump_all(admission.objects(), sort_keys=False, width=1_000),
    }


INSTALLATION = Installation(
    namespace=labels.KCP_NAMESPACE,
    account=rights.ACCOUNT,
    lease=labels.LEASE_NAME,
    original="klm-controller-manager",
    definitions=DEFINITIONS,
    grants=rights.GRANTS,
    grants_in=(
        GrantsIn(role=labels.KCP_NAMESPACE, namespace=labels.KCP_NAMESPACE, grants=rights.HOME_GRANTS),
        GrantsIn(
            role="gateway",
            namespace=labels.KCP_NAMESPACE,
            setting="istio_gateway_namespace",
            grants=rights.GATEWAY_GRANTS,
        ),
        GrantsIn(
            role="certificates",
            namespace=labels.ISTIO_NAMESPACE,
            setting="istio_namespace",
            grants=rights.ISTIO_GRANTS,
        ),
    ),
    name_of_roles="kyma-lifecycle-manager",
    ports=(_LISTENER,),
    local_flags=_local_flags,
    files=_files,
)


def identity(settings: Settings) -> OperatorIdentity:
    """The identity of a process with these settings."""
    needs = INSTALLATION.placed(partial(getattr, settings)).needs()
    own = INSTALLATION.identity()
    return replace(
        own, rights=Rights(needs, "stellwerk install kyma"), component=labels.OPERATOR_NAME, terms=settings.terms
    )
