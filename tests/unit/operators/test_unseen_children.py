"""A child that exists and that the cache does not show yet: its create was answered late, or to a former process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.unit.kube.scripted import Server, serving

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.delivery.children import Children, FormerChildEnding, child
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, Unstructured, dig, unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.kube.watch.watch_states import Synced
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.testing.clock import FakeClock

OWNER = Secret(metadata=ObjectMeta(namespace="shop", name="hall", uid="u1"))
WISH: JsonObject = {"data": {"text": "hello"}}
CONFLICT: JsonObject = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "uid mismatch"}


def existing(owner: Secret, **metadata: str) -> JsonObject:
    """The child of an owner, as the API server has it."""
    body = child(owner, ConfigMap.resource, WISH, keeper="keeper").body
    given = dig(body, "metadata")
    assert isinstance(given, dict)
    managers: JsonObject = {"manager": "keeper", "operation": "Apply"}
    return {
        **body,
        "metadata": {**given, **metadata, "uid": "u2", "resourceVersion": "7", "managedFields": [managers]},
    }


@asynccontextmanager
async def children_of(stored: JsonObject) -> AsyncIterator[tuple[Children, Server]]:
    """Children whose cache is full and empty, at a server that has one object and refuses to create it."""

    def answer(_: int, request: bytes) -> bytes:
        is_read = request.startswith(b"GET")
        body = msgspec.json.encode(stored if is_read else CONFLICT)
        head = f"HTTP/1.1 {'200 OK' if is_read else '409 Conflict'}\r\nContent-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    async with (
        serving(answer) as (server, _),
        Client.connect(ClusterConfig(server=f"http://127.0.0.1:{server.port}"), field_manager="keeper") as client,
    ):
        informer = Cluster(client, clock=FakeClock()).informer(unstructured(ConfigMap.resource))
        informer.take(Synced((), "5"))
        yield Children(client, informer, keeper="keeper", clock=FakeClock()), server


@pytest.mark.req("R-101")
@pytest.mark.req("R-106")
async def test_a_child_that_the_cache_does_not_show_yet_is_returned_and_waited_for() -> None:
    async with children_of(existing(OWNER)) as (children, server):
        kept = await children.keep(OWNER, WISH)
        assert (kept.metadata.uid, kept.metadata.resource_version) == ("u2", "7")
        assert children.informer.expected(kept.key) is not None
        assert [request.split()[0] for request in server.asked] == [b"PATCH", b"GET"]


@pytest.mark.req("R-106")
@pytest.mark.parametrize("is_cached", [False, True])
async def test_a_name_whose_former_object_is_being_deleted_is_waited_for(is_cached: bool) -> None:
    former = msgspec.structs.replace(OWNER, metadata=msgspec.structs.replace(OWNER.metadata, uid="u0"))
    ending = existing(former, deletionTimestamp="2030-01-01T00:00:00Z")
    async with children_of(ending) as (children, _):
        if is_cached:
            children.informer.take(Synced((Unstructured.of(ending),), "7"))
        with pytest.raises(FormerChildEnding, match=r"is being deleted\. Wait until it is gone"):
            await children.keep(OWNER, WISH)


@pytest.mark.req("R-106")
async def test_a_child_of_this_owner_that_is_being_deleted_is_returned() -> None:
    async with children_of(existing(OWNER, deletionTimestamp="2030-01-01T00:00:00Z")) as (children, _):
        assert (await children.keep(OWNER, WISH)).metadata.is_terminating
