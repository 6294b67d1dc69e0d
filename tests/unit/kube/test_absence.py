"""What a 404 and a gap in discovery prove: an object is gone only where an API server says so."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.unit.kube.scripted import serving

from stellwerk.api.flux import GitRepository
from stellwerk.kube.client.client import Client, Deletion
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import (
    ApiError,
    NotFound,
    NotServed,
    ServerFault,
    Undecodable,
    Undiscovered,
    Unexplained,
    UnreadableObject,
    causes,
)
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import View, metadata_of

LAMP = Resource("example.com", "v1", "Lamp", "lamps", namespaced=True)
LAMPS = metadata_of(LAMP)
LISTED = {"resource": "lamps", "scope": "Namespaced", "responseKind": {"kind": "Lamp"}}


def status(name: str = "one", **other: Any) -> dict[str, Any]:
    details = {"name": name, "kind": "lamps", "group": "example.com"} if name else {}
    return {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404, "details": details, **other}


def group(*resources: dict[str, Any], name: str = "example.com", **version: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "versions": [{"version": "v1", "resources": [*resources], **version}]}


def discovery(*groups: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "items": [*groups]}


@dataclass
class Api:
    """An API server that answers by path: text is not JSON, and so no API server's."""

    groups: Any = field(default_factory=lambda: discovery(group(LISTED)))
    core: Any = field(default_factory=discovery)
    otherwise: Any = "<html>no such page</html>"
    listed: Any = None

    def __call__(self, number: int, request: bytes) -> bytes:
        path = request.split(b" ", 2)[1].partition(b"?")[0].decode()
        known = {"/apis": self.groups, "/api": self.core, LAMP.path("hall"): self.listed}
        code, answer = (200, known[path]) if known.get(path) else (404, self.otherwise)
        body = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        return b"HTTP/1.1 %d No\r\nContent-Length: %d\r\n\r\n%s" % (code, len(body), body)


@asynccontextmanager
async def client_of(api: Api) -> AsyncIterator[Client]:
    async with (
        serving(api) as (server, _),
        Client.connect(ClusterConfig(server=f"http://127.0.0.1:{server.port}")) as client,
    ):
        yield client


async def find(client: Client) -> object:
    return await client.find(LAMPS, "one", "hall")


async def delete(client: Client) -> object:
    return await client.delete(LAMPS, "one", "hall", uid="u")


async def listed(client: Client) -> object:
    return await client.list(LAMPS, "hall")


async def watched(client: Client) -> object:
    async for event in client.watch(LAMPS, "hall", resource_version="1"):
        return event
    return None


Call = Callable[[Client], Awaitable[object]]
CALLS: list[Call] = [find, delete, listed, watched]
calls = pytest.mark.parametrize("call", CALLS)

UNEXPLAINED = {
    "a page of a proxy": "<html>no such page</html>",
    "nothing": "",
    "a JSON object of a load balancer": {"code": 404, "message": "no route"},
    "a Status without its kind": {**status(), "kind": ""},
    "a Status without a reason": {**status(), "reason": ""},
    "a Status of another reason": {**status(), "reason": "Gone"},
}


@pytest.mark.req("R-210")
@calls
@pytest.mark.parametrize("answer", UNEXPLAINED.values(), ids=UNEXPLAINED)
async def test_a_404_that_no_api_server_explains_proves_no_absence(call: Call, answer: Any) -> None:
    async with client_of(Api(otherwise=answer)) as client:
        with pytest.raises(Unexplained) as caught:
            await call(client)
    assert isinstance(caught.value, ServerFault)
    assert not isinstance(caught.value, NotFound | NotServed)


@calls
@pytest.mark.parametrize("answer", UNEXPLAINED.values(), ids=UNEXPLAINED)
async def test_a_kind_is_not_served_where_discovery_says_so_too(call: Call, answer: Any) -> None:
    async with client_of(Api(groups=discovery(), otherwise=answer)) as client:
        with pytest.raises(NotServed):
            await call(client)


@calls
@pytest.mark.parametrize(
    "groups",
    [None, "<html></html>", {"kind": "APIGroupList", "groups": []}, {"kind": "APIGroupDiscoveryList"}, {"items": []}],
    ids=["refused", "a page", "an older form", "no items", "no kind"],
)
async def test_nothing_follows_from_a_discovery_that_is_none(call: Call, groups: Any) -> None:
    async with client_of(Api(groups=groups)) as client:
        with pytest.raises(Unexplained):
            await call(client)
        with pytest.raises(ApiError) as caught:
            await client.mapper.resource(LAMP.gvk)
        assert isinstance(caught.value, Unexplained | Undecodable)


async def test_an_object_is_absent_where_the_api_server_names_it() -> None:
    async with client_of(Api(otherwise=status())) as client:
        assert await find(client) is None
        assert await delete(client) is Deletion.ABSENT


