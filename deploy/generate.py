"""Writes the files that are made from code; `make generate` runs it, and tests prove the files fresh.

usage: python deploy/generate.py
"""

from __future__ import annotations

import json
from pathlib import Path

from stellwerk.assembly import OPERATORS
from stellwerk.cli import reference
from stellwerk.delivery import helm_chart
from stellwerk.delivery.monitoring import objects as monitoring
from stellwerk.delivery.monitoring import runbook
from stellwerk.delivery.monitoring.objects import MonitoringObjects
from stellwerk.delivery.operator_spec import OperatorSpec
from stellwerk.kube.schema.crd import to_yaml
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
        **helm_chart.files(operators),
    }
    for operator in operators:
        found |= of_operator(operator)
    return found


def of_operator(operator: OperatorSpec) -> dict[Path, str]:
    """The files of one operator: its kinds, its pages, and what it adds."""
    installation, help = operator.installation(), operator.help()
    pages = Path("docs/reference")
    kinds = " or ".join(help)
    topics = {name: topic for kind in help.values() for name, topic in kind.topics.items()}
    return {
        **{Path(f"deploy/crds/{kind.name}.yaml"): HEADER + to_yaml(kind.body()) for kind in installation.definitions},
        **{Path(path): HEADER + text for path, text in installation.files().items()},
        **_watching(monitoring.of_operator(operator)),
        pages / f"settings/{operator.name}.md": process_settings.page(operator.title, operator.settings()),
        pages / f"reasons/{operator.name}.md": "\n".join(each.reasons_page(kind) for kind, each in help.items()),
        pages / f"topics/{operator.name}.md": help_topics.page(f"About a {kinds}", topics),
    }


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
    """Write them."""
    for path, text in generated().items():
        (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
