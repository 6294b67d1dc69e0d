"""What caches hold has a bound: objects beyond it are kept as metadata, count as unreadable, and come back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import msgspec
import pytest
from tests.unit.kube.scripted import Server, serving

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import Unreadable, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Odd, Removed
from stellwerk.runtime.cache.cache_budget import FIX, CacheBudget, weight
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

pytestmark = pytest.mark.req("R-941")

KIB = 1 << 10
NOWHERE = ClusterConfig(server="http://nowhere.invalid")


def config(name: str, version: int, size: int, *, namespace: str = "here", uid: str = "") -> ConfigMap:
    metadata = ObjectMeta(namespace=namespace, name=name, uid=uid or name, resource_version=str(version))
    return ConfigMap(metadata=metadata, data={"text": "x" * size})


def informer(budget: CacheBudget) -> Informer[ConfigMap]:
    return Informer(Client.connect(NOWHERE), ConfigMap, clock=FakeClock(), budget=budget)


def key(name: str, namespace: str = "here") -> ObjectKey:
    return ObjectKey(namespace, name)


# ---- the shares


def test_one_namespace_gets_two_thirds_and_leaves_the_rest_to_others() -> None:
    budget = CacheBudget(300)
    assert budget.charge("large", 200)
    assert not budget.charge("large", 1)
    assert budget.charge("small", 60)


@pytest.mark.parametrize("namespaces", [1, 2, 10, 15])
def test_however_many_namespaces_take_what_they_can_a_new_one_gets_something(namespaces: int) -> None:
    budget = CacheBudget(1_000_000)
    for name in map(str, range(namespaces)):
        while budget.charge(name, 100):
            pass
    assert budget.charge("new", 1_000)


def test_what_leaves_makes_room() -> None:
    budget = CacheBudget(300)
    budget.charge("here", 200)
    budget.add("here", -150)
    assert (budget.used_bytes, budget.charge("here", 100)) == (50, True)


def test_an_object_that_is_held_may_change_although_its_namespace_would_get_less_now() -> None:
    budget = CacheBudget(300 * KIB)
    assert budget.charge("first", 190 * KIB)
    assert budget.charge("second", 60 * KIB)
    assert not budget.has_room("first", 1 * KIB)
    assert not budget.has_room("third", 100 * KIB)
    assert budget.has_room("third", 4 * KIB)
    assert budget.charge("first", 11 * KIB, former=10 * KIB)
    assert not budget.charge("first", 40 * KIB, former=10 * KIB)
    assert budget.charge("first", 5 * KIB, former=10 * KIB)


def test_objects_without_a_namespace_always_fit_and_count() -> None:
    budget = CacheBudget(100)
    assert budget.charge("", 1_000)
    assert budget.used_bytes == 1_000
    assert not budget.charge("here", 1)


def test_without_a_bound_everything_fits_and_nothing_is_weighed() -> None:
    things = informer(CacheBudget())
    things.take(Changed(config("a", 1, 1 << 20)))
    assert key("a") in things.store


def test_many_small_parts_weigh_as_much_as_they_take() -> None:
    assert weight(config("a", 1, 100 * KIB)) < 110 * KIB
    many = msgspec.structs.replace(config("a", 1, 0), data={str(number): "x" for number in range(10_000)})
    assert weight(many) > 80 * 10_000


# ---- an object that does not fit


def test_an_object_that_does_not_fit_is_there_and_not_known() -> None:
    things = informer(CacheBudget(100 * KIB))
    things.take(Changed(config("a", 1, 90 * KIB)))
    assert key("a") not in things.store
    assert things.hidden == [key("a")]
    refused = things.unreadable[key("a")]
    assert refused.fix == FIX
    assert "--cache-memory-mib" in refused.fix
    assert refused.why == "namespace here has more than its share of the memory for cached objects (--cache-memory-mib)"


def test_the_metadata_that_are_kept_are_small() -> None:
    things = informer(CacheBudget(100 * KIB))
    large = config("a", 1, 90 * KIB)
    owned = msgspec.structs.replace(
        large.metadata, labels={"of": "somebody"}, annotations={"text": "x" * 90 * KIB}, finalizers=("ours",)
    )
    things.take(Changed(msgspec.structs.replace(large, metadata=owned)))
    kept = things.unreadable[key("a")].metadata
    assert (kept.labels, kept.finalizers, kept.annotations) == ({"of": "somebody"}, ("ours",), {})
    labels = {f"label-{number}": "x" * 60 for number in range(1_000)}
    things.take(Changed(msgspec.structs.replace(large, metadata=msgspec.structs.replace(owned, labels=labels))))
    other = msgspec.structs.replace(owned, labels=labels, resource_version="2")
    things.take(Changed(msgspec.structs.replace(large, metadata=other)))
    assert things.unreadable[key("a")].metadata.labels == {}


def test_the_former_version_of_an_object_stays_and_counts() -> None:
    budget = CacheBudget(100 * KIB)
    things = informer(budget)
    things.take(Changed(config("a", 1, 10 * KIB)))
    used = budget.used_bytes
    things.take(Changed(config("a", 2, 90 * KIB)))
    assert things.store.get(key("a")) == config("a", 1, 10 * KIB)
    assert (things.hidden, [*things.unreadable]) == ([], [key("a")])
    assert budget.used_bytes == used
    things.take(Changed(config("a", 3, 5 * KIB)))
    assert not things.unreadable
    assert budget.used_bytes == used - 5 * KIB


def test_an_object_of_another_namespace_fits_meanwhile() -> None:
    things = informer(CacheBudget(100 * KIB))
    for number in range(100):
        things.take(Changed(config(f"a-{number}", number + 1, 10 * KIB)))
    things.take(Changed(config("victim", 101, 10 * KIB, namespace="there")))
    assert key("victim", "there") in things.store
    assert len(things.store) == 7


def test_what_is_held_is_given_back_once_however_it_leaves() -> None:
    budget = CacheBudget(1_000 * KIB)
    things = informer(budget)
    things.take(Changed(config("gone", 1, 10 * KIB)))
    things.take(Removed(config("gone", 2, 10 * KIB)))
    assert budget.used_bytes == 0
    things.take(Changed(config("again", 3, 10 * KIB, uid="first")))
    things.take(Changed(config("again", 4, 20 * KIB, uid="second")))
    assert budget.used_bytes == weight(config("again", 4, 20 * KIB, uid="second"))
    things.take(Odd(Unreadable(ConfigMap.resource, config("again", 5, 0, uid="second").metadata, "odd")))
    things.close()
    assert budget.used_bytes == 0


def test_metadata_that_are_small_fit_without_room() -> None:
    budget = CacheBudget(10 * KIB)
    things = Informer(Client.connect(NOWHERE), metadata_of(ConfigMap), clock=FakeClock(), budget=budget)
    shape = things.view.shape
    for number in range(100):
        things.take(Changed(shape(metadata=config(f"a-{number}", number + 1, 0).metadata)))
    assert len(things.store) == 100
    large = msgspec.structs.replace(config("large", 101, 0).metadata, annotations={"text": "x" * 9 * KIB})
    things.take(Changed(shape(metadata=large)))
    assert things.hidden == [key("large")]


# ---- lists, and the way back


class Objects:
    """What a server has. It answers lists and single reads, and says nothing in watches."""

    def __init__(self, *objects: ConfigMap) -> None:
        self.there = {each.metadata.name: each for each in objects}
        self.version = 100

    def answer(self, number: int, request: bytes) -> bytes | None:
        path = request.split()[1].decode()
        name = path.partition("/configmaps/")[2].partition("?")[0]
        if "watch=1" in path:
            return None
        if name:
            return _ok(msgspec.json.encode(self.there[name]))
        items = b",".join(map(msgspec.json.encode, self.there.values()))
        return _ok(b'{"metadata": {"resourceVersion": "%d"}, "items": [%b]}' % (self.version, items))


def _ok(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@asynccontextmanager
async def following(objects: Objects, budget: CacheBudget) -> AsyncIterator[tuple[Server, Informer[ConfigMap]]]:
    async with AsyncExitStack() as opened:
        server, _ = await opened.enter_async_context(serving(objects.answer))
        config = ClusterConfig(server=f"http://127.0.0.1:{server.port}")
        things = Informer(await opened.enter_async_context(Client.connect(config)), ConfigMap, budget=budget)
        running = asyncio.create_task(things.run())
        try:
            await things.wait_synced()
            yield server, things
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_of_a_list_only_what_fits_is_kept_and_others_are_served() -> None:
    objects = Objects(
        *(config(f"a-{number}", number + 1, 10 * KIB) for number in range(50)),
        config("victim", 60, 10 * KIB, namespace="there"),
    )
    budget = CacheBudget(100 * KIB)
    async with following(objects, budget) as (_, things):
        assert key("victim", "there") in things.store
        assert len(things.store) == 7
        assert len(things.hidden) == 44
        assert budget.used_bytes == sum(map(weight, things.store.all()))


async def test_a_list_that_shows_the_same_again_needs_no_further_room() -> None:
    objects = Objects(*(config(f"a-{number}", number + 1, 10 * KIB) for number in range(50)))
    budget = CacheBudget(100 * KIB)
    async with following(objects, budget) as (server, things):
        before, used = things.store.all(), budget.used_bytes
        asked = len(server.asked)
        things.list_again()
        await eventually(lambda: len(server.asked) >= asked + 2)
        assert {each.key for each in things.store.all()} == {each.key for each in before}
        assert budget.used_bytes == used


async def test_an_object_is_read_as_soon_as_there_is_room_for_it() -> None:
    objects, budget = Objects(config("a", 1, 50 * KIB), config("b", 2, 50 * KIB)), CacheBudget(100 * KIB)
    async with following(objects, budget) as (_, things):
        seen: list[Delta[ConfigMap]] = []
        things.on_change(seen.append)
        assert things.hidden == [key("b")]
        things.take(Removed(config("a", 101, 50 * KIB)))
        await eventually(lambda: key("b") in things.store)
        assert not things.unreadable
        assert [delta.key.name for delta in seen if delta.new] == ["a", "b"]
        assert budget.used_bytes == weight(config("b", 2, 50 * KIB))


async def test_an_object_that_became_smaller_is_read_by_its_watch_and_by_nothing_else() -> None:
    objects, budget = Objects(config("a", 1, 50 * KIB), config("b", 2, 50 * KIB)), CacheBudget(100 * KIB)
    async with following(objects, budget) as (server, things):
        asked = len(server.asked)
        things.take(Changed(config("b", 101, 1)))
        assert key("b") in things.store
        assert not things.unreadable
        assert len(server.asked) <= asked + 1
