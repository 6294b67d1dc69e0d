"""Run work that would block the event loop in one of a few threads.

Reading large text is computing, and Python computes in one thread at a time. A thread still helps: the interpreter
switches between threads every few milliseconds, so the event loop goes on. Two threads are enough: more would not be
faster, and each of them that computes makes the event loop wait longer for its turn.

The threads of `asyncio.to_thread` were refused: name look-ups need them, and large texts could occupy them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

R = TypeVar("R")

_threads = ThreadPoolExecutor(max_workers=2, thread_name_prefix="reading")


LARGE_BYTES = 256 * 2**10
"""Work on more text than this can take more than ten milliseconds."""


async def run(work: Callable[[], R]) -> R:
    """Return what `work` returns, computed in a thread. A cancelled call drops work that has not begun."""
    return await asyncio.get_running_loop().run_in_executor(_threads, work)


async def run_if_large(size: int, work: Callable[[], R], *, large_bytes: int = LARGE_BYTES) -> R:
    """Return what `work` on `size` bytes returns: computed in a thread where that is more than `large_bytes`, else at
    once and without suspending the caller."""
    return await run(work) if size > large_bytes else work()
