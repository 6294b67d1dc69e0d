"""get, status, why, tree and diff know CAPOperators."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.coordination import Lease
from stellwerk.kube.types.model import JsonObject, JsonValue, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.cap_manager.api import LEASE_NAME
from stellwerk.operators.cap_manager.settings import VALUES_VARIABLE
from stellwerk.testing.eventually import eventually
from tests.cluster.cap_manager import charts
from tests.cluster.cap_manager.conftest import Running
from tests.cluster.cap_manager.scene import NAME, Scene
from tests.cluster.program import CommandLine, Ended

Call = Callable[..., Awaitable[Ended]]


@pytest.fixture
def call(manager_cluster: LocalCluster, scene: Scene, command_line: CommandLine) -> Call:
    """Runs the program as administrator, in the test's namespace."""

    async def run(*arguments: str) -> Ended:
        options = ["--kubeconfig", str(manager_cluster.kubeconfig), "-n", scene.namespace]
        return await asyncio.to_thread(command_line.run, [*arguments, *options])

    return run


async def test_a_ready_installation_is_shown_with_its_objects(scene: Scene, running: Running, call: Call) -> None:
    await running.start()
    await scene.asks()
    await scene.shows("Ready")
    listed = await call("get", "capop")
    assert NAME in listed.stdout
    assert "Ready" in listed.stdout
    status = await call("status", f"capop/{NAME}")
    assert status.returncode == 0, status
    tree = await call("tree", f"capop/{NAME}")
    for part in ("controller", "subscription-server", "webhook-tls"):
        assert f"{NAME}-{part}" in tree.stdout
    why = await call("why", f"capop/{NAME}")
    assert why.returncode == 0, why
    traced = await call("trace", f"deployment/{NAME}-controller")
    assert f"CAPOperator {scene.namespace}/{NAME}" in traced.stdout, traced


async def test_why_follows_an_installation_to_the_pod_that_cannot_start(
    scene: Scene, running: Running, call: Call, tmp_path: Path
) -> None:
    charts.write(tmp_path / "chart", fate="pull-error")
    await running.start()
    await scene.asks()
    await scene.shows("Processing", text="Deployment")

    async def is_explained() -> bool:
        why = await call("why", f"capop/{NAME}")
        assert f"Deployment {scene.namespace}/{NAME}-controller" in why.stdout, why
        assert f"Pod {scene.namespace}/{NAME}-controller-" in why.stdout, why
        assert "image" in why.stdout
        return True

    await eventually(is_explained, describe="the pod is named")


async def test_diff_shows_what_another_chart_would_change_and_writes_nothing(
    scene: Scene, running: Running, call: Call, tmp_path: Path
) -> None:
    await running.start()
    await scene.asks()
    await scene.shows("Ready")
    await running.stop()
    same = await call("diff", f"capop/{NAME}", "--path", str(charts.write(tmp_path / "same")))
    assert same.returncode == 0, same
    other = charts.write(tmp_path / "other", version="2")
    told = await call("diff", f"capop/{NAME}", "--path", str(other))
    assert told.returncode == 3, told
    assert f"~ Deployment {scene.namespace}/{NAME}-controller" in told.stdout
    assert "example.com/controller:2" in told.stdout
    containers = (await scene.deployment("controller")).at("spec", "template", "spec", "containers")
    assert "example.com/controller:1" in str(containers)


async def test_diff_of_a_second_capoperator_names_the_one_that_the_cluster_has(
    scene: Scene, call: Call, tmp_path: Path
) -> None:
    await scene.asks()
    await scene.asks(name="second")
    refused = await call("diff", "capop/second", "--path", str(charts.write(tmp_path / "chart")))
    assert refused.returncode not in (0, 3), refused
    assert f"exactly one CAPOperator in the cluster, and {scene.namespace}/{NAME} is the older one" in refused.stderr


async def test_diff_reads_the_values_that_the_manager_inherited_from_its_deployment(scene: Scene, call: Call) -> None:
    """With the chart of the product, without a network policy: the settings of a manager are in its variables."""
    await scene.asks()
    metadata: JsonObject = {"name": LEASE_NAME, "namespace": scene.namespace}
    lease: JsonObject = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
    await scene.client.create(unstructured(Lease.resource), lease)
    before = await call("diff", f"capop/{NAME}", "--image", "example.com/stellwerk:1")
    assert "NetworkPolicy" in before.stdout, before
    env: JsonValue = [{"name": VALUES_VARIABLE, "value": '{"networkPolicy": {"enabled": false}}'}]
    container: JsonObject = {"name": "manager", "image": "example.com/stellwerk:1", "env": env}
    container["command"] = ["stellwerk", "run", "cap-manager"]
    labels: JsonObject = {"a": "b"}
    pod: JsonObject = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    deployment: JsonObject = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "cap-operator-manager", "namespace": scene.namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    await scene.client.create(unstructured(Deployment.resource), deployment)
    after = await call("diff", f"capop/{NAME}", "--image", "example.com/stellwerk:1")
    assert "cap-operator-controller" in after.stdout, after
    assert "NetworkPolicy" not in after.stdout


async def test_a_user_may_request_a_pass_and_sees_that_it_was_made(scene: Scene, running: Running, call: Call) -> None:
    await running.start()
    await scene.asks()
    await scene.shows("Ready")
    asked = await call("reconcile", f"capop/{NAME}")
    assert asked.returncode == 0, asked
