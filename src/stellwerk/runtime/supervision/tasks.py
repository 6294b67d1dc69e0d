"""Tasks with an owner and a border.

An owner: tasks end when the block that started them ends. A border: an unexpected exception in a task is reported, and
the task is started again after a back-off; its neighbours and the process go on (R-512). Only `ProcessEnds` passes a
border, and `StartFailed` where the task has never run.

A border also stops what is no `Exception`: a panic of a native library, and a CancelledError that another task's
cancellation left in a shared future. A task that was not cancelled and ends by CancelledError would end silently.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from stellwerk.kube.nested import foreign
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.metrics import Metrics

E = TypeVar("E", bound=BaseException)
R = TypeVar("R")

CALM_SECONDS = 60.0
"""A task that ran for so long before it failed starts again after the shortest pause."""

_BACKOFF = Backoff(first_seconds=0.5, limit_seconds=30.0, jitter=0.25)

_log = logging.getLogger(__name__)


class ProcessEnds(Exception):
    """Base of the exceptions that end the process, wherever they are raised."""


class StartFailed(Exception):
    """Base of the exceptions that end the process when a task raises them in its first run."""


def is_cancelled() -> bool:
    """Whether the current task was cancelled. Otherwise a CancelledError came out of something it waits for."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs here
        return False
    return task is not None and task.cancelling() > 0


def surprise(raised: BaseException) -> Exception:
    """The exception that a border reports.

    Raises what passes every border: ProcessEnds, also out of a group, CancelledError if the task is being cancelled,
    KeyboardInterrupt and GeneratorExit.
    """
    if isinstance(raised, KeyboardInterrupt | GeneratorExit):
        raise raised
    if isinstance(raised, BaseExceptionGroup) and (ends := raised.subgroup(ProcessEnds)) is not None:
        raise first_of(ends)
    if isinstance(raised, ProcessEnds):
        raise raised
    if is_cancelled():
        if isinstance(raised, asyncio.CancelledError):
            raise raised
        _log.warning("unexpected %s at the end of a task", type(raised).__name__, exc_info=raised, extra=logs.STACK)
        raise asyncio.CancelledError from raised
    if isinstance(raised, Exception):
        return raised
    return foreign(raised)


@dataclass(frozen=True, slots=True)
class Border:
    """Reports unexpected exceptions of tasks, and starts the tasks again. `kind` is always a constant of the code."""

    metrics: Metrics
    clock: Clock

    async def keep(
        self,
        kind: str,
        name: str,
        work: Callable[[], Awaitable[None]],
        *,
        parked: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        """Run `work` until it returns, again after each unexpected exception. `parked` is called before each pause.

        Raises ProcessEnds, and StartFailed in the first run.
        """
        failures, runs = 0, 0
        while True:
            began = self.clock.monotonic()
            runs += 1
            try:
                return await work()
            except BaseException as raised:
                if isinstance(raised, StartFailed) and runs == 1:
                    raise
                error = surprise(raised)
            failures = 1 if self.clock.monotonic() - began >= CALM_SECONDS else failures + 1
            pause = _BACKOFF.delay_seconds(failures, random.random())
            self.report(kind, name, error, f"it starts again in {pause:.1f} s")
            self._call(kind, name, lambda error=error: parked(error))  # type: ignore[misc]
            await self._rest(kind, name, pause)

    async def once(self, kind: str, name: str, work: Callable[[], Awaitable[None]]) -> bool:
        """Run `work`. Returns whether it ended without an unexpected exception. Raises ProcessEnds."""
        try:
            await work()
        except BaseException as raised:
            self.report(kind, name, surprise(raised))
            return False
        return True

    def report(self, kind: str, name: str, error: Exception, next_step: str = "") -> None:
        """Count an unexpected exception, and log it with its stack."""
        self.metrics.task_failed(kind)
        consequence = f"; {next_step}" if next_step else ""
        _log.error("%s: unexpected %s%s", name, type(error).__name__, consequence, exc_info=error, extra=logs.STACK)

    def _call(self, kind: str, name: str, callback: Callable[[], None]) -> None:
        try:
            callback()
        except BaseException as raised:
            self.report(kind, name, surprise(raised))

    async def _rest(self, kind: str, name: str, seconds: float) -> None:
        try:
            await self.clock.sleep(seconds)
        except BaseException as raised:
            self.report(kind, name, surprise(raised))
            await asyncio.sleep(seconds)  # without a pause a failing clock would make an endless loop of this


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


class Background:
    """Starts tasks that live no longer than their block."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._running: set[asyncio.Task[Any]] = set()

    def start(self, work: Coroutine[object, object, R], name: str) -> asyncio.Task[R]:
        """Run something next to the block. What it raises ends the block: give it a border where it may fail."""
        task = self._group.create_task(_noticed(work), name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        task.add_done_callback(lambda _: work.close())  # a task that is cancelled at once never begins it
        return task

    def cancel(self) -> None:
        """Ask all of them to end."""
        for task in self._running:
            task.cancel()


async def _noticed(work: Coroutine[object, object, R]) -> R:
    """The outcome of the work. A group ignores a task that ends by CancelledError, also by one that is not its own,
    and SystemExit would end the event loop."""
    try:
        return await work
    except (asyncio.CancelledError, SystemExit) as raised:
        raise surprise(raised) from raised


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
