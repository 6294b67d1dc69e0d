"""A loop that stands still is noticed while it does."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

import pytest

from stellwerk.runtime.supervision.watchdog import Watchdog
from stellwerk.runtime.telemetry.metrics import Metrics


class Heard(logging.Handler):
    """Rings when the watchdog writes a line."""

    def __init__(self) -> None:
        super().__init__()
        self.rung = threading.Event()
        self.stacks: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        details: dict[str, str] = getattr(record, "fields", {})
        self.stacks.append(details["stack"])
        self.rung.set()


@pytest.mark.req("R-304")
async def test_a_stall_is_logged_once_with_the_stack_of_whoever_causes_it() -> None:
    metrics, heard = Metrics(), Heard()
    log = logging.getLogger("stellwerk.runtime.supervision.watchdog")
    log.addHandler(heard)
    watchdog = asyncio.create_task(Watchdog(metrics, stall_seconds=0.2).run())
    await asyncio.sleep(0)

    def greedy_computation() -> None:
        assert heard.rung.wait(10), "nobody noticed"
        assert not threading.Event().wait(0.4)  # the same stall goes on

    try:
        greedy_computation()
    finally:
        log.removeHandler(heard)
        watchdog.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watchdog
    assert len(heard.stacks) == 1
    assert "greedy_computation" in heard.stacks[0]
    assert metrics.registry.get_sample_value("stellwerk_event_loop_stalls_total") == 1
