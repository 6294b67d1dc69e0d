"""The module comes from a Helm chart: installed, checked after a start, replaced by the next version, put right."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.core import ConfigMap, Pod, Secret, Service
from stellwerk.api.events import Event
from stellwerk.api.networking import NetworkPolicy
from stellwerk.api.rbac import ClusterRole, ClusterRoleBinding
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.checks.secret_leak_scan import Canary
from stellwerk.testing.cluster import AuditLog
from tests.cluster import permissions
from tests.cluster.btp import priority_class
from tests.cluster.btp.charts import ModuleChart
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.process import inputs, operator
from tests.cluster.btp.running import Running
from tests.cluster.btp.test_requests import ours, table
from tests.cluster.btp.test_resources import CONFIG_MAPS, DEPLOYMENTS, OPERAND, POLICIES, SERVICES
from tests.cluster.btp.then import Then
from tests.cluster.btp.world import ACCOUNT, OURS

SERVICE = "sap-btp-operator-webhook-service"
METRICS_SERVICE = "sap-btp-operator-controller-manager-metrics-service"
RECORD = "btp-manager-versions"
EXTRA = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: '{value}'}}\n"
BUDGET = """apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: extra}
spec: {selector: {matchLabels: {a: b}}}
"""
BUDGETS = unstructured(Resource("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", True))
ROLES, BINDINGS = unstructured(ClusterRole.resource), unstructured(ClusterRoleBinding.resource)
JOBS = unstructured(Resource("batch", "v1", "Job", "jobs", True))


@pytest.fixture
def chart(running: Running) -> ModuleChart:
    """The chart that the operator is pointed at."""
    return ModuleChart.of(running.module)


async def ready(running: Running, given: Given, then: Then, **tunables: str) -> None:
    await given.required_secret()
    await running.start(ModuleSource="chart", **tunables)
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded", saying=["Reconcile succeeded"])
    await running.is_idle()  # or a pass that is still under way meets half of what the test does next


async def record(client: Client) -> JsonObject:
    found = await client.get(CONFIG_MAPS, RECORD, "kyma-system")
    data = found.at("data")
    assert isinstance(data, dict)
    return data


async def versions_of_all(client: Client) -> dict[str, str]:
    """The resource versions of the module's objects."""
    found: dict[str, str] = {}
    for kind in (ConfigMap, Deployment, Service, NetworkPolicy, Secret):
        listed = await client.list(metadata_of(kind), "kyma-system", labels=OURS)
        found |= {f"{kind.resource.kind} {one.metadata.name}": one.metadata.resource_version for one in listed.items}
    return found


