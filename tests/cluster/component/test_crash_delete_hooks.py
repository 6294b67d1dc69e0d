"""The operator may die, or lose the answer to a write, while hooks for the end run: each has run once all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_every,
    at_odd,
    killed_after,
    killed_before,
    reply_cut,
)
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, job
from tests.cluster.component.process import end_state, operator
from tests.cluster.component.then import Then

CONVERGED_SECONDS = 30.0
CHART = {
    "Chart.yaml": "apiVersion: v2\nname: app\nversion: 1.0.0\n",
    "templates/app.yaml": config("app"),
    "templates/before.yaml": job("before", annotations={"helm.sh/hook": "pre-delete"}),
    "templates/after.yaml": job("after", annotations={"helm.sh/hook": "post-delete"}),
}


@dataclass
class HookedComponent:
    """A Component that comes and goes, and how often its hooks were made meanwhile."""

    given: Given
    then: Then
    audit: AuditLog
    writes: Writes = field(init=False)

    def __post_init__(self) -> None:
        self.writes = Writes(self.audit, "component-operator", self.given.namespace)

    async def comes(self) -> None:
        await self.given.source(CHART, revision="r1")
        await self.given.component(deleteHooks="Run")

    async def is_there(self) -> None:
        await self.then.ready(within=CONVERGED_SECONDS)

    async def goes(self) -> None:
        self.audit.mark()
        await self.given.deleted()

    async def is_gone(self) -> None:
        await self.then.gone(within=CONVERGED_SECONDS)
        made = [one for one in self.writes.to("jobs") if one.startswith("create")]
        assert made == ["create jobs/before", "create jobs/after"]


@pytest.fixture
async def sweep(
    component_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Sweep]:
    hooked = HookedComponent(given, then, AuditLog(component_cluster))
    async with operator(component_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        yield Sweep(
            process=running.process,
            proxy=running.proxy,
            parts=(
                SweepStep("the creation", hooked.comes, hooked.is_there, least_points=3),
                SweepStep("the deletion", hooked.goes, hooked.is_gone, least_points=10),
            ),
            end_state=lambda: end_state(component_cluster, given.namespace),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101", "R-102")
@pytest.mark.timeout(600)
async def test_killed_or_without_a_reply_at_any_write_hooks_have_run_once(sweep: Sweep) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after), at_every(reply_cut))
