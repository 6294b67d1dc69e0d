"""The operator may die, or lose the answer to a write, at any of its writes: the end is the same as without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.crash_sweep import (
    Sweep,
    SweepStep,
    at_even,
    at_odd,
    conflicts,
    each_once,
    killed_after,
    killed_before,
    timed_out,
)
from tests.cluster.btp.given import Given
from tests.cluster.btp.process import end_state, inputs, operator
from tests.cluster.btp.then import Then

CONVERGED_SECONDS = 60.0


def life(given: Given, then: Then) -> tuple[SweepStep, ...]:
    """What is asked for, one after the other."""

    async def ready() -> None:
        await then.shows("Ready", "ReconcileSucceeded", within=CONVERGED_SECONDS)

    async def delete() -> None:
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    async def gone() -> None:
        await then.is_gone(within=CONVERGED_SECONDS)

    return (
        SweepStep("the creation", given.btp_operator, ready, points=each_once, least_points=20),
        SweepStep("the deletion", delete, gone, points=each_once, least_points=20),
    )


@pytest.fixture
async def sweep(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Sweep]:
    await inputs(given)
    async with operator(btp_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        yield Sweep(
            process=running.process,
            proxy=running.proxy,
            parts=life(given, then),
            end_state=lambda: end_state(btp_cluster),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101", "R-102")
@pytest.mark.timeout(600)
async def test_killed_or_without_a_reply_at_any_write_it_ends_as_if_nothing_had_happened(
    sweep: Sweep, given: Given
) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after), at_even(timed_out), *conflicts(given.client))
