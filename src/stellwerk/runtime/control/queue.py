"""Keys waiting for a reconciler: each key once, never two workers on one key.

A key is in at most one of these places: *ready* (a worker may take it), *running* (a worker has it), or *later* (a
timer holds it). A key that is added while it runs is remembered as *dirty* and becomes ready when its worker is done,
so no change is lost and none is worked on twice at the same time. A key that fails waits alone; its neighbours do not.
We refused one queue per object (memory at 50,000 tenants) and a global lock (one slow delete would stall the rest).

Taking a key drops its timer: the pass looks at everything again and returns when to look again. client-go lets the
old timer fire; which only causes an unnecessary pass.

Who comes next: what was begun and goes on, then changes, then resyncs (one in eight turns goes to a resync that waits,
or a busy cluster would starve them), within these one tenant after the other, within a tenant in order of arrival. A
tenant that floods the queue thus delays others by one key each, not by its backlog. The last free worker is not given
to a tenant whose keys hold others for long: a tenant with many slow keys delays the others by one of them at most, not
by one in each of their passes.

A key may run without a worker: the controller gives the seat of a slow pass to another worker (`leave`), and a pass
whose writes are not visible yet needs none (`land`). So slow keys hold no worker, and need a bound of their own: a
tenant has at most `_RUNNING_SHARE` keys per worker under way, and while all tenants together have more than
`_RUNNING_IN_ALL` per worker, a tenant gets another key only when it has none.

What was begun is finished before anything else is begun, because of a thousand new objects the first should be done
after a second and not all of them half done after a minute; and because what a step has found out is still at hand for
the next one. It starves no key: a chain of steps ends, and the controller cuts one that does not.

Model: client-go's workqueue (dirty and processing sets, keyed back-off) and controller-runtime's priority queue.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Collection, Iterator
from enum import IntEnum
from typing import Literal, Protocol

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.clock import Clock, happens_within
from stellwerk.runtime.supervision.backoff import Backoff

_RESYNC_TURN = 8
_BATCH = 500
"""How many keys that are due become ready before the event loop has another turn."""
_SLOW_SECONDS = 1.0
"""A key that runs for longer makes its tenant a slow one for as long as it runs."""
_RUNNING_SHARE = 4
_RUNNING_IN_ALL = 50
"""Keys under way for each worker: of one tenant, and of all tenants."""


class Priority(IntEnum):
    """Which keys go first."""

    CONTINUATION = 0
    """A pass has ended with a step that another one follows."""
    CHANGE = 1
    """Something changed, and a user may wait for the result."""
    RESYNC = 2
    """Nothing is known to have happened: the objects found at start, and the look now and then."""


class QueueClosed(Exception):
    """The queue gives out no more keys."""


class QueueObserver(Protocol):
    """Who counts what the queue does. All times are in seconds."""

    def added(self, depth: int) -> None:
        """A key became ready; so many are ready now."""
        ...

    def taken(self, depth: int, waited: float) -> None:
        """A worker took a key that was ready for so long; so many are left."""
        ...

    def finished(self, worked: float) -> None:
        """A worker is done with a key after so long."""
        ...

    def retried(self) -> None:
        """A key failed and waits for its next try."""
        ...


def one_tenant(_: ObjectKey) -> str:
    """All keys belong to the same tenant."""
    return ""


class WorkQueue:
    """A queue of keys. `run` must be running for delays to pass; everything else is synchronous, except `get`."""

    def __init__(
        self,
        *,
        clock: Clock,
        backoff: Backoff | None = None,
        tenant_of: Callable[[ObjectKey], str] = one_tenant,
        observer: QueueObserver | None = None,
        chance: Callable[[], float] = random.random,
        workers: int = 0,
    ) -> None:
        """`workers`: how many take keys, so that the last free one can be kept from slow tenants, and keys under way
        are bounded by tenant; 0: neither."""
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._tenant_of = tenant_of
        self._observer = observer
        self._chance = chance
        self._workers = workers
        self._ready = {priority: _Line() for priority in Priority}
        self._running: dict[ObjectKey, float] = {}
        self._unseated: set[ObjectKey] = set()
        self._under_way: Counter[str] = Counter()
        self._dirty: dict[ObjectKey, Priority] = {}
        self._later = _Timers()
        self._failures: dict[ObjectKey, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._timers_changed = asyncio.Event()
        self._turns = 0
        self._closed = False

    def add(self, key: ObjectKey, priority: Priority = Priority.CHANGE) -> None:
        """Let a worker take the key as soon as one is free. A key that waits already is not added twice."""
        if self._closed:
            return
        if key in self._running:
            self._dirty[key] = min(priority, self._dirty.get(key, priority))
        else:
            self._make_ready(key, priority)

    def add_after(self, key: ObjectKey, seconds: float, priority: Priority = Priority.RESYNC) -> None:
        """Add the key when the time has passed. The earliest of several times counts."""
        if seconds <= 0:
            self.add(key, priority)
        elif not self._closed and self._later.put(key, self._clock.monotonic() + seconds, priority):
            self._timers_changed.set()

    def add_backed_off(self, key: ObjectKey, at_least_seconds: float = 0.0, at_most_seconds: float = math.inf) -> float:
        """The key failed: add it after its next delay. Returns that delay in seconds."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        delay = max(min(self._backoff.delay_seconds(failures, self._chance()), at_most_seconds), at_least_seconds)
        if self._observer is not None:
            self._observer.retried()
        self.add_after(key, delay, Priority.CHANGE)
        return delay

    def forget(self, key: ObjectKey) -> None:
        """The key is well again: its next failure waits for the shortest time."""
        self._failures.pop(key, None)

    def failures(self, key: ObjectKey) -> int:
        """How often the key has failed in a row."""
        return self._failures.get(key, 0)

    async def get(self) -> ObjectKey:
        """The next key; it is running until `done`. Raises QueueClosed."""
        while not self._closed:
            key = self._take()
            if key is not None:
                return key
            await self._until_ready()
        raise QueueClosed

    def leave(self, key: ObjectKey) -> None:
        """The key goes on running, and its worker takes others."""
        self._unseated.add(key)

    def land(self, key: ObjectKey) -> None:
        """The pass on the key has ended; the key is running only until its writes are visible."""
        self._unseated.add(key)
        self._count(key, -1)
        self._wake_one()

    def done(self, key: ObjectKey, *, landed: bool = False) -> None:
        """The worker has finished with the key; `landed`: after `land`. What was added meanwhile becomes ready."""
        started = self._running.pop(key)
        self._unseated.discard(key)
        if not landed:
            self._count(key, -1)
        if self._observer is not None:
            self._observer.finished(self._clock.monotonic() - started)
        again = self._dirty.pop(key, None)
        if again is not None and not self._closed:
            self._make_ready(key, again)
        if len(self):
            self._wake_one()  # for a key that was barred as long as this one ran

    @property
    def is_closed(self) -> bool:
        """Whether it gives out no more keys."""
        return self._closed

    def close(self) -> None:
        """Return no more keys; a waiting caller gets QueueClosed."""
        self._closed = True
        for taker in self._takers:
            if not taker.done():
                taker.set_result(None)

    def __len__(self) -> int:
        """How many keys are ready."""
        return sum(len(line) for line in self._ready.values())

    @property
    def running(self) -> int:
        """How many keys workers have."""
        return len(self._running)

    def is_running(self, key: ObjectKey) -> bool:
        """Whether a worker has the key, or its writes are not visible yet."""
        return key in self._running

    @property
    def delayed(self) -> int:
        """How many keys wait for their time."""
        return len(self._later)

    def gathering(self, within_seconds: float) -> int:
        """How many keys wait for at most so long because something changed; a key that failed waits for no change."""
        before = self._clock.monotonic() + within_seconds
        waiting = (key for key, due, priority in self._later if priority is Priority.CHANGE and due <= before)
        return sum(key not in self._failures for key in waiting)

    def running_seconds(self) -> Iterator[float]:
        """For how long each running key has been running."""
        now = self._clock.monotonic()
        return (now - started for started in self._running.values())

    async def run(self) -> None:
        """Let time pass for delayed keys. Runs until cancelled."""
        while True:
            self._timers_changed.clear()
            for number, (key, priority) in enumerate(self._later.due(self._clock.monotonic()), start=1):
                self.add(key, priority)
                if number % _BATCH == 0:
                    await asyncio.sleep(0)  # fifty thousand keys may be due at once
            await self._until_next_timer()

    def _make_ready(self, key: ObjectKey, priority: Priority) -> None:
        waiting = next((known for known, line in self._ready.items() if key in line), None)
        if waiting is not None and waiting <= priority:
            return
        now = self._clock.monotonic()
        tenant = self._tenant_of(key)
        if waiting is None:
            self._ready[priority].push(tenant, key, now)
        else:
            self._ready[priority].push(tenant, key, self._ready[waiting].discard(tenant, key))
        if self._observer is not None and waiting is None:
            self._observer.added(len(self))
        self._wake_one()

    def _take(self) -> ObjectKey | None:
        barred = self._barred()
        taken = next((found for line in self._lines() if (found := line.pop(barred)) is not None), None)
        if taken is None:
            return None
        key, since = taken
        self._later.drop(key)
        now = self._running[key] = self._clock.monotonic()
        self._count(key, 1)
        if self._observer is not None:
            self._observer.taken(len(self), now - since)
        return key

    def _lines(self) -> tuple[_Line, _Line, _Line]:
        """The ready keys, those first whose turn it is."""
        self._turns += 1
        begun, changed, resynced = (self._ready[priority] for priority in Priority)
        return (begun, resynced, changed) if self._turns % _RESYNC_TURN == 0 else (begun, changed, resynced)

    def _barred(self) -> set[str]:
        """The tenants that get no key now: those with too many under way, and slow ones for the last free worker."""
        if not self._workers:
            return set()
        most = 1 if self._under_way.total() >= _RUNNING_IN_ALL * self._workers else _RUNNING_SHARE * self._workers
        full = {tenant for tenant, count in self._under_way.items() if count >= most}
        if self._workers < 2 or len(self._running) - len(self._unseated) < self._workers - 1:
            return full
        before = self._clock.monotonic() - _SLOW_SECONDS
        seated = ((key, started) for key, started in self._running.items() if key not in self._unseated)
        return full | {self._tenant_of(key) for key, started in seated if started < before}

    def _count(self, key: ObjectKey, change: Literal[1, -1]) -> None:
        tenant = self._tenant_of(key)
        self._under_way[tenant] += change
        if not self._under_way[tenant]:
            del self._under_way[tenant]

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return

    async def _until_ready(self) -> None:
        taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._takers.append(taker)
        try:
            await taker
        except asyncio.CancelledError:
            if taker.done() and not taker.cancelled():  # woken and cancelled at once: hand the turn on
                self._wake_one()
            raise

    async def _until_next_timer(self) -> None:
        """Wait for the first timer, or for a timer that comes before it."""
        first = self._later.first()
        if first is None:
            await self._timers_changed.wait()
        else:
            await happens_within(self._clock, max(0.0, first - self._clock.monotonic()), self._timers_changed)


