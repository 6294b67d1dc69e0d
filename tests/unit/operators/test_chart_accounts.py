"""Each process has a ServiceAccount of its own, which the chart creates, or which exists."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import ALL, BTP, CAP, COMPONENT, NAMESPACE, Chart, Objects

from stellwerk.assembly import OPERATORS
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.render.errors import RenderError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.heavy]

COMPONENT_OPERATOR, BTP_MANAGER = "component-operator", "btp-manager-controller-manager"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chart]:
    folder = helm_charts.write_chart(tmp_path_factory.mktemp("chart"), OPERATORS.values())
    async with helm_charts.chart(helm_charts.with_notes(folder)) as chart:
        yield chart


def accounts(objects: Objects) -> dict[str, str]:
    """The ServiceAccount of each Deployment."""
    return {
        name: str(dig(body, "spec", "template", "spec", "serviceAccountName"))
        for (kind, name), body in objects.items()
        if kind == "Deployment"
    }


def bound(objects: Objects) -> dict[str, set[str]]:
    """The ServiceAccounts that each binding names."""
    return {
        name: {str(dig(subject, "name")) for subject in subjects}
        for (kind, name), body in objects.items()
        if kind.endswith("Binding") and isinstance(subjects := body["subjects"], list)
    }


def notes(objects: Objects) -> str:
    return str(dig(objects["ConfigMap", "notes"], "data", "text"))


@pytest.mark.req("R-504")
async def test_by_default_every_process_has_an_account_of_its_own_name(chart: Chart) -> None:
    objects = await chart.render(ALL)

    found = accounts(objects)
    assert found == {name: name for name in found}
    assert all(("ServiceAccount", name) in objects for name in found)
    assert "kubectl get serviceaccount" not in notes(objects)


@pytest.mark.req("R-504")
async def test_a_named_account_is_created_with_its_annotations_and_has_all_rights_of_the_process(chart: Chart) -> None:
    account: JsonObject = {"name": "deployer", "annotations": {"iam.example.com/role": "r"}}
    default = await chart.render({"componentOperator": COMPONENT, "btpManager": BTP})
    objects = await chart.render({"componentOperator": {**COMPONENT, "serviceAccount": account}, "btpManager": BTP})

    assert accounts(objects) == {COMPONENT_OPERATOR: "deployer", BTP_MANAGER: BTP_MANAGER}
    created = objects["ServiceAccount", "deployer"]
    assert dig(created, "metadata", "annotations") == {"iam.example.com/role": "r"}
    assert dig(created, "metadata", "namespace") == NAMESPACE
    assert ("ServiceAccount", COMPONENT_OPERATOR) not in objects
    renamed = {COMPONENT_OPERATOR: "deployer"}
    assert bound(objects) == {
        name: {renamed.get(each, each) for each in subjects} for name, subjects in bound(default).items()
    }


async def test_an_existing_account_is_used_and_not_created_and_the_notes_name_it(chart: Chart) -> None:
    existing: JsonObject = {"create": False, "name": "ours"}
    objects = await chart.render({"componentOperator": {**COMPONENT, "serviceAccount": existing}, "btpManager": BTP})

    assert accounts(objects)[COMPONENT_OPERATOR] == "ours"
    assert {name for kind, name in objects if kind == "ServiceAccount"} & {"ours", COMPONENT_OPERATOR} == set()
    assert bound(objects)["component-operator-manager"] == {"ours"}
    assert ("ServiceAccount", BTP_MANAGER) in objects
    text = notes(objects)
    assert text.count("kubectl get serviceaccount") == 1
    assert f"kubectl get serviceaccount ours --namespace {NAMESPACE}" in text


async def test_without_a_name_an_existing_account_has_the_name_of_its_process(chart: Chart) -> None:
    objects = await chart.render({"capOperator": CAP, "serviceAccount": {"create": False}})

    found = accounts(objects)
    assert found == {name: name for name in found}
    assert not [name for kind, name in objects if kind == "ServiceAccount" and name in found]
    assert notes(objects).count("kubectl get serviceaccount") == len(found) == 3


@pytest.mark.req("R-504")
@pytest.mark.parametrize(
    "values",
    [
        {"componentOperator": COMPONENT, "btpManager": BTP, "serviceAccount": {"name": "shared"}},
        {"capOperator": {**CAP, "serviceAccount": {"name": "shared"}}},
        {"componentOperator": {**COMPONENT, "serviceAccount": {"name": BTP_MANAGER}}, "btpManager": BTP},
    ],
)
async def test_the_chart_creates_no_account_with_the_rights_of_two_processes(chart: Chart, values: JsonObject) -> None:
    with pytest.raises(RenderError, match="would share the ServiceAccount"):
        await chart.render(values)


async def test_processes_share_an_existing_account_where_the_values_name_it(chart: Chart) -> None:
    objects = await chart.render({**ALL, "serviceAccount": {"create": False, "name": "ours"}})

    assert set(accounts(objects).values()) == {"ours"}
    assert notes(objects).count(f"kubectl get serviceaccount ours --namespace {NAMESPACE}") == 5
