"""Common values decide about the admission webhooks of all operators, and an operator's own values before them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import ALL, CAP, Chart, Objects

from stellwerk.assembly import OPERATORS
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.render.errors import RenderError

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.heavy]

WEBHOOK = "cap-operator-webhook"
CONFIGURATIONS = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chart]:
    folder = helm_charts.write_chart(tmp_path_factory.mktemp("chart"), OPERATORS.values())
    async with helm_charts.chart(helm_charts.with_notes(folder)) as chart:
        yield chart


def policies(objects: Objects) -> set[object]:
    """What API servers do without an answer, of all webhooks."""
    found: set[object] = set()
    for kind in CONFIGURATIONS:
        webhooks = objects[kind, "cap-operator"]["webhooks"]
        assert isinstance(webhooks, list)
        found |= {dig(each, "failurePolicy") for each in webhooks}
    return found


@pytest.mark.parametrize(
    "values", [{**ALL, "webhooks": {"enabled": False}}, {**ALL, "capOperator": {**CAP, "webhooks": {"enabled": False}}}]
)
async def test_without_webhooks_nothing_of_their_server_is_left(chart: Chart, values: JsonObject) -> None:
    objects = await chart.render(values)

    assert not [kind for kind, _ in objects if kind in CONFIGURATIONS]
    of_server = [key for key in objects if key[1].startswith(WEBHOOK)]
    assert of_server == []
    assert WEBHOOK not in str(dig(objects["ConfigMap", "notes"], "data", "text"))
    others = {key for key in await chart.render(ALL) if key[0] not in CONFIGURATIONS and not key[1].startswith(WEBHOOK)}
    assert others == set(objects), "everything else is as before"


@pytest.mark.req("R-706")
async def test_the_failure_policy_is_that_of_the_operator_unless_a_value_sets_it(chart: Chart) -> None:
    assert policies(await chart.render(ALL)) == {"Fail"}
    ignore: JsonObject = {"failurePolicy": "Ignore"}
    assert policies(await chart.render({**ALL, "webhooks": ignore})) == {"Ignore"}
    own: JsonObject = {**ALL, "capOperator": {**CAP, "webhooks": {"failurePolicy": "Fail"}}, "webhooks": ignore}
    assert policies(await chart.render(own)) == {"Fail"}


@pytest.mark.parametrize(
    ("common", "own", "of_server", "certified"),
    [
        ("Default", {}, "", False),
        ("CertManager", {}, "", True),
        ("Default", {"certificates": "CertManager"}, "", True),
        ("CertManager", {"certificates": "Default"}, "", False),
        ("CertManager", {}, "Default", False),
        ("Default", {"certificates": "Default"}, "CertManager", True),
    ],
)
async def test_the_nearest_value_names_what_issues_certificates(
    chart: Chart, common: str, own: JsonObject, of_server: str, certified: bool
) -> None:
    webhook: JsonObject = {"certificateManager": of_server}
    cap: JsonObject = {**CAP, "webhooks": own, "webhook": webhook}
    objects = await chart.render({"capOperator": cap, "webhooks": {"certificates": common}})

    assert (("Certificate", WEBHOOK) in objects) is certified
    arguments = str(objects["Deployment", WEBHOOK])
    assert ("--tls-enabled=true" in arguments) is certified


@pytest.mark.req("R-509")
@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"webhooks": {"failurePolicy": "fail"}}, "failurePolicy"),
        ({"webhooks": {"certificates": "Gardener"}}, "certificates"),
        ({"btpManager": {"webhooks": {"enabled": False}}}, "webhooks"),
    ],
)
async def test_a_value_about_webhooks_that_has_no_effect_is_refused(
    chart: Chart, values: JsonObject, named: str
) -> None:
    with pytest.raises(RenderError, match=named):
        await chart.render(values)
