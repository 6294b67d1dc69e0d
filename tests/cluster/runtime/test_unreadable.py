"""A lamp that nobody can decode darkens no other lamp, and a watch that cannot run is not called ready."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
from tests.cluster.runtime.conftest import Bell, Start
from tests.cluster.runtime.example_kind import CRD, GROUP, Electrician, Lamp, definition, lamp

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Undecodable
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, unstructured
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.process.manager import UNREADABLE, Manager
from stellwerk.testing.checks.loop_stalls import LONGEST_STALL_SECONDS, measured_stalls
from stellwerk.testing.eventually import eventually

FREE = unstructured(Lamp.resource)
LEVELS = 9_000
"""The API server accepts 10,000."""


async def create_raw(client: Client, namespace: str, name: str, spec: str) -> None:
    """A lamp whose spec is any text; no encoder of ours writes such JSON."""
    body = json.dumps({**lamp(name, namespace), "spec": "HERE"}).replace('"HERE"', spec)
    await client.raw("POST", Lamp.resource.path(namespace), body=body.encode())


def deep(levels: int = LEVELS) -> str:
    return '{"lit":true,"more":%s}' % ("[" * levels + "]" * levels)


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[None]:
    task = asyncio.create_task(manager.run())
    try:
        yield
    finally:
        manager.stop()
        await task


@pytest.mark.req("R-510")
async def test_a_lamp_of_the_wrong_type_is_left_out_and_all_others_are_lit(
    client: Client, namespace: str, start: Start
) -> None:
    await create_raw(client, namespace, "broken-before", '{"lit":"very"}')
    await client.create(Lamp, lamp("before", namespace))
    works = await start(Electrician())
    await works.rests(passes=1)
    await create_raw(client, namespace, "broken-later", '{"lit":[]}')
    await client.create(Lamp, lamp("later", namespace))
    await eventually(lambda: "later" in works.electrician.names(), within=30, describe="the later lamp is looked at")
    informer = works.controller.primary
    assert {key.name for key in informer.unreadable} == {"broken-before", "broken-later"}
    assert str(informer.unreadable[ObjectKey(namespace, "broken-later")]).endswith("spec.lit: expected bool, got array")
    assert works.manager.unready() is None
    exposed = works.manager.metrics.exposition().decode()
    assert f'stellwerk_unreadable_objects{{kind="lamps.engine.test (in {namespace})"}} 2.0' in exposed
    assert informer.parked is None


@pytest.mark.req("R-510", "R-410", "R-412")
async def test_a_lamp_that_is_nested_without_end_stops_no_watch_and_no_loop(
    client: Client, namespace: str, start: Start
) -> None:
    await create_raw(client, namespace, "deep-before", deep())
    works = await start(Electrician())
    free: Informer[Unstructured] = works.manager.informer(FREE, namespace=namespace)
    with measured_stalls() as stalls:
        await eventually(lambda: free.has_synced, within=30, describe="the list is read")
        await create_raw(client, namespace, "deep-later", deep())
        await client.create(Lamp, lamp("later", namespace))
        key = ObjectKey(namespace, "later")
        await eventually(lambda: key in free.store and key in works.controller.primary.store, within=30)
    assert stalls.longest_seconds < LONGEST_STALL_SECONDS
    assert {key.name for key in free.unreadable} == {"deep-before", "deep-later"}
    assert {key.name for key in works.controller.primary.unreadable} == {"deep-before", "deep-later"}
    await eventually(lambda: "later" in works.electrician.names(), within=30, describe="the later lamp is looked at")


@pytest.mark.req("R-510")
async def test_a_lamp_that_breaks_is_left_alone_until_it_is_mended(
    client: Client, namespace: str, start: Start
) -> None:
    await client.create(Lamp, lamp("hall", namespace))
    works = await start(Electrician())
    await works.rests(passes=1)
    informer, key = works.controller.primary, ObjectKey(namespace, "hall")
    await client.patch(FREE, "hall", namespace, MergePatch({"spec": {"lit": "very"}}))
    await eventually(lambda: key in informer.unreadable, within=30, describe="the lamp cannot be read")
    passes = len(works.electrician.seen)
    kept = informer.store.get(key)
    assert kept is not None
    assert kept.spec.lit is True
    await client.create(Lamp, lamp("other", namespace))
    await eventually(lambda: "other" in works.electrician.names(), within=30)
    assert len(works.electrician.of("hall")) == passes
    await client.patch(FREE, "hall", namespace, MergePatch({"spec": {"lit": False}}))
    await eventually(lambda: [obj.spec.lit for obj in works.electrician.of("hall")][-1] is False, within=30)
    assert key not in informer.unreadable


@pytest.mark.req("R-510")
async def test_a_broken_lamp_that_is_deleted_is_forgotten(client: Client, namespace: str, start: Start) -> None:
    await client.create(Lamp, lamp("hall", namespace))
    works = await start(Electrician())
    await works.rests(passes=1)
    informer, key = works.controller.primary, ObjectKey(namespace, "hall")
    await client.patch(FREE, "hall", namespace, MergePatch({"spec": {"lit": "very"}}))
    await eventually(lambda: key in informer.unreadable, within=30)
    await client.delete(Lamp, "hall", namespace)
    await eventually(lambda: works.electrician.forgotten == [key], within=30, describe="the lamp is forgotten")
    assert key not in informer.store
    assert not informer.unreadable


@pytest.mark.req("R-510")
async def test_the_leader_sends_an_event_about_what_it_cannot_read(client: Client, namespace: str) -> None:
    bell = Bell()
    manager = Manager(client, recorder=bell)
    informer = manager.informer(Lamp, namespace=namespace)
    await create_raw(client, namespace, "broken", '{"lit":"very"}')
    async with running(manager):
        await eventually(lambda: bool(bell.heard), within=30, describe="an Event is sent")
    [(name, notice)] = bell.heard
    assert (name, notice.reason) == ("broken", UNREADABLE)
    assert notice.message == "object cannot be read: spec.lit: expected bool, got str"
    assert informer.has_synced


async def test_a_caller_that_asks_for_all_objects_is_never_given_some(client: Client, namespace: str) -> None:
    """Absence decides about deletions: a list that leaves objects out must be asked for."""
    await create_raw(client, namespace, "broken", '{"lit":"very"}')
    await client.create(Lamp, lamp("whole", namespace))
    with pytest.raises(Undecodable, match=r"Lamp .*/broken cannot be read: spec\.lit"):
        await client.list(Lamp, namespace)
    listing = await client.list(Lamp, namespace, skip_unreadable=True)
    assert [obj.metadata.name for obj in listing.items] == ["whole"]
    assert [obj.key.name for obj in listing.unreadable] == ["broken"]


class Fuse(Kind, frozen=True, kw_only=True):
    """A kind whose definition is not installed."""

    resource: ClassVar[Resource] = Resource(GROUP, "v1", "Fuse", "fuses", namespaced=True)


@pytest.mark.req("R-510", "R-207")
async def test_a_required_kind_that_cannot_be_watched_turns_readiness_red_and_others_do_not(client: Client) -> None:
    manager = Manager(client)
    other = manager.informer(unstructured(Resource(GROUP, "v1", "Socket", "sockets", namespaced=True)))
    required = manager.informer(Fuse, required=True)
    async with running(manager):
        await other.wait_settled()
        await required.wait_settled()
        assert manager.unready() == (
            "fuses.engine.test cannot be watched: the API server serves no engine.test/v1 Fuse: "
            "is its CustomResourceDefinition installed?"
        )
        body: JsonObject = definition("fuses", "Fuse")
        await client.create(CRD, body)
        try:
            required.wake()
            await eventually(lambda: manager.unready() is None, within=60, describe="the process is ready")
        finally:
            await client.delete(CRD, f"fuses.{GROUP}")
