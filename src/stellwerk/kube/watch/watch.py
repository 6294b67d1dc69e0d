"""List and watch, for ever: how a cache learns what is there and what changes.

A state machine. The states and what an input means to them are in `watch_states`; `Watcher` only does what a state asks
for (list, watch, rest) and hands what happened back.

Decisions:

- A watch that was cut goes on where it was. A new list is made only when the server has forgotten that place (410), or
  when its newest version is older than ours: then etcd was restored from a backup, and the server would keep silent
  until it has caught up with a future that never happened. One small request finds that out, and it is made only after
  a disorderly end.
- Bookmarks come about once a minute, so 70 seconds of silence mean a dead connection, whatever TCP believes.
- Pauses double up to four seconds: a hundred watchers must not storm a server that returns, and none should wait
  long for the first event after it. A parked kind is looked for every fifteen seconds at most, and at once on `wake`.
- Lists ask for the most recent state. A list from the server's cache (resourceVersion=0) is cheaper and may be older
  than what was seen before a restart, which would make us act on the past.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Generic, Protocol, TypeVar

from stellwerk.kube.client.client import (
    PAGE,
    Admission,
    Client,
    ListSelection,
    Target,
    WatchEvent,
    view_of,
)
from stellwerk.kube.types.errors import ApiError, Gone, Status, Unreachable
from stellwerk.kube.types.model import HasMetadata, Listing, metadata_of
from stellwerk.kube.watch.watch_states import (
    Change,
    Checked,
    Checking,
    Ended,
    Failed,
    Input,
    Listed,
    State,
    Unlisted,
    Watching,
    WatchStep,
    concerns_kind,
    step,
)

T = TypeVar("T", bound=HasMetadata)

SILENCE_SECONDS = 70.0
WATCH_SECONDS = 300
USEFUL_SECONDS = 5.0
DEAF_SECONDS = 30.0
"""For how long a wait that the server asked for is kept whatever happens."""


class WatchClock(Protocol):
    """Where a watcher gets the time from and waits."""

    def monotonic(self) -> float:
        """Seconds that never jump."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class _AsyncioClock:
    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Watcher(Generic[T]):
    """Lists and watches one resource, and returns the changes. One consumer each."""

    def __init__(
        self,
        client: Client,
        target: Target[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        clock: WatchClock | None = None,
        page_limit: int = PAGE,
        silence_seconds: float = SILENCE_SECONDS,
        watch_seconds: int = WATCH_SECONDS,
        on_restart: Callable[[str], None] | None = None,
        admission: Admission | None = None,
    ) -> None:
        """`on_restart` receives in one word why a watch did not end normally: cut, gone, or the error's name.

        `admission` decides what is kept of the objects of lists.
        """
        self._listing: ListSelection = {
            "labels": labels,
            "fields": fields,
            "limit": page_limit,
            "skip_unreadable": True,
        }
        if admission is not None:
            self._listing["admission"] = admission
        self.restarts = 0
        self._client = client
        self._view = view_of(target)
        self._namespace = namespace
        self._labels, self._fields = labels, fields
        self._clock: WatchClock = clock or _AsyncioClock()
        self._silence_seconds = silence_seconds
        self._watch_seconds = watch_seconds
        self._on_restart = on_restart
        self._woken = asyncio.Event()
        self.last_contact = self._clock.monotonic()
        """When the server last sent something, in seconds of the monotonic clock."""
        self.last_answer = self.last_contact
        """As `last_contact`, or when the server last refused this kind and is well otherwise."""

    def wake(self) -> None:
        """End the present pause, because trying again may help now.

        A wait that the server asked for is kept for half a minute: it may ask for an hour, and be well before.
        """
        self._woken.set()

    async def changes(self, *, was_listed: bool = False) -> AsyncGenerator[Change[T], None]:
        """What is there, and then every change, for ever. What goes wrong with the server never ends it.

        `was_listed`: the consumer holds a former list, so that a refusal of the next one suspends nothing.
        """
        state: State = Unlisted(was_listed=was_listed)
        while True:
            taken: WatchStep[T] = WatchStep(state)
            async with aclosing(self._ask(state)) as inputs:
                async for seen in inputs:
                    self._note(state, seen)
                    taken = step(state, seen, self._view, self._namespace)
                    state = taken.state
                    if taken.change is not None:
                        yield taken.change
                    if not taken.goes_on:
                        break
            if taken.pause_seconds:
                await self._rest(taken.jittered_seconds(random.random()), taken.wanted_seconds)

    async def _ask(self, state: State) -> AsyncGenerator[Input[T], None]:
        """Do what the state asks for."""
        began = self._clock.monotonic()
        try:
            match state:
                case Unlisted():
                    yield Listed(await self._list())
                case Checking():
                    yield Checked(await self._newest())
                case Watching(resource_version=version):
                    async with aclosing(self._watch(version)) as events:
                        async for seen in events:
                            yield seen
        except ApiError as error:
            yield Failed(error, self._clock.monotonic() - began)

    async def _list(self) -> Listing[T]:
        return await self._client.list(self._view, self._namespace, **self._listing)

    async def _newest(self) -> str:
        pages = self._client.pages(
            metadata_of(self._view.resource),
            self._namespace,
            labels=self._labels,
            fields=self._fields,
            limit=1,
            skip_unreadable=True,
        )
        async for page in pages:
            return page.resource_version
        raise AssertionError("a list has at least one page")

    async def _watch(self, version: str) -> AsyncGenerator[Input[T], None]:
        began, useful = self._clock.monotonic(), False
        events = self._client.watch(
            self._view,
            self._namespace,
            resource_version=version,
            labels=self._labels,
            fields=self._fields,
            # Spread, so that the watches of a process that started at once do not end at once for ever.
            timeout_seconds=int(self._watch_seconds * random.uniform(1.0, 2.0)),
            silence_seconds=self._silence_seconds,
        )
        # Closed here and now: left to the garbage collector, the connection would stay open for a while.
        async with aclosing(events):
            async for event in events:
                useful = True
                yield event
        yield Ended(useful or self._clock.monotonic() - began >= USEFUL_SECONDS)

    def _note(self, state: State, seen: Input[T]) -> None:
        """Keep count of contact and of restarts."""
        if not isinstance(seen, Failed):
            self.last_contact = self._clock.monotonic()
        if not isinstance(seen, Failed) or concerns_kind(seen.error):
            self.last_answer = self._clock.monotonic()
        reason = _restart_reason(seen)
        if reason and isinstance(state, Watching):
            self.restarts += 1
            if self._on_restart is not None:
                self._on_restart(reason)

    async def _rest(self, seconds: float, wanted_seconds: float) -> None:
        if wanted_seconds:
            kept_seconds = min(seconds, DEAF_SECONDS)
            await self._clock.sleep(kept_seconds)
            seconds -= kept_seconds
        if seconds <= 0:
            self._woken.clear()
            return
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait((sleep, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            woken.cancel()
        if sleep.done():
            sleep.result()  # a clock that fails at once must not make a loop without a pause
        self._woken.clear()


def _restart_reason(seen: Input[T]) -> str:
    match seen:
        case Failed(error=Gone()):
            return "gone"
        case Failed(error=Unreachable()):
            return "cut"
        case Failed(error=error):
            return type(error).__name__
        case WatchEvent(object=Status(code=410)):
            return "gone"
        case WatchEvent(object=Status()):
            return "error"
        case _:
            return ""
