"""The watches of the objects that a set owns, when they cannot be watched any more."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

import pytest

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import live_view
from stellwerk.apply.set.model.owner import mark
from stellwerk.delivery.watched_objects import LONGEST_WIDER_SECONDS, UNUSED_SECONDS, WIDER_SECONDS, OwnedObjects, Place
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ApiError, Forbidden, NotServed, ServerFault, Status
from stellwerk.kube.types.model import (
    HasMetadata,
    JsonObject,
    Listing,
    PartialObjectMetadata,
    Unstructured,
    View,
    metadata_of,
)
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Removed, Synced, WatchSuspended
from stellwerk.operators.component.api import RECONCILER
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.testing.clock import FakeClock


@pytest.mark.req("R-206", "R-207")
@pytest.mark.parametrize(
    "parked",
    [
        WatchSuspended("not permitted", is_forbidden=True),
        WatchSuspended("no such version", is_not_served=True),
    ],
    ids=["a right is missing", "the version is no longer served"],
)
async def test_owners_whose_objects_are_watched_no_longer_are_woken_and_not_held_back(parked: WatchSuspended) -> None:
    """They may wait for the end of an object, which no watch shows now."""
    labels: JsonObject = {mark(RECONCILER): "owner"}
    metadata: JsonObject = {"namespace": "shop", "name": "one", "uid": "u1", "resourceVersion": "1", "labels": labels}
    woken: list[str] = []
    async with Client.connect(ClusterConfig(server="https://nowhere.invalid")) as client:
        owned = OwnedObjects(Cluster(client, clock=FakeClock()), RECONCILER, woken.append, lambda: None)
        covering = asyncio.create_task(owned.cover([Place(ConfigMap.resource, "")]))
        while not covering.done():
            for informer in owned.cluster.informers:
                if not informer.has_synced:
                    informer.take(Synced((), "1"))
            await asyncio.sleep(0)
        maps = owned.cluster.informer(live_view(ConfigMap.resource), labels=mark(RECONCILER))
        live = Unstructured.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        maps.take(Synced((live,), "1"))
        woken.clear()
        maps.expect(live.key, "9")
        maps.take(parked)

        assert woken == ["owner"]
        assert maps.expected(live.key) is None
        assert owned.of("owner") == {}, "what the cache shows is outdated"
        assert owned.find(Address(ConfigMap.resource, live.key)) is None


@pytest.mark.req("R-206")
async def test_a_watch_of_the_whole_cluster_that_is_forbidden_ends_where_namespaces_are_watched() -> None:
    async with Client.connect(ClusterConfig(server="https://nowhere.invalid")) as client:
        owned = OwnedObjects(Cluster(client, clock=FakeClock()), RECONCILER, lambda owner: None, lambda: None)
        covering = asyncio.create_task(owned.cover([Place(ConfigMap.resource, "shop")]))
        while not covering.done():
            for informer in owned.cluster.informers:
                wide = informer.view.resource == ConfigMap.resource and not informer.selection.namespace
                if wide and informer.parked is None:
                    informer.take(WatchSuspended("not permitted", is_forbidden=True))
                elif not wide and not informer.has_synced:
                    informer.take(Synced((), "1"))
            await asyncio.sleep(0)
        watched = [each for each in owned.cluster.informers if each.view.resource == ConfigMap.resource]
        assert [each.selection.namespace for each in watched] == ["shop"]


class ScriptedServer:
    """Lists no ConfigMap of the whole cluster while it has an `error`, and no objects but `maps` and `namespaces`."""

    config = ClusterConfig(server="https://nowhere.invalid")

    def __init__(
        self, error: ApiError | None, maps: Sequence[Unstructured] = (), namespaces: Sequence[str] = ()
    ) -> None:
        self.error = error
        self.maps = maps
        self.namespaces = [PartialObjectMetadata(metadata=ObjectMeta(name=name, uid=name)) for name in namespaces]
        self.lists = 0
        self.hangs_in = ""
        """A namespace whose lists are not answered."""
        self.watch_error: ApiError | None = None
        """What the watches of ConfigMaps in the whole cluster end with."""

    async def list(self, target: View[Unstructured], namespace: str = "", **_: object) -> Listing[HasMetadata]:
        await asyncio.sleep(0)
        if target.resource == Namespace.resource:
            return Listing([*self.namespaces], "5")
        if namespace:
            while namespace == self.hangs_in:
                await asyncio.Event().wait()
            return Listing([each for each in self.maps if each.key.namespace == namespace], "5")
        self.lists += 1
        if self.error is not None:
            raise self.error
        return Listing([*self.maps], "5")

    async def watch(self, target: View[HasMetadata], namespace: str = "", **_: object) -> AsyncIterator[None]:
        if self.watch_error is not None and target.resource == ConfigMap.resource and not namespace:
            await turns()  # the list is taken over before the refusal comes
            raise self.watch_error
        await asyncio.Event().wait()
        yield


@asynccontextmanager
async def watching(
    server: ScriptedServer,
    clock: FakeClock,
    wake: Callable[[str], None] = lambda owner: None,
    *,
    most_bytes: int = 0,
) -> AsyncIterator[OwnedObjects]:
    cluster = Cluster(cast(Client, server), clock=clock)
    running = asyncio.create_task(cluster.run())
    try:
        await asyncio.sleep(0)
        yield OwnedObjects(cluster, RECONCILER, wake, lambda: None, most_bytes=most_bytes)
    finally:
        running.cancel()
        await asyncio.wait([running])


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.req("R-207")
@pytest.mark.parametrize(
    ("error", "asks"),
    [
        (NotServed("no such kind"), True),
        (ServerFault(Status(code=500, message="the webhook failed"), "list configmaps"), False),
    ],
    ids=["the kind is absent", "the server fails"],
)
async def test_a_pass_looks_at_once_for_an_absent_kind_and_not_for_one_that_the_server_fails_to_list(
    error: ApiError, asks: bool
) -> None:
    clock, server = FakeClock(), ScriptedServer(error)
    place = Place(ConfigMap.resource, "")
    async with watching(server, clock) as owned:
        covering = asyncio.create_task(owned.cover([place]))
        for _ in range(20):
            await turns()
            await clock.advance(1.0)
        await asyncio.gather(covering, return_exceptions=True)
        before = server.lists
        await asyncio.gather(owned.cover([place]), return_exceptions=True)
        await turns()
        assert (server.lists > before) is asks


@pytest.mark.req("R-206")
async def test_passes_that_find_out_together_that_the_whole_cluster_is_forbidden_all_watch_namespaces() -> None:
    server = ScriptedServer(Forbidden(Status(code=403)))
    async with watching(server, FakeClock()) as owned:
        places = [Place(ConfigMap.resource, f"shop-{number}") for number in range(4)]
        assert await asyncio.gather(*(owned.cover([place]) for place in places)) == [{}] * 4


SHOPS = [Place(ConfigMap.resource, "shop-1"), Place(ConfigMap.resource, "shop-2")]
FORBIDDEN = Forbidden(Status(code=403))


def config_map(namespace: str, owner: str) -> Unstructured:
    labels: JsonObject = {mark(RECONCILER): owner}
    metadata: JsonObject = {
        "namespace": namespace,
        "name": "one",
        "uid": owner,
        "resourceVersion": "3",
        "labels": labels,
    }
    return Unstructured.of({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def watched(owned: OwnedObjects) -> list[str]:
    """The namespaces of all watches of ConfigMaps; empty for the whole cluster."""
    informers = owned.cluster.informers
    return [each.selection.namespace for each in informers if each.view.resource == ConfigMap.resource]


@pytest.mark.req("R-206")
async def test_the_whole_cluster_is_watched_again_when_that_is_permitted_again() -> None:
    clock, server, woken = (
        FakeClock(),
        ScriptedServer(FORBIDDEN, [config_map("shop-1", "a"), config_map("shop-2", "b")]),
        list[str](),
    )
    async with watching(server, clock, woken.append, most_bytes=1 << 20) as owned:
        assert await owned.cover(SHOPS) == {}
        assert watched(owned) == ["shop-1", "shop-2"]
        weight, server.error = owned.weight, None
        await clock.advance(WIDER_SECONDS - 1)
        assert await owned.cover(SHOPS) == {}
        assert watched(owned) == ["shop-1", "shop-2"]

        server.maps = server.maps[:1]
        woken.clear()
        await clock.advance(1)
        assert await owned.cover(SHOPS) == {}
        assert watched(owned) == [""]
        assert "b" in woken, "its object is gone, which no event shows"
        assert ([*owned.of("a")] != [], owned.of("b")) == (True, {})
        assert owned.weight == weight // 2


@pytest.mark.req("R-206")
async def test_the_whole_cluster_is_tried_ever_more_seldom_while_only_namespaces_may_be_watched() -> None:
    clock, server = FakeClock(), ScriptedServer(FORBIDDEN)
    async with watching(server, clock) as owned:
        await owned.cover(SHOPS)
        assert server.lists == 1
        for pause in (WIDER_SECONDS, 2 * WIDER_SECONDS, 4 * WIDER_SECONDS):
            before = server.lists
            await clock.advance(pause - 1)
            await asyncio.gather(*(owned.cover(SHOPS) for _ in range(3)))
            assert server.lists == before
            await clock.advance(1)
            await asyncio.gather(*(owned.cover(SHOPS) for _ in range(3)))
            assert server.lists == before + 1
            assert watched(owned) == ["shop-1", "shop-2"]
        for _ in range(8):
            await clock.advance(LONGEST_WIDER_SECONDS)
            await owned.cover(SHOPS)
        assert server.lists == 12


@pytest.mark.req("R-206")
async def test_the_whole_cluster_is_tried_ever_more_seldom_where_it_may_be_listed_and_not_watched() -> None:
    clock, server = FakeClock(), ScriptedServer(None)
    server.watch_error = FORBIDDEN
    async with watching(server, clock) as owned:

        async def covered() -> int:
            """How often the whole cluster was listed for two passes, one of which notes the refusal of the watch."""
            before = server.lists
            for _ in range(2):
                await owned.cover(SHOPS)
                await turns()
            assert watched(owned) == ["shop-1", "shop-2"]
            return server.lists - before

        await covered()
        for pause in (WIDER_SECONDS, 2 * WIDER_SECONDS, 4 * WIDER_SECONDS, 8 * WIDER_SECONDS, LONGEST_WIDER_SECONDS):
            await clock.advance(pause - 1)
            assert await covered() == 0
            await clock.advance(1)
            assert await covered() == 1


@pytest.mark.req("R-206")
async def test_a_right_that_is_taken_away_after_an_hour_is_looked_for_as_soon_as_the_first_time() -> None:
    clock, server = FakeClock(), ScriptedServer(FORBIDDEN)
    wide = Place(ConfigMap.resource, "")
    async with watching(server, clock) as owned:
        for _ in range(2):
            server.error = FORBIDDEN
            await owned.cover(SHOPS)
            server.error = None
            await clock.advance(WIDER_SECONDS)
            await owned.cover(SHOPS)
            assert watched(owned) == [""]
            await clock.advance(LONGEST_WIDER_SECONDS)
            owned._watches[wide].take(WatchSuspended("not permitted", is_forbidden=True))


@pytest.mark.req("R-206")
async def test_only_the_first_refusal_to_watch_the_whole_cluster_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock, server = FakeClock(), ScriptedServer(FORBIDDEN)
    async with watching(server, clock) as owned:
        await owned.cover(SHOPS)
        await clock.advance(WIDER_SECONDS)
        await owned.cover(SHOPS)
    parked = [record.levelname for record in caplog.records if "is parked" in record.message]
    assert parked == ["WARNING", "INFO"]


@pytest.mark.req("R-206")
async def test_a_pass_that_waits_for_a_namespace_goes_on_when_the_whole_cluster_is_watched() -> None:
    clock, server = FakeClock(), ScriptedServer(FORBIDDEN)
    async with watching(server, clock) as owned:
        await owned.cover(SHOPS[:1])
        await clock.advance(WIDER_SECONDS - 1)
        server.hangs_in = "shop-2"
        waiting = asyncio.create_task(owned.cover(SHOPS[1:]))
        await turns()
        server.error = None
        await clock.advance(1)
        assert await owned.cover(SHOPS[:1]) == {}
        assert await asyncio.wait_for(waiting, 5) == {}
        assert watched(owned) == [""]


@pytest.mark.req("R-305")
@pytest.mark.parametrize("is_empty", [True, False])
async def test_the_watch_of_a_namespace_ends_after_the_namespace_and_all_its_objects(is_empty: bool) -> None:
    maps = [] if is_empty else [config_map("shop-1", "a")]
    clock, server = FakeClock(), ScriptedServer(FORBIDDEN, maps, ["shop-1", "shop-2"])
    async with watching(server, clock) as owned:
        await owned.cover(SHOPS)
        await clock.advance(UNUSED_SECONDS)
        await owned.cover([])
        assert watched(owned) == ["shop-1", "shop-2"]

        owned.cluster.informer(metadata_of(Namespace)).take(Removed(server.namespaces[0]))
        del server.namespaces[0]
        await owned.cover(SHOPS)
        await clock.advance(UNUSED_SECONDS - 1)
        await owned.cover([])
        assert watched(owned) == ["shop-1", "shop-2"], "a pass needed it a moment ago"
        await clock.advance(61)
        await owned.cover([])
        assert watched(owned) == (["shop-2"] if is_empty else ["shop-1", "shop-2"])
