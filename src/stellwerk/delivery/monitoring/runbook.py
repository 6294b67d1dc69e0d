"""The runbook: a section for each alert, in Markdown, and the page of all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import resources

from stellwerk.delivery.monitoring import alerts
from stellwerk.delivery.monitoring.alerts import Alert
from stellwerk.delivery.monitoring.objects import alerts_of
from stellwerk.delivery.operator_spec import OperatorSpec

_TABLE = "| alert | severity | after |\n| --- | --- | --- |\n"


def page(operators: Sequence[OperatorSpec]) -> str:
    """The page of all alerts. Raises KeyError where an alert has no section."""
    text = resources.files("stellwerk.delivery.monitoring").joinpath("runbook.md").read_text("utf-8")
    head, texts = text.partition("\n## ")[0], sections(text)
    entries: dict[str, list[Alert]] = {alert.name: [alert] for alert in alerts.SHARED}
    for operator in operators:
        texts |= sections(operator.monitoring().runbook)
        for alert in alerts_of(operator):
            entries.setdefault(alert.name, []).append(alert)
    rows, parts = list[str](), list[str]()
    for name, named in entries.items():
        rows.append(f"| [{name}](#{name.lower()}) | {named[0].severity} | {named[0].duration or 'at once'} |")
        # Operators may differ in a label of the expression.
        parts += [f"## {name}", "", texts[name], "", "```promql", *(alert.expr for alert in named), "```", ""]
    return f"{head}\n{_TABLE}" + "\n".join([*rows, "", *parts])


def sections(text: str) -> dict[str, str]:
    """The sections of a runbook by the name of their alert."""
    parts = re.split(r"^## (\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (body.strip() for body in parts[2::2]), strict=True))
