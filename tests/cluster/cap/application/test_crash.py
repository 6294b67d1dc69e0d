"""The operator may die at any write in the life of an application: nothing is lost, and no Job runs twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cluster.cap.life import Life
from tests.cluster.cap.shop import OPERATOR, Shop

from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.crash_sweep import Sweep, at_odd, killed_after, killed_before, lasting_writes_in


@pytest.fixture
async def sweep(cap_cluster: LocalCluster, shop: Shop, tmp_path: Path, nursery: ForkServer) -> AsyncIterator[Sweep]:
    port, life = free_port(), Life(shop)
    async with (
        FaultProxy(cap_cluster.kubeconfig_for(OPERATOR)) as proxy,
        OperatorProcess(
            ["-m", "tests.cluster.cap.program", str(port)],
            log=tmp_path / "operator.log",
            kubeconfig=proxy.kubeconfig,
            health_url=f"http://127.0.0.1:{port}/readyz",
            nursery=nursery,
        ) as process,
    ):
        await process.start()
        yield Sweep(
            process=process,
            proxy=proxy,
            parts=life.parts(),
            end_state=life.end_state,
            writes=lasting_writes_in(shop.namespace),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101")
@pytest.mark.timeout(1200)
async def test_killed_at_any_write_it_ends_as_if_nothing_had_happened(sweep: Sweep) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after))
