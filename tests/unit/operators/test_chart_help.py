"""The help of values states what rendering shows."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import ALL, Chart, Objects
from tests.unit.operators.test_helm_chart import dig_list, manager

from stellwerk.assembly import OPERATORS
from stellwerk.delivery import helm_chart
from stellwerk.kube.types.model import JsonObject, dig

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.heavy]

HELP = {value.path: value.help for value in helm_chart.values(OPERATORS.values())}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


def extended(objects: Objects) -> set[str]:
    """The roles of Kubernetes that get rights of these objects."""
    labels = [labels for body in objects.values() if isinstance(labels := dig(body, "metadata", "labels"), dict)]
    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    return {label.removeprefix(prefix) for each in labels for label in each if label.startswith(prefix)}


async def test_the_roles_that_get_rights_to_kinds_are_named_for_each_operator(chart: Chart) -> None:
    named = {
        title: set(roles.split(", ")) for title, roles in re.findall(r"([\w ]+): ([a-z, ]+)", HELP["rbac.aggregate"])
    }
    found = {}
    for spec in OPERATORS.values():
        own = helm_chart.key(spec)
        if roles := extended(await chart.render({own: ALL[own], "crds": {"install": False}})):
            found[spec.title] = roles
    assert {title.strip(): roles for title, roles in named.items()} == found


@pytest.mark.parametrize(
    ("value", "other", "path"),
    [
        ("replicaCount", 7, ("spec", "replicas")),
        ("resources", {"limits": {"memory": "7Gi"}}, ("spec", "template", "spec", "containers")),
    ],
)
async def test_the_processes_without_an_effect_of_a_common_value_are_named(
    chart: Chart, value: str, other: int | JsonObject, path: tuple[str, ...]
) -> None:
    before, after = await chart.render(ALL), await chart.render({**ALL, value: other})

    unchanged = {
        str(dig_list(manager(body), "command")[2])
        for (kind, name), body in before.items()
        if kind == "Deployment" and dig(body, *path) == dig(after["Deployment", name], *path)
    }
    assert unchanged == {
        process.name
        for spec in OPERATORS.values()
        for process in spec.processes
        if f"`{helm_chart.key(spec)}.{helm_chart.component(spec, process)}." in HELP[value]
    }
    assert unchanged
