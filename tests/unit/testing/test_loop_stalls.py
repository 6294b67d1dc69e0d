"""The measurement of stalls sees code that blocks, and nothing else."""

from __future__ import annotations

import asyncio
import time

import pytest

from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, LoopStalls, measured_stalls


def _compute(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


@pytest.mark.req("R-412")
async def test_code_that_computes_on_the_loop_is_measured() -> None:
    with measured_stalls() as stalls:
        await asyncio.sleep(0.01)
        _compute(0.15)
        await asyncio.sleep(0.01)

    # On a busy machine the work and its measurement are a little apart.
    assert stalls.longest_seconds * stalls.slowness >= 0.14 > LONGEST_STALL_SECONDS


async def test_a_stall_at_the_end_of_the_block_is_measured() -> None:
    with measured_stalls() as stalls:
        _compute(0.05)

    assert stalls.longest_seconds * stalls.slowness >= 0.03  # on a busy machine the two are measured a little apart


async def test_code_that_gives_the_loop_its_turns_is_no_stall() -> None:
    with measured_stalls() as stalls:
        for _ in range(20):
            _compute(0.01)
            await asyncio.sleep(0)

    assert stalls.longest_seconds < LONGEST_STALL_SECONDS


def test_waiting_for_the_processor_is_no_stall() -> None:
    stalls = LoopStalls()
    stalls.note(gap_seconds=3.0, computed_seconds=0.02)

    stalls.note(gap_seconds=2.0, computed_seconds=1.9, waited_seconds=1.99)

    assert stalls.longest_seconds == pytest.approx(0.02)
    assert stalls.longest_gap_seconds == 3.0
