"""A line to the API server on which nearly a third of all calls fails: the BTP Manager gets where it would have got."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    READS,
    WRITES,
    AnswerInstead,
    CutConnection,
    FaultProxy,
    FaultRule,
    RecordedRequest,
    RequestFault,
    When,
    chance,
)
from tests.cluster.btp.beginnings import RETRY
from tests.cluster.btp.given import Given
from tests.cluster.btp.process import end_state, same_end
from tests.cluster.btp.running import Running
from tests.cluster.btp.then import Then

CONVERGED_SECONDS = 60.0
FAULTS: tuple[tuple[When[RecordedRequest], RequestFault], ...] = (
    (WRITES, AnswerInstead(409)),
    (READS | WRITES, AnswerInstead(429, retry_after_seconds=1)),
    (READS | WRITES, AnswerInstead(500)),
    (READS | WRITES, AnswerInstead(503)),
    (READS | WRITES, AnswerInstead(504, after_forwarding=True)),
    (READS | WRITES, CutConnection()),
)
EACH = 0.05
FEWEST_FAULTS = 5
"""Which calls fail is given, how many are made is not: it may be there before ten have failed."""
READY = ("Ready", "ReconcileSucceeded")


@pytest.fixture
def login(proxy: FaultProxy) -> Path:
    """The operator is at the end of a bad line."""
    return proxy.kubeconfig


@contextmanager
def bad(proxy: FaultProxy, seed: int) -> Iterator[list[FaultRule[RecordedRequest]]]:
    """The line is bad; the same seed makes the same calls fail."""
    with ExitStack() as rules:
        yield [
            rules.enter_context(proxy.on_requests(when, fault, chance(EACH, seed=seed * 100 + number), required=False))
            for number, (when, fault) in enumerate(FAULTS)
        ]


def happened(rules: list[FaultRule[RecordedRequest]]) -> int:
    return sum(rule.fired for rule in rules)


@pytest.mark.req("R-203")
@pytest.mark.parametrize("seed", [1, 2])
async def test_it_converges_within_a_minute_after_the_line_is_good_again(
    running: Running, proxy: FaultProxy, btp_cluster: LocalCluster, given: Given, then: Then, seed: int
) -> None:
    await given.required_secret()
    await running.start(**RETRY)
    empty = await end_state(btp_cluster)
    await given.btp_operator()
    await then.shows("Ready", "ReconcileSucceeded")
    ready = await end_state(btp_cluster)
    await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
    await then.is_gone()

    with bad(proxy, seed) as rules:
        await given.btp_operator()
        await eventually(lambda: happened(rules) >= 10 or then.history.states()[-1:] == [READY], within=60)
        assert happened(rules) >= FEWEST_FAULTS
    await then.shows("Ready", "ReconcileSucceeded", within=CONVERGED_SECONDS)
    await eventually(lambda: same_end(btp_cluster, ready), within=CONVERGED_SECONDS, describe="as on a good line")

    with bad(proxy, seed) as rules:
        await given.client.delete(BtpOperator, "btpoperator", "kyma-system")
        await eventually(lambda: happened(rules) >= 10 or not then.history.has(), within=60)
        assert happened(rules) >= FEWEST_FAULTS
    await then.is_gone(within=CONVERGED_SECONDS)
    await eventually(lambda: same_end(btp_cluster, empty), within=CONVERGED_SECONDS, describe="nothing is left")
