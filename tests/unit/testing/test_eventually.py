"""Waiting ends with the fact, or with what was seen instead of it."""

from __future__ import annotations

import asyncio

import pytest

from stellwerk.testing.eventually import Signal, StillUntrue, eventually


async def test_the_value_that_became_true_is_returned() -> None:
    values = iter([0, "", [], "there"])
    assert await eventually(lambda: next(values)) == "there"


async def test_a_coroutine_function_is_awaited() -> None:
    async def found() -> int:
        await asyncio.sleep(0)
        return 7

    assert await eventually(found) == 7


async def test_an_assertion_in_the_check_means_not_yet() -> None:
    left = [2]

    def check() -> bool:
        left[0] -= 1
        assert left[0] < 0, f"{left[0]} left"
        return True

    assert await eventually(check)


async def test_a_failure_shows_what_was_seen_last() -> None:
    with pytest.raises(StillUntrue, match=r"(?s)after 0\.05 s still untrue: three parts\n  last seen: \[\]"):
        await eventually(list, within=0.05, describe="three parts")


async def test_a_failure_shows_the_last_assertion() -> None:
    def check() -> bool:
        raise AssertionError("only two of three")

    with pytest.raises(StillUntrue, match="last seen: only two of three"):
        await eventually(check, within=0.05)


async def test_a_bug_in_the_check_passes_at_once() -> None:
    def check() -> bool:
        raise LookupError("a bug")

    with pytest.raises(LookupError, match="a bug"):
        await eventually(check)


async def test_a_timeout_inside_the_check_is_not_taken_for_ours() -> None:
    async def check() -> bool:
        raise TimeoutError("of the check")

    with pytest.raises(TimeoutError, match="of the check"):
        await eventually(check)


async def test_with_a_bell_nothing_is_looked_at_before_it_rings() -> None:
    bell, looks = Signal(), [0]

    def check() -> bool:
        looks[0] += 1
        return looks[0] == 3

    waiting = asyncio.create_task(eventually(check, on=bell))
    for expected in (1, 2):
        for _ in range(10):
            await asyncio.sleep(0)
        assert looks == [expected]
        bell.ring()
    assert await waiting


async def test_a_ring_between_look_and_wait_is_not_lost() -> None:
    bell = Signal()

    async def check() -> bool:
        seen = bell.count
        if not seen:
            bell.ring()  # while the check is still running
        return bool(seen)

    assert await eventually(check, on=bell, within=1)
