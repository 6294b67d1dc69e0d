"""The reference page of metrics names all that are ours."""

from __future__ import annotations

from pathlib import Path

from stellwerk.kube.client import Client
from stellwerk.kube.config import ClusterConfig
from stellwerk.operators.btp.assembled import BtpMetrics
from stellwerk.runtime.manager import Manager

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"


async def test_every_metric_of_the_engine_and_of_the_btp_manager_is_on_the_page() -> None:
    manager = Manager(Client.connect(ClusterConfig(server="http://nowhere.invalid")))
    BtpMetrics(manager)
    names = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in manager.metrics.registry.collect()
        if family.name.startswith(("stellwerk_", "btpmanager_"))
    }
    assert len(names) > 10
    assert not [name for name in sorted(names) if f"`{name}" not in PAGE.read_text()]
