"""Writes the files that are made from code; `make generate` runs it, and tests prove the files fresh.

usage: python deploy/generate.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import yaml

from stellwerk.assembly import OPERATORS
from stellwerk.cli import reference
from stellwerk.delivery import helm_chart, rights_page
from stellwerk.delivery.monitoring import objects as monitoring
from stellwerk.delivery.monitoring import runbook
from stellwerk.delivery.monitoring.objects import MonitoringObjects
from stellwerk.delivery.operator_spec import OperatorSpec, ProcessSpec
from stellwerk.kube.schema.crd import Definition, to_yaml
from stellwerk.kube.types.model import JsonObject
from stellwerk.runtime.insight import help_topics
from stellwerk.runtime.settings import process_settings

ROOT = Path(__file__).resolve().parent.parent
MONITORING = Path("deploy/monitoring")
HEADER = "# Made by `make generate`; do not edit.\n"


def generated() -> dict[Path, str]:
    """Every generated file, relative to the root of the repository, and its text."""
    operators = tuple(OPERATORS.values())
    shared = monitoring.shared(operators)
    groups = [*shared.groups, *(group for each in operators for group in monitoring.of_operator(each).groups)]
    found = {
        reference.PAGE: reference.page(),
        Path(monitoring.RUNBOOK): runbook.page(operators),
        MONITORING / "rules.yaml": HEADER + to_yaml({"groups": [*groups]}),
        MONITORING / "prometheusrule.yaml": HEADER + to_yaml(monitoring.prometheus_rule(groups)),
        **_watching(shared),
        helm_chart.CHART / "Chart.yaml": helm_chart.about(operators, samples(), changes()),
        **helm_chart.files(operators),
    }
    for operator in operators:
        found |= of_operator(operator)
    return found


def definitions(kinds: Iterable[Definition]) -> dict[Path, str]:
    """The file of each CustomResourceDefinition."""
    return {Path(f"deploy/crds/{kind.name}.yaml"): HEADER + to_yaml(kind.body()) for kind in kinds}


def samples() -> list[JsonObject]:
    """The objects of the samples, in the order in which they are applied."""
    texts = [file.read_text() for file in sorted((ROOT / "samples").glob("*/*.yaml"))]
    return [body for text in texts for body in yaml.safe_load_all(text) if body]


def changes() -> list[str]:
    """The lines about the chart in the newest part of the changelog."""
    newest = (ROOT / "CHANGELOG.md").read_text().split("\n## ")[1]
    chart = newest.partition("\n### Chart\n")[2].partition("\n### ")[0]
    return [line.removeprefix("- ") for line in chart.splitlines() if line.startswith("- ")]


def of_operator(operator: OperatorSpec) -> dict[Path, str]:
    """The files of one operator: its kinds, its pages, and what it adds."""
    installation, help = operator.installation(), operator.help()
    pages = Path("docs/reference")
    kinds = " or ".join(help)
    topics = {name: topic for kind in help.values() for name, topic in kind.topics.items()}
    return {
        **definitions(installation.definitions),
        **{Path(path): HEADER + text for path, text in installation.files().items()},
        **_watching(monitoring.of_operator(operator)),
        **{pages / f"settings/{each.name}.md": settings_page(each) for each in operator.processes},
        pages / f"reasons/{operator.name}.md": "\n".join(each.reasons_page(kind) for kind, each in help.items()),
        **{
            pages / f"rights/{each.name}.md": rights_page.page(each.title, each.installation())
            for each in operator.processes
        },
        pages / f"topics/{operator.name}.md": help_topics.page(f"About a {kinds}", topics),
    }


def settings_page(spec: ProcessSpec) -> str:
    """The reference page of a program's settings."""
    return process_settings.page(spec.title, spec.settings(), spec.process())


def _watching(objects: MonitoringObjects) -> dict[Path, str]:
    """The dashboards and Busola pages."""
    return {
        **{
            MONITORING / f"dashboards/{name}.json": json.dumps(body, indent=2) + "\n"
            for name, body in objects.dashboards.items()
        },
        **{
            MONITORING / f"busola/{body['metadata']['name'].removeprefix('stellwerk-')}.yaml": HEADER + to_yaml(body)
            for body in objects.busola
        },
    }


def main() -> None:
    """Write those that are not as they should be."""
    for path, text in generated().items():
        file = ROOT / path
        if not file.exists() or file.read_text() != text:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)


if __name__ == "__main__":
    main()
