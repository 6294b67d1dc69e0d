"""Common values set settings of all operators that have them, and an operator's own values count before them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import CAP, COMPONENT, Chart
from tests.unit.operators.test_helm_chart import settings

from stellwerk.assembly import OPERATORS
from stellwerk.delivery.chart.values import SHARED
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.operators.component.settings import Settings as ComponentSettings

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.heavy]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


async def of_component(chart: Chart, common: JsonObject, **options: JsonValue) -> ComponentSettings:
    objects = await chart.render({"componentOperator": {**COMPONENT, "options": options}, **common})
    own, _ = settings(OPERATORS["component"], objects["Deployment", "component-operator"])
    assert isinstance(own, ComponentSettings)
    return own


async def test_without_values_the_defaults_of_the_program_are_in_force(chart: Chart) -> None:
    assert await of_component(chart, {}) == OPERATORS["component"].settings().defaults


@pytest.mark.req("R-504")
async def test_tenancy_and_egress_of_the_release_reach_the_operator(chart: Chart) -> None:
    common: JsonObject = {
        "tenancy": {"defaultServiceAccount": "deployer", "crossNamespaceRefs": False},
        "egress": {"allowHosts": "charts.example.com,git.example.com", "allowPrivate": False},
    }
    own = await of_component(chart, common)

    assert own.default_service_account == "deployer"
    assert own.no_cross_namespace_refs
    assert [str(host) for host in own.egress_allow_hosts] == ["charts.example.com", "git.example.com"]
    assert own.egress_allow_private.given(own.tenancy) is False


async def test_own_values_count_before_those_of_the_release(chart: Chart) -> None:
    common: JsonObject = {
        "tenancy": {"defaultServiceAccount": "deployer", "crossNamespaceRefs": False},
        "egress": {"allowPrivate": False},
        "concurrency": {"maxConcurrentReconciles": 20},
    }
    own = await of_component(
        chart,
        common,
        defaultServiceAccount="other",
        noCrossNamespaceRefs=False,
        egressAllowPrivate=True,
        maxConcurrentReconciles=5,
    )

    assert own.default_service_account == "other"
    assert not own.no_cross_namespace_refs
    assert own.egress_allow_private.given(own.tenancy) is True
    assert own.max_concurrent_reconciles == 5


async def test_concurrency_is_that_of_every_kind_without_a_value_of_its_own(chart: Chart) -> None:
    cap: JsonObject = {**CAP, "controller": {"maxConcurrentReconciles": {"capTenant": "7"}}}
    values: JsonObject = {"capOperator": cap, "concurrency": {"maxConcurrentReconciles": 20}}
    own, _ = settings(OPERATORS["cap"], (await chart.render(values))["Deployment", "cap-operator-controller"])

    assert own.max_concurrent_reconciles_cap_tenant == 7
    assert own.max_concurrent_reconciles_cap_application == 20
    assert own.max_concurrent_reconciles_cluster_domain == 20
    assert (await of_component(chart, {"concurrency": {"maxConcurrentReconciles": 20}})).max_concurrent_reconciles == 20


async def test_each_common_setting_is_one_of_some_program() -> None:
    fields = {row.field for spec in OPERATORS.values() for each in spec.processes for row in each.settings().rows}
    for shared in SHARED:
        assert any(shared.sets(field) for field in fields), shared.value.path
