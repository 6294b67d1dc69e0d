"""Loads what passes ask for that needs a request, once for all who ask, and wakes them when it is there.

    decide asks -> Unknown -> the queue, fair by tenant -> request -> kept, by content -> all who asked are awakened

A load that is slow gives its turn to another one and goes on: fifty clusters or registries that do not answer hold up
their own loads alone. How many go on so is bounded for each tenant and for all together (`queue`).

A value never changes, because a load names its content. So a value that is dropped for lack of room wakes no object:
the next pass that asks for it has it loaded again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import REFUSED, ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.clock import Clock, happens_within
from stellwerk.runtime.control.queue import QueueClosed, WorkQueue
from stellwerk.runtime.reading.known import ABSENT, Known, NotKnown, Present, Refused, Unknown
from stellwerk.runtime.reading.loads import LOADING, Load
from stellwerk.runtime.reading.questions import Question, Wakes
from stellwerk.runtime.supervision.backoff import Backoff

V = TypeVar("V")

MOST_BYTES = 32 << 20
"""Of all values together."""
WORKERS = 4
"""How many loads have a turn at a time."""
TURN_SECONDS = 0.1
"""After how long a load goes on without a turn."""

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Asked(Question):
    """A load that passes wait for, or have the value of."""

    load: Load[Any]
    key: ObjectKey
    """In the queue: the namespace is the tenant."""
    why: str = ""
    """Of the last failure."""
    is_refused: bool = False


@dataclass(slots=True)
class _Kept:
    """The values of a tenant, from the one that was used longest ago."""

    values: OrderedDict[Load[Any], tuple[Any, int]] = field(default_factory=OrderedDict)
    size: int = 0


class Loads:
    """What the passes of a process load. It runs as a controller does: while the process leads."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        wakes: Wakes,
        *,
        backoff: Backoff | None = None,
        most_bytes: int = MOST_BYTES,
        workers: int = WORKERS,
    ) -> None:
        """`wakes`: those of the sources of the process."""
        self.name = "loads"
        self._client, self._clock, self._wakes = client, clock, wakes
        self._most_bytes, self._workers = most_bytes, workers
        retry = backoff or Backoff(first_seconds=0.5, limit_seconds=300.0)
        self.queue = WorkQueue(clock=clock, backoff=retry, tenant_of=_tenant, workers=workers)
        self._asked: dict[Load[Any], _Asked] = {}
        self._by_key: dict[ObjectKey, _Asked] = {}
        self._kept: dict[str, _Kept] = {}
        self._number = 0

    def get(self, load: Load[V]) -> Known[V]:
        """As `LoadSource.get`."""
        kept = self._kept.get(load.tenant)
        if kept is not None and load in kept.values:
            kept.values.move_to_end(load)
            value = kept.values[load][0]
            return ABSENT if value is None else Present(cast("V", value))
        asked = self._asked.get(load)
        if asked is None or not asked.why:
            return Unknown(LOADING)
        return Unknown(asked.why, asked.is_refused)

    def question(self, load: Load[Any]) -> Question:
        """As `LoadSource.question`."""
        asked = self._asked.get(load)
        if asked is None:
            self._number += 1
            key = ObjectKey(load.tenant, str(self._number))
            asked = self._asked[load] = self._by_key[key] = _Asked(self, load, key)
        if not asked.why and not self._is_kept(load):
            self.queue.add(asked.key)
        return asked

    def drop(self, question: Question) -> None:
        """No pass asks this any more. A value stays for the next one as long as there is room."""
        assert isinstance(question, _Asked)
        del self._asked[question.load]
        del self._by_key[question.key]
        self.queue.forget(question.key)

    @property
    def size(self) -> int:
        """The bytes of all values."""
        return sum(each.size for each in self._kept.values())

    async def run(self) -> None:
        """Load until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            timers = tasks.create_task(self.queue.run())
            workers = [tasks.create_task(self._work(tasks)) for _ in range(self._workers)]
            await asyncio.wait(workers)
            timers.cancel()

    def stop(self) -> None:
        """Begin no further request."""
        self.queue.close()

    async def _work(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            is_over = asyncio.Event()
            tasks.create_task(self._take_turn(key, is_over), name=f"load {key}")
            if not await happens_within(self._clock, TURN_SECONDS, is_over):
                self.queue.leave(key)

    async def _take_turn(self, key: ObjectKey, is_over: asyncio.Event) -> None:
        try:
            asked = self._by_key.get(key)
            if asked is not None and not self._is_kept(asked.load):
                await self._load(asked)
        finally:
            self.queue.done(key)
            is_over.set()

    async def _load(self, asked: _Asked) -> None:
        load = asked.load
        try:
            value = await load.fetch(self._client)
        except (ApiError, NotKnown) as error:
            self._fail(asked, str(error), is_refused=isinstance(error, (Refused, *REFUSED)))
            return
        except Exception:  # a bug in one load must not stop the others
            _log.exception("cannot load %s", load.about)
            self._fail(asked, f"cannot load {load.about}: internal error, see the log of the operator: stellwerk logs")
            return
        size = load.size(value) if value is not None else 0
        if size > self._most_bytes:
            self._fail(asked, f"it has {size} bytes, and at most {self._most_bytes} can be kept")
            return
        asked.why = ""
        self.queue.forget(asked.key)
        self._keep(load, value, size)
        self._wakes.wake(asked)

    def _fail(self, asked: _Asked, why: str, *, is_refused: bool = False) -> None:
        if asked.key not in self._by_key:
            return
        is_news, asked.why, asked.is_refused = why != asked.why, why, is_refused
        self.queue.add_backed_off(asked.key)
        if is_news:
            self._wakes.wake(asked)

    def _keep(self, load: Load[Any], value: Any, size: int) -> None:
        kept = self._kept.setdefault(load.tenant, _Kept())
        kept.values[load] = (value, size)
        kept.size += size
        while self.size > self._most_bytes:
            tenant, most = max(self._kept.items(), key=lambda item: item[1].size)
            _, (_, freed) = most.values.popitem(last=False)
            most.size -= freed
            if not most.values:
                del self._kept[tenant]

    def _is_kept(self, load: Load[Any]) -> bool:
        kept = self._kept.get(load.tenant)
        return kept is not None and load in kept.values


def _tenant(key: ObjectKey) -> str:
    return key.namespace
