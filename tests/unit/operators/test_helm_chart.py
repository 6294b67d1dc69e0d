"""The chart installs every registered operator with the least rights, and refuses values that have no effect."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from tests.toy_operator.operator import OPERATOR as TOY
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import BOTH, BTP, COMPONENT, MATRIX, NAMESPACE, Chart, Objects

from stellwerk import __version__
from stellwerk.assembly import OPERATORS
from stellwerk.delivery import helm_chart
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.types.model import JsonObject, JsonValue, dig
from stellwerk.render.errors import RenderError
from stellwerk.runtime.settings.process_settings import PROCESS, ProcessSettings
from stellwerk.runtime.settings.table import from_go

COMPONENT_OPERATOR = "component-operator"


@pytest.fixture
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


def settings(spec: OperatorSpec, deployment: JsonObject) -> tuple[Any, ProcessSettings]:
    """What `stellwerk run` reads from the arguments of a Deployment."""
    parsed: list[tuple[Any, ProcessSettings]] = []
    table = spec.settings()
    command = click.Command(
        spec.name,
        params=[*PROCESS.options(), *table.options()],
        callback=lambda **values: parsed.append((table.from_flags(values), PROCESS.from_flags(values))),
    )
    container = manager(deployment)
    assert dig(container, "command") == ["stellwerk", "run", spec.name]
    arguments = dig(container, "args")
    assert isinstance(arguments, list)
    result = CliRunner().invoke(command, from_go([str(argument) for argument in arguments], (PROCESS, table)))
    assert result.exit_code == 0, result.output
    return parsed[0]


def manager(deployment: JsonObject) -> JsonValue:
    """The container of a Deployment."""
    containers = dig(deployment, "spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    return containers[0]


def rules(objects: Objects) -> Sequence[Any]:
    """The rules of all roles."""
    roles = [body for (kind, _), body in objects.items() if kind in ("ClusterRole", "Role")]
    listed: list[Any] = [body.get("rules") or [] for body in roles]
    return [rule for some in listed for rule in some]


@pytest.mark.parametrize("values", MATRIX.values(), ids=MATRIX)
async def test_values_give_deployments_whose_arguments_the_programs_accept(chart: Chart, values: JsonObject) -> None:
    objects = await chart.render(values)

    deployments = [body for (kind, _), body in objects.items() if kind == "Deployment"]
    specs = [spec for spec in OPERATORS.values() if dig(values, helm_chart.key(spec), "enabled")]
    by_command = {_program(body): body for body in deployments}
    assert set(by_command) == {spec.name for spec in specs}
    for spec in specs:
        settings(spec, by_command[spec.name])


def _program(deployment: JsonObject) -> str:
    command = dig(manager(deployment), "command")
    assert isinstance(command, list)
    return str(command[2])


@pytest.mark.req("R-504")
async def test_by_default_no_role_has_a_wildcard_and_no_account_is_cluster_admin(chart: Chart) -> None:
    objects = await chart.render(BOTH)

    assert all("*" not in [*rule["verbs"], *rule.get("resources", [])] for rule in rules(objects))
    assert all(dig(body, "roleRef", "name") != "cluster-admin" for body in objects.values())


@pytest.mark.req("R-504")
async def test_the_roles_are_those_of_the_operators(chart: Chart) -> None:
    objects = await chart.render(BOTH)

    for spec in OPERATORS.values():
        if not dig(BOTH, helm_chart.key(spec), "enabled"):
            continue
        for body in spec.installation().accounts(NAMESPACE):
            name = (str(body["kind"]), str(dig(body, "metadata", "name")))
            expected = yaml.safe_load(yaml.safe_dump(body))
            for part in ("rules", "roleRef", "subjects", "aggregationRule"):
                if part in expected:
                    assert objects[name].get(part) == expected[part], name


async def test_two_replicas_are_protected_by_default(chart: Chart) -> None:
    objects = await chart.render(BOTH)

    for name in (COMPONENT_OPERATOR, "btp-manager-controller-manager"):
        assert dig(objects["Deployment", name], "spec", "replicas") == 2
        assert dig(objects["PodDisruptionBudget", name], "spec", "minAvailable") == 1
        assert ("NetworkPolicy", name) in objects


async def test_options_reach_the_program(chart: Chart) -> None:
    values: JsonObject = {
        "componentOperator": {
            **COMPONENT,
            "options": {"tenancy": "strict", "noCrossNamespaceRefs": True, "artifactCacheMib": 1_000_000},
        }
    }
    own, process = settings(OPERATORS["component"], (await chart.render(values))["Deployment", COMPONENT_OPERATOR])

    assert (own.tenancy, own.no_cross_namespace_refs, own.artifact_cache_mib) == ("strict", True, 1_000_000)
    assert process.leader_elect


async def test_an_override_renames_account_and_bindings_alike(chart: Chart) -> None:
    objects = await chart.render({"componentOperator": {**COMPONENT, "fullnameOverride": "it"}})

    assert dig(objects["Deployment", "it"], "spec", "template", "spec", "serviceAccountName") == "it"
    assert ("ServiceAccount", "it") in objects
    assert dig(objects["ClusterRoleBinding", "it-dependents"], "roleRef", "name") == "it-dependents"
    assert objects["ClusterRoleBinding", "it"]["subjects"] == [
        {"kind": "ServiceAccount", "name": "it", "namespace": NAMESPACE}
    ]


async def test_definitions_are_kept_unless_the_values_say_otherwise(chart: Chart) -> None:
    definition = ("CustomResourceDefinition", "components.core.cs.sap.com")
    annotations = dig((await chart.render(BOTH))[definition], "metadata", "annotations")

    assert isinstance(annotations, dict)
    assert annotations["helm.sh/resource-policy"] == "keep"
    assert not dig((await chart.render({**BOTH, "crds": {"keep": False}}))[definition], "metadata", "annotations")
    assert definition not in await chart.render({**BOTH, "crds": {"install": False}})


@pytest.mark.req("R-509")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"componentOperator": COMPONENT, "image": {}}, "image.repository"),
        ({"btpManager": {"enabled": True}}, "SAP_BTP_SERVICE_OPERATOR"),
        ({"replicas": 2}, "replicas"),
        ({"componentOperator": {"option": {}}}, "option"),
        ({"componentOperator": {"options": {"unknown": 1}}}, "unknown"),
        ({"log": {"format": "xml"}}, "format"),
        (
            {"componentOperator": {"options": {"tenancy": "strict"}, "rbac": {"clusterAdmin": True}}},
            "acknowledgeClusterAdminOfTenants",
        ),
    ],
)
async def test_a_value_that_cannot_be_meant_is_refused_by_name(chart: Chart, values: JsonObject, named: str) -> None:
    with pytest.raises(RenderError, match=named):
        await chart.render(values)


async def test_values_of_the_chart_of_component_operator_are_accepted(chart: Chart) -> None:
    previous = helm_charts.ROOT / "deploy" / "chart" / "component-operator" / "values.yaml"
    values = yaml.safe_load(previous.read_text())
    values["image"]["repository"] = "example.com/stellwerk"
    values["rbac"] = {"clusterAdmin": True}

    objects = await chart.render({"componentOperator": {**values, **COMPONENT}})

    assert dig(objects["Deployment", COMPONENT_OPERATOR], "spec", "replicas") == 1
    assert ("ClusterRoleBinding", "component-operator-cluster-admin") in objects


async def test_an_operator_that_is_registered_is_in_the_chart(tmp_path: Path) -> None:
    folder = helm_charts.write_chart(tmp_path, [*OPERATORS.values(), TOY])
    key = helm_chart.key(TOY)

    async with helm_charts.chart(folder) as chart:
        objects = await chart.render({key: {"enabled": True, "options": {"greeting": "Good morning"}}})

    assert ("ServiceAccount", "toy") in objects
    assert ("ClusterRole", "toy") in objects
    own, _ = settings(TOY, objects["Deployment", "toy"])
    assert own.greeting == "Good morning"
    assert f"`{key}.options.greeting`" in (folder / "README.md").read_text()


def test_the_chart_has_the_version_of_the_program() -> None:
    about = yaml.safe_load((helm_charts.ROOT / helm_chart.CHART / "Chart.yaml").read_text())

    assert about["version"] == about["appVersion"] == __version__


async def test_an_operator_takes_its_own_values_before_the_common_ones(chart: Chart) -> None:
    objects = await chart.render(
        {"replicaCount": 3, "btpManager": BTP, "componentOperator": {**COMPONENT, "replicaCount": 1}}
    )

    assert dig(objects["Deployment", COMPONENT_OPERATOR], "spec", "replicas") == 1
    assert dig(objects["Deployment", "btp-manager-controller-manager"], "spec", "replicas") == 3
