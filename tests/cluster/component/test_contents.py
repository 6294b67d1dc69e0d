"""Secrets and ConfigMaps are read once per version, without being watched in full."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api_spec import ReferenceKind
from stellwerk.operators.component.references.referenced_data import ReferenceReader
from stellwerk.operators.component.references.references import ReferencedContent, ReferencedObject, UnreadReference
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.informer import Informer
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually


@dataclass
class Desk:
    """A reader under a name of its own, and what it was told to hide."""

    client: Client
    namespace: str
    user: str
    home: Cluster
    reader: ReferenceReader
    hidden: list[str] = field(default_factory=list)

    def target(self, name: str, kind: ReferenceKind = ReferenceKind.Secret) -> ReferencedObject:
        return ReferencedObject(kind, ObjectKey(self.namespace, name))

    async def create(self, kind: str, name: str, data: dict[str, str]) -> None:
        body: JsonObject = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace},
            ("stringData" if kind == "Secret" else "data"): {**data},
        }
        await self.client.create(Secret if kind == "Secret" else ConfigMap, body)

    async def content(self, target: ReferencedObject) -> dict[str, bytes] | str:
        found = (await self.reader.read([target]))[target]
        return dict(found.data) if isinstance(found, ReferencedContent) else found.why


def caches(home: Cluster, kind: ReferenceKind) -> Informer[PartialObjectMetadata]:
    return home.informer(metadata_of(Secret if kind is ReferenceKind.Secret else ConfigMap))


async def desk_for(config: ClusterConfig, namespace: str, user: str, stack: contextlib.AsyncExitStack) -> Desk:
    client = await stack.enter_async_context(Client.connect(config, field_manager="reader-test"))
    home = Cluster(client)
    hidden: list[str] = []
    reader = ReferenceReader(client, lambda kind: caches(home, kind), hide=lambda *values, **_: hidden.extend(values))
    running = asyncio.create_task(home.run())

    async def end() -> None:
        running.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await running

    stack.push_async_callback(end)
    return Desk(client, namespace, user, home, reader, hidden)


@pytest.fixture
async def desk(cluster: LocalCluster, namespace: str) -> AsyncIterator[Desk]:
    user = f"reader of {namespace}"
    async with contextlib.AsyncExitStack() as stack:
        config = ClusterConfig.load(cluster.kubeconfig_for(user, ["system:masters"]))
        yield await desk_for(config, namespace, user, stack)


async def test_a_secret_and_a_config_map_are_read(desk: Desk) -> None:
    await desk.create("Secret", "values", {"values.yaml": "a: 1"})
    await desk.create("ConfigMap", "settings", {"REGION": "eu"})
    target = desk.target("settings", ReferenceKind.ConfigMap)

    await eventually(lambda: _is(desk, desk.target("values"), {"values.yaml": b"a: 1"}))
    await eventually(lambda: _is(desk, target, {"REGION": b"eu"}))


async def test_what_is_absent_may_still_come(desk: Desk) -> None:
    target = desk.target("absent")

    assert (await desk.reader.read([target]))[target] == UnreadReference("not found", may_come=True)
    await desk.create("Secret", "absent", {"a": "1"})
    await eventually(lambda: _is(desk, target, {"a": b"1"}))


@pytest.mark.req("R-108")
async def test_an_unchanged_secret_is_read_once_and_a_changed_one_again(desk: Desk, cluster: LocalCluster) -> None:
    await desk.create("Secret", "values", {"a": "1"})
    target = desk.target("values")
    await eventually(lambda: _is(desk, target, {"a": b"1"}))
    audit = AuditLog(cluster)

    for _ in range(5):
        assert await desk.content(target) == {"a": b"1"}
    assert audit.count(verb="get", user=desk.user) == 0

    await desk.client.patch(Secret, "values", desk.namespace, MergePatch({"stringData": {"a": "2"}}))
    await eventually(lambda: _is(desk, target, {"a": b"2"}))


@pytest.mark.req("R-801")
async def test_words_of_a_secret_are_hidden_from_logs_and_those_of_a_config_map_are_not(desk: Desk) -> None:
    await desk.create(
        "Secret", "values", {"values": "db:\n  password: swordfish-1\n  port: 5432\n", "token": "abcdefgh"}
    )
    await desk.create("ConfigMap", "settings", {"REGION": "eu-central-10"})

    await eventually(lambda: _is(desk, desk.target("settings", ReferenceKind.ConfigMap), {"REGION": b"eu-central-10"}))
    await eventually(lambda: _has(desk, desk.target("values")))

    assert {"abcdefgh", "swordfish-1"} <= {*desk.hidden}
    assert not {"password", "eu-central-10"} & {*desk.hidden}


@pytest.mark.req("R-206")
async def test_without_the_right_to_watch_each_read_asks_and_a_refusal_is_told(
    cluster: LocalCluster, namespace: str
) -> None:
    async with contextlib.AsyncExitStack() as stack:
        config = ClusterConfig.load(cluster.kubeconfig_for(f"nobody of {namespace}", []))
        desk = await desk_for(config, namespace, "nobody", stack)
        target = desk.target("values")

        found = (await desk.reader.read([target]))[target]

        assert isinstance(found, UnreadReference)
        assert not found.may_come
        assert 'cannot get resource "secrets"' in found.why


async def _is(desk: Desk, target: ReferencedObject, expected: dict[str, bytes]) -> bool:
    return await desk.content(target) == expected


async def _has(desk: Desk, target: ReferencedObject) -> bool:
    return isinstance(await desk.content(target), dict)
