"""The members of a wave, at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

A = TypeVar("A")
R = TypeVar("R")

CONCURRENCY = 16
"""How many requests of one set are under way. More gain nothing: the server works them off one after the other."""


async def together(
    wave: Sequence[A], carry_out: Callable[[A], Awaitable[R]], concurrency: int = CONCURRENCY
) -> list[R]:
    """The results of a wave, in its order; at most `concurrency` at a time.

    Raises the first error as it is; what was under way beside it is cancelled.
    """
    if len(wave) == 1:
        return [await carry_out(wave[0])]
    gate = asyncio.Semaphore(concurrency)

    async def one(action: A) -> R:
        async with gate:
            return await carry_out(action)

    try:
        async with asyncio.TaskGroup() as tasks:
            started = [tasks.create_task(one(action), name=str(action)) for action in wave]
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return [task.result() for task in started]
