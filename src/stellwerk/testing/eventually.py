"""Waiting for something to become true, without sleeping for a guessed time.

Inside one process nothing needs to be polled: the code that changes something rings a `Signal`, and the waiter looks
again. Only a foreign process (an operator's log, an API server's state) has no bell, and is looked at again and again.

A look takes processor time from what is waited for. So the pause after it is three times as long as the look, and a
tenth of the time that has passed, but at least 20 ms. A test ends at most a tenth later than it could.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

POLL_SECONDS = 0.02
_PAUSE_PER_LOOK = 3
_PAUSE_PER_WAIT = 0.1
_LONGEST_VALUE = 4_000


class Signal:
    """A bell that counts. A waiter names the count it has seen, so a ring between look and wait is never lost."""

    def __init__(self) -> None:
        self._count = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def count(self) -> int:
        """How often it has rung."""
        return self._count

    def ring(self) -> None:
        """Wake everybody who waits. Call it on the event loop's thread, after the change."""
        self._count += 1
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def after(self, count: int) -> None:
        """Return when it has rung more than `count` times, at once when it has already."""
        while self._count <= count:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(waiter)
            try:
                await waiter
            finally:
                self._waiting.discard(waiter)


class StillUntrue(AssertionError):
    """What should have become true in time did not. The message shows what was seen last."""


@overload
async def eventually(
    check: Callable[[], Awaitable[T]], *, within: float = ..., describe: str = ..., on: Signal | None = ...
) -> T: ...
@overload
async def eventually(
    check: Callable[[], T], *, within: float = ..., describe: str = ..., on: Signal | None = ...
) -> T: ...
async def eventually(
    check: Callable[[], T | Awaitable[T]],
    *,
    within: float = 30.0,
    describe: str = "",
    on: Signal | None = None,
) -> T:
    """Wait until `check` gives a true value, and return that value.

    `check` may be a function or a coroutine function; an AssertionError in it means "not yet", any other exception is
    a bug and passes at once. `within` is in seconds of the machine's clock. `on` rings when it is worth looking again;
    without it `check` is called again after a pause of 20 ms or more. Raises StillUntrue, which names `describe`
    and the last value or assertion seen.
    """
    last: list[object] = ["nothing: the first look did not end"]
    limit = asyncio.timeout(within)
    try:
        async with limit:
            return await _look_until_true(check, last, on, within)
    except TimeoutError:
        if not limit.expired():
            raise
    what = describe or getattr(check, "__name__", "the condition")
    failure = last[0] if isinstance(last[0], AssertionError) else None
    raise StillUntrue(f"after {within:g} s still untrue: {what}\n  last seen: {_shown(last[0])}") from failure


async def _look_until_true(
    check: Callable[[], T | Awaitable[T]], last: list[object], on: Signal | None, within: float
) -> T:
    start = time.monotonic()
    while True:
        rung, begun = on.count if on else 0, time.monotonic()
        try:
            value = await _value_of(check)
            last[0] = value
            if value:
                return value
        except AssertionError as failure:
            last[0] = failure
        now = time.monotonic()
        pause = max(_PAUSE_PER_LOOK * (now - begun), _PAUSE_PER_WAIT * (now - start))
        left = start + within - now
        await (on.after(rung) if on else asyncio.sleep(max(POLL_SECONDS, min(pause, left / 2))))


async def _value_of(check: Callable[[], T | Awaitable[T]]) -> T:
    found = check()
    return await found if inspect.isawaitable(found) else found


def _shown(value: object) -> str:
    text = str(value) if isinstance(value, AssertionError) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}… ({len(text)} characters)"
