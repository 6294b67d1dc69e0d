"""Reports when the event loop is blocked, and in which code.

A reconcile that computes for a second holds up every other one, and nothing in asyncio shows which. A thread of
its own looks every tenth of a second at when the loop last ticked; after half a second of silence it writes down the
stack of the loop's thread as it is at that moment, once for each stall. asyncio's debug mode was refused: it slows
every callback and reports only when the stall is over, without the stack.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
import traceback

from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.metrics import Metrics

STALL_SECONDS = 0.5
_TICK_SECONDS = 0.1

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches the loop that runs it. `is_alive` is what a liveness probe asks."""

    def __init__(self, metrics: Metrics, *, stall_seconds: float = STALL_SECONDS) -> None:
        self._metrics = metrics
        self._stall_seconds = stall_seconds
        self._last_tick = time.monotonic()
        self._loop_thread = 0

    async def run(self) -> None:
        """Tick until cancelled, with a thread looking on."""
        self._loop_thread = threading.get_ident()
        self._last_tick = time.monotonic()
        ended = threading.Event()
        observer = threading.Thread(target=self._observe, args=(ended,), name="event loop watchdog", daemon=True)
        observer.start()
        try:
            while True:
                due = time.monotonic() + _TICK_SECONDS
                await asyncio.sleep(_TICK_SECONDS)
                self._last_tick = time.monotonic()
                self._metrics.loop_lagged(max(0.0, self._last_tick - due))
        finally:
            ended.set()

    @property
    def silent_seconds(self) -> float:
        """How long ago the loop last ticked."""
        return time.monotonic() - self._last_tick

    def _observe(self, ended: threading.Event) -> None:
        reported = 0.0
        while not ended.wait(_TICK_SECONDS):
            tick = self._last_tick
            if tick != reported and time.monotonic() - tick - _TICK_SECONDS > self._stall_seconds:
                reported = tick  # one report for each stall, however long it takes
                try:
                    self._report()
                except Exception as error:  # the thread must see the next stall too
                    self._metrics.task_failed("watchdog")
                    _log.error("a stall of the event loop cannot be reported", exc_info=error, extra=logs.STACK)

    def _report(self) -> None:
        self._metrics.loop_stalled()
        frame = sys._current_frames().get(self._loop_thread)
        stack = "".join(traceback.format_stack(frame)) if frame else "the thread has ended"
        _log.warning(
            "the event loop is blocked for more than %g s",
            self._stall_seconds,
            extra=logs.fields(stack=stack),
        )
