"""The chart belongs to the program: it has its version, and a wheel has it where the program looks."""

from __future__ import annotations

import tomllib

import yaml
from tests.unit.operators import helm_charts

from stellwerk import __version__
from stellwerk.assembly import OPERATORS
from stellwerk.delivery import helm_chart

WITHOUT_SAMPLE = {
    *("BlueprintVersion", "CAPOperator", "CAPTenantOperation", "CAPTenantOutput", "ClusterDomain", "Domain"),
    "Manifest",
    "Watcher",
}
"""Kinds that operators create, and those that need more than the local Kubernetes has."""


def test_the_chart_has_the_version_of_the_program() -> None:
    about = yaml.safe_load((helm_charts.ROOT / helm_chart.CHART / "Chart.yaml").read_text())

    assert about["version"] == about["appVersion"] == __version__


def test_the_chart_describes_every_kind_with_the_samples_as_examples() -> None:
    about = yaml.safe_load((helm_charts.ROOT / helm_chart.CHART / "Chart.yaml").read_text())
    definitions = [kind for spec in OPERATORS.values() for kind in spec.installation().definitions]
    kinds = yaml.safe_load(about["annotations"]["artifacthub.io/crds"])
    examples = yaml.safe_load(about["annotations"]["artifacthub.io/crdsExamples"])

    assert [kind["name"] for kind in kinds] == [kind.name for kind in definitions]
    assert all(kind["description"].endswith(".") for kind in kinds)
    with_example = {(body["apiVersion"].partition("/")[0], body["kind"]) for body in examples}
    resources = [kind.versions[0].kind.resource for kind in definitions]
    assert {each.kind for each in resources if (each.group, each.kind) not in with_example} == WITHOUT_SAMPLE


def test_the_chart_lists_the_changes_of_the_newest_version() -> None:
    about = yaml.safe_load((helm_charts.ROOT / helm_chart.CHART / "Chart.yaml").read_text())
    changes = yaml.safe_load(about["annotations"]["artifacthub.io/changes"])
    newest = (helm_charts.ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]

    assert "One chart installs all operators" in changes[0]
    assert all(f"\n- {change}\n" in newest and len(change) < 1_000 for change in changes)


def test_a_wheel_has_the_chart_where_the_program_looks_for_it() -> None:
    project = tomllib.loads((helm_charts.ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]

    assert included[str(helm_chart.CHART)] == "stellwerk/chart"
    assert (helm_chart.folder() / "Chart.yaml").exists()
