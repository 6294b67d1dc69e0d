"""Killed at any write of a forced deletion, the operator still takes exactly what it was told to take.

The world has a service instance and a binding, each held by a finalizer of an operand that does not answer, so the
deletion goes all the way: hard, then soft, then the module.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cluster.btp.given import CREDENTIALS, Given, base64_text
from tests.cluster.btp.process import FAST, Operator, end_state, operator, same_end
from tests.cluster.btp.then import Then

from stellwerk.api.core import Secret
from stellwerk.kube.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.faults import History, Kill, Request, Rule, nth
from stellwerk.testing.nursery import Nursery
from stellwerk.testing.recorder import LASTING_WRITES, Run

SHARES = 2
OPERANDS_FINALIZER = "services.cloud.sap.com/sap-btp-finalizer"
CONVERGED_SECONDS = 30.0


@pytest.fixture
async def behind_proxy(
    btp_cluster: LocalCluster, given: Given, tmp_path: Path, nursery: Nursery
) -> AsyncIterator[Operator]:
    """The operator as a process, running; it waits a second only before the soft way."""
    await given.required_secret()
    await given.tunables(**FAST, HardDeleteTimeout="1s")
    async with operator(btp_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        yield running


async def forced(given: Given, then: Then) -> None:
    """Up, with users' objects, and asked to go with all of them."""
    await given.btp_operator(labels={"force-delete": "true"})
    await then.shows("Ready", "ReconcileSucceeded", within=CONVERGED_SECONDS)
    await given.service_instance("db", "default", OPERANDS_FINALIZER)
    await given.service_binding("db-binding", "db", "default", OPERANDS_FINALIZER, secret_name="db-credentials")
    await secret(given, "db-credentials")


async def secret(given: Given, name: str) -> None:
    """A Secret beside the binding: the binding's own, or somebody else's."""
    await given.replace(
        Secret,
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": name, "namespace": "default"},
            "data": {"uri": base64_text(CREDENTIALS["sm_url"])},
        },
    )


async def gone(cluster: LocalCluster, given: Given, then: Then, empty: Run) -> None:
    """The CR, the module, the users' objects and the binding's Secret are gone, and nothing else."""
    await then.is_gone(within=CONVERGED_SECONDS)
    await eventually(lambda: same_end(cluster, empty), describe="nothing is left")
    assert await given.client.find(metadata_of(Secret), "db-credentials", "default") is None
    assert await given.client.find(metadata_of(Secret), "bystander", "default") is not None


@pytest.mark.req("R-101")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_any_write_of_a_forced_deletion_it_takes_all_it_was_told_to_and_no_more(
    behind_proxy: Operator, btp_cluster: LocalCluster, given: Given, then: Then, after: bool, share: int
) -> None:
    proxy, process = behind_proxy.proxy, behind_proxy.process
    await secret(given, "bystander")
    empty = await end_state(btp_cluster)
    await forced(given, then)
    await proxy.history.settled()
    proxy.history.clear()
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await gone(btp_cluster, given, then, empty)
    await proxy.history.settled()

    for number in range(1 + share, 1 + len(before_the_module(proxy.history)), SHARES):
        await forced(given, then)
        with proxy.on_requests(LASTING_WRITES, Kill(process, after_forwarding=after), nth(number)) as rule:
            await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
            await killed(rule, proxy.history)
            await process.wait()
            await process.start()
        await gone(btp_cluster, given, then, empty)
    process.assert_clean_log()


def before_the_module(history: History) -> list[str]:
    """The writes up to the module's own removal, of which every one is tried without force."""
    writes = [*dict.fromkeys(str(one.request) for one in history.writes(LASTING_WRITES))]
    own = next(place for place, write in enumerate(writes) if write.startswith("delete clusterroles"))
    assert own > 5, writes
    return writes[:own]


async def killed(rule: Rule[Request], history: History) -> None:
    try:
        await eventually(lambda: rule.fired, within=20, on=history.changed)
    except StillUntrue:
        raise AssertionError(f"{rule}\n{history}") from None
