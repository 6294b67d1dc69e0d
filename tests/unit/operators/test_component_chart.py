"""The chart takes the values of the original component-operator's chart under the operator's key, with an effect."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.unit.component.test_settings import parsed
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import Chart, Objects

from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.operators.component.settings import Mode
from stellwerk.render.errors import RenderError

NAME = "component-operator"
DEFAULTS: JsonObject = {
    "fullnameOverride": "",
    "nameOverride": "",
    "replicaCount": 1,
    "image": {"repository": "example.com/stellwerk", "tag": "", "pullPolicy": "IfNotPresent"},
    "imagePullSecrets": [],
    "podLabels": {},
    "podAnnotations": {},
    "nodeSelector": {},
    "affinity": {},
    "topologySpreadConstraints": [],
    "defaultHostNameSpreadPolicy": "ScheduleAnyway",
    "defaultZoneSpreadPolicy": "ScheduleAnyway",
    "tolerations": [],
    "priorityClassName": "",
    "podSecurityContext": {},
    "securityContext": {},
    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "100m", "memory": "128Mi"}},
    "pdb": {"enabled": True, "minAvailable": "1", "maxUnavailable": "", "labels": {}, "annotations": {}},
    "options": {"defaultServiceAccount": "", "maxConcurrentReconciles": 5, "eventsAddress": ""},
}
"""The values of the original's chart."""


@pytest.fixture
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


async def installed(chart: Chart, **values: JsonValue) -> Objects:
    return await chart.render({"componentOperator": {"enabled": True, **DEFAULTS, **values}})


def pod(objects: Objects, name: str = NAME) -> JsonValue:
    return dig(objects["Deployment", name], "spec", "template", "spec")


def manager(objects: Objects) -> JsonValue:
    containers = dig(pod(objects), "containers")
    assert isinstance(containers, list)
    return containers[0]


def arguments(objects: Objects) -> list[str]:
    words = dig(manager(objects), "args")
    assert isinstance(words, list)
    return [str(word) for word in words]


