"""Work that several wait for is done once.

The first caller starts it, and others meanwhile get the same answer or the same error. It belongs to no caller in
particular: who asked first may be cancelled without harm to the rest, and when the last one gives up it is cancelled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from stellwerk.kube.memory_budget import forget_variables
from stellwerk.kube.nested import nested

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class _Flight(Generic[V]):
    task: asyncio.Task[V]
    waiting: int = 0


class Flights(Generic[K, V]):
    """Work under way, by key. `close` cancels all of it; who still waits gets `on_close()` raised."""

    def __init__(self, on_close: Callable[[], Exception]) -> None:
        self._on_close = on_close
        self._flying: dict[K, _Flight[V]] = {}

    def __contains__(self, key: K) -> bool:
        """Whether work under this key is under way."""
        return key in self._flying

    async def join(self, key: K, work: Callable[[], Coroutine[object, object, V]], *, name: str = "") -> V:
        """The outcome of the work under this key, which is started where none is under way."""
        flight = self._flying.get(key)
        if flight is None:
            flight = self._flying[key] = _Flight(asyncio.create_task(_flown(work), name=name or "shared work"))
            flight.task.add_done_callback(partial(self._ended, key, flight))
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        except asyncio.CancelledError:
            if flight.task.cancelled() and not _is_cancelled():
                raise self._on_close() from None
            raise
        finally:
            flight.waiting -= 1
            if not flight.waiting:
                self._forget(key, flight)
                flight.task.cancel()

    async def close(self) -> None:
        """Cancel everything under way, and wait for its end."""
        tasks = [flight.task for flight in self._flying.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: K, flight: _Flight[V], _: asyncio.Task[V]) -> None:
        self._forget(key, flight)

    def _forget(self, key: K, flight: _Flight[V]) -> None:
        if self._flying.get(key) is flight:
            del self._flying[key]


async def _flown(work: Callable[[], Coroutine[object, object, V]]) -> V:
    """What the work comes to. Its failure keeps nothing: the frames of those who wait refer to the task, and it to its
    exception, which refers to their frames."""
    try:
        return await nested(work)
    except BaseException as error:
        forget_variables(error)
        raise


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
