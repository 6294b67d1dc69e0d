"""List and watch, for ever: how a cache learns what is there and what changes.

A state machine. The states are frozen classes, `step` is pure and says what an input means; `Watcher` only does what a
state asks for (list, watch, rest) and hands what happened back to `step`.

    Unlisted ──Listed──> Watching ──Ended──> Watching
    Watching ──Failed──> Checking ──Checked──> Watching, or Unlisted where history was rewritten
    Watching, Checking ──Failed: 410──> Unlisted
    any ──Failed: kind not served, not permitted, not readable──> Unlisted, and told as Parked

Decisions:

- A watch that was cut goes on where it was. A new list is made only when the server has forgotten that place (410), or
  when its newest version is older than ours: then etcd was restored from a backup, and the server would keep silent
  until it has caught up with a future that never happened. One small request finds that out, and it is made only after
  a disorderly end.
- Bookmarks come about once a minute, so 70 seconds of silence mean a dead connection, whatever TCP believes.
- Pauses double up to four seconds: a hundred watchers must not storm a server that comes back, and nobody shall wait
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
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar, cast

from stellwerk.kube.client import PAGE, Client, Target, WatchEvent, view_of
from stellwerk.kube.errors import (
    ApiError,
    Forbidden,
    Gone,
    MethodNotAllowed,
    NotFound,
    NotServed,
    Status,
    StatusError,
    Undecodable,
    Unreachable,
    refusal,
)
from stellwerk.kube.model import HasMetadata, Listing, View, metadata_of

T = TypeVar("T", bound=HasMetadata)

SILENCE_SECONDS = 70.0
WATCH_SECONDS = 300
USEFUL_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 4.0
LONGEST_PARKED_SECONDS = 15.0


class Clock(Protocol):
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


# What a watcher tells


@dataclass(frozen=True, slots=True)
class Synced(Generic[T]):
    """All there is now. It takes the place of everything told before."""

    objects: tuple[T, ...]
    resource_version: str


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """The object is new, or different."""

    obj: T


@dataclass(frozen=True, slots=True)
class Removed(Generic[T]):
    """The object is gone, or no longer matches the selectors. `obj` is its last state."""

    obj: T


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to this version has been told."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Parked:
    """There is no watch, and trying harder does not help. `why` is a sentence for people, and steady."""

    why: str
    is_forbidden: bool = False
    """Whether rights are missing; a narrower watch may be permitted."""


Change: TypeAlias = Synced[T] | Changed[T] | Removed[T] | Bookmark | Parked


# The states


@dataclass(frozen=True, slots=True)
class Unlisted:
    """Nothing is known, or what is known is worthless. Next: Watching, or itself after a pause.

    `parked` is why the kind cannot be watched, as far as it was told.
    """

    failures: int = 0
    parked: str = ""


@dataclass(frozen=True, slots=True)
class Watching:
    """Everything up to a version is known. Next: itself, Checking, or Unlisted."""

    resource_version: str
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Checking:
    """A watch ended out of order: is our version still part of history? Next: Watching, Unlisted, or itself."""

    resource_version: str
    failures: int = 0


State: TypeAlias = Unlisted | Watching | Checking


# What happens to them, beside a WatchEvent


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A list was read to its end."""

    listing: Listing[T]


@dataclass(frozen=True, slots=True)
class Checked:
    """The version that the server is at."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The server closed the watch in order. `useful`: it had told something, or had lasted."""

    useful: bool


@dataclass(frozen=True, slots=True)
class Failed:
    """The request came to nothing."""

    error: ApiError


Input: TypeAlias = Listed[T] | WatchEvent | Checked | Ended | Failed


@dataclass(frozen=True, slots=True)
class Step(Generic[T]):
    """What an input means. `goes_on`: the request under way has more to say."""

    state: State
    change: Change[T] | None = None
    pause_seconds: float = 0.0
    goes_on: bool = False


def step(state: State, seen: Input[T], view: View[T], namespace: str = "") -> Step[T]:
    """The next state, what to tell, and how long to rest before (pure; the pause is without jitter)."""
    match seen:
        case WatchEvent():
            return _event(state, seen, view, namespace)
        case Listed(listing=listing):
            # Failures are forgotten at the first event, not here: a server that lists and then answers every watch
            # with 410 would be listed without a pause.
            found = Synced(tuple(listing.items), listing.resource_version)
            return Step(Watching(listing.resource_version, state.failures), found)
        case Checked(resource_version=newest):
            return _checked(state, newest)
        case Ended(useful=useful):
            failures = 0 if useful else state.failures + 1
            return Step(_at(state, failures), pause_seconds=pause_after(failures))
        case Failed(error=error):
            return _failed(state, error, view, namespace)


