"""Values and labels that each process of the CAP Operator has, as in the original's chart."""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.delivery.chart.values import COUNT, OBJECT, Value


def component(memory: str, cpu: float, *, requested_memory: str, requested_cpu: float) -> tuple[Value, ...]:
    """Number of pods, and their resources."""
    return (
        Value("replicas", 1, COUNT, "Number of pods."),
        Value(
            "resources",
            {
                "limits": {"memory": memory, "cpu": cpu},
                "requests": {"memory": requested_memory, "cpu": requested_cpu},
            },
            OBJECT,
        ),
    )


def labels(category: str) -> Mapping[str, str]:
    """Labels by which policies and queries of users find the objects and pods of the original."""
    prefix = "operator.sme.sap.com"
    return {f"{prefix}/app": "{name}", f"{prefix}/category": category, f"{prefix}/release": "{release}"}
