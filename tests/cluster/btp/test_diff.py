"""`stellwerk diff` tells what the BTP Manager would change, before it does, and writes nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path

import pytest

from stellwerk.api.core import ConfigMap, Secret, ServiceAccount
from stellwerk.api.networking import NetworkPolicy
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from tests.cluster.btp.beginnings import ready
from tests.cluster.btp.charts import ModuleChart
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.running import IMAGE, Running
from tests.cluster.btp.test_takeover import the_original_was_here
from tests.cluster.btp.then import Then
from tests.cluster.program import CommandLine, Ended

Diff = Callable[..., Coroutine[None, None, Ended]]
MODULE = "btp/btpoperator"
CONFIG = "sap-btp-operator-config"


@pytest.fixture
def diff(btp_cluster: LocalCluster, module: Module, command_line: CommandLine) -> Diff:
    """Runs the verb as administrator, with the test's own module."""

    async def run(*arguments: str) -> Ended:
        options = ["--path", str(module.root), "--kubeconfig", str(btp_cluster.kubeconfig), "-n", "kyma-system"]
        return await asyncio.to_thread(command_line.run, ["diff", *options, *arguments])

    return run


def marked(ended: Ended) -> list[str]:
    """The lines that name an object, less the notes."""
    return [line.split("   ")[0] for line in ended.stdout.splitlines() if line[0] in "~+-!"]


@pytest.mark.req("R-801")
async def test_it_tells_what_others_changed_and_what_is_missing_and_shows_no_value_of_a_secret(
    running: Running, given: Given, then: Then, diff: Diff
) -> None:
    await ready(running, given, then)
    await running.stop()
    same = await diff(MODULE)
    assert same.returncode == 0, same
    assert same.stdout.startswith("nothing differs, "), same

    edit = MergePatch({"data": {"CLUSTER_ID": "mine"}})
    await given.client.patch(ConfigMap, CONFIG, "kyma-system", edit, field_manager="kubectl-edit")
    await given.required_secret(clientsecret="canary-clientsecret-other")
    await given.client.delete(ServiceAccount, "sap-btp-operator", "kyma-system")
    await given.client.delete(Secret, "webhook-server-cert", "kyma-system")

    told = await diff(MODULE)
    assert told.returncode == 3, told
    assert sorted(marked(told)) == [
        "+ Secret kyma-system/webhook-server-cert",
        "+ ServiceAccount kyma-system/sap-btp-operator",
        "~ ConfigMap kyma-system/sap-btp-operator-config",
        "~ Deployment kyma-system/sap-btp-operator-controller-manager",
        "~ Secret kyma-system/sap-btp-service-operator",
    ]
    lines = told.stdout.splitlines()
    assert any(" data.CLUSTER_ID: mine -> cluster-one " in line and "kubectl-edit" in line for line in lines)
    assert "    data.clientsecret: *** -> ***" in lines
    assert "canary" not in told.stdout + told.stderr
    assert (await given.client.get(ConfigMap, CONFIG, "kyma-system")).data["CLUSTER_ID"] == "mine"
    await then.absent(ServiceAccount, "sap-btp-operator")


async def test_it_tells_before_an_upgrade_what_the_upgrade_then_does(
    running: Running, given: Given, then: Then, module: Module, diff: Diff
) -> None:
    await ready(running, given, then)
    await running.stop()
    await given.client.create(ConfigMap, {"metadata": {"name": "relic", "namespace": "kyma-system"}})
    module.set_version("9.9.9")
    module.rename(ServiceAccount.resource, "sap-btp-operator", into="sap-btp-operator-two")
    module.list_for_deletion("v1", "ConfigMap", "relic")

    told = await diff(MODULE, "--image", "example.com/operand:9.9.9")
    assert told.returncode == 3, told
    lines = told.stdout.splitlines()
    assert "+ ServiceAccount kyma-system/sap-btp-operator-two" in marked(told)
    gone = [line for line in lines if line[0] == "-"]
    assert [" ".join(line.split()) for line in sorted(gone)] == [
        "- ConfigMap kyma-system/relic (will be deleted: an older version had it)",
        "- ServiceAccount kyma-system/sap-btp-operator (will be deleted: version 9.9.9 does not have it)",
    ]
    image = f"{IMAGE} -> example.com/operand:9.9.9"
    assert f"    spec.template.spec.containers[name=manager].image: {image}" in lines
    assert '    data.currentChartVersion: v0.11.10 -> "9.9.9"' in lines

    await running.start()
    await then.disappears(unstructured(ServiceAccount.resource), "sap-btp-operator")
    await then.disappears(unstructured(ConfigMap.resource), "relic")
    await running.is_idle()
    after = await diff(MODULE)
    assert (after.returncode, after.stdout.split(",")[0]) == (0, "nothing differs"), after


