"""Pods of the chart, run from the file system of the image exactly as their specs say, against a real API server.

A right, variable, argument or file that is missing in the chart fails the test: each operator becomes ready with the
token of its own account, and brings an object of a user to Ready. Pods run one after the other, because all of them
listen on the same ports of the machine.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml
from tests.image import pods
from tests.image.container import Runtime
from tests.kubectl import kubectl
from tests.unit.operators import helm_charts

from stellwerk import assembly
from stellwerk.kube.types.model import JsonObject, Unstructured, dig
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.local.host.ports import HOST
from stellwerk.testing import cluster as clusters
from stellwerk.testing.processes.operator_process import OperatorProcess

SAMPLES = Path(__file__).parents[2] / "samples"
PORTS = (8080, 8081)
FIRST = ("CustomResourceDefinition", "ServiceAccount", "PriorityClass")
_ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: deployer, namespace: stellwerk-sample}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: deployer, namespace: stellwerk-sample}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: admin}
subjects: [{kind: ServiceAccount, name: deployer, namespace: stellwerk-sample}]
"""


@dataclass(frozen=True, slots=True)
class Release:
    """A release: its values and namespace, and which samples become Ready under each Deployment."""

    values: JsonObject
    namespace: str
    samples: Mapping[str, str] = field(default_factory=dict)
    before: str = ""


RELEASES = {
    "all operators as the originals": Release(
        {**helm_charts.ALL, "componentOperator": {"enabled": True, "rbac": {"clusterAdmin": True}}},
        "kyma-system",
        {"btp-manager-controller-manager": "btp", "component-operator": "component", "cap-operator-controller": "cap"},
    ),
    "strict tenancy with the least rights": Release(
        {
            "componentOperator": {
                "enabled": True,
                "fullnameOverride": "deployer-of-all",
                "options": {
                    "tenancy": "strict",
                    "noCrossNamespaceRefs": True,
                    "defaultServiceAccount": "deployer",
                    "maxConcurrentReconciles": 2,
                },
            },
            "monitoring": {"secure": True},
            "log": {"level": "debug", "format": "console"},
        },
        "deploying",
        {"deployer-of-all": "component"},
        _ACCOUNT,
    ),
    "the CAP Operator with settings of the original's chart": Release(
        {
            "capOperator": {
                "enabled": True,
                "controller": {"detailedOperationalMetrics": True, "maxConcurrentReconciles": {"capTenant": "5"}},
                "webhook": {"replicas": 2},
            },
            "extraEnv": [{"name": "TZ", "value": "UTC"}],
        },
        "cap-operator-system",
        {"cap-operator-controller": "cap"},
    ),
}


@pytest.fixture
def own_cluster() -> Iterator[LocalCluster]:
    """A cluster for one release: its webhooks must not be in the way of others."""
    made = clusters.started(f"chart-{secrets.token_hex(4)}", Options(durable=False))
    yield made
    made.down()


@pytest.mark.req("R-504")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("release", RELEASES.values(), ids=RELEASES)
async def test_each_pod_of_a_release_becomes_ready_and_does_its_work(
    own_cluster: LocalCluster, runtime: Runtime, tmp_path: Path, release: Release
) -> None:
    if busy := [port for port in PORTS if _is_busy(port)]:
        pytest.skip(f"another program listens on the ports of the pods: {busy}")
    async with helm_charts.chart() as chart:
        objects = await chart.render(release.values, release.namespace)
    kubectl(own_cluster.kubeconfig, "create", "namespace", release.namespace)
    _apply(own_cluster, _without_webhooks(objects.values()))

    deployments = [body for (kind, _), body in objects.items() if kind == "Deployment"]
    assert deployments
    for deployment in deployments:
        pod = pods.of_deployment(
            deployment, own_cluster, tmp_path / str(dig(deployment, "metadata", "name")) / "account"
        )
        async with _running(pod, runtime, tmp_path / pod.name / "container"):
            if pod.name in release.samples:
                await asyncio.to_thread(_reconcile, own_cluster, release.samples[pod.name], release.before)


def _is_busy(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex((HOST, port)) == 0


def _without_webhooks(bodies: Iterable[JsonObject]) -> list[JsonObject]:
    """All objects but the registrations of webhooks: no Service of this machine leads to a pod."""
    kept = [body for body in bodies if not str(body["kind"]).endswith("WebhookConfiguration")]
    return sorted(kept, key=lambda body: body["kind"] not in FIRST)


def _apply(cluster: LocalCluster, bodies: list[JsonObject]) -> None:
    kubectl(cluster.kubeconfig, "apply", "--server-side", "-f", "-", stdin=pods.listed(bodies))


@asynccontextmanager
async def _running(pod: pods.PodProcess, runtime: Runtime, folder: Path) -> AsyncIterator[None]:
    """The pod while it runs, from when its kubelet would send requests to it."""
    with runtime.command(pod.container, folder) as command:
        log = folder.parent / "log"
        async with OperatorProcess(command, log=log, health_url=pod.ready_url) as process:
            await process.start()
            yield
            await process.terminate()
        process.assert_clean_log()


def _reconcile(cluster: LocalCluster, folder: str, before: str) -> None:
    """Apply samples, and wait until those of our kinds are Ready, but for the ones that show what is missing."""
    kinds = {kind.resource.kind for spec in assembly.OPERATORS.values() for kind in spec.kinds}
    bodies: list[JsonObject] = []
    for file in sorted((SAMPLES / folder).glob("*.yaml")):
        bodies += [body for body in yaml.safe_load_all(file.read_text()) if body]
    _apply(cluster, [body for body in bodies if body["kind"] == "Namespace"])
    if before:
        _apply(cluster, [*yaml.safe_load_all(before)])
    _apply(cluster, bodies)
    waited = 0
    for body in bodies:
        sample = Unstructured.of(body)
        if body["kind"] in kinds and sample.metadata.labels.get("stellwerk.local/sample") != "waiting":
            ready = ("wait", "--for=condition=Ready", "--timeout=50s", "-n", sample.metadata.namespace)
            kubectl(cluster.kubeconfig, *ready, f"{body['kind']}/{sample.metadata.name}")
            waited += 1
    assert waited
