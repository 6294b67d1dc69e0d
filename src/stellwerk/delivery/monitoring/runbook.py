"""The runbook: a section for each alert, in Markdown, and the page of all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources

from stellwerk.delivery.monitoring import alerts
from stellwerk.delivery.monitoring.alerts import Alert
from stellwerk.delivery.monitoring.objects import alerts_of
from stellwerk.delivery.operator_spec import OperatorSpec

_TABLE = "| alert | severity | after |\n| --- | --- | --- |\n"


def page(operators: Sequence[OperatorSpec]) -> str:
    """The page of all alerts. Raises KeyError where an alert has no section."""
    text = resources.files("stellwerk.delivery.monitoring").joinpath("runbook.md").read_text("utf-8")
    head, shared_texts = text.partition("\n## ")[0], sections(text)
    texts = {**shared_texts}
    entries: dict[str, list[Alert]] = {alert.name: [alert] for alert in alerts.SHARED}
    for operator in operators:
        texts |= sections(operator.monitoring().runbook)
        for alert in alerts_of(operator):
            entries.setdefault(alert.name, []).append(alert)
    rows = [
        f"| [{name}](#{name.lower()}) | {named[0].severity} | {_after(named[0])} |" for name, named in entries.items()
    ]
    parts = [f"## {name}\n\n{texts[name]}\n\n{_queries(named)}\n" for name, named in entries.items()]
    return f"{head}\n{_TABLE}" + "\n".join([*rows, "", *parts])


def _queries(named: Sequence[Alert]) -> str:
    """The expressions of the alerts of one name: operators may differ in a label."""
    return "\n".join(["```promql", *(alert.expr for alert in named), "```"])


def sections(text: str) -> Mapping[str, str]:
    """The sections of a runbook by the name of their alert."""
    parts = re.split(r"^## (\w+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (body.strip() for body in parts[2::2]), strict=True))


def _after(alert: Alert) -> str:
    return alert.duration or "at once"
