"""A watch through the proxy: whole when no rule concerns it, and torn, silent or doubled as the rules say."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.testing.conftest import Behind, Operator, frame

from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    ANY_FRAME,
    WATCHES,
    CutBody,
    CutFrame,
    EndWatchAfter,
    ErrorFrame,
    FaultProxy,
    Hide,
    Hold,
    Repeat,
    WatchFrame,
    events,
    nth,
)
from stellwerk.testing.faults.on_events import Arrivals, folded
from stellwerk.testing.faults.rules import When
from stellwerk.testing.faults.traffic import understand

WATCH = "/api/v1/namespaces/here/configmaps?watch=1&resourceVersion=1"


@asynccontextmanager
async def watching(operator: Operator) -> AsyncIterator[aiohttp.StreamReader]:
    async with asyncio.timeout(60), operator.session.get(WATCH) as response:
        assert response.status == 200
        yield response.content


async def test_frames_pass_one_by_one_as_they_come(behind: Behind, operator: Operator) -> None:
    async with watching(operator) as stream:
        for version in (2, 3, 4):
            told = behind.says("ADDED", f"map-{version}", version)
            assert await stream.readline() == told
        behind.ends()
        assert await stream.read() == b""


async def test_a_frame_that_comes_in_pieces_passes_whole(behind: Behind, operator: Operator) -> None:
    async with watching(operator) as stream:
        whole = frame("ADDED", "one", 2)
        behind.frames.put_nowait(whole[:7])
        behind.frames.put_nowait(whole[7:])
        assert await stream.readline() == whole


async def test_a_watch_ends_upstream_when_its_reader_goes(
    behind: Behind, operator: Operator, proxy: FaultProxy
) -> None:
    async with watching(operator):
        pass
    async with asyncio.timeout(20):
        while not proxy.history.all()[0].is_over:
            await proxy.history.changed.after(proxy.history.changed.count)


async def test_a_hidden_event_never_comes(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_events(events("ADDED", "configmaps", name="secretly"), Hide())
    async with watching(operator) as stream:
        behind.says("ADDED", "secretly", 2)
        other = behind.says("ADDED", "openly", 3)
        assert await stream.readline() == other


async def test_a_fault_rings_when_it_happens_and_not_only_when_its_event_comes(
    behind: Behind, operator: Operator, proxy: FaultProxy
) -> None:
    rings: list[int] = []

    @dataclass(frozen=True)
    class Counting(Hide):
        async def meet(self, event: WatchFrame, arrivals: Arrivals) -> Sequence[WatchFrame]:
            rings.append(proxy.history.changed.count)
            return await super().meet(event, arrivals)

    def looked_at(event: WatchFrame) -> bool:
        rings.append(proxy.history.changed.count)
        return event.name == "secretly"

    proxy.on_events(When(looked_at, "an event that is looked at"), Counting())
    async with watching(operator) as stream:
        behind.says("ADDED", "secretly", 2)
        other = behind.says("ADDED", "openly", 3)
        assert await stream.readline() == other
    looked, happened = rings[:2]
    assert happened > looked, "whoever waits for the fault would look before it happens, and never again"


async def test_a_repeated_event_comes_twice(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_events(events(), Repeat(), nth(1))
    async with watching(operator) as stream:
        one, two = behind.says("ADDED", "one", 2), behind.says("ADDED", "two", 3)
        assert [await stream.readline() for _ in range(3)] == [one, one, two]


async def test_a_frame_is_cut_in_its_middle(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_events(events(), CutFrame(after_bytes=9), nth(2))
    async with watching(operator) as stream:
        one, two = behind.says("ADDED", "one", 2), behind.says("ADDED", "two", 3)
        assert await stream.readline() == one
        assert await stream.readexactly(9) == two[:9]
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.read()


async def test_a_watch_is_cut_after_so_many_bytes(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_requests(WATCHES, CutBody(20), nth(1))
    async with watching(operator) as stream:
        told = behind.says("ADDED", "one", 2)
        assert await stream.readexactly(20) == told[:20]
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.read()


async def test_an_error_frame_ends_the_watch_in_order(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    proxy.on_events(events("MODIFIED"), ErrorFrame(410))
    async with watching(operator) as stream:
        one = behind.says("ADDED", "one", 2)
        behind.says("MODIFIED", "one", 3)
        assert await stream.readline() == one
        last = json.loads(await stream.readline())
        assert (last["type"], last["object"]["code"], last["object"]["reason"]) == ("ERROR", 410, "Expired")
        assert await stream.read() == b""


async def test_a_held_event_holds_everything_behind_it(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    hold = Hold()
    proxy.on_events(events(name="slow"), hold)
    async with watching(operator) as stream:
        first = behind.says("ADDED", "fast", 2)
        held, behind_it = behind.says("ADDED", "slow", 3), behind.says("ADDED", "fast-too", 4)
        assert await stream.readline() == first
        await hold.caught()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await stream.readany()
        hold.release()
        assert [await stream.readline() for _ in range(2)] == [held, behind_it]
        assert [event.name for event in hold.held] == ["slow"]


async def test_a_hold_also_meets_a_watch_that_was_open_before(
    behind: Behind, operator: Operator, proxy: FaultProxy
) -> None:
    async with watching(operator) as stream:
        one = behind.says("ADDED", "one", 2)
        assert await stream.readline() == one
        hold = Hold()
        with proxy.on_events(ANY_FRAME, hold):
            behind.says("BOOKMARK", "", 3)
            await hold.caught()
        hold.release()
        assert b"BOOKMARK" in await stream.readline()


async def test_merged_events_come_as_one_per_object(behind: Behind, operator: Operator, proxy: FaultProxy) -> None:
    hold = Hold(merge=True)
    proxy.on_events(events(), hold, nth(1))
    async with watching(operator) as stream:
        behind.says("ADDED", "one", 2)
        await hold.caught()
        behind.says("MODIFIED", "one", 3)
        behind.says("ADDED", "gone", 4)
        behind.says("DELETED", "gone", 5)
        behind.ends()
        watch = proxy.history.all(WATCHES)[0]
        await eventually(lambda: "DELETED configmaps here/gone at 5" in watch.arrived, on=proxy.history.changed)
        hold.release()
        rest = [json.loads(line) for line in (await stream.read()).splitlines()]
    assert [(one["type"], one["object"]["metadata"]["resourceVersion"]) for one in rest] == [("ADDED", "3")]


@pytest.mark.parametrize("cut", [False, True])
async def test_a_watch_ends_after_its_time(behind: Behind, operator: Operator, proxy: FaultProxy, cut: bool) -> None:
    clock = FakeClock()
    proxy.on_requests(WATCHES, EndWatchAfter(2, cut=cut, clock=clock))
    async with watching(operator) as stream:
        one = behind.says("ADDED", "one", 2)
        assert await stream.readline() == one
        await clock.until_sleeping()
        await clock.advance(2)
        if cut:
            with pytest.raises(aiohttp.ClientPayloadError):
                await stream.read()
        else:
            assert await stream.read() == b""


REQUEST = understand("GET", WATCH)
STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30)


def history(present: set[str], steps: list[tuple[str, bool]]) -> list[WatchFrame]:
    """A stream as an API server sends it to a reader who knows the objects that are present."""
    present = set(present)
    told: list[WatchFrame] = []
    for version, (name, delete) in enumerate(steps, start=2):
        if delete and name not in present:
            continue
        kind = "DELETED" if delete else "MODIFIED" if name in present else "ADDED"
        (present.discard if delete else present.add)(name)
        told.append(WatchFrame.parse(REQUEST, frame(kind, name, version)))
    return told


def read(present: set[str], told: list[WatchFrame]) -> dict[str, str]:
    """What a strict reader knows after the events; it refuses those that make no sense."""
    known = dict.fromkeys(present, "1")
    for event in told:
        if event.type == "ADDED":
            assert event.name not in known
        else:
            assert event.name in known
        known[event.name] = event.resource_version
        if event.type == "DELETED":
            del known[event.name]
    return known


@given(st.sets(st.sampled_from("abc")), STEPS)
def test_folded_events_leave_the_same_objects_with_at_most_one_event_each(
    present: set[str], steps: list[tuple[str, bool]]
) -> None:
    told = history(present, steps)
    short = folded(told)
    assert read(present, short) == read(present, told)
    assert len({event.name for event in short}) == len(short)
