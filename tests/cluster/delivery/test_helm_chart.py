"""What the chart renders is accepted by a real API server that enforces the Pod Security Standard `restricted`.

Its test is a pod; here its command runs as a process, with a token of the account that the chart creates for it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.cluster.conftest import MakeCluster
from tests.kubectl import kubectl, tried
from tests.unit.operators import helm_charts

from stellwerk.api.apps import Deployment
from stellwerk.api.core import Namespace
from stellwerk.assembly import OPERATORS
from stellwerk.delivery import helm_chart
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, dig, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.certificates import certs
from stellwerk.testing.eventually import eventually

NAMESPACE = "kyma-system"
"""Of the BTP Manager, which has objects of fixed names there."""

FIRST = ("CustomResourceDefinition", "ServiceAccount", "PriorityClass")
RENAMED: JsonObject = {
    **helm_charts.ALL,
    "fullnameOverride": "core",
    "componentOperator": {
        **helm_charts.COMPONENT,
        "fullnameOverride": "deployer",
        "serviceAccount": {"name": "deploying"},
    },
}


@pytest.mark.req("R-504")
async def test_all_operators_start_under_the_restricted_standard(make_cluster: MakeCluster) -> None:
    cluster = await asyncio.to_thread(make_cluster)
    async with helm_charts.chart() as chart:
        objects = await chart.render(helm_charts.ALL, NAMESPACE)
    enabled = [spec for spec in OPERATORS.values() if dig(helm_charts.ALL, helm_chart.key(spec), "enabled")]
    deployments = [name for kind, name in objects if kind == "Deployment"]
    assert len(deployments) == sum(len(spec.processes) for spec in enabled)
    await started(cluster, objects)


@pytest.mark.req("R-504")
async def test_the_test_of_the_chart_passes_with_the_rights_of_its_pod_and_fails_where_a_part_is_gone(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = await asyncio.to_thread(make_cluster)
    async with helm_charts.chart(with_tests_as_objects(tmp_path / "chart")) as chart:
        objects = await chart.render(RENAMED, NAMESPACE)
    await started(cluster, objects)
    pod = objects["Pod", "core-check"]
    kubeconfig = account_of(cluster, pod, tmp_path / "kubeconfig")

    done = outcome_of(pod, kubeconfig)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "ValidatingWebhookConfiguration cap-operator has no caBundle" in done.stdout
    trust_webhooks(cluster, objects)
    done = outcome_of(pod, kubeconfig)
    assert done.returncode == 0, done.stdout + done.stderr
    for (kind, name), body in objects.items():
        replicas = dig(body, "spec", "replicas")
        if kind == "Deployment":
            assert f"Deployment {NAMESPACE}/{name}: {replicas} of {replicas} replicas available" in done.stdout
    forbidden = tried(kubeconfig, "get", "secrets", "-n", NAMESPACE)
    assert "forbidden" in forbidden.stderr

    kubectl(cluster.kubeconfig, "delete", "clusterrole", "deployer-dependents")
    done = outcome_of(pod, kubeconfig)
    assert done.returncode == 3, done.stdout + done.stderr
    assert "not there: ClusterRole deployer-dependents" in done.stdout
    kubectl(cluster.kubeconfig, "delete", "crd", "components.core.cs.sap.com")
    assert outcome_of(pod, kubeconfig).returncode == 1


async def test_without_roles_of_the_chart_its_test_needs_roles_for_its_account_alone_and_names_them(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = await asyncio.to_thread(make_cluster)
    async with helm_charts.chart(with_tests_as_objects(tmp_path / "chart")) as chart:
        values: JsonObject = {"componentOperator": helm_charts.COMPONENT}
        objects = await chart.render({**values, "rbac": {"create": False}}, NAMESPACE)
        rendered = (await chart.render(values, NAMESPACE)).items()
    roles = {key: needed(body) for key, body in rendered if key not in objects and key[1] == "stellwerk-check"}
    assert {kind for kind, _ in roles} == {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}
    await started(cluster, objects)
    pod = objects["Pod", "stellwerk-check"]
    kubeconfig = account_of(cluster, pod, tmp_path / "kubeconfig")

    done = outcome_of(pod, kubeconfig)
    assert done.returncode != 0, done.stdout + done.stderr
    assert "you may not read customresourcedefinitions in all namespaces" in done.stdout

    await started(cluster, {**objects, **roles})
    done = outcome_of(pod, kubeconfig)
    assert done.returncode == 0, done.stdout + done.stderr


def needed(role: JsonObject) -> JsonObject:
    """What the account of the test needs of a role where the chart creates none; a binding stays as it is."""
    rules = role.get("rules")
    if not isinstance(rules, list):
        return role
    judged = [
        ["namespaces"],
        ["serviceaccounts"],
        ["clusterroles"],
        ["clusterrolebindings"],
        ["roles"],
        ["rolebindings"],
    ]
    return {**role, "rules": [rule for rule in rules if dig(rule, "resources") not in judged]}


async def test_the_test_of_the_chart_passes_without_webhooks(make_cluster: MakeCluster, tmp_path: Path) -> None:
    cluster = await asyncio.to_thread(make_cluster)
    async with helm_charts.chart(with_tests_as_objects(tmp_path / "chart")) as chart:
        objects = await chart.render({"capOperator": helm_charts.CAP, "webhooks": {"enabled": False}}, NAMESPACE)
    await started(cluster, objects)
    pod = objects["Pod", "stellwerk-check"]

    done = outcome_of(pod, account_of(cluster, pod, tmp_path / "kubeconfig"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "cap-operator-subscription-server: 1 of 1 replicas available" in done.stdout
    assert "webhook" not in done.stdout


async def started(cluster: LocalCluster, objects: helm_charts.Objects) -> None:
    """Apply the objects in a namespace that enforces `restricted`, and wait until all processes have their pods."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="helm") as client:
        enforced: JsonObject = {"pod-security.kubernetes.io/enforce": "restricted"}
        await client.apply(Namespace, {"metadata": {"name": NAMESPACE, "labels": enforced}})
        for name in ("kcp-system", "istio-system"):  # where the Kyma Lifecycle Manager has Roles
            await client.apply(Namespace, {"metadata": {"name": name}})
        for body in sorted(objects.values(), key=lambda each: each["kind"] not in FIRST):
            gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
            await client.apply(unstructured(await client.mapper.resource(gvk)), body, field_validation="Strict")

        wanted = {name: dig(body, "spec", "replicas") for (kind, name), body in objects.items() if kind == "Deployment"}
        assert wanted

        async def all_run() -> bool:
            deployments = (await client.list(Deployment, NAMESPACE)).items
            return {each.metadata.name: each.status.available_replicas for each in deployments} == wanted

        await eventually(all_run, within=60, describe="all processes have the pods that the values ask for")


