"""At most one process writes, whatever clocks and processes do; on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Protocol

import pytest
from tests.cluster.runtime import leading_process

from stellwerk.api.coordination import Lease
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.process.leader import LeaderElector, LeadershipLost
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.checks.surprises import SURPRISES
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import Signal

NAME = "operator"


class Freezer(FakeClock):
    """A clock of a machine that can be frozen: time passes and nobody wakes."""

    def freeze(self, seconds: float) -> None:
        self._steady += seconds


class Process:
    """One operator process with a clock of its own, and a record of its life."""

    def __init__(self, client: Client, namespace: str, *, rate: float = 1.0) -> None:
        self.clock = Freezer()
        self.rate = rate
        self.metrics = Metrics()
        self.elector = LeaderElector(client, NAME, namespace, clock=self.clock, metrics=self.metrics)
        self.started = Signal()
        self.ended = Signal()
        self.held_at_end = False
        self.task = asyncio.create_task(self.elector.run(self._work))

    async def _work(self) -> None:
        self.started.ring()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.held_at_end = self.elector.fence.is_open
            self.ended.ring()

    async def until_leading(self) -> None:
        async with asyncio.timeout(60):
            await self.started.after(0)

    async def rest(self) -> None:
        """Wait until it has nothing to do but wait for its clock."""
        if not self.task.done():
            sleeping = asyncio.create_task(self.clock.until_sleeping())
            await asyncio.wait({sleeping, self.task}, return_when=asyncio.FIRST_COMPLETED)
            if sleeping.done():
                sleeping.result()
            sleeping.cancel()

    async def pass_time(self, seconds: float) -> None:
        await self.rest()
        await self.clock.advance(seconds * self.rate)
        await self.rest()

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError, LeadershipLost):
            await self.task


class Begin(Protocol):
    """Starts a process whose clock runs at this rate."""

    def __call__(self, *, rate: float = 1.0) -> Process: ...


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    """A client of the shared cluster, without a fence."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
        yield client


@pytest.fixture
async def begin(client: Client, namespace: str) -> AsyncIterator[Begin]:
    """Starts processes that want to lead, and stops them after the test."""
    begun: list[Process] = []

    def begin(*, rate: float = 1.0) -> Process:
        begun.append(Process(client, namespace, rate=rate))
        return begun[-1]

    yield begin
    for process in begun:
        await process.stop()


async def lease(client: Client, namespace: str) -> Lease:
    return await client.get(Lease, NAME, namespace)


async def test_the_first_process_leads_and_the_second_waits(client: Client, namespace: str, begin: Begin) -> None:
    first = begin()
    await first.until_leading()
    second = begin()
    await second.pass_time(10)
    await first.pass_time(10)
    await second.pass_time(10)
    spec = (await lease(client, namespace)).spec
    assert spec.holder_identity == first.elector.identity
    assert (spec.lease_duration_seconds, spec.lease_transitions) == (15, 0)
    assert first.elector.is_leader
    assert not second.elector.is_leader
    assert second.elector.holder == first.elector.identity
    assert 'leader_election_master_status{name="operator"} 1.0' in first.metrics.exposition().decode()
    assert 'leader_election_master_status{name="operator"} 0.0' in second.metrics.exposition().decode()


@pytest.mark.req("R-303")
async def test_a_stop_ends_the_work_before_it_gives_the_lease_back(
    client: Client, namespace: str, begin: Begin
) -> None:
    first = begin()
    await first.until_leading()
    second = begin()
    await second.rest()
    await first.stop()
    assert first.held_at_end, "the work must end while writes are still allowed"
    assert (await lease(client, namespace)).spec.holder_identity == ""
    await second.pass_time(2)
    await second.until_leading()
    spec = (await lease(client, namespace)).spec
    assert (spec.holder_identity, spec.lease_transitions) == (second.elector.identity, 1)
    assert not first.elector.fence.is_open


@pytest.mark.req("R-301")
async def test_a_silent_leader_is_followed_after_the_lease_duration_and_not_before(begin: Begin) -> None:
    first = begin()
    await first.until_leading()
    second = begin()
    await second.pass_time(14)
    assert not second.elector.is_leader
    await second.pass_time(4)
    await second.until_leading()


@pytest.mark.req("R-301")
async def test_a_thawed_leader_refuses_its_first_write_and_ends(begin: Begin) -> None:
    first = begin()
    await first.until_leading()
    await first.rest()
    first.clock.freeze(3600)
    with pytest.raises(LeadershipLost):
        first.elector.fence.check()
    assert not first.elector.is_leader
    await first.clock.advance(2)
    with pytest.raises(LeadershipLost, match="not renewed"):
        await first.task
    assert first.ended.count == 1, "its work must have been cancelled"


async def test_a_leader_that_was_robbed_ends_at_its_next_renewal(client: Client, namespace: str, begin: Begin) -> None:
    first = begin()
    await first.until_leading()
    held = await lease(client, namespace)
    version: JsonObject = {"resourceVersion": held.metadata.resource_version}
    theft = MergePatch({"metadata": version, "spec": {"holderIdentity": "a thief"}})
    await client.patch(Lease, NAME, namespace, theft)
    await first.rest()
    await first.clock.advance(2)
    with pytest.raises(LeadershipLost, match="a thief holds it now"):
        await first.task
    assert (await lease(client, namespace)).spec.holder_identity == "a thief"


