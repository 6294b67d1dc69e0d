"""When a lease may be taken, and until when its holder may write."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.api.coordination import Lease, LeaseSpec
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, dig
from stellwerk.runtime.process.leader import Fence, LeaderElector, LeadershipLost, Observation, Terms, new_identity
from stellwerk.testing.clock import FakeClock, LoopClock, SimulatedLoop

HELD = LeaseSpec(holder_identity="other", lease_duration_seconds=15, lease_transitions=3)


def seen(spec: LeaseSpec, at: float) -> Observation:
    observation = Observation()
    observation.see(spec, at)
    return observation


def is_free(observation: Observation, now: float) -> bool:
    return observation.is_free(now, for_identity="me", patience_seconds=15)


def test_a_lease_that_nobody_was_seen_to_hold_is_free() -> None:
    assert is_free(Observation(), 0)
    assert is_free(seen(LeaseSpec(), 0), 0)
    assert is_free(seen(LeaseSpec(holder_identity="", lease_duration_seconds=1), 0), 0)


def test_a_lease_of_this_very_identity_is_free() -> None:
    assert is_free(seen(LeaseSpec(holder_identity="me", lease_duration_seconds=15), 0), 0)


def test_a_held_lease_is_free_once_it_has_not_changed_for_its_duration() -> None:
    observation = seen(HELD, 100)
    assert not is_free(observation, 114.9)
    assert is_free(observation, 115)


def test_any_change_starts_the_wait_anew() -> None:
    observation = seen(HELD, 100)
    observation.see(LeaseSpec(holder_identity="other", lease_duration_seconds=15, lease_transitions=4), 114)
    assert not is_free(observation, 120)
    assert is_free(observation, 129)


def test_looking_again_at_the_same_does_not_start_the_wait_anew() -> None:
    observation = seen(HELD, 100)
    observation.see(LeaseSpec(holder_identity="other", lease_duration_seconds=15, lease_transitions=3), 114)
    assert is_free(observation, 115)


def test_the_longer_of_both_durations_counts() -> None:
    longer = LeaseSpec(holder_identity="other", lease_duration_seconds=60)
    shorter = LeaseSpec(holder_identity="other", lease_duration_seconds=1)
    assert not is_free(seen(longer, 0), 59)
    assert not is_free(seen(shorter, 0), 14)


def test_a_fence_is_closed_until_it_is_opened_and_after_its_time() -> None:
    clock = FakeClock()
    fence = Fence(clock)
    with pytest.raises(LeadershipLost):
        fence.check()
    fence.open_until(clock.monotonic() + 5)
    fence.check()
    clock.jump(3600)
    fence.check()
    fence.close(given_back=True)
    with pytest.raises(LeadershipLost):
        fence.check()


@pytest.mark.req("R-301")
def test_what_needs_no_leader_is_written_until_a_lease_is_lost() -> None:
    clock = FakeClock()
    fence = Fence(clock)
    fence.check_not_lost()
    fence.open_until(clock.monotonic() + 5)
    fence.check_not_lost()
    fence.close(given_back=True)
    fence.check_not_lost()
    fence.open_until(clock.monotonic())
    with pytest.raises(LeadershipLost):
        fence.check_not_lost()
    fence.close(given_back=False)
    with pytest.raises(LeadershipLost):
        fence.check_not_lost()


@pytest.mark.req("R-302")
@given(
    duration=st.floats(1.5, 600),
    deadline=st.floats(0.2, 599),
    rate=st.floats(0.5, 2.0),
    renewed=st.floats(0, 1e6),
    on_the_way=st.floats(0, 30),
)
def test_a_writer_stops_before_a_peer_with_a_clock_twice_as_fast_may_take_over(
    duration: float, deadline: float, rate: float, renewed: float, on_the_way: float
) -> None:
    """`renewed` is when the renewal was sent and `rate` how fast the peer's clock runs, both by the writer's clock."""
    if not duration > deadline > 0.1:
        return
    terms = Terms(lease_duration_seconds=duration, renew_deadline_seconds=deadline, retry_seconds=0.1)
    writer_stops = renewed + terms.writing_seconds
    peer_may_take = renewed + on_the_way + terms.lease_duration_seconds / rate
    assert writer_stops <= peer_may_take * (1 + 1e-12)


@pytest.mark.parametrize(
    ("duration", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0), (15, 10, -1), (0.9, 0.5, 0.1)]
)
def test_terms_that_contradict_are_refused(duration: float, deadline: float, retry: float) -> None:
    with pytest.raises(ValueError, match="leader election"):
        Terms(lease_duration_seconds=duration, renew_deadline_seconds=deadline, retry_seconds=retry)


def test_two_processes_of_one_machine_have_two_identities() -> None:
    assert new_identity() != new_identity()


@dataclass
class OneLease:
    """An API server with one Lease, which takes `seconds` for each answer and leaves one renewal unanswered."""

    seconds: float = 0.0
    unanswered: int = 0
    """Which renewal, counted from 1; 0 for none."""
    renewals: int = 0
    version: int = 0
    lease: Lease | None = None

    async def find(self, *_: object) -> Lease | None:
        await asyncio.sleep(self.seconds)
        return self.lease

    async def create(self, kind: object, body: JsonObject, **_: object) -> Lease:
        return await self._stored(body["spec"])

    async def patch(self, kind: object, name: str, namespace: str, patch: MergePatch, **_: object) -> Lease:
        self.renewals += 1
        if self.renewals == self.unanswered:
            await asyncio.Event().wait()
        return await self._stored(dig(patch.body, "spec"))

    async def _stored(self, spec: object) -> Lease:
        await asyncio.sleep(self.seconds)
        self.version += 1
        metadata = {"name": "lease", "namespace": "here", "resourceVersion": str(self.version)}
        self.lease = msgspec.convert({"metadata": metadata, "spec": spec}, Lease)
        return self.lease


@pytest.mark.req("R-301")
@pytest.mark.parametrize(
    "server",
    [OneLease(), OneLease(unanswered=1), OneLease(unanswered=7), OneLease(seconds=2.4)],
    ids=["quick", "the first renewal hangs", "a later renewal hangs", "slow"],
)
def test_the_fence_stays_open_for_a_minute_of_the_default_terms(server: OneLease) -> None:
    async def lead() -> set[float]:
        elector = LeaderElector(cast(Client, server), "lease", "here", clock=LoopClock())
        closed = set[float]()

        async def work() -> None:
            for tenth in range(600):
                await asyncio.sleep(0.1)
                if not elector.fence.is_open:
                    closed.add(tenth / 10)

        await elector.run(work)
        return closed

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        assert runner.run(lead()) == set()
    assert server.renewals > 5
