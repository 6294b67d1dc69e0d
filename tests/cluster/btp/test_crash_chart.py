"""Killed at a write while the module comes from a chart, the manager still knows what it has applied.

What other versions have left is found by a record in the cluster, which is written before an unusual kind and after a
whole release: a crash in between must not make the manager forget an object, nor take one for its own that is not. So
the first version brings a kind that nobody watches and an object more, the second no longer has either.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.eventually import eventually
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_even,
    at_odd,
    each_once,
    killed_after,
    reply_cut,
)
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.recorder import Selection
from tests.cluster.btp.charts import ModuleChart
from tests.cluster.btp.given import Given
from tests.cluster.btp.modules import Module
from tests.cluster.btp.process import NAMESPACE, end_state, inputs, operator
from tests.cluster.btp.test_chart import BUDGET, BUDGETS, EXTRA, RECORD, may_keep_budgets
from tests.cluster.btp.then import Then

CONVERGED_SECONDS = 60.0
FIRST, SECOND = "v0.11.10", "v0.12.0"
WORDS = Masks(paths=[("status", "conditions", "*", "reason"), ("status", "conditions", "*", "message")])
"""Whoever starts anew shows that it looks for an update, so the condition's words depend on when it was killed."""


@dataclass(frozen=True, slots=True)
class Life:
    """A module from a chart, its next version, and its end."""

    chart: ModuleChart
    given: Given
    then: Then

    @property
    def parts(self) -> tuple[SweepStep, ...]:
        """What is asked for, one after the other."""
        return (
            SweepStep("the creation", self._create, lambda: self._ready(FIRST), points=each_once, least_points=20),
            SweepStep("the update", self._update, lambda: self._ready(SECOND), points=each_once, least_points=20),
            SweepStep("the deletion", self._delete, self._gone, points=each_once, least_points=20),
        )

    async def _create(self) -> None:
        self.chart.write("extra.yaml", EXTRA.format(name="extra", value="1"))
        self.chart.write("budget.yaml", BUDGET)
        self.chart.set_version(FIRST)
        await self.given.btp_operator()

    async def _update(self) -> None:
        self.chart.remove("extra.yaml")
        self.chart.remove("budget.yaml")
        self.chart.set_version(SECOND)
        poke = MergePatch({"metadata": {"annotations": {"poke": SECOND}}})
        await self.given.client.patch(metadata_of(BtpOperator), "btpoperator", NAMESPACE, poke)

    async def _delete(self) -> None:
        await self.given.client.delete(BtpOperator, "btpoperator", NAMESPACE)

    async def _ready(self, version: str) -> None:
        """A status that says Ready comes after the record."""
        await eventually(lambda: self._is_recorded(version), within=CONVERGED_SECONDS, describe=f"{version} is there")
        history = self.then.history
        await history.until(
            lambda: [shown.state for shown in history.of()[-1:]] == ["Ready"],
            lambda: f"it should be Ready; it showed {history.of()}",
            CONVERGED_SECONDS,
        )

    async def _is_recorded(self, version: str) -> bool:
        found = await self.given.client.find(ConfigMap, RECORD, NAMESPACE)
        return found is not None and found.data.get("currentChartVersion") == version

    async def _gone(self) -> None:
        await self.then.is_gone(within=CONVERGED_SECONDS)


@pytest.fixture
async def sweep(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Sweep]:
    await inputs(given)
    await may_keep_budgets(given.client)
    budgets = Selection(BUDGETS.resource, NAMESPACE)
    async with operator(btp_cluster, tmp_path, "--module-source=chart", nursery=nursery) as running:
        life = Life(ModuleChart.of(Module(tmp_path / "process-module")), given, then)
        await running.process.start()
        yield Sweep(
            process=running.process,
            proxy=running.proxy,
            parts=life.parts,
            end_state=lambda: end_state(btp_cluster, budgets, masks=WORDS),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101", "R-102")
@pytest.mark.timeout(600)
async def test_killed_or_without_a_reply_at_a_write_it_ends_as_if_nothing_had_happened(sweep: Sweep) -> None:
    await sweep.run(at_odd(killed_after), at_even(reply_cut))