async def test_the_defaults_of_the_original_give_what_it_installs_with_less_rights(chart: Chart) -> None:
    objects = await installed(chart)

    assert {kind for kind, _ in objects} == {
        *("CustomResourceDefinition", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("Deployment", "NetworkPolicy", "Service"),
    }
    settings, process = parsed(*arguments(objects))
    assert process.leader_elect
    assert (settings.tenancy, settings.max_concurrent_reconciles) == (Mode.COMPATIBLE, 5)
    containers = dig(pod(objects), "containers")
    assert isinstance(containers, list)
    assert dig(containers[0], "name") == "manager"
    assert dig(containers[0], "resources", "limits", "cpu") == "100m"
    assert [dig(port, "containerPort") for port in _list(dig(containers[0], "ports"))] == [8080, 8081]
    spread = [dig(each, "topologyKey") for each in _list(dig(pod(objects), "topologySpreadConstraints"))]
    assert spread == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
    assert dig(objects["Deployment", NAME], "metadata", "labels", "component-operator.cs.sap.com/ignored") == "true"


def _list(value: JsonValue) -> list[JsonValue]:
    assert isinstance(value, list)
    return value


async def test_the_image_of_the_original_is_ignored_with_its_tag_and_digest(chart: Chart) -> None:
    default = manager(await chart.render({"componentOperator": {"enabled": True}}))
    image: JsonObject = {
        "repository": "ghcr.io/sap/component-operator",
        "tag": "v0.3.1",
        "digest": f"sha256:{'0' * 64}",
    }
    own = manager(await installed(chart, image={**image, "pullPolicy": "Always"}))

    assert dig(own, "image") == dig(default, "image")
    assert dig(own, "imagePullPolicy") == "Always"
    other = await installed(chart, image={"repository": "example.com/mine", "tag": "v1"})
    assert dig(manager(other), "image") == "example.com/mine:v1"


async def test_options_become_arguments_that_the_program_takes(chart: Chart) -> None:
    options: JsonObject = {
        "defaultServiceAccount": "deployer",
        "maxConcurrentReconciles": 20,
        "eventsAddress": "http://notification-controller.flux-system.svc/",
        "noCrossNamespaceRefs": True,
        "allowUnconfinedRenderer": True,
        "extraArgs": ["--drift-policy=Repair"],
    }

    settings, process = parsed(*arguments(await installed(chart, options=options)))
    assert process.allow_unconfined_renderer
    assert (settings.default_service_account, settings.max_concurrent_reconciles) == ("deployer", 20)
    assert settings.events_address.startswith("http://notification-controller")
    assert settings.no_cross_namespace_refs
    assert settings.drift_policy.value == "Repair"


async def test_values_of_the_pod_reach_it_unchanged(chart: Chart) -> None:
    values: JsonObject = {
        "nodeSelector": {"disk": "fast"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-cluster-critical",
        "imagePullSecrets": [{"name": "login"}],
    }
    objects = await installed(chart, **values, podLabels={"team": "a"}, podAnnotations={"note": "b"})

    for key, value in values.items():
        assert dig(pod(objects), key) == value
    metadata = dig(objects["Deployment", NAME], "spec", "template", "metadata")
    assert dig(metadata, "labels", "team") == "a"
    assert dig(metadata, "annotations") == {"note": "b"}


async def test_a_constraint_without_a_selector_gets_that_of_the_deployment(chart: Chart) -> None:
    own: JsonObject = {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule"}
    other: JsonObject = {**own, "labelSelector": {"matchLabels": {"x": "y"}}}
    objects = await installed(chart, topologySpreadConstraints=[own, other])

    first, second = _list(dig(pod(objects), "topologySpreadConstraints"))
    assert dig(first, "labelSelector", "matchLabels", "app.kubernetes.io/name") == NAME
    assert dig(second, "labelSelector", "matchLabels", "x") == "y"


async def test_several_replicas_have_a_budget_for_disruptions(chart: Chart) -> None:
    budget = ("PodDisruptionBudget", NAME)

    assert dig((await installed(chart, replicaCount=2))[budget], "spec", "minAvailable") == 1
    share: JsonObject = {"maxUnavailable": "50%"}
    spec = dig((await installed(chart, replicaCount=3, pdb=share))[budget], "spec")
    assert (dig(spec, "maxUnavailable"), dig(spec, "minAvailable")) == ("50%", None)
    assert budget not in await installed(chart, replicaCount=2, pdb={"enabled": False})


@pytest.mark.parametrize("name", ["pdb", "podDisruptionBudget"])
async def test_no_pod_may_be_unavailable_where_the_budget_is_zero(chart: Chart, name: str) -> None:
    budget: JsonObject = {name: {"maxUnavailable": 0}}
    objects = await installed(chart, replicaCount=2, **budget)

    spec = dig(objects["PodDisruptionBudget", NAME], "spec")
    assert (dig(spec, "maxUnavailable"), dig(spec, "minAvailable")) == (0, None)


async def test_the_other_name_of_the_budget_counts_before_the_first_one_at_each_level(chart: Chart) -> None:
    common: JsonObject = {"pdb": {"minAvailable": 1}, "podDisruptionBudget": {"minAvailable": 2, "labels": {"a": "b"}}}
    objects = await chart.render({"componentOperator": {"enabled": True}, "replicaCount": 3, **common})
    budget = objects["PodDisruptionBudget", NAME]
    assert (dig(budget, "spec", "minAvailable"), dig(budget, "metadata", "labels", "a")) == (2, "b")

    own: JsonObject = {"enabled": True, "podDisruptionBudget": {"minAvailable": "30%"}}
    objects = await chart.render({"componentOperator": own, "replicaCount": 3, **common})
    assert dig(objects["PodDisruptionBudget", NAME], "spec", "minAvailable") == "30%"

    own = {"enabled": True, "pdb": {"enabled": True}, "podDisruptionBudget": {"enabled": False}}
    objects = await chart.render({"componentOperator": own, "replicaCount": 3})
    assert ("PodDisruptionBudget", NAME) not in objects

    with pytest.raises(RenderError, match="minimum"):
        await chart.render({"podDisruptionBudget": {"minimum": 1}})


@pytest.mark.parametrize(("level", "flag"), [(3, "3"), ("3", "3"), ("debug", "debug")])
async def test_a_log_level_may_be_a_number(chart: Chart, level: JsonValue, flag: str) -> None:
    objects = await chart.render({"componentOperator": {"enabled": True}, "log": {"level": level}})

    assert f"--zap-log-level={flag}" in arguments(objects)
    parsed(*arguments(objects))


@pytest.mark.req("R-501")
@pytest.mark.req("R-509")
@pytest.mark.parametrize("is_asked_for", [True, False])
async def test_the_operator_is_cluster_admin_only_where_the_values_ask_for_it(chart: Chart, is_asked_for: bool) -> None:
    objects = await installed(chart, rbac={"clusterAdmin": is_asked_for})

    bound = [name for (_, name), body in objects.items() if dig(body, "roleRef", "name") == "cluster-admin"]
    assert bound == (["component-operator-cluster-admin"] if is_asked_for else [])


async def test_the_null_of_the_former_chart_means_the_default(chart: Chart) -> None:
    objects = await installed(chart, rbac={"clusterAdmin": None})

    assert all(dig(body, "roleRef", "name") != "cluster-admin" for body in objects.values())
