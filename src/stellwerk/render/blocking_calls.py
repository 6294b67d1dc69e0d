"""Blocking calls outside of the event loop, in threads that block nothing else.

The loop's own pool has a handful of threads for everyone. Six names whose servers never answer would fill it, and with
it stop every other look-up of the process. A thread each, a daemon, costs a tenth of a millisecond; how many there are
is bounded by the caller. A thread cannot be cancelled: a caller that gives up leaves it to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def beside(work: Callable[[], T], *, name: str) -> T:
    """The outcome of a blocking call."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def finish(value: T | None, error: BaseException | None) -> None:
        if outcome.done():
            return
        if error is not None:
            outcome.set_exception(error)
        else:
            outcome.set_result(value)  # type: ignore[arg-type] # there is a value where there is no error

    def run() -> None:
        value, error = None, None
        try:
            value = work()
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(finish, value, error)
        del value, error  # the exception keeps this frame, and `work` what it works on

    threading.Thread(target=run, name=name, daemon=True).start()
    return await outcome
