"""Children are kept as wanted, belong to one owner, and cost nothing while nothing changes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cluster.runtime.example_kind import Lamp, install, lamp

from stellwerk.api.core import ConfigMap
from stellwerk.apply.set.model.confirmation import FIGHT_SECONDS
from stellwerk.delivery.children import KEEPER_LABEL, ChangedByOthers, Children, NameTaken
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.supervision.tasks import background
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually

WISH: JsonObject = {"data": {"text": "hello"}}


class Home:
    """Children of lamps in one namespace, with a cache that runs."""

    def __init__(self, cluster: Cluster, client: Client, namespace: str) -> None:
        self.client, self.namespace = client, namespace
        self.clock = FakeClock()
        self.metrics = Metrics()
        informer = cluster.informer(
            unstructured(ConfigMap.resource), namespace=namespace, labels=f"{KEEPER_LABEL}=keeper"
        )
        self.children = Children(client, informer, keeper="keeper", clock=self.clock, metrics=self.metrics)

    async def lamp(self, name: str = "hall") -> Lamp:
        return await self.client.create(Lamp, lamp(name, self.namespace))

    async def keep(self, owner: Lamp, wish: JsonObject = WISH, name: str = "") -> str:
        """Keep a child and return its version, once the cache shows it."""
        version = (await self.children.keep(owner, wish, name=name)).metadata.resource_version
        await self.seen(name or owner.metadata.name, version)
        return version

    async def edit(self, text: str, who: str) -> None:
        body: JsonObject = {"metadata": {"name": "hall", "namespace": self.namespace}, "data": {"text": text}}
        edited = await self.client.apply(ConfigMap, body, field_manager=who)
        await self.seen("hall", edited.metadata.resource_version)

    async def seen(self, name: str, version: str) -> None:
        key = ConfigMap.resource.key(self.namespace, name)
        await self.children.informer.wait_for(key, version, 60)

    async def text(self) -> str:
        return (await self.client.get(ConfigMap, "hall", self.namespace)).data["text"]


@pytest.fixture
async def home(cluster: LocalCluster, namespace: str) -> AsyncIterator[Home]:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="keeper") as client:
        await install(client)
        caches = Cluster(client)
        home = Home(caches, client, namespace)
        async with background() as tasks:
            tasks.start(caches.run(), "caches")
            await caches.wait_settled()
            yield home


async def test_a_child_is_made_once_and_then_left_alone(home: Home) -> None:
    hall = await home.lamp()
    version = await home.keep(hall)
    assert [child.metadata.name for child in home.children.of(hall)] == ["hall"]
    assert await home.keep(hall) == version
    assert await home.keep(hall, {"data": {"text": "bye"}}) != version
    assert await home.text() == "bye"


async def test_what_is_no_longer_wanted_leaves_the_child(home: Home) -> None:
    hall = await home.lamp()
    await home.keep(hall, {"data": {"text": "hello", "more": "words"}})
    await home.keep(hall)
    assert (await home.client.get(ConfigMap, "hall", home.namespace)).data == {"text": "hello"}


@pytest.mark.req("R-110")
async def test_a_changed_child_is_restored_and_a_fight_is_slowed_down_and_named(home: Home) -> None:
    hall = await home.lamp()
    await home.keep(hall)
    await home.edit("mine", "rival")
    await home.keep(hall)
    assert await home.text() == "hello"
    await home.edit("mine", "rival")
    with pytest.raises(ChangedByOthers, match=r"ConfigMap \S+/hall is changed by rival again and again"):
        await home.keep(hall)
    assert b"stellwerk_drift_throttled_total 1.0" in home.metrics.exposition()
    await home.clock.advance(FIGHT_SECONDS)
    await home.keep(hall)
    assert await home.text() == "hello"


@pytest.mark.req("R-111")
async def test_of_two_owners_the_first_keeps_the_child_and_the_second_is_told(home: Home) -> None:
    hall, attic = await home.lamp(), await home.lamp("attic")
    await home.keep(hall)
    with pytest.raises(
        NameTaken, match=r"ConfigMap \S+/hall cannot be created for Lamp \S+/attic: .* owned by Lamp hall"
    ):
        await home.keep(attic, name="hall")


async def test_an_object_of_somebody_else_is_not_taken_over(home: Home) -> None:
    hall = await home.lamp()
    await home.client.create(ConfigMap, {"metadata": {"name": "hall", "namespace": home.namespace}, **WISH})
    with pytest.raises(NameTaken, match="found existing object without owner"):
        await home.keep(hall)


async def test_a_child_that_lost_its_label_gets_it_back(home: Home) -> None:
    hall = await home.lamp()
    await home.keep(hall)
    await home.client.raw(
        "PATCH",
        f"/api/v1/namespaces/{home.namespace}/configmaps/hall",
        body=b'{"metadata":{"labels":null}}',
        content_type="application/merge-patch+json",
    )
    await eventually(lambda: not home.children.of(hall))
    await home.keep(hall)
    assert home.children.of(hall)


async def test_a_dropped_child_goes_and_a_strangers_stays(home: Home) -> None:
    hall, attic = await home.lamp(), await home.lamp("attic")
    await home.keep(hall)
    assert not await home.children.drop(attic, name="hall")
    assert await home.children.drop(hall)
    await eventually(lambda: not home.children.of(hall))
    assert not await home.children.drop(hall)


async def test_a_child_in_another_namespace_is_a_mistake_of_the_author(home: Home) -> None:
    hall = await home.lamp()
    with pytest.raises(ValueError, match="an owner is in the child's own namespace"):
        await home.children.keep(hall, {"metadata": {"namespace": "default"}, **WISH})


async def test_the_child_names_its_owner_for_the_garbage_collector(home: Home) -> None:
    hall = await home.lamp()
    await home.keep(hall)
    (owner,) = (await home.client.get(ConfigMap, "hall", home.namespace)).metadata.owner_references
    assert (owner.kind, owner.name, owner.uid) == ("Lamp", "hall", hall.metadata.uid)
    assert owner.controller