async def test_a_chart_is_compared_with_the_module_that_came_from_folders(
    running: Running, given: Given, then: Then, module: Module, diff: Diff
) -> None:
    await ready(running, given, then)
    await running.stop()
    chart = ModuleChart.of(module)
    same = await diff(MODULE, "--path", str(module.chart))
    assert (same.returncode, same.stdout.split(",")[0]) == (0, "nothing differs"), same
    chart.override(manager={"replicas": 2})
    told = await diff(MODULE, "--path", str(module.chart))
    assert told.returncode == 3, told
    assert marked(told) == ["~ Deployment kyma-system/sap-btp-operator-controller-manager"]
    assert "    spec.replicas: 1 -> 2" in told.stdout.splitlines()


@pytest.mark.req("R-306")
async def test_before_a_takeover_it_tells_that_no_pod_will_restart_and_nothing_will_go(
    given: Given, module: Module, diff: Diff
) -> None:
    await given.required_secret()
    await the_original_was_here(given, module)
    await given.btp_operator()
    told = await diff(MODULE)
    assert told.returncode == 3, told
    assert {line[0] for line in marked(told)} == {"~", "+"}, told
    assert all(kind in ("NetworkPolicy", "Secret", "ConfigMap") for kind in added(told)), told
    assert "spec.template" not in told.stdout, told


def added(ended: Ended) -> list[str]:
    """The kinds of what would be created."""
    return [line.split()[1] for line in marked(ended) if line[0] == "+"]


async def test_a_cr_that_is_not_there_yet_is_compared_from_its_file(
    given: Given, then: Then, diff: Diff, tmp_path: Path
) -> None:
    file = tmp_path / "cr.yaml"
    metadata = {
        "name": "btpoperator",
        "annotations": {"operator.kyma-project.io/btp-operator-disable-network-policies": "true"},
    }
    body = {"apiVersion": BtpOperator.resource.api_version, "kind": "BtpOperator", "metadata": metadata}
    file.write_text(json.dumps(body))

    nothing = await diff("-f", str(file))
    assert nothing.returncode == 1
    assert "Cause:   sap-btp-manager Secret in kyma-system namespace not found" in nothing.stderr

    await given.required_secret()
    unknown = await diff("-f", str(file))
    assert unknown.returncode == 1
    assert "--image" in unknown.stderr

    told = await diff("-f", str(file), "--image", "example.com/operand:1")
    assert told.returncode == 3, told
    assert {line[0] for line in marked(told)} == {"+"}, told
    assert "+ Deployment kyma-system/sap-btp-operator-controller-manager" in marked(told)
    assert not any("NetworkPolicy" in line for line in marked(told))
    await then.absent(NetworkPolicy, "kyma-project.io--btp-operator-to-dns")


async def test_who_does_not_lead_is_told_who_does(given: Given, diff: Diff) -> None:
    await given.required_secret()
    await given.btp_operator()
    namespace = await given.a_namespace("elsewhere")
    await given.btp_operator("second", namespace)
    told = await diff(f"btp/{namespace}/second")
    assert told.returncode == 1
    assert "the module belongs to BtpOperator kyma-system/btpoperator" in told.stderr


async def test_a_folder_without_a_module_is_refused_by_name(given: Given, diff: Diff, tmp_path: Path) -> None:
    await given.required_secret()
    await given.btp_operator()
    (tmp_path / "empty").mkdir()
    told = await diff(MODULE, "--path", str(tmp_path / "empty"))
    assert told.returncode == 1
    assert f"{tmp_path}/empty: holds neither ./module-resources, ./module-chart/chart nor a chart" in told.stderr
    assert "--path" in told.stderr
