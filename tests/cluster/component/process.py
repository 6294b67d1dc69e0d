"""The Component operator as a process of its own behind a fault proxy, and what a Component leaves in the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import OWNER_ID, Component
from stellwerk.testing.faults.upstream import Upstream
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.proxied_operator import ProxiedOperator, proxied_operator
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import Run


@asynccontextmanager
async def operator(
    cluster: LocalCluster,
    folder: Path,
    *flags: str,
    nursery: ForkServer | None = None,
    environment: Mapping[str, str] | None = None,
    login: Path | None = None,
) -> AsyncIterator[ProxiedOperator]:
    """A Component operator, not started yet; `folder` takes its log. `environment`: variables that it sees besides.

    `login`: its kubeconfig; by default that of an administrator.
    """
    flags = ("--metrics-bind-address=0", "--egress-allow-networks=127.0.0.0/8", *flags)
    login = login or cluster.kubeconfig_for("component-operator", ["system:masters"])
    async with proxied_operator(
        "component", *flags, login=login, folder=folder, nursery=nursery, environment=environment
    ) as operator:
        yield operator


async def end_state(cluster: LocalCluster, namespace: str, *further: Resource) -> Run:
    """All objects of the test's namespace and what it owns in the cluster, masked; an administrator reads them."""
    found: list[JsonObject] = []
    async with Upstream(cluster.kubeconfig) as upstream:
        for resource in (ConfigMap.resource, Deployment.resource, Job.resource, Component.resource, *further):
            try:
                found += await upstream.objects(resource, namespace, "")
            except NotFound:
                continue  # a kind that the Component brings
        owned = await upstream.objects(CustomResourceDefinition.resource, "", OWNER_ID)
        found += [body for body in owned if namespace in str(body["metadata"])]
    return Run(
        (), Masks(words={namespace: "NAMESPACE"}).objects([body for body in found if not _is_of_the_cluster(body)])
    )


def _is_of_the_cluster(body: JsonObject) -> bool:
    metadata = body["metadata"]
    return isinstance(metadata, dict) and metadata.get("name") == "kube-root-ca.crt"
