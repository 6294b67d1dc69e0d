"""What the chart renders is accepted by a real API server that enforces the Pod Security Standard `restricted`."""

from __future__ import annotations

import asyncio

import pytest
from tests.cluster.conftest import MakeCluster
from tests.unit.operators import helm_charts

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.testing.eventually import eventually

NAMESPACE = "kyma-system"
"""Of the BTP Manager, which has objects of fixed names there."""

FIRST = ("CustomResourceDefinition", "ServiceAccount", "PriorityClass")


@pytest.mark.req("R-504")
async def test_both_operators_start_under_the_restricted_standard(make_cluster: MakeCluster) -> None:
    cluster = await asyncio.to_thread(make_cluster)
    async with helm_charts.chart() as chart:
        objects = await chart.render(helm_charts.BOTH, NAMESPACE)
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="helm") as client:
        enforced: JsonObject = {"pod-security.kubernetes.io/enforce": "restricted"}
        await client.apply(Namespace, {"metadata": {"name": NAMESPACE, "labels": enforced}})
        for body in sorted(objects.values(), key=lambda each: each["kind"] not in FIRST):
            gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
            await client.apply(unstructured(await client.mapper.resource(gvk)), body, field_validation="Strict")

        async def available() -> bool:
            deployments = (await client.list(Deployment, NAMESPACE)).items
            return len(deployments) == 2 and all(each.status.available_replicas == 2 for each in deployments)

        await eventually(available, within=60, describe="both operators have two pods each")