async def test_no_refusal_is_its_own_cause() -> None:
    async with client_of(Api(otherwise=status())) as client:
        with pytest.raises(NotFound) as written:
            await client.patch(LAMPS, "one", "hall", MergePatch({}))
        with pytest.raises(NotFound) as watched:
            async for _ in client.watch(LAMPS, "hall", resource_version="1"):
                pass
    assert written.value.__cause__ is None
    assert watched.value.__cause__ is None


def test_causes_that_lead_back_to_one_another_have_an_end() -> None:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__cause__ = other, one
    assert [*causes(one)] == [one, other]
    assert [*causes(None)] == []


async def test_an_api_service_may_name_the_namespace_too() -> None:
    async with client_of(Api(otherwise=status("hall/one"))) as client:
        assert await find(client) is None


async def test_an_api_service_may_name_nothing_as_long_as_the_kind_is_served() -> None:
    async with client_of(Api(otherwise=status(""))) as client:
        assert await find(client) is None
        with pytest.raises(Unexplained):
            await listed(client)
    async with client_of(Api(groups=discovery(), otherwise=status(""))) as client:
        with pytest.raises(NotServed):
            await find(client)


@pytest.mark.parametrize("call", [find, delete])
async def test_the_absence_of_another_object_is_not_that_of_this_one(call: Call) -> None:
    async with client_of(Api(otherwise=status("another"))) as client:
        with pytest.raises(Unexplained):
            await call(client)


async def test_a_webhook_that_refuses_a_deletion_with_404_proves_no_absence() -> None:
    said = status("", message='admission webhook "guard" denied the request: not found')
    async with client_of(Api(otherwise=said)) as client:
        with pytest.raises(Unexplained, match="denied the request"):
            await delete(client)


# ---- objects that cannot be decoded


@pytest.mark.req("R-510")
async def test_a_list_with_an_object_that_cannot_be_decoded_fails_unless_it_may_be_skipped() -> None:
    """A caller that does not look for unreadable objects would take them for absent."""
    typed = View(LAMP, GitRepository)
    items = [{"metadata": {"name": "good"}}, {"metadata": {"name": "bad"}, "status": {"conditions": "none"}}]
    async with client_of(Api(listed={"metadata": {"resourceVersion": "1"}, "items": items})) as client:
        with pytest.raises(UnreadableObject, match="Lamp bad cannot be read"):
            await client.list(typed, "hall")
        found = await client.list(typed, "hall", skip_unreadable=True)
    assert [obj.key.name for obj in found.items] == ["good"]
    assert [obj.key.name for obj in found.unreadable] == ["bad"]


# ---- discovery


async def test_an_api_service_that_does_not_answer_makes_its_kinds_unknown_and_not_unserved() -> None:
    async with client_of(Api(groups=discovery(group(freshness="Stale")))) as client:
        for look in (
            client.mapper.resource(LAMP.gvk),
            client.mapper.preferred("example.com", "Lamp"),
            client.mapper.serves(LAMP),
        ):
            with pytest.raises(Undiscovered, match=r"kubectl get apiservice v1\.example\.com"):
                await look
        assert client.mapper.undiscovered() == [("example.com", "v1")]
        with pytest.raises(NotServed):
            await client.mapper.resource(GroupVersionKind("other.com", "v1", "Lamp"))


async def test_what_a_stale_api_service_still_lists_is_served() -> None:
    async with client_of(Api(groups=discovery(group(LISTED, freshness="Stale")))) as client:
        assert await client.mapper.resource(LAMP.gvk) == LAMP
        assert client.mapper.undiscovered() == []


@pytest.mark.parametrize("forgets", [False, True])
async def test_what_was_known_of_an_api_service_is_kept_while_it_does_not_answer(forgets: bool) -> None:
    api = Api()
    async with client_of(api) as client:
        assert LAMP in await client.mapper.all()
        api.groups = discovery(group(freshness="Stale"))
        client.mapper.forget() if forgets else client.mapper.invalidate()
        assert LAMP in await client.mapper.all()
        api.groups = discovery(group(freshness="Current"))
        client.mapper.forget() if forgets else client.mapper.invalidate()
        assert LAMP not in await client.mapper.all()
        with pytest.raises(NotServed):
            await client.mapper.resource(LAMP.gvk)


async def test_a_version_that_is_current_is_not_in_doubt_because_of_another_one() -> None:
    old = {"version": "v1beta1", "resources": [], "freshness": "Stale"}
    both = {"metadata": {"name": "example.com"}, "versions": [{"version": "v1", "resources": []}, old]}
    async with client_of(Api(groups=discovery(both))) as client:
        with pytest.raises(NotServed):
            await client.mapper.resource(LAMP.gvk)
        with pytest.raises(Undiscovered):
            await client.mapper.preferred("example.com", "Lamp")