class _Line:
    """The ready keys of one priority, one tenant after the other."""

    def __init__(self) -> None:
        self._tenants: OrderedDict[str, OrderedDict[ObjectKey, float]] = OrderedDict()
        self._members: set[ObjectKey] = set()

    def push(self, tenant: str, key: ObjectKey, since: float) -> None:
        self._tenants.setdefault(tenant, OrderedDict())[key] = since
        self._members.add(key)

    def pop(self, barred: Collection[str]) -> tuple[ObjectKey, float] | None:
        """The next key of a tenant that is not barred."""
        tenant = next((one for one in self._tenants if one not in barred), None)
        if tenant is None:
            return None
        keys = self._tenants.pop(tenant)
        taken = keys.popitem(last=False)
        if keys:
            self._tenants[tenant] = keys  # to the end: the other tenants' turn
        self._members.discard(taken[0])
        return taken

    def discard(self, tenant: str, key: ObjectKey) -> float:
        keys = self._tenants[tenant]
        since = keys.pop(key)
        if not keys:
            del self._tenants[tenant]
        self._members.discard(key)
        return since

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._members

    def __len__(self) -> int:
        return len(self._members)


class _Timers:
    """Keys by the time they are due: one time for each key, the earliest."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, ObjectKey]] = []
        self._due: dict[ObjectKey, tuple[float, Priority]] = {}

    def put(self, key: ObjectKey, due: float, priority: Priority) -> bool:
        """Set a time unless an earlier one is set. Returns whether it is now the first of all."""
        known = self._due.get(key)
        if known is not None and known[0] <= due:
            self._due[key] = (known[0], min(known[1], priority))
            return False
        self._due[key] = (due, priority)
        heapq.heappush(self._heap, (due, key))
        return self.first() == due

    def drop(self, key: ObjectKey) -> None:
        self._due.pop(key, None)
        if len(self._heap) > 64 and len(self._heap) > 4 * len(self._due):  # dropped entries would pile up
            self._heap = [(due, key) for key, (due, _) in self._due.items()]
            heapq.heapify(self._heap)

    def first(self) -> float | None:
        self._skip_dropped()
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[tuple[ObjectKey, Priority]]:
        """Take out what is due."""
        while (first := self.first()) is not None and first <= now:
            _, key = heapq.heappop(self._heap)
            yield key, self._due.pop(key)[1]

    def __iter__(self) -> Iterator[tuple[ObjectKey, float, Priority]]:
        return ((key, due, priority) for key, (due, priority) in self._due.items())

    def __len__(self) -> int:
        return len(self._due)

    def _skip_dropped(self) -> None:
        while self._heap and self._due.get(self._heap[0][1], (None,))[0] != self._heap[0][0]:
            heapq.heappop(self._heap)
