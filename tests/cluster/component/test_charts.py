"""A folder with a chart becomes what Helm would make of it, however its subcharts are switched, renamed and fed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stellwerk.api.core import ConfigMap
from stellwerk.operators.component.api import OWNER_ID, Component
from tests.cluster.component.given import Given
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

MATRIX = Path(__file__).parent / "matrix"
CASES: list[dict[str, Any]] = json.loads((MATRIX / "by-helm.json").read_text())


def chart() -> dict[str, bytes]:
    """The files of the chart."""
    folder = MATRIX / "chart"
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


async def test_a_key_that_appears_twice_in_a_chart_counts_as_in_helm_and_is_reported(
    given: Given, running: Running, then: Then
) -> None:
    files: dict[str, str | bytes] = {
        "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
        "values.yaml": "a: first\na: last\n",
        "templates/one.yaml": "---apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"
        "data:\n  a: '{{ .Values.a }}'\n  text: |\n    end{{- /* no line break */ -}}",
    }
    await given.source(files)
    await running.start()
    await given.component()
    await then.ready()
    assert (await then.config("one")).data == {"a": "last", "text": "end\n"}
    await then.event("ChartWarning", about="comp", saying='values.yaml: line 2: the key "a" appears twice')


async def test_a_chart_of_charts_becomes_what_helm_makes_of_it(given: Given, running: Running, then: Then) -> None:
    await given.source(chart())
    places = [given.a_namespace_to_be_made() for _ in CASES]
    await running.start()
    for number, case in enumerate(CASES):
        spec = {"name": "web", "namespace": places[number], "values": case["values"]}
        await given.client.apply(*_component(given.namespace, f"case-{number}", spec))
    for number, case in enumerate(CASES):
        await then.ready(f"case-{number}")
        listed = (await given.client.list(ConfigMap, places[number])).items
        found = {one.metadata.name: one.data for one in listed if OWNER_ID in one.metadata.labels}
        assert _plain(found) == _plain(case["expected"]), case["case"]


def _component(namespace: str, name: str, spec: dict[str, Any]) -> tuple[type[Any], dict[str, Any]]:
    source = {"sourceRef": {"fluxGitRepository": {"name": "source"}}}
    return Component, {"metadata": {"name": name, "namespace": namespace}, "spec": {**source, **spec}}


def _plain(objects: dict[str, dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Values as what they say: JSON has no order."""
    return {name: {**data, "values": json.loads(data["values"])} for name, data in objects.items()}
