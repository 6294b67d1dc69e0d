"""Tasks inside of a pass, that one exception must not take the event loop down with.

asyncio raises SystemExit and KeyboardInterrupt of any task in the caller of the loop, past every `except` around the
await. A pass that several tasks carry out would so end the process for what belongs to one object (R-512).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

R = TypeVar("R")


class Foreign(Exception):
    """Replaces a caught exception that is no `Exception`; that one is its cause."""


def foreign(raised: BaseException) -> Foreign:
    """The exception that replaces one that is no `Exception`."""
    error = Foreign(f"{type(raised).__name__}: {raised}".rstrip(": "))
    error.__cause__ = raised
    return error


async def nested(work: Callable[[], Awaitable[R]]) -> R:
    """What `work` comes to, for a task of its own. Raises Foreign in place of SystemExit.

    `work` is called by the task: a task that is cancelled before it starts leaves no coroutine that nothing awaits.
    """
    try:
        return await work()
    except SystemExit as raised:
        raise foreign(raised) from raised
