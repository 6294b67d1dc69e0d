"""The webhooks in the chart."""

from __future__ import annotations

from stellwerk.delivery.chart.part import ChartPart
from stellwerk.delivery.chart.values import PORT, Value
from stellwerk.operators.cap.chart.component import component, labels

PART = ChartPart(
    key="webhook",
    suffix="webhook",
    labels=labels("webhook"),
    values=(
        *component("200Mi", 0.1, requested_memory="20Mi", requested_cpu=0.01),
        Value("service.targetPort", 1443, PORT, "The port of the pods.", field="webhook_port"),
    ),
)
