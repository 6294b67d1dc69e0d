"""A changed answer wakes who asked, and nothing else does: on real informers and stores, without a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import Kind, Unreadable
from stellwerk.kube.types.object_meta import ObjectMeta, Record
from stellwerk.kube.watch.watch_states import Changed, Odd, Removed, Synced, WatchSuspended
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.reading.known import Absent, NotKnown, Present, Unknown
from stellwerk.runtime.reading.questions import (
    AT_ONCE,
    Asker,
    Collection,
    Index,
    InformerSource,
    NamespacedSource,
    Source,
    Wakes,
)
from stellwerk.runtime.reading.view import View, exists, whole, with_status

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class StoneStatus(Record, frozen=True, kw_only=True):
    weight: int = 0
    notes: int = 0


class Stone(Kind, frozen=True, kw_only=True):
    """A kind with a status."""

    resource: ClassVar[Resource] = Resource("engine.test", "v1", "Stone", "stones", namespaced=True)
    status: StoneStatus = StoneStatus()


STONES = Collection(Stone)
OTHERS = Collection(Stone, labels="other=true")


def quarry(stone: Stone) -> Sequence[str]:
    return (stone.metadata.labels.get("quarry", ""),)


def maybe_quarry(metadata: ObjectMeta) -> Sequence[str] | None:
    return None if metadata.name == "stone-0" else (metadata.labels.get("quarry", ""),)


OF_QUARRY = Index(STONES, "quarry", quarry, maybe_quarry)


def weight(stone: Stone) -> int:
    return stone.status.weight


def weightless(stone: Stone) -> Stone:
    return with_status(stone, StoneStatus())


def key(number: int) -> ObjectKey:
    return ObjectKey("here", f"stone-{number}")


def meta(number: int, version: int, place: str = "north") -> ObjectMeta:
    return ObjectMeta(
        namespace="here",
        name=f"stone-{number}",
        uid=f"uid-{number}",
        resource_version=str(version),
        labels={"quarry": place},
    )


def stone(number: int, version: int, place: str = "north", **status: int) -> Stone:
    return Stone(metadata=meta(number, version, place), status=StoneStatus(**status))


class Site:
    """One informer, one source, and askers that note when they are awakened."""

    def __init__(self) -> None:
        self.informer: Informer[Stone] = Informer(Client.connect(ClusterConfig(server="http://nowhere.invalid")), Stone)
        self.wakes = Wakes()
        self.source = InformerSource(STONES, self.informer, self.wakes)
        self.woken: list[ObjectKey] = []
        self.version = 10

    def of(self, collection: Collection[Any]) -> Source[Any]:
        return self.source

    def asker(self, name: str, collection: Collection[Stone] = OTHERS) -> Asker:
        return Asker(ObjectKey("here", name), collection, self.woken.append)

    def fill(self, *stones: Stone) -> None:
        self.informer.take(Synced(stones, str(self.version)))
        self.woken.clear()

    def change(self, number: int, place: str = "north", **status: int) -> None:
        self.version += 1
        self.informer.take(Changed(stone(number, self.version, place, **status)))

    def hide(self, number: int, place: str = "north") -> None:
        self.version += 1
        self.informer.take(Odd(Unreadable(Stone.resource, meta(number, self.version, place), "spec: odd")))

    def remove(self, number: int) -> None:
        self.version += 1
        self.informer.take(Removed(stone(number, self.version)))

    def list_again(self, numbers: set[int]) -> None:
        self.version += 1
        stones = tuple(stone(number, self.version, weight=number) for number in sorted(numbers))
        self.informer.take(Synced(stones, str(self.version)))

    def view(self) -> View:
        return View(sources=self, now=NOW)


def ask(site: Site, asker: Asker, *questions: Callable[[View], object]) -> list[object]:
    """Ask in a new view, keep the questions, and return the answers."""
    view = site.view()
    answers = [_answer(view, each) for each in questions]
    asker.keep(view.asked)
    return answers


def _answer(view: View, question: Callable[[View], object]) -> object:
    try:
        return question(view)
    except NotKnown as missing:
        return str(missing)


async def test_a_changed_aspect_wakes_and_other_fields_do_not() -> None:
    site = Site()
    site.fill(stone(1, 5))
    assert ask(site, site.asker("a"), lambda view: view.get(STONES, key(1), weight)) == [Present(0)]
    site.change(1, notes=7)
    assert site.woken == []
    site.change(1, weight=3)
    assert site.woken == [ObjectKey("here", "a")]


async def test_what_is_asked_no_more_wakes_no_more_and_leaves_nothing_behind() -> None:
    site = Site()
    site.fill(stone(1, 5))
    asker = site.asker("a")
    ask(site, asker, lambda view: view.get(STONES, key(1), weight), lambda view: view.by(OF_QUARRY, "north"))
    ask(site, asker)
    site.change(1, weight=3)
    assert site.woken == []
    assert not site.source._questions


async def test_a_pass_that_did_not_come_to_its_end_keeps_its_former_questions() -> None:
    site = Site()
    site.fill(stone(1, 5), stone(2, 6))
    asker, view = site.asker("a"), site.view()
    ask(site, asker, lambda view: view.get(STONES, key(1), weight))
    view.get(STONES, key(2), weight)
    asker.keep(view.asked, is_complete=False)
    site.change(1, weight=1)
    site.change(2, weight=1)
    assert site.woken == [ObjectKey("here", "a")] * 2


async def test_an_empty_cache_that_is_filled_turns_unknown_into_absent_and_wakes() -> None:
    site = Site()
    answers = ask(site, site.asker("a"), lambda view: view.get(STONES, key(1)), lambda view: view.by(OF_QUARRY, "x"))
    assert answers == [
        Unknown("the objects are not listed yet"),
        "objects of kind Stone: the objects are not listed yet",
    ]
    site.informer.take(Synced((), "10"))
    assert set(site.woken) == {ObjectKey("here", "a")}
    assert ask(site, site.asker("b"), lambda view: view.get(STONES, key(1))) == [Absent()]


async def test_an_object_that_cannot_be_read_is_unknown_and_in_the_listings_that_it_may_belong_to() -> None:
    site = Site()
    site.fill()
    asker = site.asker("a")
    ask(site, asker, lambda view: view.by(OF_QUARRY, "north"))
    site.hide(1, "south")
    assert site.woken == [], "its labels say that it is not of this quarry"
    site.hide(2, "north")
    site.hide(0, "south")
    assert site.woken == [ObjectKey("here", "a")] * 2
    listing = site.view().by(OF_QUARRY, "north")
    assert {each.metadata.name for each in listing.unknown} == {"stone-2", "stone-0"}
    assert isinstance(site.view().get(STONES, key(2)), Unknown)
    with pytest.raises(NotKnown, match="stone-"):
        site.view().all(OF_QUARRY, "north")


async def test_what_was_readable_once_is_present_with_a_doubt() -> None:
    site = Site()
    site.fill(stone(1, 5, weight=4))
    site.hide(1)
    assert site.view().get(STONES, key(1), weight) == Present(4, "spec: odd")
    assert site.view().by(OF_QUARRY, "north").unknown == ()


async def test_what_may_not_be_watched_is_refused_and_what_is_not_listed_yet_is_not() -> None:
    site = Site()
    assert site.view().get(STONES, key(1)) == Unknown("the objects are not listed yet")
    site.informer.take(WatchSuspended("not permitted", is_forbidden=True))
    assert site.view().get(STONES, key(1)) == Unknown("not permitted", is_refused=True)


async def test_a_namespace_has_a_watch_of_its_own_which_may_be_replaced() -> None:
    sites = {"here": Site(), "there": Site()}
    wakes, woken = Wakes(), list[ObjectKey]()
    source = NamespacedSource(STONES, lambda namespace: sites[namespace].informer, wakes)
    asker = Asker(ObjectKey("here", "a"), OTHERS, woken.append)

    def ask_for(stone: ObjectKey) -> object:
        question = source.question(STONES.by_key, str(stone), whole)
        asker.keep((question,))
        return source.get(stone)

    assert ask_for(key(1)) == Unknown("the objects are not listed yet")
    sites["there"].fill()
    assert woken == []
    sites["here"].fill(stone(1, 5))
    assert woken[:1] == [asker.key]
    assert ask_for(key(1)) == Present(stone(1, 5))
    sites["here"] = Site()
    assert ask_for(key(1)) == Unknown("the objects are not listed yet")
    woken.clear()
    sites["here"].fill()
    assert woken == [asker.key]
    assert ask_for(key(1)) == Absent()


async def test_a_kind_that_is_not_served_has_no_objects_and_its_return_wakes() -> None:
    site = Site()
    site.informer.take(WatchSuspended("it is not served", is_not_served=True))
    asker = site.asker("a")
    answers = ask(site, asker, lambda view: view.serves(STONES), lambda view: view.get(STONES, key(1)))
    assert answers == [False, Absent()]
    site.informer.take(Synced((), "10"))
    assert ObjectKey("here", "a") in site.woken


async def test_an_object_is_not_awakened_by_an_answer_about_itself() -> None:
    site = Site()
    site.fill(stone(1, 5), stone(2, 6))
    itself = Asker(key(1), STONES, site.woken.append)
    ask(site, itself, lambda view: view.by(OF_QUARRY, "north", weight))
    site.change(1, weight=1)
    assert site.woken == []
    site.change(2, weight=1)
    assert site.woken == [key(1)]


@pytest.mark.parametrize("aspect", [weight, weightless, exists])
def test_an_aspect_has_no_resource_version(aspect: Callable[[Stone], object]) -> None:
    one = stone(1, 5, weight=2)
    other = msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, resource_version="6"))
    assert aspect(one) == aspect(other)
    assert whole(one) != whole(other)


async def test_a_deadline_wakes_and_the_time_that_is_written_down_does_not() -> None:
    view = Site().view()
    assert view.is_past(view.now)
    assert view.due is None
    assert not view.is_past(NOW + timedelta(seconds=9))
    assert not view.is_past(NOW + timedelta(seconds=5))
    assert view.due == NOW + timedelta(seconds=5)


async def test_thousands_are_awakened_in_slices_that_leave_the_loop_to_others() -> None:
    site, count = Site(), 5_000
    site.fill(stone(1, 5))
    for number in range(count):
        ask(site, site.asker(f"asker-{number}"), lambda view: view.get(STONES, key(1), weight))
    site.change(1, weight=1)
    assert len(site.woken) == AT_ONCE
    for _ in range(count // AT_ONCE - 1):
        assert not site.wakes.is_idle
        await asyncio.sleep(0)
    assert site.wakes.is_idle
    assert sorted(site.woken) == sorted(ObjectKey("here", f"asker-{number}") for number in range(count))


async def test_who_waits_to_be_awakened_and_asks_otherwise_meanwhile_is_left_alone() -> None:
    site = Site()
    site.fill(stone(1, 5))
    askers = [site.asker(f"asker-{number}") for number in range(AT_ONCE + 1)]
    for asker in askers:
        ask(site, asker, lambda view: view.get(STONES, key(1), weight))
    site.change(1, weight=1)
    ask(site, askers[-1])
    await asyncio.sleep(0)
    assert site.wakes.is_idle
    assert len(site.woken) == AT_ONCE


# ---- the property

QUESTIONS: Sequence[Callable[[View], object]] = (
    *(lambda view, number=number: view.get(STONES, key(number), weight) for number in range(3)),
    *(lambda view, number=number: view.get(STONES, key(number), weightless) for number in range(3)),
    *(lambda view, number=number: view.get(STONES, key(number), exists) for number in range(3)),
    *(lambda view, place=place: view.by(OF_QUARRY, place, weight) for place in ("north", "south")),
    lambda view: view.serves(STONES),
)
NUMBERS, PLACES = st.integers(0, 2), st.sampled_from(["north", "south"])
CHANGES = st.one_of(
    st.builds(lambda n, p, w, k: lambda site: site.change(n, p, weight=w, notes=k), NUMBERS, PLACES, NUMBERS, NUMBERS),
    st.builds(lambda n: lambda site: site.remove(n), NUMBERS),
    st.builds(lambda n, p: lambda site: site.hide(n, p), NUMBERS, PLACES),
    st.just(lambda site: site.informer.take(WatchSuspended("it may not be watched", is_forbidden=True))),
    st.just(lambda site: site.informer.take(WatchSuspended("it is not served", is_not_served=True))),
    st.builds(lambda numbers: lambda site: site.list_again(numbers), st.sets(NUMBERS)),
)


def _comparable(answer: object) -> object:
    """An answer without its doubt, which is a remark."""
    return Present(answer.value) if isinstance(answer, Present) else answer


@settings(max_examples=200, deadline=None)
@given(
    is_listed=st.booleans(),
    chosen=st.sets(st.integers(0, len(QUESTIONS) - 1), min_size=1, max_size=4),
    changes=st.lists(CHANGES, max_size=12),
)
def test_whatever_happens_an_answer_that_changes_wakes_who_asked(
    is_listed: bool, chosen: set[int], changes: Sequence[Callable[[Site], None]]
) -> None:
    async def run() -> None:
        site = Site()
        if is_listed:
            site.fill()
        asker, questions = site.asker("a"), [QUESTIONS[number] for number in sorted(chosen)]
        shown = [_comparable(each) for each in ask(site, asker, *questions)]
        for change in changes:
            site.woken.clear()
            change(site)
            answers = [_comparable(_answer(site.view(), each)) for each in questions]
            assert answers == shown or site.woken, "an answer has changed, and nobody was awakened"
            if site.woken:
                shown = [_comparable(each) for each in ask(site, asker, *questions)]

    asyncio.run(run())
