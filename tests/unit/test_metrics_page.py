"""The reference page of metrics names all that are ours."""

from __future__ import annotations

from pathlib import Path

from stellwerk.operators.btp.metrics import BtpMetrics
from stellwerk.runtime.metrics import Metrics

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


def test_every_metric_of_the_engine_and_of_the_btp_manager_is_on_the_page() -> None:
    metrics = Metrics()
    BtpMetrics(metrics).show(dict)
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in metrics.registry.collect()
        if family.name.startswith(("stellwerk_", "btpmanager_"))
    }
    assert len(names) > 10
    assert not [name for name in sorted(names) if f"`{name}" not in PAGE.read_text()]