async def test_somebody_who_labels_the_lease_does_not_end_the_leader(
    client: Client, namespace: str, begin: Begin
) -> None:
    first = begin()
    await first.until_leading()
    await client.patch(Lease, NAME, namespace, MergePatch({"metadata": {"labels": {"seen": "yes"}}}))
    await first.pass_time(4)
    assert first.elector.is_leader
    found = await lease(client, namespace)
    assert found.metadata.labels == {"seen": "yes"}
    assert found.spec.holder_identity == first.elector.identity


async def test_a_deleted_lease_is_made_again_by_its_leader_and_not_taken_by_another(
    client: Client, namespace: str, begin: Begin
) -> None:
    first = begin()
    await first.until_leading()
    second = begin()
    await second.rest()
    await client.delete(Lease, NAME, namespace)
    await second.pass_time(2)
    assert not second.elector.is_leader, "it has seen a leader that may still write"
    await first.pass_time(4)
    assert first.elector.is_leader
    assert (await lease(client, namespace)).spec.holder_identity == first.elector.identity


async def test_a_missing_namespace_is_told_and_waited_for(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    process = Process(client, "no-such-namespace")
    await process.rest()
    assert "no-such-namespace" in caplog.text
    assert "not found" in caplog.text
    assert not process.started.count
    await process.stop()


@pytest.mark.req("R-302")
@pytest.mark.parametrize("hours", [-1, 1], ids=["back", "forward"])
async def test_a_wall_clock_that_jumps_an_hour_changes_nothing(begin: Begin, hours: int) -> None:
    first = begin()
    await first.until_leading()
    second = begin()
    await second.rest()
    first.clock.jump(hours * 3600)
    second.clock.jump(-hours * 3600)
    for _ in range(10):
        await second.pass_time(2)
        await first.pass_time(2)
    assert first.elector.is_leader
    assert not second.elector.is_leader


@pytest.mark.req("R-302")
@pytest.mark.parametrize("seed", range(3))
async def test_at_most_one_may_write_whatever_clocks_and_processes_do(begin: Begin, seed: int) -> None:
    """Three processes whose clocks run at up to twice each other's rate, freeze, jump and end by chance."""
    chance = random.Random(seed)
    rates = (1.0, 2.0, 1.5)
    processes = [begin(rate=rate) for rate in rates]
    frozen = [0.0, 0.0, 0.0]
    leaders: set[str] = set()
    for _ in range(400):
        # Whoever may not write goes first: then nobody sees a write before the time at which it was made.
        for index in sorted(range(3), key=lambda i: processes[i].elector.fence.is_open):
            process = processes[index]
            if process.task.done():
                assert isinstance(process.task.exception(), LeadershipLost)
                processes[index] = process = begin(rate=rates[index])
            if frozen[index] <= 0 and chance.random() < 0.01:
                frozen[index] = chance.choice([3.0, 9.0, 40.0])
            if frozen[index] > 0:
                frozen[index] -= 0.5
                process.clock.freeze(0.5 * process.rate)
            else:
                await process.pass_time(0.5)
            if chance.random() < 0.02:
                process.clock.jump(chance.choice([-3600, 3600]))
        writers = [process.elector.identity for process in processes if process.elector.fence.is_open]
        assert len(writers) <= 1
        leaders.update(writers)
    assert len(leaders) >= 2, "the schedule must make leadership change hands to prove anything"


@pytest.mark.req("R-301")
async def test_a_frozen_process_writes_nothing_after_its_successor_has_begun(
    cluster: LocalCluster, client: Client, namespace: str
) -> None:
    old = await _process(cluster.kubeconfig, namespace)
    try:
        await _says(old, b"leads")
        old.send_signal(signal.SIGSTOP)
        successor = LeaderElector(client, leading_process.LEASE, namespace, terms=leading_process.TERMS)
        async with asyncio.timeout(60):
            await successor.acquire()
        last = await client.get(ConfigMap, "written", namespace)
        old.send_signal(signal.SIGCONT)
        async with asyncio.timeout(60):
            assert await old.wait() == 3
        after = await client.get(ConfigMap, "written", namespace)
        assert after.metadata.resource_version == last.metadata.resource_version
        held = await client.get(Lease, leading_process.LEASE, namespace)
        assert held.spec.holder_identity == successor.identity
    finally:
        if old.returncode is None:
            old.kill()
        await old.communicate()


async def _process(kubeconfig: Path, namespace: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    module = "tests.cluster.runtime.leading_process"
    arguments = (sys.executable, "-m", module, str(kubeconfig), namespace)
    return await asyncio.create_subprocess_exec(*arguments, stdout=pipe, stderr=pipe)


async def _says(process: asyncio.subprocess.Process, word: bytes) -> None:
    assert process.stdout is not None
    async with asyncio.timeout(60):
        while word not in await process.stdout.readline():
            assert process.returncode is None


@pytest.mark.req("R-512")
@pytest.mark.parametrize("raised", SURPRISES.values(), ids=SURPRISES)
async def test_a_renewal_that_raises_anything_is_a_failed_try_and_no_end(
    client: Client, namespace: str, raised: Callable[[], BaseException]
) -> None:
    failing = False

    def before_write() -> None:
        if failing:
            raise raised()

    async with Client.connect(client.config, before_write=before_write) as odd:
        process = Process(odd, namespace)
        await process.until_leading()
        failing = True
        await process.pass_time(2)
        failing = False
        await process.pass_time(2)
        await process.pass_time(9)
        assert process.elector.is_leader
        assert not process.task.done()
        failing = True
        for _ in range(6):
            await process.pass_time(2)
        with pytest.raises(LeadershipLost):
            await process.task
