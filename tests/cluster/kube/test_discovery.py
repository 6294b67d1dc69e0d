"""What an API server serves is found out from each form of its answers."""

from __future__ import annotations

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.discovery import ResourceMapper
from stellwerk.kube.types.identifiers import GroupVersionKind


async def test_a_server_that_only_names_its_groups_is_known_as_well_as_one_that_lists_all(client: Client) -> None:
    paths: list[str] = []

    async def as_before_1_26(method: str, path: str, *, accept: str) -> bytes:
        paths.append(path)
        return await client.raw(method, path, accept="application/json")

    mapper = ResourceMapper(as_before_1_26)
    found, expected = await mapper.described(), await client.mapper.described()

    assert found == expected
    assert mapper.undiscovered() == []
    assert (await mapper.preferred("autoscaling", "HorizontalPodAutoscaler")).version == "v2"
    count = len(paths)
    await mapper.resource(GroupVersionKind("apps", "v1", "Deployment"))
    await mapper.described()
    assert len(paths) == count, "it is not asked again at once"
