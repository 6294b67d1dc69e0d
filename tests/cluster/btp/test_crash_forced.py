"""Killed at any write of a forced deletion, the operator still takes exactly what it was told to take.

The world has a service instance and a binding, each held by a finalizer of an operand that does not answer, so the
deletion goes all the way: hard, then soft, then the module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from stellwerk.api.core import Secret
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.processes.fork_server import ForkServer
from stellwerk.testing.scenarios.crash_sweep import Sweep, SweepStep, at_odd, each_once, killed_after, killed_before
from tests.cluster.btp.given import CREDENTIALS, Given, base64_text
from tests.cluster.btp.process import FAST, end_state, operator
from tests.cluster.btp.then import Then

OPERANDS_FINALIZER = "services.cloud.sap.com/sap-btp-finalizer"
CONVERGED_SECONDS = 60.0


def life(given: Given, then: Then) -> tuple[SweepStep, ...]:
    """Up, with users' objects, and asked to go with all of them."""

    async def create() -> None:
        await given.btp_operator(labels={"force-delete": "true"})

    async def used() -> None:
        await then.shows("Ready", "ReconcileSucceeded", within=CONVERGED_SECONDS)
        await given.service_instance("db", "default", OPERANDS_FINALIZER)
        await given.service_binding("db-binding", "db", "default", OPERANDS_FINALIZER, secret_name="db-credentials")
        await given.secret_of_binding("db-credentials", "db-binding")

    async def delete() -> None:
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    async def gone() -> None:
        """The CR and the binding's Secret are gone, and nobody else's."""
        await then.is_gone(within=CONVERGED_SECONDS)
        assert await given.client.find(metadata_of(Secret), "db-credentials", "default") is None
        assert await given.client.find(metadata_of(Secret), "bystander", "default") is not None

    return (
        SweepStep("the creation", create, used, points=lambda _: (), least_points=0),
        SweepStep("the forced deletion", delete, gone, points=before_the_module, least_points=5),
    )


async def secret(given: Given, name: str) -> None:
    """A Secret beside the binding's own, of somebody else."""
    await given.replace(
        Secret,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "default"},
            "data": {"uri": base64_text(CREDENTIALS["sm_url"])},
        },
    )


def before_the_module(writes: Sequence[str]) -> Sequence[str]:
    """The writes up to the module's own removal, of which every one is tried without force."""
    once = each_once(writes)
    end = next((place for place, write in enumerate(once) if write.startswith("delete clusterroles")), len(once))
    return once[:end]


@pytest.fixture
async def sweep(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: ForkServer
) -> AsyncIterator[Sweep]:
    """The operator waits a second only before the soft way."""
    await given.required_secret()
    await given.tunables(**FAST, HardDeleteTimeout="1s")
    await secret(given, "bystander")
    async with operator(btp_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        yield Sweep(
            process=running.process,
            proxy=running.proxy,
            parts=life(given, then),
            end_state=lambda: end_state(btp_cluster),
        )


@pytest.mark.sweep
@pytest.mark.req("R-101")
@pytest.mark.timeout(600)
async def test_killed_at_any_write_of_a_forced_deletion_it_takes_all_it_was_told_to_and_no_more(
    sweep: Sweep,
) -> None:
    await sweep.run(at_odd(killed_before), at_odd(killed_after))
