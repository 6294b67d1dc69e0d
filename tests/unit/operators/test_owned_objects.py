"""The watches of the objects that a set owns, when they cannot be watched any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.apply.objects.desired import Address
from stellwerk.apply.set.model.confirmation import live_view
from stellwerk.apply.set.model.owner import mark
from stellwerk.delivery.watched_objects import OwnedObjects, Place
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import ApiError, Forbidden, NotServed, ServerFault, Status
from stellwerk.kube.types.model import JsonObject, Listing, Unstructured, View
from stellwerk.kube.watch.watch_states import Synced, WatchSuspended
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
    """Lists no ConfigMap of the whole cluster, and no objects else."""

    config = ClusterConfig(server="https://nowhere.invalid")

    def __init__(self, error: ApiError) -> None:
        self.error = error
        self.lists = 0

    async def list(self, target: View[Unstructured], namespace: str = "", **_: object) -> Listing[Unstructured]:
        await asyncio.sleep(0)
        if target.resource != ConfigMap.resource or namespace:
            return Listing([], "5")
        self.lists += 1
        raise self.error

    async def watch(self, *_: object, **__: object) -> AsyncIterator[None]:
        await asyncio.Event().wait()
        yield


@asynccontextmanager
async def watching(server: ScriptedServer, clock: FakeClock) -> AsyncIterator[OwnedObjects]:
    cluster = Cluster(cast(Client, server), clock=clock)
    running = asyncio.create_task(cluster.run())
    try:
        await asyncio.sleep(0)
        yield OwnedObjects(cluster, RECONCILER, lambda owner: None, lambda: None)
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