def trust_webhooks(cluster: LocalCluster, objects: helm_charts.Objects) -> None:
    """What the webhook server does once it runs: write its authority into the configurations."""
    wish = certs.Wish(common_name="it", names=["it"], lifetime=timedelta(days=365), now=datetime.now(UTC))
    bundle = base64.b64encode(certs.new_authority(wish).certificate).decode()
    for (kind, name), body in objects.items():
        if kind.endswith("WebhookConfiguration"):
            webhooks = body["webhooks"]
            assert isinstance(webhooks, list)
            paths = [f"/webhooks/{number}/clientConfig/caBundle" for number in range(len(webhooks))]
            patch = json.dumps([{"op": "add", "path": path, "value": bundle} for path in paths])
            kubectl(cluster.kubeconfig, "patch", kind.lower(), name, "--type=json", f"-p={patch}")


def with_tests_as_objects(folder: Path) -> Path:
    """The chart, with its test as objects of the release: the renderer leaves tests out."""
    helm_charts.write_chart(folder, OPERATORS.values())
    template = folder / "templates" / "tests.yaml"
    text = template.read_text()
    assert "helm.sh/hook" in text
    template.write_text(text.replace("helm.sh/hook", "outside.test/hook"))
    return folder


def account_of(cluster: LocalCluster, pod: JsonObject, kubeconfig: Path) -> Path:
    """A kubeconfig with a token of the account that the pod runs as."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    name = str(dig(pod, "spec", "serviceAccountName"))
    token = kubectl(cluster.kubeconfig, "create", "token", "-n", NAMESPACE, name)
    config["users"][0]["user"] = {"token": token}
    config["contexts"][0]["context"]["namespace"] = NAMESPACE
    kubeconfig.write_text(yaml.safe_dump(config))
    return kubeconfig


def outcome_of(pod: JsonObject, kubeconfig: Path) -> subprocess.CompletedProcess[str]:
    """What the command of the pod comes to, run as a process."""
    containers = dig(pod, "spec", "containers")
    assert isinstance(containers, list)
    command, arguments = dig(containers[0], "command"), dig(containers[0], "args")
    assert isinstance(command, list)
    assert isinstance(arguments, list)
    assert command[0] == "stellwerk"
    return subprocess.run(
        [sys.executable, "-m", "stellwerk.cli.main", *map(str, [*command[1:], *arguments])],
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "PYTHONUTF8": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
