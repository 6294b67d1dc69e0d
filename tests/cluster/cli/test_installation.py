"""What `stellwerk up` installs is there for whoever comes next."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.cli.local.operators import installed
from stellwerk.cli.shell.errors import Failure
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="test") as client:
        yield client


def definition(group: str, plural: str) -> JsonObject:
    schema: JsonObject = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "names": {"kind": "Valve", "plural": plural},
            "scope": "Cluster",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


async def test_a_kind_that_is_installed_can_be_used_at_once(client: Client, cluster: LocalCluster) -> None:
    group = f"g{secrets.token_hex(4)}.test"
    assert await installed(client, [definition(group, "valves")]) == [f"valves.{group}"]
    try:
        async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="another") as other:
            valve = GroupVersionKind(group, "v1", "Valve")
            one: JsonObject = {"apiVersion": f"{group}/v1", "kind": "Valve", "metadata": {"name": "one"}}
            await other.apply(unstructured(await other.mapper.resource(valve)), one)
    finally:
        await client.delete(CustomResourceDefinition, f"valves.{group}")


async def test_a_kind_that_the_server_never_serves_is_told(client: Client) -> None:
    group = f"g{secrets.token_hex(4)}.test"
    await installed(client, [definition(group, "valves")])
    try:
        with pytest.raises(Failure, match="does not serve the new kinds after 1 s"):
            await installed(client, [definition(group, "taps")], within=1)  # two of one kind: the second is refused
    finally:
        await client.delete(CustomResourceDefinition, f"taps.{group}")
        await client.delete(CustomResourceDefinition, f"valves.{group}")
