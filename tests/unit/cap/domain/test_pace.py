"""Changes of the DNS entries of a domain that has many are gathered, so that its passes leave room for others."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, cast

import pytest
from tests.unit.cap.domain.given import SETTINGS, domain, live

from stellwerk.api.gardener import DnsEntry
from stellwerk.apply.set.model.confirmation import Live
from stellwerk.kube import threads
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Unstructured
from stellwerk.kube.watch.watch_states import Changed, Removed, Synced
from stellwerk.operators.cap.domain import resources, watches
from stellwerk.operators.cap.domain.pace import GATHERED_SECONDS, LONGEST_PAUSE_SECONDS, MANY_ENTRIES, Paces
from stellwerk.operators.cap.domain.resources import DnsRecord
from stellwerk.operators.cap.domain.watches import DomainCaches
from stellwerk.operators.cap.hashed_objects import OBJECT_BYTES
from stellwerk.operators.cap.kinds.domain import Domain
from stellwerk.runtime.control.queue import Priority
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

OWNER = domain()
MANY_OBJECTS = threads.LARGE_BYTES // OBJECT_BYTES + 1


class ClockBySetting(FakeClock):
    """A clock that a thread can move as well."""

    seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


class Woken:
    """Stands for the controller of Domains and its queue, and keeps after how long the domain is to be looked at."""

    view = Domain

    def __init__(self) -> None:
        self.primary = self.queue = self
        self.delays: list[float] = []

    def add_after(self, key: ObjectKey, seconds: float, _: Priority) -> None:
        assert key == OWNER.key
        self.delays.append(seconds)


def entry(number: int, version: int = 1, **changes: Any) -> Live:
    """A DNS entry of the domain."""
    record = DnsRecord(f"{number}.app.example.com", "lb.example.com")
    words: JsonObject = {"resourceVersion": str(version), **changes}
    return live(OWNER, resources.dns_entry(OWNER, ObjectKey("shop", f"e{number}"), record), **words)[1]


def caches_with(entries: int, clock: FakeClock) -> tuple[DomainCaches, list[float]]:
    """The caches of a domain with so many DNS entries, and the delays with which it is woken from now on."""
    client = Client.connect(ClusterConfig(server="http://nowhere.invalid"))
    caches = watches.caches(Manager(client, clock=clock), SETTINGS)
    watches.wire(caches)
    woken = Woken()
    caches.controllers.append(cast(Any, woken))
    caches.domains.take(Synced((OWNER,), "1"))
    caches.children[DnsEntry.resource].take(Synced(tuple(entry(number) for number in range(entries)), "1"))
    woken.delays.clear()
    return caches, woken.delays


def change_each_way(caches: DomainCaches) -> None:
    """One entry is reported about, one has another spec, one is marked for deletion, and one disappears."""
    informer = caches.children[DnsEntry.resource]
    reported = entry(0, 2)
    assert isinstance(reported, Unstructured)
    informer.take(Changed(Unstructured.of({**reported.body, "status": {"state": "Ready"}})))
    informer.take(Changed(entry(1, 3, generation=2)))
    informer.take(Changed(entry(2, 4, generation=2, deletionTimestamp="2026-05-01T12:00:00Z")))
    informer.take(Removed(entry(3, 5)))


@pytest.mark.parametrize("is_passing", [False, True])
def test_a_domain_with_few_entries_is_woken_at_once_by_each_change(is_passing: bool) -> None:
    caches, delays = caches_with(MANY_ENTRIES - 1, ClockBySetting())
    with caches.passing(OWNER):
        if is_passing:
            change_each_way(caches)
    if not is_passing:
        change_each_way(caches)
    assert delays == [0, 0, 0, 0]


@pytest.mark.req("R-412")
def test_changes_of_many_entries_wake_their_domain_a_second_after_its_last_pass() -> None:
    clock = ClockBySetting()
    caches, delays = caches_with(MANY_ENTRIES, clock)
    with caches.passing(OWNER):
        clock.seconds += 5  # a pass that waits for an API server does not compute
    clock.seconds += GATHERED_SECONDS / 4
    change_each_way(caches)
    assert delays == [GATHERED_SECONDS * 3 / 4] * 4


@pytest.mark.req("R-412")
def test_the_first_change_after_the_pause_wakes_at_once() -> None:
    clock = ClockBySetting()
    caches, delays = caches_with(MANY_ENTRIES, clock)
    with caches.passing(OWNER):
        pass
    clock.seconds += GATHERED_SECONDS
    change_each_way(caches)
    assert delays == [0, 0, 0, 0]


@pytest.mark.req("R-412")
def test_changes_during_a_pass_wake_once_and_a_pause_after_its_end() -> None:
    clock = ClockBySetting()
    caches, delays = caches_with(MANY_ENTRIES, clock)
    with caches.passing(OWNER):
        change_each_way(caches)
        clock.seconds += 2 * GATHERED_SECONDS
        assert delays == []
    assert delays == [GATHERED_SECONDS]
    with caches.passing(OWNER):
        pass
    assert delays == [GATHERED_SECONDS], "nothing has changed during the second pass"


@pytest.mark.req("R-412")
@pytest.mark.parametrize(("computed", "pause"), [(0.1, GATHERED_SECONDS), (2.0, 6.0), (60.0, LONGEST_PAUSE_SECONDS)])
async def test_the_pause_is_three_times_as_long_as_the_pass_computed(computed: float, pause: float) -> None:
    clock = ClockBySetting()
    caches, delays = caches_with(MANY_ENTRIES, clock)

    def work() -> None:
        clock.seconds += computed

    with caches.passing(OWNER) as pace:
        await pace.compute(MANY_OBJECTS, work)
        change_each_way(caches)
    assert delays == [pytest.approx(pause)]


def test_other_objects_of_a_domain_with_many_entries_wake_at_once() -> None:
    caches, delays = caches_with(MANY_ENTRIES, ClockBySetting())
    with caches.passing(OWNER):
        certificate = resources.gardener_certificate(OWNER, ObjectKey("shop", "c"), ObjectKey("istio-system", "c"))
        informer = caches.children[certificate.address.resource]
        informer.take(Synced((live(OWNER, certificate)[1],), "1"))
        assert delays == [0]


def test_the_pace_of_a_domain_that_is_gone_is_forgotten() -> None:
    caches, delays = caches_with(MANY_ENTRIES, ClockBySetting())
    with caches.passing(OWNER):
        pass
    caches.domains.take(Removed(OWNER))
    caches.domains.take(Changed(OWNER))
    change_each_way(caches)
    assert delays == [0, 0, 0, 0]


@pytest.mark.req("R-412")
async def test_domains_with_many_objects_compute_one_after_another_and_those_with_few_at_once() -> None:
    paces, running, most = Paces(FakeClock()), 0, 0
    release = threading.Event()

    def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        release.wait(timeout=10)
        running -= 1

    async with asyncio.TaskGroup() as tasks:
        for owner in ("a", "b", "c"):
            tasks.create_task(paces.of(owner).compute(MANY_OBJECTS, work))
        await eventually(lambda: running > 0)
        assert await paces.of("d").compute(1, lambda: "at once") == "at once"
        release.set()
    assert most == 1
