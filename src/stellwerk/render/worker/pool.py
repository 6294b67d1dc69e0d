"""A few workers, shared fairly among tenants.

Who waits is served tenant by tenant, each in the order of arrival, so that a tenant with a thousand requests delays
another by one of them at most. Tenants whose last rendering was slow may not have all workers: the others then have one
for themselves, and do not wait for the end of a slow one's budget. A rendering of which that was not known before it
began, and that is slow, gives way while another tenant waits for a worker: its worker is ended, and it begins again
when a slow tenant may have one. So however many tenants are slow, each of them delays the others by a second at most.

Workers are started when they are first needed, ended when they were idle for a while, and replaced when they grew. A
further one is started only where a caller has waited for a moment: most renderings take milliseconds, and a worker has
tens of megabytes.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from stellwerk.render.errors import RendererClosed, WorkerError
from stellwerk.render.worker.worker import Worker

V = TypeVar("V")

_MOST_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Shares:
    """How workers are shared."""

    workers: int = 2
    slow_seconds: float = 1.0
    """A rendering that takes longer makes its tenant a slow one until it has a faster one."""
    patience_seconds: float = 0.25
    """How long a caller waits for a busy worker before another one is started."""
    idle_seconds: float = 30.0
    """After which a worker without work ends, or after twice as long. A start takes a tenth of a second, and an idle
    worker has a third as much memory as the operator."""


@dataclass(frozen=True, slots=True, eq=False)
class _Wait:
    """A caller that waits for its turn."""

    turn: asyncio.Future[bool]
    """Whether it goes to a slow tenant."""
    since: float


@dataclass(slots=True, eq=False)
class _Turn:
    """A worker at work for a tenant."""

    tenant: str
    worker: Worker
    since: float
    is_slow: bool
    """Whether its tenant was a slow one before it began, so that it leaves a worker to others."""
    has_given_way: bool = False


class Pool:
    """Gives out workers. `close` ends all of them."""

    def __init__(self, start: Callable[[], Awaitable[Worker]], shares: Shares, resident_bytes: int) -> None:
        self._start = start
        self._shares = shares
        self._most_resident = resident_bytes
        self._allowed = self._free = 1
        self._idle: list[Worker] = []
        self._all: set[Worker] = set()
        self._waiting: OrderedDict[str, deque[_Wait]] = OrderedDict()
        self._slow: OrderedDict[str, None] = OrderedDict()
        self._turns: set[_Turn] = set()
        self._slow_turns = 0
        self._alarm: asyncio.TimerHandle | None = None
        self._preemption: asyncio.TimerHandle | None = None
        self._impatience: asyncio.TimerHandle | None = None
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False
        self.started = 0
        """How many workers were started so far."""

    @property
    def processes(self) -> frozenset[int]:
        """The ids of the workers that run now. Any thread may ask."""
        return frozenset(worker.pid for worker in tuple(self._all))

    def resident_bytes(self) -> int:
        """Memory that all workers hold. Any thread may ask."""
        return sum(worker.resident_bytes() for worker in tuple(self._all))

    async def run(self, tenant: str, work: Callable[[Worker], Awaitable[V]]) -> V:
        """What comes of work with a worker. Raises `RendererMissing` and `RendererClosed`.

        Work that gives way to another tenant is begun again, with another worker.
        """
        while True:
            async with self._worker(tenant) as turn:
                try:
                    return await work(turn.worker)
                except WorkerError:
                    if not turn.has_given_way or self._closed:
                        raise

    @asynccontextmanager
    async def _worker(self, tenant: str) -> AsyncIterator[_Turn]:
        """The right to one worker, and the worker."""
        is_slow = await self._turn(tenant)
        began = asyncio.get_running_loop().time()
        try:
            worker = await self._take()
            turn = _Turn(tenant, worker, began, is_slow)
            self._turns.add(turn)
            self._watch()
            try:
                yield turn
            finally:
                self._turns.discard(turn)
                self._put_back(worker)
        finally:
            self._remember(tenant, asyncio.get_running_loop().time() - began)
            self._release(is_slow=is_slow)

    async def close(self) -> None:
        """End all workers. Who waits for one gets `RendererClosed`."""
        self._closed = True
        for timer in (self._alarm, self._impatience, self._preemption):
            if timer is not None:
                timer.cancel()
        for wait in [wait for queue in self._waiting.values() for wait in queue]:
            if not wait.turn.done():
                wait.turn.set_exception(_closed())
        for worker in list(self._all):
            self._end(worker)
        self._idle.clear()
        await asyncio.gather(*self._ending)

    # ---- turns

    async def _turn(self, tenant: str) -> bool:
        """Wait for a worker; whether it goes to a slow tenant."""
        if self._closed:
            raise _closed()
        if not self._waiting and self._may_take(tenant):
            return self._claim(tenant)
        loop = asyncio.get_running_loop()
        wait = _Wait(loop.create_future(), loop.time())
        self._waiting.setdefault(tenant, deque()).append(wait)
        self._serve()
        self._be_patient()
        self._watch()
        try:
            return await wait.turn
        except BaseException:
            self._give_up(tenant, wait)
            raise

    def _be_patient(self) -> None:
        """Look again when the one who waits longest has waited for long enough."""
        if self._impatience is not None or self._allowed >= self._shares.workers or not self._waiting:
            return
        longest = min(queue[0].since for queue in self._waiting.values())
        loop = asyncio.get_running_loop()
        self._impatience = loop.call_at(longest + self._shares.patience_seconds, self._lose_patience)

    def _lose_patience(self) -> None:
        self._impatience = None
        until = asyncio.get_running_loop().time() - self._shares.patience_seconds
        if any(queue[0].since <= until for queue in self._waiting.values()):
            self._allowed += 1
            self._free += 1
            self._serve()
        self._be_patient()

    def _watch(self) -> None:
        """Look again in a moment whether a slow rendering has to give way."""
        if self._preemption is None and not self._closed and self._shares.workers > 1 and self._has_to_give_way():
            self._preemption = asyncio.get_running_loop().call_later(self._shares.slow_seconds / 4, self._preempt)

    def _preempt(self) -> None:
        """End the rendering that has a worker for longest, if it is slow and has to give way."""
        self._preemption = None
        before = asyncio.get_running_loop().time() - self._shares.slow_seconds
        slow = [turn for turn in self._has_to_give_way() if turn.since <= before]
        if slow and self._free <= 0:
            turn = min(slow, key=lambda one: one.since)
            turn.has_given_way = True
            self._mark_slow(turn.tenant)
            turn.worker.kill()
        self._watch()

    def _has_to_give_way(self) -> list[_Turn]:
        """The renderings that have to give way once they are slow: another tenant waits that is not a slow one."""
        waiting = {tenant for tenant in self._waiting if tenant not in self._slow}
        able = [turn for turn in self._turns if not turn.is_slow and not turn.has_given_way]
        return [turn for turn in able if waiting - {turn.tenant}]

    def _may_take(self, tenant: str) -> bool:
        if tenant in self._slow and self._shares.workers > 1 and self._slow_turns >= self._shares.workers - 1:
            return False
        return self._free > 0

    def _claim(self, tenant: str) -> bool:
        is_slow = tenant in self._slow
        self._free -= 1
        self._slow_turns += is_slow
        return is_slow

    def _release(self, *, is_slow: bool) -> None:
        self._free += 1
        self._slow_turns -= is_slow
        self._serve()

    def _serve(self) -> None:
        """Give free workers to those who wait: one to each tenant in turn."""
        while (tenant := next((one for one in self._waiting if self._may_take(one)), None)) is not None:
            queue = self._waiting[tenant]
            turn = queue.popleft().turn
            self._waiting.move_to_end(tenant)
            if not queue:
                del self._waiting[tenant]
            if not turn.done():
                turn.set_result(self._claim(tenant))

    def _give_up(self, tenant: str, wait: _Wait) -> None:
        turn = wait.turn
        if turn.done() and not turn.cancelled() and turn.exception() is None:
            self._release(is_slow=turn.result())  # the turn came at the moment in which it was given up
            return
        queue = self._waiting.get(tenant)
        if queue is not None and wait in queue:
            queue.remove(wait)
            if not queue:
                del self._waiting[tenant]

    def _remember(self, tenant: str, seconds: float) -> None:
        if seconds < self._shares.slow_seconds:
            self._slow.pop(tenant, None)
            return
        self._mark_slow(tenant)

    def _mark_slow(self, tenant: str) -> None:
        self._slow[tenant] = None
        self._slow.move_to_end(tenant)
        while len(self._slow) > _MOST_REMEMBERED:
            self._slow.popitem(last=False)

    # ---- workers

    async def _take(self) -> Worker:
        while self._idle:
            worker = self._idle.pop()
            if worker.is_usable:
                return worker
            self._end(worker)
        worker = await self._start()
        self.started += 1
        self._all.add(worker)
        if self._closed:
            self._end(worker)
            raise _closed()
        return worker

    def _put_back(self, worker: Worker) -> None:
        if self._closed or not worker.is_usable or worker.resident_bytes() > self._most_resident:
            self._end(worker)
            return
        self._idle.append(worker)
        if self._alarm is None:
            self._alarm = asyncio.get_running_loop().call_later(self._shares.idle_seconds, self._thin_out, set())

    def _thin_out(self, idle_before: set[int]) -> None:
        """End what has been idle since the last time."""
        self._alarm = None
        for worker in [worker for worker in self._idle if worker.pid in idle_before]:
            self._idle.remove(worker)
            self._end(worker)
            if self._allowed > 1:
                self._allowed -= 1
                self._free -= 1
        if self._idle:
            idle = {worker.pid for worker in self._idle}
            self._alarm = asyncio.get_running_loop().call_later(self._shares.idle_seconds, self._thin_out, idle)

    def _end(self, worker: Worker) -> None:
        worker.kill()
        if worker in self._all:
            self._all.discard(worker)
            task = asyncio.create_task(worker.close(), name=f"end of renderer {worker.pid}")
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)


def _closed() -> RendererClosed:
    return RendererClosed("rendering has ended with the process")
