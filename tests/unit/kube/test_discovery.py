"""Discovery from servers that name their groups only, and from those that answer anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stellwerk.kube.client.discovery import ResourceMapper
from stellwerk.kube.types.errors import NotServed, Undecodable, Undiscovered, Unreachable
from stellwerk.kube.types.identifiers import GroupVersionKind

CORE = {"kind": "APIVersions", "versions": ["v1"]}
PODS = {"kind": "APIResourceList", "resources": [{"name": "pods", "kind": "Pod", "namespaced": True}]}
LAMP = GroupVersionKind("example.com", "v1", "Lamp")


def group(name: str, *versions: str, preferred: str = "") -> dict[str, Any]:
    listed = [{"groupVersion": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": {"groupVersion": preferred or versions[0]}}


def lamps(*more: dict[str, Any]) -> dict[str, Any]:
    lamp = {"name": "lamps", "kind": "Lamp", "namespaced": True, "singularName": "lamp", "verbs": ["get"]}
    return {"kind": "APIResourceList", "resources": [lamp, {"name": "lamps/status", "kind": "Lamp"}, *more]}


class Server:
    """Answers by path, and keeps the paths that were asked for."""

    def __init__(self, *groups: dict[str, Any], **answers: Any) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Any] = {
            "/api": CORE,
            "/api/v1": PODS,
            "/apis": {"kind": "APIGroupList", "groups": [*groups]},
            **answers,
        }
        self.mapper = ResourceMapper(self)

    async def __call__(self, method: str, path: str, *, accept: str) -> bytes:
        self.asked.append(path)
        answer = self.answers.get(path)
        if answer is None:
            raise Unreachable(f"no answer to {path}")
        return json.dumps(answer).encode()


async def test_each_version_is_asked_for_and_subresources_are_no_kinds() -> None:
    answers = {"/apis/example.com/v1": lamps(), "/apis/example.com/v2": lamps()}
    server = Server(group("example.com", "example.com/v1", "example.com/v2", preferred="example.com/v2"), **answers)

    assert (await server.mapper.resource(LAMP)).plural == "lamps"
    assert (await server.mapper.preferred("example.com", "Lamp")).version == "v2"
    assert [each.plural for each in await server.mapper.all()] == ["pods", "lamps", "lamps"]


async def test_two_clusters_that_serve_a_kind_have_its_names_in_memory_once() -> None:
    found = [
        (await Server(group("example.com", "example.com/v1"), **{"/apis/example.com/v1": lamps()}).mapper.described())
        for _ in range(2)
    ]
    (one, its), (other, others) = (
        next((resource, details) for resource, details in served.items() if resource.plural == "lamps")
        for served in found
    )
    assert one.group is other.group
    assert (one.version, one.kind, one.plural) == (other.version, other.kind, other.plural)
    assert all(left is right for left, right in zip(its.verbs, others.verbs, strict=True))
    assert its.singular is others.singular


async def test_of_a_version_that_does_not_answer_nothing_is_concluded() -> None:
    server = Server(group("example.com", "example.com/v1"))

    with pytest.raises(Undiscovered, match=r"v1\.example\.com"):
        await server.mapper.resource(LAMP)
    with pytest.raises(NotServed):
        await server.mapper.resource(GroupVersionKind("other.com", "v1", "Lamp"))


@pytest.mark.parametrize("answer", [{}, {"kind": "APIGroupList"}, {"kind": "Status", "status": "Success"}, []])
async def test_a_version_that_answers_something_else_is_not_known_to_have_no_kinds(answer: Any) -> None:
    server = Server(group("example.com", "example.com/v1"), **{"/apis/example.com/v1": answer})
    with pytest.raises((Undiscovered, Unreachable)):
        await server.mapper.resource(LAMP)


@pytest.mark.req("R-408")
@pytest.mark.parametrize("name", ["example.com/v1/lamps", "example.com/..", "other.com/v1", "/v1", "example.com/"])
async def test_no_path_is_made_of_a_name_that_is_none(name: str) -> None:
    server = Server(group("example.com", name), group("b.com", "b.com/v1"), **{"/apis/b.com/v1": lamps()})
    await server.mapper.all()
    assert sorted(server.asked) == ["/api", "/api/v1", "/apis", "/apis/b.com/v1"]


@pytest.mark.req("R-411")
async def test_a_server_that_names_endless_groups_is_asked_for_none() -> None:
    server = Server(*(group(f"g{number}.com", f"g{number}.com/v1") for number in range(2_001)))
    with pytest.raises(Undecodable):
        await server.mapper.all()
    assert len(server.asked) <= 3
