"""Values that need a request: loaded once for all who ask, fair by tenant, within a bound, again after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import pytest
from tests.unit.runtime.reading.test_questions import Stone

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import Forbidden, Status, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.reading.known import ABSENT, Known, Present, Refused, Unknown
from stellwerk.runtime.reading.loads import PlainLoads, SecretData
from stellwerk.runtime.reading.questions import Asker, Collection, Wakes
from stellwerk.runtime.reading.view import PlainSources, View
from stellwerk.testing.clock import FakeClock

NOW = datetime(2026, 1, 1, tzinfo=UTC)
STONES = Collection(Stone)


@dataclass(eq=False)
class Archive:
    """Where chapters come from: what was fetched, in order, and what is asked for may be held or fail."""

    fetched: list[str] = field(default_factory=list)
    failures: int = 0
    error: Exception = field(default_factory=lambda: Unreachable("the archive is closed"))
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()


@dataclass(frozen=True)
class Chapter:
    """A load whose value is its name, repeated."""

    archive: Archive
    tenant: str
    name: str
    length: int = 1

    @property
    def about(self) -> str:
        return f"chapter {self.name}"

    async def fetch(self, client: Client) -> str | None:
        self.archive.fetched.append(self.name)
        await self.archive.gate.wait()
        if self.name == "bug":
            raise ValueError("a bug")
        if self.archive.failures:
            self.archive.failures -= 1
            raise self.archive.error
        return None if self.name == "none" else self.name * self.length

    def size(self, value: str) -> int:
        return len(value)


@dataclass
class Reader:
    """Asks for chapters as the passes of an object do."""

    loads: Loads
    clock: FakeClock
    woken: list[str] = field(default_factory=list)
    askers: dict[str, Asker] = field(default_factory=dict)

    def ask(self, name: str, *chapters: Chapter) -> list[Known[str]]:
        view = View(sources=PlainSources(), now=NOW, loads=self.loads)
        answers = [view.load(each) for each in chapters]
        key = ObjectKey("here", name)
        asker = self.askers.setdefault(name, Asker(key, STONES, lambda key: self.woken.append(key.name)))
        asker.keep(view.asked)
        return answers

    async def settled(self) -> None:
        for _ in range(30):
            await asyncio.sleep(0)


@asynccontextmanager
async def reading(*, most_bytes: int = 1_000, workers: int = 2) -> AsyncIterator[Reader]:
    clock = FakeClock()
    client = Client.connect(ClusterConfig(server="http://nowhere.invalid"))
    loads = Loads(client, clock, Wakes(), most_bytes=most_bytes, workers=workers)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(loads.run())
        yield Reader(loads, clock)
        loads.stop()


async def test_a_value_is_unknown_until_it_is_loaded_once_for_all_who_ask() -> None:
    archive = Archive()
    async with reading() as reader:
        one = Chapter(archive, "north", "one")
        assert reader.ask("a", one) == reader.ask("b", one) == [Unknown("it is being loaded")]
        await reader.settled()
        assert sorted(reader.woken) == ["a", "b"]
        assert reader.ask("a", one) == reader.ask("b", Chapter(archive, "north", "one")) == [Present("one")]
        await reader.settled()
        assert archive.fetched == ["one"]


async def test_loads_that_do_not_end_hold_up_no_others() -> None:
    """Fifty clusters do not answer: their loads give their turns away, as many as may go on at the same time."""
    silent, archive = Archive(), Archive()
    silent.gate.clear()
    async with reading() as reader:
        reader.ask("slow", *(Chapter(silent, f"cluster {number}", f"part {number}") for number in range(50)))
        one = Chapter(archive, "north", "one")
        reader.ask("a", one)
        for _ in range(26):
            await reader.settled()
            await reader.clock.advance(0.1)
        await reader.settled()
        assert reader.ask("a", one) == [Present("one")]
        assert len(silent.fetched) == 50
        assert reader.loads.queue.running == 50
        silent.gate.set()
        await reader.settled()
        assert reader.loads.queue.running == 0


async def test_what_does_not_exist_is_absent() -> None:
    async with reading() as reader:
        none = Chapter(Archive(), "north", "none")
        reader.ask("a", none)
        await reader.settled()
        assert reader.woken == ["a"]
        assert reader.ask("a", none) == [ABSENT]


async def test_a_failure_is_unknown_with_its_cause_and_is_tried_again() -> None:
    archive = Archive(failures=2)
    async with reading() as reader:
        one = Chapter(archive, "north", "one")
        reader.ask("a", one)
        await reader.settled()
        assert reader.woken == ["a"]
        assert reader.ask("a", one) == [Unknown("the archive is closed")]
        await reader.settled()
        assert archive.fetched == ["one"], "the next try waits for its back-off, whoever asks again"
        for _ in range(2):
            await reader.clock.advance(600)
            await reader.settled()
        assert reader.woken == ["a", "a"], "the same failure again is no news"
        assert reader.ask("a", one) == [Present("one")]


@pytest.mark.parametrize("error", [Forbidden(Status(code=403, message="no")), Refused("a user has to act")])
async def test_a_refusal_is_told_from_an_outage(error: Exception) -> None:
    async with reading() as reader:
        one = Chapter(Archive(failures=1, error=error), "north", "one")
        reader.ask("a", one)
        await reader.settled()
        assert reader.ask("a", one) == [Unknown(str(error), is_refused=True)]


def test_the_words_of_a_secret_are_noted_by_the_view_that_read_it() -> None:
    load = SecretData(ObjectKey("north", "secret"), "1")
    secret = msgspec.convert({"metadata": {"name": "secret"}, "data": {"password": "d29yZA=="}}, Secret)
    view = View(sources=PlainSources(), now=NOW, loads=PlainLoads({load: secret}))
    assert view.confidential == {}
    assert view.load(load) == Present(secret)
    assert [[*words()] for words in view.confidential.values()] == [["word"]]


async def test_a_load_that_is_asked_for_no_more_is_not_tried_again() -> None:
    archive = Archive(failures=9)
    async with reading() as reader:
        reader.ask("a", Chapter(archive, "north", "one"))
        await reader.settled()
        reader.ask("a")
        await reader.clock.advance(600)
        await reader.settled()
        assert archive.fetched == ["one"]


async def test_a_tenant_with_many_loads_delays_another_by_one_turn() -> None:
    archive = Archive()
    async with reading(workers=1) as reader:
        reader.ask("a", *(Chapter(archive, "north", f"many-{number}") for number in range(20)))
        reader.ask("b", Chapter(archive, "south", "few"))
        await reader.settled()
        assert archive.fetched.index("few") <= 2


async def test_values_are_bounded_and_the_tenant_that_has_most_gives_room() -> None:
    archive = Archive()
    async with reading(most_bytes=10) as reader:
        small = Chapter(archive, "south", "s")
        reader.ask("b", small)
        await reader.settled()
        many = [Chapter(archive, "north", str(number), 3) for number in range(5)]
        for chapter in many:
            reader.ask("a", chapter)
            await reader.settled()
            assert reader.loads.size <= 10
        assert reader.ask("b", small) == [Present("s")]
        assert reader.ask("a", many[-1]) == [Present("444")]
        assert reader.ask("a", many[0]) == [Unknown("it is being loaded")], "it is loaded again"
        huge = Chapter(archive, "north", "h", 11)
        reader.ask("c", huge)
        await reader.settled()
        assert reader.ask("c", huge) == [Unknown("it has 11 bytes, and at most 10 can be kept")]


async def test_a_bug_in_one_load_is_unknown_and_the_others_go_on() -> None:
    archive = Archive()
    async with reading(workers=1) as reader:
        bug, one = Chapter(archive, "north", "bug"), Chapter(archive, "north", "one")
        reader.ask("a", bug, one)
        await reader.settled()
        failed, loaded = reader.ask("a", bug, one)
        assert failed == Unknown("cannot load chapter bug: internal error, see the log of the operator: stellwerk logs")
        assert loaded == Present("one")
