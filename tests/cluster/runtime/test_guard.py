"""Metrics that are exposed are read by those whom the cluster permits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import aiohttp
import msgspec
import pytest
from tests.cluster import permissions

from stellwerk.kube.client import Client
from stellwerk.kube.config import ClusterConfig
from stellwerk.kube.model import JsonObject, unstructured
from stellwerk.kube.names import Resource
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.guard import Guard
from stellwerk.runtime.health import metrics_route
from stellwerk.runtime.http import Address, Server
from stellwerk.runtime.metrics import Metrics
from stellwerk.testing.clock import FakeClock

RBAC = "rbac.authorization.k8s.io"
ROLES = unstructured(Resource(RBAC, "v1", "ClusterRole", "clusterroles", namespaced=False))
BINDINGS = unstructured(Resource(RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False))

pytestmark = pytest.mark.req("R-707")


@dataclass
class Guarded:
    """A metrics server behind a guard, and the requests that the guard sent."""

    client: Client
    server: Server
    clock: FakeClock
    asked: list[int]

    async def scrape(self, token: str = "", path: str = "/metrics") -> tuple[int, str, Mapping[str, str]]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        url = f"http://127.0.0.1:{self.server.port}{path}"
        async with aiohttp.request("GET", url, headers=headers) as response:
            return response.status, await response.text(), response.headers

    async def token(self, namespace: str) -> str:
        """A fresh token of the namespace's default service account."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
        answer = await self.client.raw("POST", path, body=b'{"spec":{"expirationSeconds":600}}')
        return str(msgspec.json.decode(answer)["status"]["token"])


@pytest.fixture
async def guarded(cluster: LocalCluster) -> AsyncIterator[Guarded]:
    asked: list[int] = []
    config = ClusterConfig.load(cluster.kubeconfig)
    clock = FakeClock()
    async with (
        Client.connect(config) as client,
        Client.connect(config, on_request=lambda facts: asked.append(facts.code)) as asking,
    ):
        route = Guard(asking, clock=clock).protect(metrics_route(Metrics()))
        server = Server("metrics", Address("127.0.0.1", 0), [route])
        await server.start()
        yield Guarded(client, server, clock, asked)
        await server.stop()


@pytest.fixture
async def permitted(guarded: Guarded, namespace: str) -> AsyncIterator[str]:
    """A token that may read metrics."""
    name = f"metrics-{namespace}"
    account: JsonObject = {"kind": "ServiceAccount", "name": "default", "namespace": namespace}
    role: JsonObject = {"apiGroup": RBAC, "kind": "ClusterRole", "name": name}
    rules: JsonObject = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    await guarded.client.create(ROLES, {"metadata": {"name": name}, "rules": [rules]})
    await guarded.client.create(BINDINGS, {"metadata": {"name": name}, "subjects": [account], "roleRef": role})
    user = permissions.account("default", namespace)
    await permissions.count(guarded.client, user, permissions.at("/metrics"))
    yield await guarded.token(namespace)
    await guarded.client.delete(BINDINGS, name)
    await guarded.client.delete(ROLES, name)


async def test_nobody_reads_without_a_known_token(guarded: Guarded) -> None:
    for token in ("", "forged"):
        status, text, headers = await guarded.scrape(token)
        assert status == 401
        assert headers["WWW-Authenticate"] == "Bearer"
        assert "process_" not in text


async def test_a_known_caller_without_the_right_is_refused(guarded: Guarded, namespace: str) -> None:
    assert (await guarded.scrape(await guarded.token(namespace)))[0] == 403


async def test_a_permitted_caller_reads(guarded: Guarded, permitted: str) -> None:
    status, text, _ = await guarded.scrape(permitted)
    assert status == 200
    assert "process_resident_memory_bytes" in text


async def test_the_api_server_is_asked_once_a_minute(guarded: Guarded, permitted: str) -> None:
    for _ in range(5):
        assert (await guarded.scrape(permitted))[0] == 200
    assert len(guarded.asked) == 2, "whose token it is, and what that user may"
    await guarded.clock.advance(61)
    await guarded.scrape(permitted)
    assert len(guarded.asked) == 4
