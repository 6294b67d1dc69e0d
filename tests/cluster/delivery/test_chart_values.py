"""Every set of values gives objects and pods that a real API server takes with the strictest validation.

The namespace enforces the Pod Security Standard `restricted`. A Deployment is not refused by it, so a pod of each
template is sent as well. Kinds of the Prometheus operator and of cert-manager are not served here; their objects are
left out.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import MATRIX, Chart

from stellwerk.api.core import Namespace, Pod, ServiceAccount
from stellwerk.kube.client.client import Client
from stellwerk.kube.http import warnings
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Forbidden
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, dig, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing import cluster as clusters
from stellwerk.testing.eventually import eventually

NOT_SERVED = (
    "monitoring.coreos.com",
    "cert-manager.io",
    "cert.gardener.cloud",
    "dns.gardener.cloud",
    "networking.istio.io",
)
"""Groups of other projects; `tests/cluster/cap/test_chart.py` has their definitions."""
WITH_KINDS = ("all operators", "definitions go", "common labels")
"""The sets with which definitions are sent: they are large, and other values do not change them."""
OF_THE_ORIGINAL = 'unrecognized format "double"'
"""About the threshold of a CAPApplicationVersion's deletion rule, whose schema is that of the original."""
ENFORCED: JsonObject = {"pod-security.kubernetes.io/enforce": "restricted"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="helm") as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def guarded(cluster: LocalCluster, client: Client) -> AsyncIterator[str]:
    """A namespace in which the API server refuses pods that are not restricted. Service accounts gather in it."""
    namespace = clusters.create_namespace(cluster)
    for name, labels in ((namespace, ENFORCED), ("kyma-system", {}), ("istio-system", {}), ("kcp-system", {})):
        await client.apply(Namespace, {"metadata": {"name": name, "labels": labels}})

    async def refuses() -> bool:
        try:
            await client.apply(Pod, careless(namespace), dry_run=True)
        except Forbidden:
            return True
        return False

    await eventually(refuses, describe="the API server knows the label of the namespace")
    yield namespace
    clusters.leave_namespace(cluster, namespace)


def careless(namespace: str) -> JsonObject:
    container: JsonObject = {"name": "main", "image": "example.com/main:1", "securityContext": {"privileged": True}}
    return {"metadata": {"name": "careless", "namespace": namespace}, "spec": {"containers": [container]}}


def test_there_are_at_least_forty_sets_of_values() -> None:
    assert len(MATRIX) >= 40


@pytest.fixture(scope="module")
def accepted() -> set[str]:
    """Objects that were sent, as text: most of them are the same with all values."""
    return set()


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.req("R-504")
@pytest.mark.parametrize("name", MATRIX)
async def test_all_objects_and_pods_are_accepted_without_a_warning(
    client: Client, chart: Chart, guarded: str, accepted: set[str], name: str
) -> None:
    without: JsonObject = {} if name in WITH_KINDS else {"crds": {"install": False}}
    objects = await chart.render({**without, **MATRIX[name]}, guarded)
    accounts = [body for (kind, _), body in objects.items() if kind == "ServiceAccount"]
    for body in accounts:
        if dig(body, "metadata", "namespace") == guarded:
            await client.apply(metadata_of(ServiceAccount), body)  # pods of a dry run need it
    used = [dig(body, "spec", "template", "spec", "serviceAccountName") for body in objects.values()]
    for account in {str(name) for name in used if name} - {name for kind, name in objects if kind == "ServiceAccount"}:
        await client.apply(ServiceAccount, {"metadata": {"name": account, "namespace": guarded}})  # exists already
    with warnings.Listening() as heard:
        for body in objects.values():
            gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
            if gvk.group in NOT_SERVED or (text := json.dumps(body)) in accepted:
                continue
            target = unstructured(await client.mapper.resource(gvk))
            await client.apply(target, placed(body, guarded), dry_run=True, field_validation="Strict")
            if gvk.kind == "Deployment":
                await client.apply(Pod, pod_of(body), dry_run=True, field_validation="Strict")
            accepted.add(text)
    assert [text for text in heard if text != OF_THE_ORIGINAL] == []


def placed(body: JsonObject, namespace: str) -> JsonObject:
    """The object with a namespace, as Helm sends it. Only kinds without namespaces have none otherwise."""
    metadata = body["metadata"]
    if body["kind"] != "ConfigMap" or not isinstance(metadata, dict) or "namespace" in metadata:
        return body
    return {**body, "metadata": {**metadata, "namespace": namespace}}


def pod_of(deployment: JsonObject) -> JsonObject:
    """A pod as the controller would create it."""
    template, metadata = dig(deployment, "spec", "template"), dig(deployment, "metadata")
    assert isinstance(template, dict)
    assert isinstance(metadata, dict)
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": dig(template, "metadata", "labels"),
        },
        "spec": template["spec"],
    }
