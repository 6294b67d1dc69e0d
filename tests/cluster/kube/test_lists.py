"""Lists come in pages and are one list all the same."""

from __future__ import annotations

import asyncio

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.http.transport import LARGEST_ANSWER_BYTES
from stellwerk.kube.types.errors import Gone
from stellwerk.kube.types.model import JsonObject, JsonValue, encode_json, metadata_of, unstructured
from stellwerk.testing.faults import AnswerInstead, FaultProxy, nth, requests

MANY = 1_200
WRITERS = 5_000


async def fill(client: Client, namespace: str, count: int) -> None:
    gate = asyncio.Semaphore(32)

    async def one(number: int) -> None:
        async with gate:
            name = f"many-{number:05}"
            labels: JsonObject = {"half": "even" if number % 2 == 0 else "odd"}
            metadata: JsonObject = {"name": name, "namespace": namespace, "labels": labels}
            await client.create(ConfigMap, {"metadata": metadata, "data": {"number": str(number)}})

    async with asyncio.TaskGroup() as tasks:
        for number in range(count):
            tasks.create_task(one(number))


@pytest.mark.req("R-209")
async def test_a_long_list_comes_in_pages_and_whole(client: Client, namespace: str) -> None:
    await fill(client, namespace, MANY)
    labels = "half in (even, odd)"
    sizes = [len(page.items) async for page in client.pages(ConfigMap, namespace, labels=labels, limit=500)]
    assert sizes == [500, 500, 200]
    listing = await client.list(ConfigMap, namespace, labels=labels, limit=500)
    assert [obj.data["number"] for obj in listing.items] == [str(number) for number in range(MANY)]
    assert int(listing.resource_version) > 0
    halves = await client.list(metadata_of(ConfigMap), namespace, labels="half=odd")
    assert len(halves.items) == MANY // 2


async def test_a_list_whose_moment_was_forgotten_is_read_again_in_one_answer(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    await fill(client, namespace, 30)
    with proxy.on_requests(requests("list", "configmaps"), AnswerInstead(410), nth(2)):
        listing = await behind.list(unstructured(ConfigMap.resource), namespace, labels="half", limit=10)
        assert len(listing.items) == 30
        assert proxy.history.count(requests("list", "configmaps").holds) == 3
    with proxy.on_requests(requests("list", "configmaps"), AnswerInstead(410)), pytest.raises(Gone):
        await behind.list(ConfigMap, namespace)


@pytest.mark.req("R-209")
async def test_a_very_large_object_is_read_listed_and_watched(client: Client, namespace: str) -> None:
    large = "x" * 1_000_000
    made = await client.create(
        ConfigMap,
        {
            "metadata": {"name": "large", "namespace": namespace, "annotations": {"note": "y" * 250_000}},
            "data": {"text": large},
        },
    )
    assert len((await client.get(ConfigMap, "large", namespace)).data["text"]) == len(large)
    listed = await client.list(unstructured(ConfigMap.resource), namespace, fields="metadata.name=large")
    version = str(int(made.metadata.resource_version) - 1)
    events = client.watch(ConfigMap, namespace, resource_version=version, fields="metadata.name=large")
    event = await anext(events)
    await events.aclose()
    assert isinstance(event.object, ConfigMap)
    assert event.object.data["text"] == large
    assert listed.items[0].at("data", "text") == large


@pytest.mark.req("R-209")
async def test_a_page_of_very_large_objects_is_read_in_smaller_pages(
    client: Client, behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    count, size = 45, 900_000
    for number in range(count):
        metadata: JsonObject = {"name": f"large-{number:02}", "namespace": namespace, "labels": {"large": "yes"}}
        await client.create(ConfigMap, {"metadata": metadata, "data": {"text": "x" * size}})
    assert count * size > LARGEST_ANSWER_BYTES
    listing = await behind.list(unstructured(ConfigMap.resource), namespace, labels="large=yes")
    assert [obj.metadata.name for obj in listing.items] == [f"large-{number:02}" for number in range(count)]
    assert all(len(str(obj.at("data", "text"))) == size for obj in listing.items)
    limits = [seen.request.query["limit"] for seen in proxy.history.all(requests("list", "configmaps").holds)]
    assert limits[:2] == ["500", "62"]
    assert len(limits) < 30


@pytest.mark.req("R-209")
async def test_an_object_with_thousands_of_writers_is_read_and_kept_without_them(
    client: Client, namespace: str
) -> None:
    written: list[JsonValue] = [
        {
            "manager": f"writer-{number}",
            "operation": "Apply",
            "apiVersion": "v1",
            "time": "2024-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:text": {}}},
        }
        for number in range(WRITERS)
    ]
    metadata: JsonObject = {"name": "popular", "namespace": namespace, "managedFields": written}
    await client.create(ConfigMap, {"metadata": metadata, "data": {"text": "x"}})
    listed = await client.list(unstructured(ConfigMap.resource), namespace, fields="metadata.name=popular")
    assert listed.items[0].at("data", "text") == "x"
    assert listed.items[0].at("metadata", "managedFields") is None
    assert len(encode_json(listed.items[0].body)) < 1_000
