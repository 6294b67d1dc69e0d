"""Every query is valid, names metrics of the reference page with labels that they have, and fits on the grid."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.prometheus import program
from tests.toy_operator.operator import OPERATOR as TOY

from stellwerk.assembly import OPERATORS
from stellwerk.delivery.monitoring import objects
from stellwerk.delivery.monitoring.panels import Panel, Query, dashboard

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "metrics.md").read_text()
METRICS = {
    name: set(filter(None, labels.split(",")))
    for name, labels in re.findall(r"^\| `([a-z_]+)(?:\{([a-z_,]*)\})?` \|", PAGE, re.MULTILINE)
}
OF_THE_LIBRARY = ("process_resident_memory_bytes", "process_cpu_seconds_total")
OF_THE_TARGET = {"instance", "job", "namespace", "le"}
_PREFIXES = (
    "cap_op_|lifecycle_mgr_|watcher_listener_|stellwerk_|controller_runtime_|workqueue_|rest_client_|leader_election_"
    "|btpmanager_|component_operator_"
)
_METRIC = re.compile(rf"\b((?:{_PREFIXES}|process_)[a-z_]+)(?:\{{([^}}]*)\}})?")
_MATCHER = re.compile(r"([a-z_]+)\s*(?:!?=~?)")


def groups() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((ROOT / "deploy" / "monitoring" / "rules.yaml").read_text())["groups"]
    return found


def dashboards() -> dict[str, Any]:
    specs = (*OPERATORS.values(), TOY)
    return {
        name: body
        for made in (objects.shared(specs), *(objects.of_operator(spec) for spec in specs))
        for name, body in made.dashboards.items()
    }


def expressions() -> list[str]:
    of_panels = [
        target["expr"] for body in dashboards().values() for panel in body["panels"] for target in panel["targets"]
    ]
    return sorted({*of_panels, *(rule["expr"] for group in groups() for rule in group["rules"])})


def recorded() -> set[str]:
    return {rule["record"] for group in groups() for rule in group["rules"] if "record" in rule}


def series_of(metric: str) -> set[str]:
    """The labels of a series; of a histogram's, those of the histogram."""
    family = re.sub(r"_(bucket|count|sum)$", "", metric)
    return METRICS[metric] if metric in METRICS else METRICS[family]


@pytest.mark.parametrize("expression", expressions())
def test_a_query_names_metrics_and_labels_of_the_reference_page(expression: str) -> None:
    named = _METRIC.findall(expression)
    assert named or any(name in expression for name in recorded())
    labels = set(OF_THE_TARGET)
    for metric, matchers in named:
        if metric in OF_THE_LIBRARY:
            continue
        assert set(_MATCHER.findall(matchers)) <= series_of(metric)
        labels |= series_of(metric)
    for clause in re.findall(r"\b(?:by|on) \(([^)]*)\)", expression):
        assert {label.strip() for label in clause.split(",") if label.strip()} <= labels


def test_promtool_accepts_all_queries(tmp_path: Path) -> None:
    rules = [{"record": f"query:{number}", "expr": expr} for number, expr in enumerate(expressions())]
    file = tmp_path / "queries.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    command = [program("promtool"), "check", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", sorted(dashboards()))
def test_panels_have_distinct_ids_and_do_not_overlap(name: str) -> None:
    panels = dashboards()[name]["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for place in (panel["gridPos"] for panel in panels):
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells
        assert max(x for x, _ in own) < 24
        cells |= own


def test_an_operator_gets_a_dashboard_alerts_and_busola_pages_by_being_registered() -> None:
    made = objects.of_operator(TOY)
    assert made.dashboards["toy"]["uid"] == "stellwerk-toy"
    assert 'kind=~"Site|Page"' in str(made.dashboards["toy"])
    (group,) = made.groups
    assert 'leader_election_master_status{name="toy"}' in str(group)
    assert [body["metadata"]["name"] for body in made.busola] == [  # type: ignore[index,call-overload]
        "stellwerk-sites.toy.example.com",
        "stellwerk-pages.toy.example.com",
    ]
    assert "/d/stellwerk-toy" in str(objects.shared((TOY,)).dashboards["overview"])


def test_a_panel_that_does_not_fit_begins_a_new_row() -> None:
    panels = [
        Panel(title=str(width), queries=(Query("up"),), description="", width=width, height=height)
        for width, height in ((12, 4), (8, 6), (12, 4))
    ]
    body: Any = dashboard("x", "X", panels)
    assert [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in body["panels"]] == [(0, 0), (12, 0), (0, 6)]
