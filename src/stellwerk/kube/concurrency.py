"""The members of a wave, at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from stellwerk.kube.nested import nested

A = TypeVar("A")
R = TypeVar("R")

CONCURRENCY = 16
"""How many requests of one set are under way. More gain nothing: the server works them off one after the other."""


async def together(
    wave: Sequence[A], carry_out: Callable[[A], Awaitable[R]], concurrency: int = CONCURRENCY
) -> list[R]:
    """The results of a wave, in its order; at most `concurrency` at a time.

    Raises the first error as it is; the other calls under way are cancelled.
    """
    if len(wave) == 1:
        return [await carry_out(wave[0])]
    waiting = iter(enumerate(wave))
    results: dict[int, R] = {}

    async def work() -> None:
        for number, action in waiting:
            results[number] = await carry_out(action)

    try:
        # Not one task for each member: starting thousands of them at once would block the event loop.
        async with asyncio.TaskGroup() as tasks:
            for number in range(min(concurrency, len(wave))):
                tasks.create_task(nested(work), name=f"wave of {len(wave)}, worker {number}")
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return [results[number] for number in range(len(wave))]
