"""A kind that the cluster may not have is not asked for: its watch waits for the definition."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from tests.cluster.component.kinds import removed
from tests.cluster.runtime.example_kind import definition

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import RequestFacts
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.informer import Informer
from stellwerk.testing.eventually import eventually


@dataclass
class Watching:
    """An operator's view of a cluster, with one watch of a kind that is not there yet."""

    cluster: Cluster
    kind: Resource
    requests: list[RequestFacts] = field(default_factory=list)

    @property
    def lanterns(self) -> Informer[PartialObjectMetadata]:
        return self.cluster.informer(metadata_of(self.kind), optional=True)

    def waits(self) -> bool:
        """Whether the watch shows nothing, because the kind is absent."""
        return self.lanterns.parked is not None and not [*self.lanterns.store.all()]

    def asked(self) -> list[str]:
        """The resources that were asked for, but definitions."""
        return [facts.resource for facts in self.requests if facts.resource != "customresourcedefinitions"]


async def _watching(config: ClusterConfig, kind: Resource) -> AsyncIterator[Watching]:
    requests: list[RequestFacts] = []
    async with Client.connect(config, on_request=requests.append) as client:
        watching = Watching(Cluster(client), kind, requests)
        assert watching.lanterns.parked is None
        running = asyncio.create_task(watching.cluster.run())
        yield watching
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running


@pytest.fixture
async def watching(cluster: LocalCluster, namespace: str) -> AsyncIterator[Watching]:
    kind = Resource(f"{namespace}.example.com", "v1", "Lantern", "lanterns", namespaced=True)
    async for each in _watching(ClusterConfig.load(cluster.kubeconfig), kind):
        yield each


@pytest.mark.req("R-207")
async def test_a_watch_of_an_absent_kind_asks_nothing_until_the_kind_is_defined_and_once_it_is_deleted(
    watching: Watching, client: Client, namespace: str
) -> None:
    lanterns, name = watching.lanterns, watching.kind.group_resource
    await lanterns.wait_settled()
    assert lanterns.parked is not None
    assert lanterns.parked.is_not_served
    assert watching.asked() == []
    body = definition("lanterns", "Lantern", watching.kind.group)
    await client.apply(CustomResourceDefinition, body)
    await eventually(lambda: lanterns.has_synced, within=30, describe="the kind is watched")
    made: JsonObject = {"apiVersion": f"{watching.kind.group}/v1", "kind": "Lantern", "metadata": {"name": "one"}}
    await client.create(unstructured(watching.kind), made, namespace)
    await eventually(lambda: ObjectKey(namespace, "one") in lanterns.store, describe="the object is seen")
    await client.delete(CustomResourceDefinition, name)
    await removed(client, name)
    await eventually(watching.waits, describe="the watch waits again")
    await client.apply(CustomResourceDefinition, body)
    await eventually(lambda: lanterns.has_synced, within=30, describe="the kind is watched again")
    await client.delete(CustomResourceDefinition, name)


@pytest.mark.req("R-206")
async def test_without_the_right_to_watch_definitions_an_absent_kind_is_asked_for(
    cluster: LocalCluster, client: Client, namespace: str
) -> None:
    config = ClusterConfig.load(cluster.kubeconfig_for(f"nobody-{namespace}"))
    kind = Resource(f"{namespace}.example.com", "v1", "Lantern", "lanterns", namespaced=True)
    async for watching in _watching(config, kind):
        await eventually(watching.waits, describe="the watch waits")
        assert watching.asked()
