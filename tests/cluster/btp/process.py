"""The BTP Manager as a process of its own behind a fault proxy, and the module's traces in the cluster."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from stellwerk.api.admission import MutatingWebhookConfiguration, ValidatingWebhookConfiguration
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Secret, Service, ServiceAccount
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding, Role, RoleBinding
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.operators.btp.controllers import IMAGE_VARIABLE
from stellwerk.operators.btp.module import rehearsal
from stellwerk.testing.faults.upstream import Upstream
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.proxied_operator import ProxiedOperator, proxied_operator
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import Run, Selection, difference
from tests.cluster.btp import world
from tests.cluster.btp.given import Given
from tests.cluster.btp.running import IMAGE

NAMESPACE = "kyma-system"

# Everything of these kinds in the module's namespace, whatever its labels: an orphan may have lost them.
NAMESPACED = (ConfigMap, Secret, Service, ServiceAccount, Deployment, Role, RoleBinding, NetworkPolicy)
# Cluster-wide kinds are shared with others, so there the label decides.
CLUSTER_WIDE = (
    ClusterRole,
    ClusterRoleBinding,
    CustomResourceDefinition,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
)
SELECTIONS = (
    *(Selection(kind.resource, NAMESPACE) for kind in NAMESPACED),
    *(Selection(kind.resource, labels=world.OURS) for kind in CLUSTER_WIDE),
    Selection(BtpOperator.resource),
)

FAST = {"RsaKeyBits": "2048", "ProcessingStateRequeueInterval": "1s"}
"""Tunables for tests: small keys, and a retry after a second where the default is half a minute."""

HISTORY = Masks(paths=[("metadata", "annotations", "deployment.kubernetes.io/revision")])
"""How often the Deployment has rolled, which is no difference between two modules."""


@dataclass(frozen=True, slots=True)
class Operator(ProxiedOperator):
    """Also shows its metrics."""

    metrics_url: str


@asynccontextmanager
async def operator(
    cluster: LocalCluster,
    folder: Path,
    *flags: str,
    environment: Mapping[str, str] | None = None,
    nursery: ForkServer | None = None,
) -> AsyncIterator[Operator]:
    """A BTP Manager with its own account's rights, not started yet; `folder` takes its module and its log."""
    metrics, module = free_port(), rehearsal.copy_module(folder / "process-module")
    async with proxied_operator(
        *("btp", f"--metrics-bind-address=127.0.0.1:{metrics}", *rehearsal.flags(module), *flags),
        login=world.operator_kubeconfig(cluster),
        folder=folder,
        nursery=nursery,
        environment={IMAGE_VARIABLE: IMAGE} if environment is None else environment,
    ) as operator:
        yield Operator(operator.process, operator.proxy, f"http://127.0.0.1:{metrics}/metrics")


async def inputs(given: Given) -> None:
    """What is there before a CR: the credentials, and tunables that make the operator quick."""
    await given.required_secret()
    await given.tunables(**FAST)


async def end_state(cluster: LocalCluster, *further: Selection, masks: Masks | None = None) -> Run:
    """All objects of the module and around it as they are now, masked; an administrator reads them."""
    found: list[JsonObject] = []
    async with Upstream(cluster.kubeconfig) as upstream:
        for selection in (*SELECTIONS, *further):
            found += await upstream.objects(selection.resource, selection.namespace, selection.labels)
    for body in found:
        if body["kind"] == "Deployment":
            _forget_replica_sets(body)
    return Run((), (masks or Masks()).objects(found))


def _forget_replica_sets(deployment: JsonObject) -> None:
    """Where Kubernetes has not collected yet what a former Deployment of the name left behind, it counts a collision
    and calls its ReplicaSet otherwise."""
    status = deployment.get("status")
    if isinstance(status, dict):
        status.pop("collisionCount", None)
        listed = status.get("conditions")
        for condition in listed if isinstance(listed, list) else []:
            if isinstance(condition, dict):
                condition["message"] = re.sub(r'(ReplicaSet "[^"]+)-[0-9a-z]+"', r'\1"', str(condition.get("message")))


async def same_end(cluster: LocalCluster, clean: Run, masks: Masks | None = None) -> bool:
    """Whether the cluster is as after a run without faults; AssertionError with the difference where it is not."""
    found = difference(clean, await end_state(cluster, masks=masks))
    assert not found, found
    return True
