"""A definition whose versions change under a watch: what can be read is read, and the rest is waited for."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.cluster.kube.conftest import Read, config_map

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import NotServed, ServerFault
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import FaultProxy, requests

NOBODY: JsonObject = {
    "strategy": "Webhook",
    "webhook": {"clientConfig": {"url": "https://127.0.0.1:9/convert"}, "conversionReviewVersions": ["v1"]},
}
"""A conversion webhook that does not answer."""


class Coats:
    """A kind of two versions, of which one is stored."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.first = Resource(f"{namespace}.example.com", "v1", "Coat", "coats", namespaced=True)
        self.second = Resource(self.first.group, "v2", "Coat", "coats", namespaced=True)

    async def define(self, *, stored: str, conversion: JsonObject | None = None) -> None:
        """Have the server store one of the versions, and serve both."""
        versions: list[JsonObject] = [
            {
                "name": version,
                "served": True,
                "storage": version == stored,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
            for version in ("v1", "v2")
        ]
        spec: JsonObject = {
            "group": self.first.group,
            "scope": "Namespaced",
            "names": {"plural": "coats", "kind": "Coat"},
            "versions": list(versions),
            "conversion": conversion or {"strategy": "None"},
        }
        await self._client.apply(
            CustomResourceDefinition, {"metadata": {"name": self.first.group_resource}, "spec": spec}
        )

    async def make(self, resource: Resource, name: str) -> None:
        """Create one, as soon as the server does."""

        async def made() -> bool:
            metadata: JsonObject = {"name": name, "namespace": self._namespace}
            body: JsonObject = {"apiVersion": resource.api_version, "kind": "Coat", "metadata": metadata}
            try:
                await self._client.create(unstructured(resource), body)
            except (NotServed, ServerFault):
                return False
            return True

        await eventually(made)

    async def is_unreadable(self, resource: Resource) -> bool:
        """Whether the server has taken over a conversion that fails."""
        try:
            await self._client.list(unstructured(resource), self._namespace)
        except ServerFault:
            return True
        return False

    async def forget(self) -> None:
        """Take the kind away with all there is of it."""
        await self.define(stored="v1")
        await self._client.delete(CustomResourceDefinition, self.first.group_resource)


@pytest.fixture
async def coats(client: Client, namespace: str) -> AsyncIterator[Coats]:
    made = Coats(client, namespace)
    await made.define(stored="v1")
    yield made
    await made.forget()


@pytest.mark.req("R-207")
async def test_a_watch_outlives_another_stored_version(
    client: Client, namespace: str, read: Read, coats: Coats
) -> None:
    await coats.make(coats.first, "one")
    reader = read(Watcher(client, unstructured(coats.first), namespace))
    await reader.shows("one")
    await coats.define(stored="v2")
    await coats.make(coats.second, "two")
    await reader.shows("one", "two")
    assert {obj.gvk.version for obj in reader.present.values()} == {"v1"}


@pytest.mark.req("R-207")
async def test_what_cannot_be_converted_is_asked_for_again_until_it_can_and_others_are_not_held_up(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str, read: Read, coats: Coats
) -> None:
    await coats.make(coats.first, "one")
    await coats.define(stored="v1", conversion=NOBODY)
    await eventually(lambda: coats.is_unreadable(coats.second))
    reader = read(Watcher(behind, unstructured(coats.second), namespace))
    neighbour = read(Watcher(behind, ConfigMap, namespace, labels="made-by=wire-test"))
    lists = requests("list", coats.second.group_resource).holds
    await eventually(lambda: proxy.history.count(lists) >= 2, on=proxy.history.changed)
    await config_map(client, ConfigMap, namespace, "neighbour")
    await neighbour.shows("neighbour")
    assert reader.lists == 0
    await coats.define(stored="v1")
    await reader.shows("one")
