"""A value of the chart that no program could use is refused before anything is installed, with its field."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest
import pytest_asyncio
from tests.unit.operators import helm_charts
from tests.unit.operators.helm_charts import ALL, Chart

from stellwerk.assembly import OPERATORS
from stellwerk.delivery import helm_chart
from stellwerk.delivery.chart.values import SETTING
from stellwerk.kube.types.model import JsonObject, JsonValue
from stellwerk.render.errors import RenderError
from stellwerk.runtime.settings import parsers
from stellwerk.runtime.settings.table import Setting

pytestmark = [pytest.mark.req("R-509")]

WRONG: dict[str, JsonValue] = {
    "log.level": "verbose",
    "log.format": "xml",
    "image.digest": "sha256:0",
    "image.tag": "v1@sha256:0",
    "image.pullPolicy": "always",
    "resources.limits.memory": "512MB",
    "resources.request": {"cpu": "1"},
    "pdb.minAvailable": "half",
    "networkPolicy.egressPorts": [70_000],
    "serviceAccount.name": "Mine",
    "egress.allowPrivate": "sometimes",
    "egress.allowHosts": "https://charts.example.com",
    "tenancy.defaultServiceAccount": "system:serviceaccount:a:b",
    "concurrency.maxConcurrentReconciles": 2_000,
    "webhooks.certificates": "certManager",
    "componentOperator.options.tenancy": "Strictly",
    "componentOperator.options.driftPolicy": "Revert",
    "componentOperator.options.maxConcurrentReconciles": 0,
    "componentOperator.options.httpRepositoryInterval": "1 minute",
    "componentOperator.options.egressAllowNetworks": "10.0.0.0/8;fd00::/8",
    "componentOperator.resources.requests.cpu": "0,1",
    "btpManager.options.crSelection": "newest",
    "btpManager.options.readyTimeout": 5,
    "btpManager.options.secretName": "sap_btp_manager",
    "capOperator.controller.certManager": "cert-manager",
    "capOperator.controller.dnsManager": "external-dns",
    "capOperator.controller.resources.limits.cpu": "half",
    "capOperator.subscriptionServer.certificateManager": "cert-manager.io",
    "capOperator.subscriptionServer.gatewaySecret.name": "a/b",
    "capOperator.webhook.certificateManager": "certManager",
    "capOperator.controller.options.maxTenantVersionHistory": 0,
}
"""A wrong value for each kind of schema, by its path."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chart() -> AsyncIterator[Chart]:
    async with helm_charts.chart() as chart:
        yield chart


def at(path: str, value: JsonValue, base: JsonObject) -> JsonObject:
    """The values with another one at a path."""
    first, _, rest = path.partition(".")
    inner = base.get(first)
    return {**base, first: at(rest, value, inner if isinstance(inner, dict) else {}) if rest else value}


@pytest.mark.heavy
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("path", WRONG)
async def test_a_wrong_value_is_refused_with_its_field(chart: Chart, path: str) -> None:
    with pytest.raises(RenderError) as refused:
        await chart.render(at(path, WRONG[path], {**ALL, "crds": {"install": False}}))

    *place, name = path.split(".")
    assert f"/{'/'.join(place)}" in str(refused.value)
    assert name in str(refused.value)


def options() -> Iterator[tuple[str, JsonObject, Setting[Any]]]:
    """Each option that is no switch: its path, its schema, and its setting."""
    for spec in OPERATORS.values():
        for process in spec.processes:
            place = ".".join(filter(None, (helm_chart.key(spec), helm_chart.component(spec, process), "options")))
            rows = {row.field.replace("_", ""): row for row in process.settings().rows}
            for value in helm_chart.values([spec]):
                head, _, name = value.path.rpartition(".")
                if head == place and name.lower() in rows and not rows[name.lower()].is_switch:
                    yield value.path, value.schema, rows[name.lower()]


TEXTS = (
    *("0", "1", "2", "7", "443", "1000", "1000000", "1000000000", "-1", "1.5", "true", "false", "TRUE", "auto", "none"),
    *(
        "5m",
        "1h30m",
        "0s",
        "-168h",
        "500ms",
        "1d",
        "5 m",
        ".5h",
        "1.h",
        "+1m",
        "10µs",
        "strict",
        "compatible",
        "Report",
    ),
    *("oldest", "fixed", "chart", "resources", "changes", "all", "a", "a,b", " a , b ,", "Upper", "a/b", "a b", "*"),
    *("*.example.com", "a.example.com,b.example.com", "https://a", "10.0.0.0/8", "10.0.0.0/8, fd00::/8", "/var", "x,"),
)


@pytest.mark.parametrize(("schema", "row"), [(each[1], each[2]) for each in options()], ids=[o[0] for o in options()])
def test_the_schema_refuses_nothing_that_the_program_accepts(schema: JsonObject, row: Setting[Any]) -> None:
    known = tuple(row.read.meanings) if isinstance(row.read, parsers.Words) else row.choices
    is_number = isinstance(row.read, parsers.Number)
    for text in (*TEXTS, *known):
        given = int(text) if is_number and text.isdecimal() else text
        is_accepted = text in known if known else accepts(row, text)
        if is_accepted:
            assert allows(schema, given), text
        elif known or is_number:
            assert not allows(schema, given), text


def test_each_option_with_words_or_numbers_has_a_closed_schema() -> None:
    for path, schema, row in options():
        if row.choices or isinstance(row.read, parsers.Words | parsers.Number | parsers.Formed):
            assert schema != SETTING, path


def accepts(row: Setting[Any], text: str) -> bool:
    """Whether the program reads a text."""
    with suppress(ValueError):
        row.read(text)
        return True
    return False


def allows(schema: Any, value: str | int) -> bool:
    """Whether a schema of the chart allows a text or a number."""
    if "enum" in schema:
        return any(each == value and type(each) is type(value) for each in schema["enum"])
    if isinstance(value, int):
        return "integer" in schema["type"] and schema["minimum"] <= value <= schema["maximum"]
    return re.search(schema.get("pattern", ""), value) is not None
