"""The operator may die, or lose the answer to a write, at any of its writes: the end is the same as without.

A run without faults gives the list of writes, of which each is tried. One replay meets two points: the n-th write that
brings the module up, and then the n-th that takes it away; so the world is as new after it, which is half of the proof.
Writes of Events and of leases are left out, as they leave nothing behind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.cluster.btp.given import Given
from tests.cluster.btp.process import Operator, end_state, inputs, operator, same_end
from tests.cluster.btp.then import Then

from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import BtpOperator
from stellwerk.testing.eventually import StillUntrue, eventually
from stellwerk.testing.faults import Answer, Cut, Kill, RequestFault, Rule, nth
from stellwerk.testing.faults.traffic import Request
from stellwerk.testing.nursery import Nursery
from stellwerk.testing.recorder import LASTING_WRITES, Run

SHARES = 4
"""Into how many tests the points of a sweep are dealt, so that they can run side by side."""
CONVERGED_SECONDS = 30.0

MakeFault = Callable[[Operator], RequestFault]


@dataclass(frozen=True, slots=True)
class CleanRun:
    """What happens without faults: the writes up to Ready and up to the end, and what is there then."""

    up: Sequence[str]
    ready: Run
    down: Sequence[str]
    gone: Run


@dataclass(frozen=True, slots=True)
class Stage:
    """Plays one life of a BtpOperator, and looks at the cluster at its turning points."""

    cluster: LocalCluster
    given: Given
    then: Then
    operator: Operator

    async def clean_run(self) -> CleanRun:
        """A life without faults."""
        gone = await end_state(self.cluster)
        await self.given.btp_operator()
        await self.is_ready()
        up = await self._writes()
        ready = await end_state(self.cluster)
        await self.delete()
        await self.then.is_gone()
        return CleanRun(up, ready, await self._writes(), gone)

    async def replay(self, clean: CleanRun, number: int, fault: MakeFault) -> None:
        """A life with a fault at the n-th write up and at the n-th down. Raises AssertionError naming the write."""
        if number <= len(clean.up):
            with self._fault(number, fault) as rule:
                await self.given.btp_operator()
                await self._revived(rule)
        else:
            await self.given.btp_operator()
        await self.is_ready()
        await self._is_as(clean.ready, f"up, at write {number}")
        if number <= len(clean.down):
            with self._fault(number, fault) as rule:
                await self.delete()
                await self._revived(rule)
        else:
            await self.delete()
        await self.then.is_gone(within=CONVERGED_SECONDS)
        await self._is_as(clean.gone, f"down, at write {number}")
        self.operator.proxy.history.clear()

    async def is_ready(self) -> None:
        await self.then.shows("Ready", "ReconcileSucceeded", within=CONVERGED_SECONDS)

    async def delete(self) -> None:
        await self.given.client.delete(BtpOperator, "btpoperator", "kyma-system")

    def _fault(self, number: int, fault: MakeFault) -> Rule[Request]:
        return self.operator.proxy.on_requests(LASTING_WRITES, fault(self.operator), nth(number))

    async def _revived(self, rule: Rule[Request]) -> None:
        """Return when the fault has happened; a killed operator is started again, as a kubelet would."""
        history = self.operator.proxy.history
        try:
            await eventually(lambda: rule.fired, within=20, on=history.changed)
        except StillUntrue:
            raise AssertionError(f"{rule}\n{history}\n{self.operator.process.log_text()}") from None
        if rule.what.startswith("operator killed"):
            await self.operator.process.wait()
            await self.operator.process.start()

    async def _is_as(self, clean: Run, where: str) -> None:
        await eventually(lambda: same_end(self.cluster, clean), describe=f"the same end as without faults; {where}")

    async def _writes(self) -> Sequence[str]:
        """The writes since the last call, each once: a delete is asked for again while the cache is behind."""
        await self.operator.proxy.history.settled()
        found = [str(one.request) for one in self.operator.proxy.history.writes(LASTING_WRITES)]
        self.operator.proxy.history.clear()
        return [*dict.fromkeys(found)]


@pytest.fixture
async def stage(
    btp_cluster: LocalCluster, given: Given, then: Then, tmp_path: Path, nursery: Nursery
) -> AsyncIterator[Stage]:
    await inputs(given)
    async with operator(btp_cluster, tmp_path, nursery=nursery) as running:
        await running.process.start()
        yield Stage(btp_cluster, given, then, running)


async def sweep(stage: Stage, share: int, fault: MakeFault) -> None:
    """Replay this share's points."""
    clean = await stage.clean_run()
    assert len(clean.up) > 20, clean.up
    assert len(clean.down) > 20, clean.down
    for number in range(1 + share, 1 + max(len(clean.up), len(clean.down)), SHARES):
        await stage.replay(clean, number, fault)
    stage.operator.process.assert_clean_log()


@pytest.mark.req("R-101")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
async def test_killed_before_any_write_it_ends_as_if_nothing_had_happened(stage: Stage, share: int) -> None:
    await sweep(stage, share, lambda running: Kill(running.process))


@pytest.mark.req("R-101")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
async def test_killed_after_any_write_it_ends_as_if_nothing_had_happened(stage: Stage, share: int) -> None:
    await sweep(stage, share, lambda running: Kill(running.process, after_forwarding=True))


@pytest.mark.req("R-102")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
async def test_when_the_reply_to_any_write_is_cut_it_ends_as_if_nothing_had_happened(stage: Stage, share: int) -> None:
    await sweep(stage, share, lambda _: Cut(after_forwarding=True))


@pytest.mark.req("R-102")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("share", range(SHARES))
async def test_when_any_write_is_answered_by_a_timeout_it_ends_as_if_nothing_had_happened(
    stage: Stage, share: int
) -> None:
    await sweep(stage, share, lambda _: Answer(504, after_forwarding=True))
