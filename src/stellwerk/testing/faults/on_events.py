"""What can go wrong with a watch: events that are hidden, doubled, late, folded together, or torn.

A watch delivers in order, and so do these faults: while one event is held, everything behind it on that stream waits.
An order that no API server would ever produce proves nothing about an operator. Rules are asked at every event, so a
fault also meets watches that were open before it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from stellwerk.testing.eventually import Signal, eventually
from stellwerk.testing.faults.reply import ConnectionCut, status_object
from stellwerk.testing.faults.rules import When
from stellwerk.testing.faults.traffic import RecordedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchFrame:
    """One frame of a watch. `type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR; `frame` is the line with its end."""

    request: RecordedRequest
    type: str
    frame: bytes
    namespace: str = ""
    name: str = ""
    resource_version: str = ""

    @classmethod
    def parse(cls, request: RecordedRequest, frame: bytes) -> WatchFrame:
        """Read one line of a watch. Raises ValueError when it is no JSON: the operator asked for another encoding."""
        content = json.loads(frame)
        metadata = content["object"].get("metadata") or {}
        return cls(
            request=request,
            type=str(content["type"]),
            frame=frame,
            namespace=str(metadata.get("namespace", "")),
            name=str(metadata.get("name", "")),
            resource_version=str(metadata.get("resourceVersion", "")),
        )

    @property
    def is_of_object(self) -> bool:
        """Whether it is about an object, and is no bookmark or error."""
        return self.type in ("ADDED", "MODIFIED", "DELETED")

    def __str__(self) -> str:
        where = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.type} {self.request.group_resource} {where} at {self.resource_version}"


def events(kind: str = "", resource: str = "", *, namespace: str = "", name: str = "") -> When[WatchFrame]:
    """Events of objects, with this type (ADDED, MODIFIED, DELETED) and resource; what is left out does not matter."""

    def holds(event: WatchFrame) -> bool:
        return (
            event.is_of_object
            and kind in ("", event.type)
            and resource in ("", event.request.group_resource)
            and namespace in ("", event.namespace)
            and name in ("", event.name)
        )

    words = [kind or "any event", resource, "/".join(part for part in (namespace, name) if part)]
    return When(holds, " ".join(word for word in words if word))


def of_watch(when: When[RecordedRequest]) -> When[WatchFrame]:
    """Frames of those watches whose request meets a condition, where several watch the same resource."""
    return When(lambda event: when(event.request), f"frames of {when}")


ANY_FRAME: When[WatchFrame] = When(lambda event: True, "any frame, bookmarks included")


class Arrivals:
    """The events of one watch that have come from the server and not been looked at yet."""

    def __init__(self, arrived: asyncio.Queue[WatchFrame | None]) -> None:
        self._arrived = arrived

    def take(self) -> list[WatchFrame]:
        """Take all that has come so far. They are not looked at again."""
        taken: list[WatchFrame] = []
        while not self._arrived.empty():
            event = self._arrived.get_nowait()
            if event is None:  # The end of the stream stays for the next reader.
                self._arrived.put_nowait(None)
                break
            taken.append(event)
        return taken


class EventFault(Protocol):
    """One kind of misfortune with a watch. `str()` names it in the history."""

    async def meet(self, event: WatchFrame, arrivals: Arrivals) -> Sequence[WatchFrame]:
        """What the operator gets instead. Raises ConnectionCut, or WatchEnded to end the watch in order."""
        ...


class WatchEnded(Exception):
    """Ends a watch as a server does that is done with it, after a last frame (may be empty)."""

    def __init__(self, last: bytes = b"") -> None:
        self.last = last
        super().__init__("the watch ends")


class TornFrame(ConnectionCut):
    """Ends the connection inside a frame, of which this part arrives."""

    def __init__(self, part: bytes) -> None:
        self.part = part
        super().__init__("the frame is torn")


@dataclass(frozen=True, slots=True)
class Hide:
    """The operator never gets the event on this watch."""

    async def meet(self, event: WatchFrame, arrivals: Arrivals) -> Sequence[WatchFrame]:
        return ()

    def __str__(self) -> str:
        return "event hidden"


@dataclass(frozen=True, slots=True)
class Repeat:
    """The operator gets the event so many times more."""

    times: int = 1

    async def meet(self, event: WatchFrame, arrivals: Arrivals) -> Sequence[WatchFrame]:
        return [event] * (1 + self.times)

    def __str__(self) -> str:
        return f"event repeated {self.times} time(s)"


@dataclass(frozen=True, slots=True)
class CutFrame:
    """The connection ends inside the event's frame, after so many of its bytes; by default after half of them."""

    after_bytes: int | None = None

    async def meet(self, event: WatchFrame, arrivals: Arrivals) -> Sequence[WatchFrame]:
        count = len(event.frame) // 2 if self.after_bytes is None else self.after_bytes
        raise TornFrame(event.frame[:count])

    def __str__(self) -> str:
        return "frame cut"


@dataclass(frozen=True, slots=True)
class ErrorFrame:
    """Instead of the event comes an ERROR frame with a Status, and the watch ends. 410 is a version too old."""

    code: int = 410
    reason: str = ""
    message: str = "the fault proxy refuses it"

    async def meet(self, event: WatchFrame, arrivals: Arrivals) -> Sequence[WatchFrame]:
        content = {"type": "ERROR", "object": status_object(self.code, self.reason, self.message)}
        raise WatchEnded(json.dumps(content).encode() + b"\n")

    def __str__(self) -> str:
        return f"error frame {self.code}"


class Hold:
    """Events wait until `release`, and everything behind them on their stream too: late, or a line gone silent.

    With `merge` an operator then gets what a lazy watcher would have seen: per object the last of what has come
    meanwhile (see `folded`). On every frame (`ANY_FRAME`) it makes a half-open connection.
    """

    def __init__(self, *, merge: bool = False) -> None:
        self._merge = merge
        self._released = asyncio.Event()
        self._held: list[WatchFrame] = []
        self.changed = Signal()

    @property
    def held(self) -> Sequence[WatchFrame]:
        """The events that were caught, in order; those behind them on the same stream are not counted."""
        return self._held

    async def caught(self, count: int = 1, *, within: float = 30.0) -> None:
        """Wait until so many streams are held. Raises StillUntrue."""
        await eventually(
            lambda: len(self._held) >= count, within=within, describe=f"{count} event(s) held", on=self.changed
        )

    def release(self) -> None:
        """Release all events, and hold no more."""
        self._released.set()

    async def meet(self, event: WatchFrame, arrivals: Arrivals) -> Sequence[WatchFrame]:
        if self._released.is_set():
            return [event]
        self._held.append(event)
        self.changed.ring()
        await self._released.wait()
        return folded([event, *arrivals.take()]) if self._merge else [event]

    def __str__(self) -> str:
        return "events held, then merged" if self._merge else "events held"


def folded(seen: Sequence[WatchFrame]) -> list[WatchFrame]:
    """One event per object that leaves a reader with the same objects as all of them. Of bookmarks the last stays."""
    by_object: dict[tuple[str, str], list[WatchFrame]] = {}
    others: list[WatchFrame] = []
    for event in seen:
        if event.is_of_object:
            by_object.setdefault((event.namespace, event.name), []).append(event)
        else:
            others.append(event)
    outcomes = [outcome for story in by_object.values() if (outcome := _outcome(story))]
    order = {id(event): position for position, event in enumerate(seen)}
    outcomes.sort(key=lambda outcome: order[id(outcome[0])])
    return [*(_retyped(last, kind) for last, kind in outcomes), *others[-1:]]


def _outcome(story: Sequence[WatchFrame]) -> tuple[WatchFrame, str] | None:
    """The last event of an object's story, and the type it has for a reader who missed the rest."""
    known_before, last = story[0].type != "ADDED", story[-1]
    if last.type == "DELETED":
        return (last, "DELETED") if known_before else None
    return last, "MODIFIED" if known_before else "ADDED"


def _retyped(event: WatchFrame, kind: str) -> WatchFrame:
    if event.type == kind:
        return event
    content = json.loads(event.frame)
    frame = json.dumps({**content, "type": kind}).encode() + b"\n"
    return WatchFrame.parse(event.request, frame)


Treatment = Callable[[WatchFrame, Arrivals], AsyncGenerator[WatchFrame, None]]
"""What the rules in force make of an event."""


async def treated(
    request: RecordedRequest,
    chunks: AsyncGenerator[bytes, None],
    treat: Treatment,
    notice: Callable[[WatchFrame], None],
) -> AsyncGenerator[bytes, None]:
    """A watch's frames as the rules leave them. Reads ahead, so that held events do not hold up the server.

    `notice` receives each event as it comes from the server.
    """
    arrived: asyncio.Queue[WatchFrame | None] = asyncio.Queue()
    reader = asyncio.create_task(_read_ahead(request, chunks, arrived, notice), name=f"read ahead {request}")
    arrivals = Arrivals(arrived)
    try:
        while (event := await arrived.get()) is not None:
            async with aclosing(treat(event, arrivals)) as outcome:
                async for given in outcome:
                    yield given.frame
        await reader
    except TornFrame as torn:
        yield torn.part
        raise
    except WatchEnded as end:
        yield end.last
    finally:
        reader.cancel()
        await asyncio.gather(reader, return_exceptions=True)


async def _read_ahead(
    request: RecordedRequest,
    chunks: AsyncGenerator[bytes, None],
    arrived: asyncio.Queue[WatchFrame | None],
    notice: Callable[[WatchFrame], None],
) -> None:
    try:
        async with aclosing(_lines(chunks)) as lines:
            async for line in lines:
                event = WatchFrame.parse(request, line)
                arrived.put_nowait(event)
                notice(event)
    finally:
        arrived.put_nowait(None)


async def _lines(chunks: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    rest = b""
    async with aclosing(chunks):
        async for chunk in chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line + b"\n"
    if rest.strip():  # The server itself was cut inside a frame.
        raise TornFrame(rest)