def pause_after(failures: int, longest: float = LONGEST_PAUSE_SECONDS) -> float:
    """Seconds to rest after so many failures in a row."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failures - 1, 16), longest) if failures else 0.0


def _event(state: State, seen: WatchEvent, view: View[T], namespace: str) -> Step[T]:
    if isinstance(seen.object, Status):
        return _failed(state, refusal(seen.object, f"watch {view.resource.plural}"), view, namespace)
    obj = cast(T, seen.object)
    now = Watching(obj.metadata.resource_version)
    match seen.type:
        case "ADDED" | "MODIFIED":
            return Step(now, Changed(obj), goes_on=True)
        case "DELETED":
            return Step(now, Removed(obj), goes_on=True)
        case _:
            return Step(now, Bookmark(now.resource_version), goes_on=True)


def _checked(state: State, newest: str) -> Step[T]:
    ours = state.resource_version if not isinstance(state, Unlisted) else ""
    if ours.isdecimal() and newest.isdecimal() and int(newest) < int(ours):
        return Step(Unlisted(state.failures))
    return Step(_at(state, state.failures))


def _failed(state: State, error: ApiError, view: View[T], namespace: str) -> Step[T]:
    failures = state.failures + 1
    if why := _why_parked(error, view, namespace):
        told = state.parked if isinstance(state, Unlisted) else ""
        pause = pause_after(failures, LONGEST_PARKED_SECONDS)
        return Step(Unlisted(failures, why), Parked(why, isinstance(error, Forbidden)) if why != told else None, pause)
    if isinstance(error, Gone):
        # The list that follows needs no pause, unless it is not the first.
        return Step(Unlisted(failures), pause_seconds=pause_after(state.failures))
    pause = pause_after(failures)
    if isinstance(error, StatusError) and error.retry_after is not None:
        pause = max(pause, error.retry_after)
    if isinstance(state, Unlisted):
        return Step(Unlisted(failures, state.parked), pause_seconds=pause)
    return Step(Checking(state.resource_version, failures), pause_seconds=pause)


def _why_parked(error: ApiError, view: View[T], namespace: str) -> str:
    """A sentence, or nothing where trying again soon may help."""
    resource = view.resource
    match error:
        case Forbidden():
            where = f"in namespace {namespace}" if namespace and resource.namespaced else "in the whole cluster"
            return f"not permitted to list and watch {resource.group_resource} {where}"
        case NotServed() | NotFound():
            return f"the API server serves no {resource.gvk}: is its CustomResourceDefinition installed?"
        case MethodNotAllowed():
            return f"{resource.group_resource} cannot be listed and watched"
        case Undecodable():
            return str(error)
        case _:
            return ""


def _at(state: State, failures: int) -> State:
    """Watching where we were; nothing known stays nothing known."""
    return Unlisted(failures) if isinstance(state, Unlisted) else Watching(state.resource_version, failures)


class Watcher(Generic[T]):
    """Lists and watches one resource, and tells what changes. One consumer each."""

    def __init__(
        self,
        client: Client,
        target: Target[T],
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        clock: Clock | None = None,
        page_limit: int = PAGE,
        silence_seconds: float = SILENCE_SECONDS,
        watch_seconds: int = WATCH_SECONDS,
        on_restart: Callable[[str], None] | None = None,
    ) -> None:
        """`on_restart` is told in one word why a watch did not end in order: cut, gone, or the error's name."""
        self.restarts = 0
        self._client = client
        self._view = view_of(target)
        self._namespace = namespace
        self._labels, self._fields = labels, fields
        self._clock: Clock = clock or _AsyncioClock()
        self._page_limit = page_limit
        self._silence_seconds = silence_seconds
        self._watch_seconds = watch_seconds
        self._on_restart = on_restart
        self._woken = asyncio.Event()
        self.last_contact = self._clock.monotonic()
        """When the server last said something, on the clock's monotonic scale."""

    def wake(self) -> None:
        """End the present pause: somebody has reason to think that trying again helps now."""
        self._woken.set()

    async def changes(self) -> AsyncGenerator[Change[T], None]:
        """What is there, and then every change, for ever. What goes wrong with the server never ends it."""
        state: State = Unlisted()
        while True:
            taken: Step[T] = Step(state)
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
                await self._rest(taken.pause_seconds * random.uniform(0.75, 1.25))

    async def _ask(self, state: State) -> AsyncGenerator[Input[T], None]:
        """Do what the state asks for."""
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
            yield Failed(error)

    async def _list(self) -> Listing[T]:
        return await self._client.list(
            self._view, self._namespace, labels=self._labels, fields=self._fields, limit=self._page_limit
        )

    async def _newest(self) -> str:
        pages = self._client.pages(
            metadata_of(self._view.resource), self._namespace, labels=self._labels, fields=self._fields, limit=1
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
        reason = _restart_reason(seen)
        if reason and isinstance(state, Watching):
            self.restarts += 1
            if self._on_restart is not None:
                self._on_restart(reason)

    async def _rest(self, seconds: float) -> None:
        sleep = asyncio.ensure_future(self._clock.sleep(seconds))
        woken = asyncio.ensure_future(self._woken.wait())
        try:
            await asyncio.wait((sleep, woken), return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleep.cancel()
            woken.cancel()
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
