"""The operator as a whole in the chart."""

from __future__ import annotations

from importlib.resources import files

from stellwerk.delivery.chart.part import OperatorChart
from stellwerk.delivery.chart.values import SWITCH, TEXTS, Value

_TEMPLATES = files("stellwerk.operators.cap.chart") / "templates"

CHART = OperatorChart(
    name="cap-operator",
    values=(
        Value("monitoring.enabled", False, SWITCH, "ServiceMonitors, and a ConfigMap with the dashboard for Grafana."),
        Value("monitoring.serviceMonitorSelectorLabels", {}, TEXTS, "Further labels of the ServiceMonitors."),
        Value(
            "monitoring.grafana.dashboard.configMapLabels",
            {"grafana_dashboard": "1"},
            TEXTS,
            "Labels by which Grafana finds the dashboard.",
        ),
    ),
    ignored_images=("ghcr.io/sap/cap-operator/",),
    templates={file.name: file.read_text() for file in _TEMPLATES.iterdir() if file.name.endswith(".yaml")},
)