async def test_a_module_is_installed_from_a_chart_with_its_values(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    chart.write("extra.yaml", EXTRA.format(name="extra", value="{{ .Release.Name }}-{{ .Release.Namespace }}"))
    await ready(running, given, then)

    deployment = await given.client.get(DEPLOYMENTS, OPERAND, "kyma-system")
    assert deployment.at("spec", "replicas") == 1, "overrides.yaml lies over values.yaml"
    labels = deployment.metadata.labels
    assert labels["chart-version"] == labels["app.kubernetes.io/chart-version"] == "v0.11.10"
    config = await given.client.get(ConfigMap, "sap-btp-operator-config", "kyma-system")
    assert config.data["CLUSTER_ID"] == "cluster-one"
    extra = await given.client.get(ConfigMap, "extra", "kyma-system")
    assert extra.data["a"] == "btpoperator-kyma-system"
    await then.exists(POLICIES, "kyma-project.io--btp-operator-to-dns")
    await then.absent(JOBS, "pre-delete-job")
    kept = await record(given.client)
    assert kept["currentChartVersion"] == kept["oldChartVersion"] == "v0.11.10"
    assert kept["currentGvks"] == kept["oldGvks"]
    assert "kind: Deployment" in str(kept["currentGvks"])


async def test_a_pass_over_a_calm_chart_sends_nothing_and_renders_nothing(
    running: Running, given: Given, then: Then, chart: ModuleChart, btp_cluster: LocalCluster
) -> None:
    await ready(running, given, then)
    audit, passes, rendered = AuditLog(btp_cluster), running.passes, len(running.renderings)

    running.wake()
    await running.has_passed(passes + 1)

    asked = ours(audit)
    assert asked == [], table(asked)
    assert rendered == len(running.renderings) == 1


async def test_after_a_start_an_unchanged_chart_needs_no_update_and_writes_nothing(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await ready(running, given, then)
    await then.operand_has_rolled()
    before = await versions_of_all(given.client)
    await running.stop()

    await running.start(ModuleSource="chart")
    await then.shows("Ready", "UpdateCheckSucceeded", saying=["Update not required"])
    await then.has_shown(("Processing", "UpdateCheck"), ("Ready", "UpdateCheckSucceeded"))
    await running.is_idle()

    assert await versions_of_all(given.client) == before


async def test_after_a_start_a_new_version_replaces_the_old_one_and_what_it_had(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    chart.write("extra.yaml", EXTRA.format(name="extra", value="1"))
    await ready(running, given, then)
    pods = {pod.metadata.uid for pod in await given.operand_pods()}
    await running.stop()
    chart.remove("extra.yaml")
    chart.set_version("v0.12.0")

    await running.start(ModuleSource="chart")
    await then.shows("Ready", "UpdateDone", saying=["Updated"])
    await then.has_shown(("Ready", "ReconcileSucceeded"), ("Processing", "UpdateCheck"), ("Ready", "UpdateDone"))

    await then.absent(CONFIG_MAPS, "extra")
    old = await given.client.list(CONFIG_MAPS, labels="app.kubernetes.io/chart-version=v0.11.10")
    assert old.items == []
    kept = await record(given.client)
    assert (kept["oldChartVersion"], kept["currentChartVersion"]) == ("v0.11.10", "v0.12.0")
    assert {pod.metadata.uid for pod in await given.operand_pods()} == pods


async def test_versions_that_were_skipped_leave_nothing_either(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    chart.write("first.yaml", EXTRA.format(name="first", value="1"))
    await ready(running, given, then)
    chart.remove("first.yaml")
    chart.write("second.yaml", EXTRA.format(name="second", value="1"))
    chart.write("broken.yaml", EXTRA.format(name="broken", value="1").replace("'1'", "1"))
    chart.set_version("v0.12.0")
    running.wake()
    await then.shows("Error", "ChartInstallFailed", saying=["error while installing resource kyma-system/broken"])
    await then.exists(CONFIG_MAPS, "second")

    chart.remove("second.yaml")
    chart.remove("broken.yaml")
    chart.set_version("v0.13.0")
    running.wake()
    await then.shows("Ready", "UpdateDone")

    for name in ("first", "second", "broken"):
        await then.absent(CONFIG_MAPS, name)
    assert (await record(given.client))["currentChartVersion"] == "v0.13.0"


async def test_kinds_that_only_one_version_had_are_found_after_crashes_and_at_the_end(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await may_keep_budgets(given.client)
    await ready(running, given, then)
    chart.write("budget.yaml", BUDGET)
    chart.write("broken.yaml", EXTRA.format(name="broken", value="1").replace("'1'", "1"))
    chart.set_version("v0.12.0")
    running.wake()
    await then.shows("Error", "ChartInstallFailed")
    await then.exists(BUDGETS, "extra")
    await running.stop()

    chart.remove("broken.yaml")
    chart.remove("budget.yaml")
    chart.set_version("v0.13.0")
    await running.start(ModuleSource="chart")
    await then.shows("Ready", "UpdateDone")
    await then.absent(BUDGETS, "extra")

    chart.write("budget.yaml", BUDGET)
    running.wake()
    await then.becomes(BUDGETS, "extra", lambda seen: seen is not None, "be there")
    await running.is_idle()
    await running.stop()
    await running.start(ModuleSource="chart")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.is_gone()
    await then.absent(BUDGETS, "extra")


async def may_keep_budgets(client: Client) -> None:
    """What an administrator grants to the manager when a chart brings a further kind."""
    for kind, view in (("ClusterRole", ROLES), ("ClusterRoleBinding", BINDINGS)):
        body: JsonObject = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": "budgets"}}
        if view is ROLES:
            body["rules"] = [{"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["*"]}]
        else:
            body["roleRef"] = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "budgets"}
            body["subjects"] = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ACCOUNT}]
        await client.apply(view, body)
    await permissions.count(client, ACCOUNT, permissions.on("poddisruptionbudgets", "patch", group="policy"))


async def test_a_version_that_arrives_while_the_operator_runs_is_an_update_too(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    chart.write("extra.yaml", EXTRA.format(name="extra", value="1"))
    await ready(running, given, then)
    chart.remove("extra.yaml")
    chart.set_version("v0.12.0")

    running.wake()

    await then.shows("Ready", "UpdateDone")
    await then.has_shown(("Processing", "UpdateCheck"), ("Ready", "UpdateDone"))
    await then.absent(CONFIG_MAPS, "extra")


async def test_what_is_renamed_under_the_same_version_leaves_the_old_object(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    chart.write("extra.yaml", EXTRA.format(name="extra", value="1"))
    await ready(running, given, then)
    await running.stop()
    chart.write("extra.yaml", EXTRA.format(name="renamed", value="1"))

    await running.start(ModuleSource="chart")
    await then.shows("Ready", "UpdateCheckSucceeded")

    await then.exists(CONFIG_MAPS, "extra")


async def test_a_deleted_object_of_a_chart_is_told_and_comes_back(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await ready(running, given, then)
    await given.client.delete(SERVICES, SERVICE, "kyma-system")

    await then.has_shown(
        ("Ready", "ReconcileSucceeded"),
        ("Error", "InconsistentChart"),
        ("Processing", "Initialized"),
        ("Ready", "ReconcileSucceeded"),
    )
    await then.exists(SERVICES, SERVICE)
    told = next(shown for shown in then.history.of() if shown.reason == "InconsistentChart")
    assert told.message == f"Chart is inconsistent. Reconciliation initialized kyma-system/{SERVICE}"


async def test_new_credentials_and_new_values_are_no_inconsistency(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await ready(running, given, then)

    await given.required_secret(clientid="client-two")
    await then.becomes(
        DEPLOYMENTS, OPERAND, lambda seen: seen is not None and seen.metadata.generation == 2, "roll with them"
    )
    await running.is_idle()
    chart.override(manager={"replicas": 2})
    running.wake()
    await then.becomes(
        DEPLOYMENTS, OPERAND, lambda seen: seen is not None and seen.at("spec", "replicas") == 2, "be scaled"
    )
    await running.is_idle()

    assert "InconsistentChart" not in {shown.reason for shown in then.history.of()}


async def test_a_deleted_record_is_written_again(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await ready(running, given, then)

    await given.client.delete(CONFIG_MAPS, RECORD, "kyma-system")

    await then.becomes(
        CONFIG_MAPS, RECORD, lambda seen: seen is not None and not seen.metadata.is_terminating, "be there again"
    )


async def test_a_damaged_record_stops_the_chart_before_anything_is_written(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    body: JsonObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": RECORD, "namespace": "kyma-system"},
        "data": {"currentChartVersion": "v1"},
    }
    await given.replace(ConfigMap, body)
    await given.required_secret()
    await running.start(ModuleSource="chart", ProcessingStateRequeueInterval="1s")
    await given.btp_operator()

    await then.shows("Error", "StoringChartDetailsFailed", saying=[RECORD, "currentGvks"])
    await then.absent(DEPLOYMENTS, OPERAND)

    await given.client.delete(CONFIG_MAPS, RECORD, "kyma-system")
    await then.shows("Ready", "ReconcileSucceeded")


BREAKAGES = (
    ("broken.yaml", "a: b\nc: {{ .Values.manager.nothing.here }}\n", ["templates/broken.yaml", "line 2"]),
    ("broken.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: [\n", ["templates/broken.yaml"]),
    ("../values.yaml", "a: [\n", ["values.yaml"]),
    ("../../overrides.yaml", "a: b: c\n", ["overrides.yaml", "line 1"]),
    ("../Chart.yaml", "name: [\n", ["Chart.yaml"]),
)


async def test_a_broken_chart_is_named_with_its_place_and_nothing_is_written_until_it_is_mended(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await given.required_secret()
    await running.start(ModuleSource="chart")
    for number, (name, text, place) in enumerate(BREAKAGES):
        file = chart.templates / name
        sound = file.read_text() if file.exists() else ""
        file.write_text(text)
        if number == 0:
            await given.btp_operator()
        running.wake()
        await then.shows("Error", "PreparingInstallInfoFailed", saying=["Error while preparing InstallInfo", *place])
        if number == 0:
            await then.absent(DEPLOYMENTS, OPERAND)

        file.write_text(sound)
        running.wake()
        await then.shows("Ready", "ReconcileSucceeded")
    assert "canary" not in str(then.history.of())


async def test_a_ready_module_whose_chart_breaks_does_not_stay_ready(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await ready(running, given, then)
    shutil.rmtree(chart.module.chart)

    running.wake()

    await then.shows("Error", "PreparingInstallInfoFailed", saying=[str(chart.module.chart), "No such file"])
    await then.exists(DEPLOYMENTS, OPERAND)


async def test_an_operand_that_stops_working_fails_the_consistency_check(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    await ready(running, given, then)
    await given.tunables(ReadyTimeout="1s", RsaKeyBits="2048")  # not before: its start may take longer
    await priority_class.is_missing(given.client)
    for pod in await given.operand_pods():
        await given.client.delete(Pod, pod.metadata.name, "kyma-system")

    await then.shows(
        "Error", "ConsistencyCheckFailed", saying=[f"Checking consistency of resource kyma-system/{OPERAND} failed"]
    )


async def test_the_program_renders_a_chart_and_ends_in_order(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path
) -> None:
    await inputs(given)
    async with operator(btp_cluster, tmp_path, "--module-source=chart") as started:
        ModuleChart.of(Module(tmp_path / "process-module"))
        await started.process.start()
        await given.btp_operator()
        await then.shows("Ready", "ReconcileSucceeded", saying=["Reconcile succeeded"])
        assert await started.process.terminate() == 0
        started.process.assert_clean_log()


async def test_an_empty_chart_path_is_told(running: Running, given: Given, then: Then) -> None:
    await given.required_secret()
    await running.start(ModuleSource="chart", ChartPath="")
    await given.btp_operator()

    await then.shows("Error", "ChartPathEmpty", saying=["No chart path available for processing"])


async def test_the_source_can_be_switched_without_a_restart_or_a_deletion(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    chart.write("extra.yaml", EXTRA.format(name="extra", value="1"))
    await given.required_secret()
    await running.start()
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded", saying=["Module provisioning succeeded"])
    before = await identities(given.client)

    await given.tunables(ModuleSource="chart")
    await then.has_shown(("Processing", "UpdateCheck"), ("Ready", "UpdateCheckSucceeded"))
    await then.exists(CONFIG_MAPS, "extra")
    await running.is_idle()
    assert before.items() <= (await identities(given.client)).items()

    chart.set_version("v0.12.0")
    await given.tunables(ModuleSource="resources")
    await then.becomes(
        DEPLOYMENTS,
        OPERAND,
        lambda seen: seen is not None and seen.metadata.labels["chart-version"] == "v0.12.0",
        "carry the version",
    )
    await then.disappears(CONFIG_MAPS, "extra")
    await running.is_idle()
    assert before == {key: uid for key, uid in (await identities(given.client)).items() if key in before}


async def identities(client: Client) -> dict[str, str]:
    """The uids of the module's objects and of the operand's pods."""
    found: dict[str, str] = {}
    for kind in (ConfigMap, Deployment, Service, NetworkPolicy):
        listed = await client.list(metadata_of(kind), "kyma-system", labels=OURS)
        found |= {f"{kind.resource.kind} {one.metadata.name}": one.metadata.uid for one in listed.items}
    pods = await Given(client).operand_pods()
    return found | {f"Pod {pod.metadata.name}": pod.metadata.uid for pod in pods}


async def test_a_module_from_a_chart_is_removed_whole(
    running: Running, given: Given, then: Then, chart: ModuleChart
) -> None:
    chart.write("extra.yaml", EXTRA.format(name="extra", value="1"))
    await ready(running, given, then)
    await running.stop()
    await running.start(ModuleSource="chart")
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    await then.is_gone()

    for target, name in ((CONFIG_MAPS, "extra"), (DEPLOYMENTS, OPERAND), (SERVICES, METRICS_SERVICE)):
        await then.absent(target, name)
    left = await given.client.list(metadata_of(ConfigMap), "kyma-system", labels=OURS)
    assert [one.metadata.name for one in left.items] == []


LEAKS = {
    "a name": "metadata: {{name: 'x {secret}'}}",
    "a label": "metadata: {{name: leak, labels: {{leak: '{secret} and more'}}}}",
    "an annotation's key": "metadata: {{name: leak, annotations: {{'{secret} and more': ''}}}}",
    "a wrong field": "metadata: {{name: leak}}\nimmutable: 'x {secret}'",
    "the base64 of it": "metadata: {{name: leak}}\nimmutable: 'x {base64}'",
    "an error": '{{{{ fail (printf "no %s" .Values.manager.secret.clientsecret) }}}}',
}


@pytest.mark.req("R-804")
@pytest.mark.parametrize("place", LEAKS)
async def test_a_chart_that_puts_a_secret_where_it_is_refused_does_not_bring_it_out(
    running: Running, given: Given, then: Then, chart: ModuleChart, place: str
) -> None:
    canary = Canary()
    secret = canary.plant("clientsecret", awkward=False)
    value = "{{ .Values.manager.secret.clientsecret }}"
    leak = LEAKS[place].format(secret=value, base64=value.replace(" }}", " | b64enc }}"))
    chart.write("leak.yaml", f"apiVersion: v1\nkind: ConfigMap\n{leak}\n")
    await given.required_secret(clientsecret=secret)
    await running.start(ModuleSource="chart")

    await given.btp_operator()
    shown = await then.shows("Error", "ChartInstallFailed" if place != "an error" else "PreparingInstallInfoFailed")

    await running.is_idle()
    events = [event.note for event in (await given.client.list(Event, "kyma-system")).items]
    canary.assert_unseen({"the condition": shown.message, "Events": "\n".join(events)})
