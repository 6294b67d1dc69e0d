"""An operator that is limited to namespaces watches each of them, and sees one cache."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import cast

import msgspec
import pytest

from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, PartialObjectMetadata, Unreadable, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Changed, Odd, Removed, Synced, WatchSuspended
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.informer import Informer, noting_own_writes, own_version, wrote_own_object
from stellwerk.runtime.cache.joined_informer import JoinedInformer
from stellwerk.runtime.cache.namespace_presence import NamespacePresence
from stellwerk.runtime.supervision.tasks import background
from stellwerk.testing.clock import FakeClock

SECRETS = metadata_of(Secret)
Thing = PartialObjectMetadata

pytestmark = pytest.mark.req("R-961")


def thing(namespace: str, name: str, version: int = 1, **labels: str) -> Thing:
    uid = f"{namespace}/{name}"
    metadata = ObjectMeta(name=name, namespace=namespace, uid=uid, resource_version=str(version), labels=labels)
    return Thing(metadata=metadata)


@pytest.fixture
def cluster() -> Cluster:
    client = Client.connect(ClusterConfig(server="http://nowhere.invalid"))
    return Cluster(client, clock=FakeClock(), namespaces=("books", "shop"))


@pytest.fixture
def joined(cluster: Cluster) -> JoinedInformer[Thing]:
    made = cluster.informer(SECRETS, labels="kind=a", required=True)
    assert isinstance(made, JoinedInformer)
    return made


@pytest.fixture
def full(joined: JoinedInformer[Thing]) -> JoinedInformer[Thing]:
    joined.part("shop").take(Synced((thing("shop", "a"), thing("shop", "b")), "5"))
    joined.part("books").take(Synced((thing("books", "a"),), "5"))
    return joined


def test_no_kind_with_a_namespace_is_watched_in_all_of_them(cluster: Cluster, joined: JoinedInformer[Thing]) -> None:
    cluster.informer(metadata_of(Namespace))
    cluster.informer(SECRETS, namespace="ingress")
    cluster.informer(SECRETS, labels="kind=b", places=("edge",))
    watched = sorted((each.view.resource.plural, each.selection.namespace) for each in cluster.informers)
    assert watched == [
        ("namespaces", ""),
        *(("secrets", "books"), ("secrets", "edge"), ("secrets", "ingress"), ("secrets", "shop")),
    ]
    assert [each.name for each in joined.parts.values()] == ["secrets (in books, kind=a)", "secrets (in shop, kind=a)"]
    assert joined.name == "secrets (kind=a)"


def test_without_namespaces_a_kind_is_one_watch(cluster: Cluster) -> None:
    wide = Cluster(cluster.client, clock=FakeClock())
    assert wide.informer(SECRETS, places=("edge",)).selection.namespace == ""
    assert len(wide.informers) == 1


def test_who_asks_twice_shares_the_watches_and_a_release_ends_all_of_them(
    cluster: Cluster, joined: JoinedInformer[Thing]
) -> None:
    again = cluster.informer(SECRETS, labels="kind=a")
    assert [*again.part("shop").store.all()] == []
    assert again.part("shop") is joined.part("shop")
    cluster.release(again)
    assert [each.view.resource.plural for each in cluster.informers] == ["namespaces"]


def test_readers_see_one_store(full: JoinedInformer[Thing]) -> None:
    full.store.add_index("name", names)
    assert len(full.store) == 3
    assert {str(each.key) for each in full.store.all()} == {"shop/a", "shop/b", "books/a"}
    assert {str(each.key) for each in full.store.by("name", "a")} == {"shop/a", "books/a"}
    assert ObjectKey("shop", "b") in full.store
    assert ObjectKey("elsewhere", "b") not in full.store
    assert full.store.get(ObjectKey("elsewhere", "a")) is None
    with pytest.raises(KeyError):
        full.store.by("none", "a")


def names(obj: Thing) -> Iterator[str]:
    yield obj.metadata.name


def test_handlers_are_told_of_the_changes_of_all(full: JoinedInformer[Thing]) -> None:
    told: list[str] = []
    full.on_change(lambda delta: told.append(f"{delta.key} {delta.new is not None}"))
    del told[:]
    full.part("shop").take(Changed(thing("shop", "c", 6)))
    full.part("books").take(Removed(thing("books", "a", 7)))
    assert told == ["shop/c True", "books/a False"]


def test_what_cannot_be_decoded_in_one_namespace_is_known_of_all(full: JoinedInformer[Thing]) -> None:
    told: list[str] = []
    full.on_unreadable(lambda key, obj: told.append(str(key)))
    odd = Unreadable(SECRETS.resource, thing("books", "odd", 6).metadata, "odd")
    full.part("books").take(Odd(odd))
    assert full.unreadable == {odd.key: odd}
    assert full.hidden == [odd.key]
    assert told == ["books/odd"]
    assert len([*full.seen()]) == 4


def test_it_is_full_when_each_namespace_is_and_parked_while_one_is(joined: JoinedInformer[Thing]) -> None:
    told: list[str] = []
    joined.on_parked(lambda: told.append("parked"))
    joined.on_served(lambda: told.append("served"))
    joined.part("shop").take(Synced((), "5"))
    assert states(joined) == [False, False, False]
    joined.part("books").take(Synced((), "5"))
    assert states(joined) == [True, True, True]
    joined.part("shop").take(WatchSuspended("no such kind", is_not_served=True))
    joined.part("books").take(WatchSuspended("may not", is_forbidden=True))
    assert joined.parked is not None
    assert joined.parked.why == "may not", "a missing right counts before a kind that is not served"
    assert joined.is_forbidden
    assert joined.is_outdated
    assert states(joined) == [False, True, True]
    joined.part("books").take(Synced((), "9"))
    assert joined.parked.why == "no such kind"
    assert told == ["parked", "parked", "served"]


def states(joined: JoinedInformer[Thing]) -> list[bool]:
    return [joined.has_synced, joined.is_filled, joined.shows_all]


def hides_nothing(joined: JoinedInformer[Thing]) -> bool:
    return joined.parked is None and all(states(joined))


async def test_the_end_of_a_namespace_hides_nothing_in_the_others(
    cluster: Cluster, joined: JoinedInformer[Thing]
) -> None:
    namespaces = cluster.informer(metadata_of(Namespace))
    presence = NamespacePresence(namespaces)
    books, shop = joined.part("books"), joined.part("shop")
    shop.take(Synced((thing("shop", "a"),), "5"))
    books.take(WatchSuspended("may not", is_forbidden=True))
    before = cluster.unready()
    assert before
    namespaces.take(Synced((thing("", "shop"),), "5"))
    for part in (books, shop):
        await presence.follow(cast("Informer[HasMetadata]", part))
    assert hides_nothing(joined)
    assert not cluster.unready()

    namespaces.take(Changed(thing("", "books", 6)))
    assert joined.parked is not None, "the namespace is there, and may have objects"
    ending = thing("", "books", 7)
    namespaces.take(Changed(msgspec.structs.replace(ending, metadata=ends(ending.metadata))))
    assert hides_nothing(joined)
    assert not cluster.unready()


async def test_nothing_is_asked_about_a_namespace_that_does_not_exist(
    cluster: Cluster, joined: JoinedInformer[Thing]
) -> None:
    namespaces = cluster.informer(metadata_of(Namespace))
    presence = NamespacePresence(namespaces)
    namespaces.take(Synced((thing("", "shop"),), "5"))
    books = cast("Informer[HasMetadata]", joined.part("books"))
    await presence.follow(books)
    async with background() as tasks:
        tasks.start(books.run(), "books")
        async with asyncio.timeout(10):
            await books.wait_settled()
        assert books.parked is not None
        assert books.parked.why == "namespace books does not exist"
        joined.part("shop").take(Synced((), "5"))
        async with asyncio.timeout(10):
            await joined.wait_synced()
            await joined.wait_complete()
            await joined.wait_settled()


def ends(metadata: ObjectMeta) -> ObjectMeta:
    return msgspec.structs.replace(metadata, deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC))


def test_an_own_write_is_waited_for_in_its_namespace_alone(full: JoinedInformer[Thing]) -> None:
    written = thing("shop", "a", 9)
    with noting_own_writes(full) as writes:
        wrote_own_object(written)
        assert own_version(written.key) == "9"
    assert len(writes) == 1
    full.part("books").take(Changed(thing("books", "a", 12)))
    assert full.expected(written.key) is not None, "another stream says nothing about this one"
    full.part("shop").take(Changed(written))
    assert full.expected(written.key) is None
    full.expect(ObjectKey("elsewhere", "a"), "20")
    assert full.expected(ObjectKey("elsewhere", "a")) is None


def test_the_end_of_an_own_object_is_waited_for_in_its_namespace(full: JoinedInformer[Thing]) -> None:
    ended = thing("shop", "b")
    full.expect_end(ended)
    assert full.expected(ended.key) is not None
    full.part("shop").take(Removed(thing("shop", "b", 8)))
    assert full.expected(ended.key) is None
    full.expect(ended.key, "30")
    full.expect_nothing()
    assert full.expected(ended.key) is None
