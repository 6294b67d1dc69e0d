"""The proxy before a real API server: its protocol passes whole, and its faults are what a client would see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.cluster.testing.conftest import Api, metadata_of

from stellwerk.kube.types.model import JsonObject
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import (
    READS,
    WATCHES,
    AnswerInstead,
    CutFrame,
    FaultProxy,
    Hide,
    Hold,
    OlderView,
    Repeat,
    events,
    nth,
    numbered,
    of_watch,
    requests,
)


def config_map(name: str, **data: str) -> JsonObject:
    return {"metadata": {"name": name, "labels": {"test": "yes"}}, "data": dict(data)}


@asynccontextmanager
async def watching(api: Api, path: str, version: str) -> AsyncIterator[aiohttp.StreamReader]:
    # By label, because controllers put a ConfigMap of their own into every new namespace.
    url = f"{path}?watch=1&resourceVersion={version}&allowWatchBookmarks=true&labelSelector=test"
    async with asyncio.timeout(30), api.session.get(url) as response:
        assert response.status == 200
        yield response.content


async def version_of(api: Api, maps: str) -> str:
    _, listing = await api.ask("GET", f"{maps}?limit=1")
    return str(metadata_of(listing)["resourceVersion"])


async def next_event(stream: aiohttp.StreamReader) -> tuple[str, str]:
    event = json.loads(await stream.readline())
    return event["type"], event["object"]["metadata"]["name"]


async def test_the_bearer_of_the_kubeconfig_is_the_cluster_s_administrator(proxy: FaultProxy, api: Api) -> None:
    review: JsonObject = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    status, answer = await api.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", review)
    assert status == 201
    assert answer["status"] == {"userInfo": {**_user(answer), "username": "stellwerk:admin"}}
    assert proxy.history.writes() == []


def _user(answer: JsonObject) -> JsonObject:
    status = answer["status"]
    assert isinstance(status, dict)
    user = status["userInfo"]
    assert isinstance(user, dict)
    return user


async def test_another_token_is_not_taken_for_the_administrator(api: Api, maps: str) -> None:
    status, _ = await api.ask("GET", maps, Authorization="Bearer of-nobody")
    assert status == 401


async def test_history_and_audit_log_agree(
    cluster: LocalCluster, proxy: FaultProxy, api: Api, audit: AuditLog, namespace: str, maps: str
) -> None:
    await api.ask("POST", maps, config_map("one"))
    await api.ask("GET", f"{maps}/one")
    await api.ask("PUT", f"{maps}/one", config_map("one", a="b"))
    await api.ask("PATCH", f"{maps}/one", {"data": {"a": "c"}})
    apply = {"apiVersion": "v1", "kind": "ConfigMap", **config_map("one")}
    await api.ask(
        "PATCH", f"{maps}/one?fieldManager=me&force=1", apply, **{"Content-Type": "application/apply-patch+yaml"}
    )
    await api.ask("GET", maps)
    await api.ask("DELETE", f"{maps}/one")
    await api.ask("DELETE", f"{maps}?labelSelector=a%3Db")
    ours = [(one.request.verb, one.request.resource, one.request.name, one.status) for one in proxy.history.all()]
    theirs = [
        (entry.verb, entry.resource, entry.name, entry.status)
        for entry in audit.entries(lambda entry: entry.namespace == namespace and entry.resource == "configmaps")
    ]
    assert [("patch", *rest) if verb == "apply" else (verb, *rest) for verb, *rest in ours] == theirs
    assert [verb for verb, *_ in ours] == [
        "create",
        "get",
        "update",
        "patch",
        "apply",
        "list",
        "delete",
        "deletecollection",
    ]


async def test_a_create_whose_reply_is_lost_has_happened(proxy: FaultProxy, api: Api, maps: str) -> None:
    proxy.on_requests(requests("create", "configmaps"), AnswerInstead(504, after_forwarding=True), nth(1))
    assert (await api.ask("POST", maps, config_map("one")))[0] == 504
    assert (await api.ask("POST", maps, config_map("one")))[0] == 409
    assert [(one.status, one.server_status) for one in proxy.history.writes()] == [(504, 201), (409, 409)]


async def test_a_watch_cut_in_a_frame_resumes_where_it_was(proxy: FaultProxy, api: Api, maps: str) -> None:
    version = await version_of(api, maps)
    proxy.on_events(events("ADDED", "configmaps", name="two"), CutFrame(), nth(1))
    await api.ask("POST", maps, config_map("one"))
    async with watching(api, maps, version) as stream:
        assert await next_event(stream) == ("ADDED", "one")
        await api.ask("POST", maps, config_map("two"))
        with pytest.raises(aiohttp.ClientPayloadError):
            await stream.readline()
    async with watching(api, maps, version) as stream:
        assert [await next_event(stream) for _ in range(2)] == [("ADDED", "one"), ("ADDED", "two")]


async def test_events_are_hidden_repeated_and_held(proxy: FaultProxy, api: Api, maps: str) -> None:
    hold = Hold()
    proxy.on_events(events(name="hidden"), Hide())
    proxy.on_events(events(name="twice"), Repeat())
    proxy.on_events(events(name="late"), hold)
    async with watching(api, maps, await version_of(api, maps)) as stream:
        for name in ("hidden", "twice", "late", "behind"):
            await api.ask("POST", maps, config_map(name))
        assert [await next_event(stream) for _ in range(2)] == [("ADDED", "twice")] * 2
        await hold.caught()
        watch = proxy.history.all(WATCHES)[0]
        await eventually(lambda: any("/behind at" in one for one in watch.arrived), on=proxy.history.changed)
        waiting = asyncio.create_task(next_event(stream))
        # Another request passes meanwhile, and the held event does not.
        await api.ask("GET", f"{maps}/late")
        assert not waiting.done()
        hold.release()
        assert await waiting == ("ADDED", "late")
        assert await next_event(stream) == ("ADDED", "behind")


async def test_held_events_are_merged_to_what_a_late_reader_needs(proxy: FaultProxy, api: Api, maps: str) -> None:
    hold = Hold(merge=True)
    version = await version_of(api, maps)
    async with watching(api, maps, version) as stream:
        watch = proxy.history.all(WATCHES)[0]
        proxy.on_events(events(name="one") & of_watch(numbered(watch.request.number)), hold)
        await api.ask("POST", maps, config_map("one"))
        await hold.caught()
        for value in "abc":
            await api.ask("PATCH", f"{maps}/one", {"data": {"value": value}})
        await api.ask("POST", maps, config_map("two"))
        await api.ask("DELETE", f"{maps}/two")
        await api.ask("POST", maps, config_map("end"))
        await eventually(lambda: any("/end at" in one for one in watch.arrived), on=proxy.history.changed)
        hold.release()
        first = json.loads(await stream.readline())
        assert (first["type"], first["object"]["data"]) == ("ADDED", {"value": "c"})
        assert await next_event(stream) == ("ADDED", "end")


async def test_an_older_view_shows_nothing_newer_until_it_heals(proxy: FaultProxy, api: Api, maps: str) -> None:
    await api.ask("POST", maps, config_map("changed", value="old"))
    await api.ask("POST", maps, config_map("deleted"))
    version = await version_of(api, maps)
    await api.ask("PATCH", f"{maps}/changed", {"data": {"value": "new"}})
    await api.ask("DELETE", f"{maps}/deleted")
    await api.ask("POST", maps, config_map("created"))
    view = OlderView(version)
    proxy.on_requests(READS | WATCHES, view)

    _, old = await api.ask("GET", f"{maps}/changed")
    assert (old["kind"], old["apiVersion"], old["data"]) == ("ConfigMap", "v1", {"value": "old"})
    assert (await api.ask("GET", f"{maps}/deleted"))[0] == 200
    assert (await api.ask("GET", f"{maps}/created"))[0] == 404
    _, listing = await api.ask("GET", f"{maps}?resourceVersion=0")
    assert {"changed", "deleted"} <= _names(listing)
    assert "created" not in _names(listing)
    assert metadata_of(listing)["resourceVersion"] == version
    assert (await api.ask("GET", f"{maps}?resourceVersion={int(version) + 1}"))[0] == 504
    async with watching(api, maps, version) as stream:
        waiting = asyncio.create_task(next_event(stream))
        assert (await api.ask("GET", f"{maps}/created"))[0] == 404
        assert not waiting.done()
        view.heal()
        assert await waiting == ("MODIFIED", "changed")
        assert await next_event(stream) == ("DELETED", "deleted")
    assert (await api.ask("GET", f"{maps}/created"))[0] == 200


async def test_an_older_view_also_answers_for_metadata_alone(proxy: FaultProxy, api: Api, maps: str) -> None:
    await api.ask("POST", maps, config_map("one", value="old"))
    proxy.on_requests(READS, OlderView(await version_of(api, maps)))
    accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    _, seen = await api.ask("GET", f"{maps}/one", Accept=accept)
    assert (seen["kind"], metadata_of(seen)["name"], "data" in seen) == ("PartialObjectMetadata", "one", False)


def _names(listing: JsonObject) -> set[str]:
    items = listing["items"]
    assert isinstance(items, list)
    return {str(metadata_of(item)["name"]) for item in items if isinstance(item, dict)}
