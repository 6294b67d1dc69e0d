"""Tasks with an owner: they end when the block that started them ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar


class Closing:
    """Something that has to be closed at the end, as a part of a manager."""

    def __init__(self, close: Callable[[], Awaitable[None]]) -> None:
        self._close = close

    async def run(self) -> None:
        """Wait until cancelled, then close it."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._close()


E = TypeVar("E", bound=Exception)


class Background:
    """Starts tasks that live no longer than their block."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run something beside the block. What it raises ends the block."""
        task = self._group.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def cancel(self) -> None:
        """Ask all of them to end."""
        for task in self._running:
            task.cancel()


@asynccontextmanager
async def background() -> AsyncIterator[Background]:
    """A block whose tasks are cancelled, and waited for, at its end.

    A task that fails cancels the block and its siblings; the failure is raised in an ExceptionGroup, as TaskGroup does.
    """
    async with asyncio.TaskGroup() as group:
        tasks = Background(group)
        try:
            yield tasks
        finally:
            tasks.cancel()


def first_of(group: BaseExceptionGroup[E]) -> E:
    """The first exception in a group of groups."""
    found: BaseExceptionGroup[E] | E = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
