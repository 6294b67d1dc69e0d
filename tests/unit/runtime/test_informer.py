"""The informer keeps its store true and tells each change once, whatever a watch delivers."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TypeAlias, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ServerFault, Status
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Listing, PartialObjectMetadata, Unreadable, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta, version_number
from stellwerk.kube.watch.watch_states import Bookmark, Change, Changed, Odd, Removed, Synced, WatchSuspended
from stellwerk.runtime.cache.cache_audit import suspects
from stellwerk.runtime.cache.informer import (
    COMPLAINTS_SECONDS,
    MOST_COMPLAINTS,
    MOST_REMOVED,
    Delta,
    Informer,
    noting_own_writes,
    own_version,
    wrote_own_object,
)
from stellwerk.runtime.cache.read_your_writes import OwnWrite
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

Thing: TypeAlias = PartialObjectMetadata
THINGS = metadata_of(Resource("", "v1", "ConfigMap", "configmaps", namespaced=True))
A = ObjectKey("here", "a")


def thing(name: str, version: int, uid: str = "") -> Thing:
    return Thing(metadata=ObjectMeta(namespace="here", name=name, uid=uid or name, resource_version=str(version)))


def informer(clock: FakeClock | None = None) -> Informer[Thing]:
    """An informer that is fed by hand; its client never sends anything."""
    return Informer(Client.connect(ClusterConfig(server="http://nowhere.invalid")), THINGS, clock=clock or FakeClock())


class StatusHistory:
    """What a handler was told: `+a` came, `~a` changed, `-a` went."""

    def __init__(self, informer: Informer[Thing]) -> None:
        self.lines: list[str] = []
        self.replays: list[bool] = []
        informer.on_change(self.write)

    def write(self, delta: Delta[Thing]) -> None:
        sign = "+" if delta.old is None else "-" if delta.new is None else "~"
        self.lines.append(f"{sign}{delta.key.name}")
        self.replays.append(delta.is_replay)


def test_a_list_is_told_as_replay_and_events_are_not() -> None:
    things = informer()
    history = StatusHistory(things)
    things.take(Synced((thing("a", 1),), "5"))
    things.take(Changed(thing("b", 6)))
    things.take(Changed(thing("a", 7)))
    things.take(Removed(thing("b", 8)))
    assert history.lines == ["+a", "+b", "~a", "-b"]
    assert history.replays == [True, False, False, False]


def test_after_a_new_list_only_the_difference_is_told() -> None:
    things = informer()
    things.take(Synced((thing("same", 1), thing("changes", 2), thing("goes", 3)), "5"))
    history = StatusHistory(things)
    history.lines.clear()
    things.take(Synced((thing("same", 1), thing("changes", 7), thing("comes", 8)), "9"))
    assert history.lines == ["-goes", "~changes", "+comes"]


@pytest.mark.req("R-105")
def test_an_object_made_again_under_its_name_is_a_departure_and_an_arrival() -> None:
    things = informer()
    things.take(Synced((thing("a", 1, uid="first"),), "1"))
    history = StatusHistory(things)
    history.lines.clear()
    things.take(Changed(thing("a", 4, uid="second")))
    things.take(Synced((thing("a", 9, uid="third"),), "9"))
    assert history.lines == ["-a", "+a", "-a", "+a"]


@pytest.mark.req("R-103")
def test_repeated_and_late_events_say_nothing_new() -> None:
    things = informer()
    things.take(Synced((thing("a", 5),), "5"))
    history = StatusHistory(things)
    history.lines.clear()
    things.take(Changed(thing("a", 5)))
    things.take(Changed(thing("a", 4)))
    things.take(Removed(thing("a", 4, uid="an earlier one")))
    assert history.lines == []
    assert things.store.get(A) == thing("a", 5)


@pytest.mark.req("R-103", "R-105")
@pytest.mark.parametrize(
    "late",
    [Changed(thing("a", 6, uid="first")), Odd(Unreadable(THINGS.resource, thing("a", 6, uid="first").metadata, "odd"))],
)
def test_a_late_event_brings_no_former_object_back(late: Change[Thing]) -> None:
    things = informer()
    things.take(Synced((thing("a", 5, uid="first"),), "5"))
    history = StatusHistory(things)
    things.take(Removed(thing("a", 7, uid="first")))
    things.take(late)
    assert A not in things.store, "it is gone"
    things.take(Changed(thing("a", 9, uid="second")))
    things.take(late)
    assert things.store.get(A) == thing("a", 9, uid="second")
    assert not things.unreadable
    assert history.lines == ["+a", "-a", "+a"]


@pytest.mark.req("R-103")
def test_new_objects_of_a_server_that_counts_versions_for_each_object_are_shown() -> None:
    things = informer()
    things.take(Synced((thing("a", 7),), "7"))
    things.take(Changed(thing("b", 1)))
    things.take(Changed(thing("c", 7)))
    things.take(Odd(Unreadable(THINGS.resource, thing("d", 2).metadata, "odd")))
    assert {obj.key.name for obj in things.store.all()} == {"a", "b", "c"}
    assert {key.name for key in things.unreadable} == {"d"}


@pytest.mark.req("R-103")
@pytest.mark.parametrize("version", [6, 8])
def test_an_event_about_a_predecessor_does_not_replace_the_object(version: int) -> None:
    things = informer()
    things.take(Synced((thing("a", 5, uid="first"),), "5"))
    things.take(Changed(thing("a", 7, uid="second")))
    things.take(Changed(thing("a", version, uid="first")))
    assert things.store.get(A) == thing("a", 7, uid="second")


@pytest.mark.req("R-103")
def test_an_object_that_left_a_selection_comes_back_also_after_a_restore() -> None:
    things = informer()
    things.take(Synced((thing("a", 5),), "5"))
    things.take(Removed(thing("a", 7)))
    things.take(Changed(thing("a", 8)))
    assert A in things.store
    things.take(Removed(thing("a", 9)))
    things.take(Synced((), "3"))
    things.take(Changed(thing("a", 4)))
    assert A in things.store


@pytest.mark.req("R-103")
def test_an_object_that_a_list_shows_again_after_its_successor_is_followed() -> None:
    things = informer()
    things.take(Synced((thing("a", 10, uid="first"),), "11"))
    things.take(Changed(thing("a", 20, uid="second")))
    things.take(Synced((thing("a", 10, uid="first"),), "1000"))  # a restore that counts on from far ahead
    things.take(Changed(thing("a", 1005, uid="first")))
    assert things.store.get(A) == thing("a", 1005, uid="first")


@pytest.mark.req("R-103")
def test_a_late_event_does_not_bring_an_object_whose_end_was_seen_first() -> None:
    things = informer()
    things.take(Synced((), "100"))
    things.take(Removed(thing("a", 105)))
    things.take(Changed(thing("a", 104)))
    assert A not in things.store
    things.take(Changed(thing("a", 106, uid="second")))
    assert A in things.store, "a new one is shown"


@pytest.mark.req("R-103")
@pytest.mark.parametrize(
    "first",
    [
        Synced((thing("a", 50),), "100"),
        Synced((), "100", unreadable=(Unreadable(THINGS.resource, thing("a", 50).metadata, "odd"),)),
    ],
    ids=["readable", "unreadable"],
)
def test_a_late_event_does_not_bring_back_what_a_list_no_longer_showed(first: Change[Thing]) -> None:
    things = informer()
    things.take(first)
    things.take(Synced((), "120"))
    things.take(Changed(thing("a", 119)))
    assert A not in things.store
    things.take(Changed(thing("a", 121)))
    assert A in things.store, "it has come back to a selection"


@pytest.mark.req("R-103", "R-510")
def test_an_unreadable_object_that_has_come_back_does_not_leave_by_a_late_event() -> None:
    things = informer()
    things.take(Synced((thing("a", 5),), "5"))
    things.take(Odd(Unreadable(THINGS.resource, thing("a", 8).metadata, "odd")))
    things.take(Removed(thing("a", 6)))
    assert A in things.store
    assert A in things.unreadable


@pytest.mark.req("R-103")
def test_the_ends_of_many_objects_take_bounded_memory() -> None:
    things = informer()
    for number in range(3 * MOST_REMOVED):
        things.take(Changed(thing(f"n{number}", 2 * number + 1)))
        things.take(Removed(thing(f"n{number}", 2 * number + 2)))
    assert len(things._removed) == MOST_REMOVED


@pytest.mark.req("R-103", "R-510")
def test_a_late_event_does_not_make_an_object_unreadable() -> None:
    things = informer()
    odd = Unreadable(THINGS.resource, thing("b", 3).metadata, "odd")
    events: list[Change[Thing]] = [
        Odd(odd),
        Removed(Unreadable(THINGS.resource, thing("b", 4).metadata, "odd")),
        Odd(odd),
    ]
    for event in events:
        things.take(event)
    assert not things.unreadable
    things.take(Synced((thing("a", 9),), "9"))
    things.take(Odd(Unreadable(THINGS.resource, thing("a", 6).metadata, "odd")))
    assert not things.unreadable


@pytest.mark.req("R-103")
def test_an_object_that_has_come_back_to_a_selection_does_not_leave_it_by_a_late_event() -> None:
    things = informer()
    things.take(Synced((thing("a", 5),), "5"))
    things.take(Removed(thing("a", 6)))
    things.take(Changed(thing("a", 8)))
    things.take(Removed(thing("a", 6)))
    assert things.store.get(A) == thing("a", 8)


def test_versions_that_are_no_numbers_have_no_order() -> None:
    things = informer()
    made = [Thing(metadata=ObjectMeta(namespace="here", name="a", uid=uid, resource_version="x")) for uid in "ab"]
    things.take(Synced((made[0],), "9"))
    things.take(Changed(made[1]))
    assert things.store.get(A) == made[1]


def test_a_late_handler_gets_the_objects_that_are_here() -> None:
    things = informer()
    things.take(Synced((thing("a", 1), thing("b", 2)), "2"))
    assert StatusHistory(things).lines == ["+a", "+b"]


def test_the_store_is_up_to_date_before_handlers_are_called() -> None:
    things = informer()
    seen: list[bool] = []
    things.on_change(lambda delta: seen.append(things.store.get(delta.key) is delta.new))
    things.take(Synced((thing("a", 1),), "1"))
    things.take(Changed(thing("a", 2)))
    things.take(Removed(thing("a", 3)))
    assert seen == [True, True, True]


def test_a_handler_that_fails_is_counted_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    things = informer()

    def trip(delta: Delta[Thing]) -> None:
        raise ZeroDivisionError

    things.on_change(trip)
    history = StatusHistory(things)
    things.take(Synced((thing("a", 1),), "1"))
    assert history.lines == ["+a"]
    assert things.handler_failures == 1
    assert "ZeroDivisionError" in caplog.text


async def test_it_is_synced_once_the_list_is_there() -> None:
    things = informer()
    assert not things.has_synced
    waiter = asyncio.create_task(things.wait_synced())
    await asyncio.sleep(0)
    assert not waiter.done()
    things.take(Synced((), "1"))
    await asyncio.wait_for(waiter, 20)
    assert things.has_synced


@pytest.mark.req("R-207")
async def test_a_parked_kind_holds_up_nobody_and_resumes() -> None:
    things = informer()
    things.take(WatchSuspended("there is no such kind"))
    await asyncio.wait_for(things.wait_settled(), 20)
    assert (things.has_synced, things.parked) == (False, WatchSuspended("there is no such kind"))
    served: list[bool] = []
    things.on_served(lambda: served.append(things.has_synced))
    things.take(Synced((thing("a", 1),), "1"))
    assert (things.has_synced, things.parked) == (True, None)
    things.take(Synced((thing("a", 1),), "2"))
    assert served == [True], "called once, when the kind came"


@pytest.mark.req("R-206")
def test_handlers_are_told_once_when_a_full_store_is_watched_no_longer() -> None:
    things, told = informer(), list[bool]()
    things.on_parked(lambda: told.append(things.has_synced))
    things.take(WatchSuspended("not permitted"))
    assert told == [], "there was nothing to miss"
    things.take(Synced((thing("a", 1),), "1"))
    things.take(WatchSuspended("not permitted"))
    things.take(WatchSuspended("still not permitted"))
    assert told == [False]


@pytest.mark.req("R-206")
async def test_own_writes_of_before_hold_nothing_back_when_no_watch_will_show_them() -> None:
    things = informer()
    things.take(Synced((), "1"))
    with noting_own_writes(things) as writes:
        things.expect(A, "5")
        things.expect_nothing()
        things.expect(A, "7")
    before, after = writes
    assert before.is_visible
    assert not after.is_visible
    await asyncio.wait_for(before.visible(), 20)
    waiting = asyncio.create_task(after.visible())
    await asyncio.sleep(0)
    assert not waiting.done()
    things.expect_nothing()
    await asyncio.wait_for(waiting, 20)
    assert things.expected(A) is None


@pytest.mark.req("R-207")
async def test_a_kind_that_is_gone_is_not_reported_as_served_when_its_objects_are_forgotten() -> None:
    things, served = informer(), list[int]()
    things.on_served(lambda: served.append(len(things.store)))
    things.take(Synced((thing("a", 1),), "5"))
    things.take(WatchSuspended("the API server serves no v1 ConfigMap", is_not_served=True))
    things.suspend("its definition was deleted")
    running = asyncio.create_task(things.run())
    await eventually(lambda: not things.store.all())
    assert things.parked == WatchSuspended("its definition was deleted", is_not_served=True)
    running.cancel()
    await asyncio.wait([running])
    assert not served
    things.resume()
    things.take(Synced((thing("b", 7),), "8"))
    assert served == [1]


@pytest.mark.req("R-207")
async def test_a_suspended_watch_forgets_its_objects_and_asks_nothing_until_it_is_woken(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    client = Client.connect(ClusterConfig(server="http://127.0.0.1:1"))  # nothing answers there, so it pauses and asks
    things = Informer(client, THINGS, clock=clock)
    running = asyncio.create_task(things.run())
    try:
        await clock.until_sleeping(2)
        things.take(Synced((thing("a", 1),), "5"))
        history = StatusHistory(things)
        things.suspend("its definition was deleted")
        await eventually(lambda: things.parked is not None, describe="it is suspended")
        assert things.parked == WatchSuspended("its definition was deleted", is_not_served=True)
        assert (history.lines, clock.sleeping) == (["+a", "-a"], 0), "no pause after which it would ask"
        assert not [record for record in caplog.records if record.levelname == "WARNING"]
        things.resume()
        await clock.until_sleeping(2)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


@pytest.mark.parametrize(("ending", "level"), [(True, "INFO"), (False, "WARNING")])
def test_the_end_of_a_watch_is_a_warning_only_where_it_is_not_expected(
    caplog: pytest.LogCaptureFixture, ending: bool, level: str
) -> None:
    caplog.set_level("INFO")
    things = informer()
    things.is_ending = ending
    things.take(WatchSuspended("there is no such kind", is_not_served=True))
    assert [record.levelname for record in caplog.records] == [level]


@pytest.mark.req("R-202")
async def test_silence_is_measured() -> None:
    clock = FakeClock()
    things = informer(clock)
    await clock.advance(200)
    assert things.stale_seconds() == 200


@pytest.mark.req("R-106")
async def test_a_write_is_waited_for_until_the_watch_shows_it() -> None:
    things = informer()
    things.take(Synced((), "5"))
    things.expect(A, "8")
    unseen = things.expected(A)
    assert unseen is not None
    waiter = asyncio.create_task(unseen.visible())
    things.take(Changed(thing("a", 7)))
    await asyncio.sleep(0)
    assert not waiter.done()
    things.take(Changed(thing("a", 8)))
    await asyncio.wait_for(waiter, 20)
    assert things.expected(A) is None


@pytest.mark.req("R-106")
async def test_a_write_is_also_visible_once_the_watch_is_past_it() -> None:
    """The written object may have left the selection: then no event of its own ever comes."""
    things = informer()
    things.take(Synced((), "5"))
    proofs: list[tuple[str, Change[Thing]]] = [
        ("9", Changed(thing("other", 9))),
        ("12", Bookmark("12")),
        ("20", Synced((), "20")),
    ]
    for version, proof in proofs:
        things.expect(A, version)
        assert things.expected(A) is not None
        things.take(proof)
        assert things.expected(A) is None
        await asyncio.wait_for(things.wait_for(A, version, timeout=1), 20)


@pytest.mark.req("R-106")
@pytest.mark.parametrize(
    "proof",
    [
        Removed(thing("a", 9)),
        Synced((), "9"),
        Synced((thing("a", 9, uid="a successor"),), "9"),
        Changed(thing("a", 9, uid="a successor")),
    ],
    ids=["removed", "not listed", "another one listed", "another one"],
)
async def test_an_own_end_is_waited_for_until_the_very_object_is_not_shown(proof: Change[Thing]) -> None:
    """The answer to the write that ends an object has the version from before: no version tells."""
    things = informer()
    things.take(Synced((thing("a", 5),), "5"))
    deleted = datetime(2026, 1, 1, tzinfo=UTC)
    ending = msgspec.structs.replace(
        thing("a", 5), metadata=msgspec.structs.replace(thing("a", 5).metadata, deletion_timestamp=deleted)
    )
    with noting_own_writes(things) as writes:
        wrote_own_object(ending)
    (end,) = writes
    waiter = asyncio.create_task(end.visible())
    for later in (Changed(thing("other", 8)), Bookmark("8"), Changed(thing("a", 8))):
        things.take(later)
        await asyncio.sleep(0)
        assert not end.is_visible
        assert things.expected(A) is end
    things.take(proof)
    await asyncio.wait_for(waiter, 20)
    assert things.expected(A) is None

    with noting_own_writes(things) as writes:
        wrote_own_object(ending)
    assert not writes, "the cache does not show it any more"


@pytest.mark.req("R-204")
def test_an_own_end_that_a_restored_database_does_not_know_is_not_waited_for() -> None:
    things = informer()
    things.take(Synced((thing("a", 90),), "100"))
    things.expect_end(thing("a", 90))
    things.take(Synced((thing("a", 40),), "50"))
    assert things.expected(A) is None


async def test_waiting_for_a_write_ends_with_a_message() -> None:
    things = informer()
    things.take(Synced((), "5"))
    with pytest.raises(TimeoutError, match=r"configmaps does not show here/a at 99 yet"):
        await things.wait_for(A, "99", timeout=0.01)


@pytest.mark.req("R-204")
async def test_nobody_waits_for_a_version_that_a_restored_database_may_never_reach() -> None:
    things = informer()
    things.take(Synced((thing("a", 90),), "100"))
    things.expect(A, "105")
    unseen = things.expected(A)
    assert unseen is not None
    waiter = asyncio.create_task(unseen.visible())
    await asyncio.sleep(0)
    things.take(Synced((thing("a", 40),), "50"))
    await asyncio.wait_for(waiter, 20)
    assert things.expected(A) is None
    assert things.store.get(A) == thing("a", 40), "a list is the truth, also an older one"


def test_a_pass_collects_what_it_has_written() -> None:
    primary, others = informer(), informer()
    for each in (primary, others):
        each.take(Synced((), "5"))
    with noting_own_writes(primary) as writes:
        others.expect(ObjectKey("here", "child"), "7")
        others.expect(ObjectKey("here", "seen already"), "3")
    others.expect(ObjectKey("here", "later"), "9")
    assert [write.version for write in writes if isinstance(write, OwnWrite)] == [7]
    assert not writes[0].is_visible
    others.take(Bookmark("7"))
    assert writes[0].is_visible


@pytest.mark.req("R-206")
@pytest.mark.parametrize("refusal", [{"is_forbidden": True}, {"is_not_served": True}, {}], ids=str)
def test_a_pass_does_not_wait_for_a_cache_of_another_kind_that_no_watch_fills(refusal: dict[str, bool]) -> None:
    primary, others = informer(), informer()
    for each in (primary, others):
        each.take(Synced((), "5"))
        each.take(WatchSuspended("no watch", **refusal))
    with noting_own_writes(primary) as writes:
        others.expect(ObjectKey("here", "child"), "7")
        assert len(writes) == (0 if refusal else 1), "a watch that fails for a moment goes on"
        primary.expect(A, "8")
        assert own_version(A) == "8"
    assert isinstance(writes[-1], OwnWrite)
    assert writes[-1].version == 8, "another pass on the outdated object would do the same again"
    assert others.expected(ObjectKey("here", "child")) is not None, "it may be the primary kind of another controller"


def test_writes_that_the_cache_shows_take_no_memory_though_no_pass_asks_for_them() -> None:
    """As of Jobs in namespaces that come and go."""
    things = informer()
    things.take(Synced((), "1"))
    tracemalloc.start()
    try:
        for number in range(2, 50_002):
            things.expect(ObjectKey("here", f"job-{number}"), str(number))
            things.take(Bookmark(str(number)))
        kept_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept_bytes < 1_000_000
    things.expect(A, "60000")
    assert things.expected(A) is not None


_names = st.sampled_from("abc")


@st.composite
def histories(draw: st.DrawFn) -> list[Change[Thing]]:
    """What a server may tell, in order: events with rising versions, and new lists in between."""
    live: dict[str, Thing] = {}
    changes: list[Change[Thing]] = [Synced((), "1")]
    for version in range(2, draw(st.integers(2, 40))):
        name = draw(_names)
        match draw(st.sampled_from(["change", "recreate", "remove", "list"])):
            case "change":
                uid = live[name].metadata.uid if name in live else f"{name}-{version}"
                live[name] = thing(name, version, uid)
                changes.append(Changed(live[name]))
            case "recreate":
                live[name] = thing(name, version, f"{name}-{version}")
                changes.append(Changed(live[name]))  # the farewell to the old one was merged away
            case "remove" if name in live:
                changes.append(Removed(thing(name, version, live.pop(name).metadata.uid)))
            case _:
                changes.append(Synced(tuple(live.values()), str(version)))
    return changes


@pytest.mark.req("R-103")
@given(histories())
def test_arrivals_and_departures_always_balance(history: list[Change[Thing]]) -> None:
    things = informer()
    told: dict[tuple[str, str], int] = {}

    def book(delta: Delta[Thing]) -> None:
        for obj, sign in ((delta.old, -1), (delta.new, 1)):
            if obj is not None:
                place = (obj.metadata.name, obj.metadata.uid)
                told[place] = told.get(place, 0) + sign

    things.on_change(book)
    for change in history:
        things.take(change)
        if isinstance(change, Changed):
            things.take(change)
    present = {(obj.metadata.name, obj.metadata.uid) for obj in things.store.all()}
    assert {place for place, balance in told.items() if balance} == present
    assert all(told[place] == 1 for place in present)


# ---- objects that cannot be decoded


def odd(name: str, version: int, uid: str = "", why: str = "spec.lit: expected bool, got str") -> Unreadable:
    return Unreadable(THINGS.resource, thing(name, version, uid).metadata, why)


class OddDiary:
    """What a handler of unreadable objects was called with: `?a` cannot be read, `!a` no longer so."""

    def __init__(self, informer: Informer[Thing]) -> None:
        self.lines: list[str] = []
        informer.on_unreadable(lambda key, obj: self.lines.append(f"{'?' if obj else '!'}{key.name}"))


@pytest.mark.req("R-510")
def test_an_object_that_can_no_longer_be_read_stays_as_it_was() -> None:
    things = informer()
    things.take(Synced((thing("a", 1),), "1"))
    history, odd_diary = StatusHistory(things), OddDiary(things)
    history.lines.clear()
    things.take(Odd(odd("a", 2)))
    assert things.store.get(A) == thing("a", 1)
    assert things.unreadable == {A: odd("a", 2)}
    assert (history.lines, odd_diary.lines) == ([], ["?a"])
    things.take(Changed(thing("a", 3)))
    assert things.store.get(A) == thing("a", 3)
    assert not things.unreadable
    assert (history.lines, odd_diary.lines) == (["~a"], ["?a", "!a"])


@pytest.mark.req("R-510")
def test_an_object_that_cannot_be_read_is_gone_when_it_is_deleted() -> None:
    things = informer()
    things.take(Synced((thing("a", 1),), "1", (odd("b", 1),)))
    history, odd_diary = StatusHistory(things), OddDiary(things)
    things.take(Odd(odd("a", 2)))
    things.take(Removed(odd("a", 3)))
    things.take(Removed(odd("b", 4)))
    assert not things.unreadable
    assert things.store.all() == ()
    assert history.lines == ["+a", "-a"]
    assert odd_diary.lines == ["?b", "?a", "!a", "!b"]


@pytest.mark.req("R-510")
def test_a_new_list_keeps_what_was_read_of_an_object_that_cannot_be_read_now() -> None:
    things = informer()
    things.take(Synced((thing("a", 1), thing("b", 1)), "1"))
    history = StatusHistory(things)
    history.lines.clear()
    things.take(Synced((thing("b", 5),), "9", (odd("a", 7),)))
    assert things.store.get(A) == thing("a", 1)
    assert history.lines == ["~b"]
    things.take(Synced((thing("b", 5),), "12"))
    assert history.lines == ["~b", "-a"]
    assert not things.unreadable


@pytest.mark.req("R-105", "R-510")
@pytest.mark.req("R-510")
async def test_of_ten_thousand_objects_that_cannot_be_read_the_first_are_named_and_the_rest_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    things = informer(clock)
    things.take(Synced((), "1", tuple(odd(f"x{number}", 2) for number in range(10_000))))
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    named, counted = lines[:MOST_COMPLAINTS], lines[MOST_COMPLAINTS:]
    assert all(f"here/x{number} cannot be read" in line for number, line in enumerate(named))
    assert len(counted) == 9
    assert counted[-1] == "configmaps: 10000 times in 10 minutes, an object could not be read"
    caplog.clear()
    await clock.advance(COMPLAINTS_SECONDS)
    things.take(Odd(odd("later", 3)))
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "here/later cannot be read" in caplog.text


def test_nothing_of_a_former_object_is_taken_for_an_unreadable_one_of_its_name() -> None:
    successor = odd("a", 5, uid="second")
    changes: list[Change[Thing]] = [Odd(successor), Synced((), "9", (successor,))]
    for change in changes:
        things = informer()
        things.take(Synced((thing("a", 1, uid="first"),), "1"))
        history = StatusHistory(things)
        things.take(change)
        assert things.store.get(A) is None
        assert history.lines == ["+a", "-a"]
        assert A in things.unreadable


@pytest.mark.req("R-103", "R-510")
def test_an_older_version_does_not_make_an_object_readable() -> None:
    things = informer()
    things.take(Synced((thing("a", 1),), "1"))
    things.take(Odd(odd("a", 5)))
    things.take(Changed(thing("a", 4)))
    things.take(Removed(odd("a", 4, uid="an earlier one")))
    assert things.store.get(A) == thing("a", 1)
    assert A in things.unreadable


@pytest.mark.req("R-510")
def test_own_writes_become_visible_although_the_object_cannot_be_read() -> None:
    things = informer()
    things.take(Synced((thing("a", 1),), "1"))
    things.expect(A, "5")
    things.take(Odd(odd("b", 5)))
    assert things.expected(A) is None


@pytest.mark.req("R-510")
def test_an_object_that_cannot_be_read_is_logged_once_for_a_cause_and_each_version_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    metrics = Metrics()
    things = Informer(
        Client.connect(ClusterConfig(server="http://nowhere.invalid")), THINGS, clock=FakeClock(), metrics=metrics
    )
    things.take(Synced((), "1", (odd("a", 1),)))
    things.take(Synced((), "2", (odd("a", 1),)))
    for version in range(2, 5):
        things.take(Odd(odd("a", version)))
    things.take(Odd(odd("a", 6, why="another field")))
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 2
    assert "ConfigMap here/a cannot be read: spec.lit: expected bool, got str" in warnings[0]
    exposed = metrics.exposition().decode()
    assert 'stellwerk_unreadable_versions_total{kind="configmaps"} 5.0' in exposed
    assert 'stellwerk_unreadable_objects{kind="configmaps"} 1.0' in exposed


@pytest.mark.req("R-510")
async def test_an_object_that_cannot_be_read_was_not_missed_by_the_watch() -> None:
    things = informer()
    things.take(Synced((thing("a", 1), thing("b", 2)), "2"))
    things.take(Odd(odd("a", 5)))
    listed = [thing("a", 5), thing("b", 2)]
    assert not suspects(things.seen(), listed)


def test_a_handler_of_unreadable_objects_that_fails_is_counted_and_stops_nobody() -> None:
    things = informer()

    def trip(key: ObjectKey, obj: Unreadable | None) -> None:
        raise ZeroDivisionError

    things.on_unreadable(trip)
    history = OddDiary(things)
    things.take(Odd(odd("a", 1)))
    assert history.lines == ["?a"]
    assert things.handler_failures == 1


@pytest.mark.req("R-413")
def test_a_version_of_thousands_of_digits_is_no_number() -> None:
    assert version_number("9" * 5_000) == 0
    assert version_number("18446744073709551615") == 2**64 - 1


class FailingServer:
    """Lists once, and fails from then on."""

    lists = 0

    async def list(self, *_: object, **__: object) -> Listing[Thing]:
        self.lists += 1
        if self.lists > 1:
            raise ServerFault(Status(code=500, message="the webhook failed"))
        return Listing([thing("a", 5)], "5")

    async def watch(self, *_: object, **__: object) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield


@pytest.mark.req("R-207")
async def test_a_cache_that_was_full_once_is_not_parked_while_the_server_fails_to_list_again() -> None:
    clock, server = FakeClock(), FailingServer()
    things = Informer(cast(Client, server), THINGS, clock=clock)
    running = asyncio.create_task(things.run())
    try:
        await asyncio.wait_for(things.wait_synced(), 20)
        things.list_again()
        for _ in range(60):
            for _ in range(20):
                await asyncio.sleep(0)
            await clock.advance(1.0)
        assert server.lists > 5
        assert things.parked is None
        assert things.stale_seconds() > 50
    finally:
        running.cancel()
        await asyncio.wait([running])
