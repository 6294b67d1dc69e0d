"""How often each client may ask."""

from __future__ import annotations

import pytest

from stellwerk.runtime.serving.rate_limit import RateLimit
from stellwerk.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


async def test_a_client_may_ask_some_times_at_once_and_then_at_its_rate(clock: FakeClock) -> None:
    limit = RateLimit(per_second=2, at_once=3, clock=clock)
    assert [limit.wait_seconds("a") for _ in range(3)] == [0, 0, 0]
    assert limit.wait_seconds("a") == pytest.approx(0.5)
    assert limit.wait_seconds("b") == 0
    await clock.advance(0.5)
    assert limit.wait_seconds("a") == 0
    assert limit.wait_seconds("a") > 0


@pytest.mark.req("R-701")
def test_many_names_take_neither_memory_nor_the_turns_of_others(clock: FakeClock) -> None:
    limit = RateLimit(per_second=1, at_once=1, clock=clock, most_keys=10)
    for number in range(1_000):
        assert limit.wait_seconds(str(number)) == 0
    assert len(limit) == 10
    assert limit.wait_seconds("999") > 0


def test_a_rate_of_zero_is_no_limit(clock: FakeClock) -> None:
    limit = RateLimit(per_second=0, at_once=0, clock=clock)
    assert not any(limit.wait_seconds("a") for _ in range(100))
    assert len(limit) == 0
