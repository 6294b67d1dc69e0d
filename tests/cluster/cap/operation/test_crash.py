"""The operator may die at any of its writes: a request to run a step again is neither lost nor carried out twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cluster.cap.shop import OPERATOR, Shop, job, router

from stellwerk.api.batch import Job
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.operators.cap.kinds.tenant import CAPTenantOperation
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.processes.operator_process import OperatorProcess
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_odd,
    conflicts,
    killed_after,
    killed_before,
    lasting_writes_in,
)
from stellwerk.testing.scenarios.recorder import Run


def life(shop: Shop) -> tuple[SweepStep, ...]:
    """An operation fails, runs again on request, and is deleted."""

    async def again() -> None:
        await shop.ask_again(CAPTenantOperation, "acme-op", "one")

    async def delete() -> None:
        await shop.client.delete(metadata_of(CAPTenantOperation), "acme-op", shop.namespace)

    async def gone() -> None:
        async def is_gone() -> bool:
            kinds = (CAPTenantOperation, Job)
            left = [await shop.client.list(metadata_of(kind), shop.namespace) for kind in kinds]
            return not any(each.items for each in left)

        await eventually(is_gone, within=60, describe="the operation is gone, and its Job")

    return (
        SweepStep("the failure", lambda: shop.operate("upgrade"), shop.ends, least_points=4),
        SweepStep("the retry", again, lambda: shop.fails_again("acme-op", "one"), least_points=4),
        SweepStep("the end", delete, gone),
    )


async def end_state(shop: Shop) -> Run:
    """How often the Job was tried, and what was noted about it."""
    found: dict[str, JsonObject] = {}
    for operation in await shop.operations():
        status = operation.status
        found["operation"] = {
            "state": status.state,
            "handled": status.last_handled_retry,
            "attempts": status.retry.attempts if status.retry is not None else 1,
            "jobs": len(await shop.all_jobs()),
        }
    return Run((), found)


@pytest.fixture
async def sweep(cap_cluster: LocalCluster, shop: Shop, tmp_path: Path, nursery: ForkServer) -> AsyncIterator[Sweep]:
    port = free_port()
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
        await shop.open(job("mtxs", fate="fail"), router(), follows=False)
        yield Sweep(
            process=process,
            proxy=proxy,
            parts=life(shop),
            end_state=lambda: end_state(shop),
            writes=lasting_writes_in(shop.namespace),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101")
@pytest.mark.timeout(600)
async def test_a_retry_is_counted_once_wherever_the_operator_dies(sweep: Sweep, shop: Shop) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after), *conflicts(shop.client), alone=True)
