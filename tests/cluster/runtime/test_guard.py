"""Metrics that are exposed are read by those whom the cluster permits."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import aiohttp
import msgspec
import pytest
from tests.cluster import permissions

from stellwerk.api.coordination import Lease
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.host.ports import free_port
from stellwerk.runtime.process import process
from stellwerk.runtime.process.leader import Terms
from stellwerk.runtime.serving.health import metrics_route
from stellwerk.runtime.serving.http import ListenAddress, Server
from stellwerk.runtime.serving.metrics_auth import PEER_BURST, Guard
from stellwerk.runtime.settings.process_settings import ProcessSettings
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import Delay, FaultProxy, requests

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
        server = Server("metrics", ListenAddress("127.0.0.1", 0), [route])
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


@pytest.mark.req("R-701")
async def test_a_stranger_with_many_tokens_costs_the_api_server_a_few_reviews(guarded: Guarded, permitted: str) -> None:
    assert (await guarded.scrape(permitted))[0] == 200
    guarded.asked.clear()
    statuses = Counter(status for status, _, _ in await asyncio.gather(*(guarded.scrape(f"t-{n}") for n in range(300))))
    assert statuses[401] + statuses[429] == 300
    assert len(guarded.asked) <= PEER_BURST + 2
    assert (await guarded.scrape(permitted))[0] == 200, "a permission is not forgotten for strangers' tokens"


async def test_requests_with_one_token_are_one_question(guarded: Guarded, permitted: str) -> None:
    answers = await asyncio.gather(*(guarded.scrape(permitted) for _ in range(2)))
    assert [status for status, _, _ in answers] == [200, 200]
    assert len(guarded.asked) == 2


@pytest.mark.req("R-413")
async def test_a_token_that_is_no_text_is_a_401_without_a_question(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.server.port)
    writer.write(
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer \xff\xfe\xed\xa0\x80\r\nConnection: close\r\n\r\n"
    )
    assert (await reader.read()).startswith(b"HTTP/1.1 401")
    writer.close()
    assert guarded.asked == []
    assert "Traceback" not in caplog.text


@pytest.mark.req("R-301")
async def test_strangers_reviews_never_cost_the_lease_its_connection(cluster: LocalCluster, namespace: str) -> None:
    """The API server does not answer reviews of tokens, and hundreds of strangers ask for metrics."""
    port = free_port()
    async with FaultProxy(cluster.kubeconfig) as proxy:
        proxy.on_requests(requests("create", "tokenreviews.authentication.k8s.io"), Delay(300.0), required=True)
        settings = ProcessSettings(
            metrics_bind_address=f"127.0.0.1:{port}",
            metrics_secure=True,
            health_probe_bind_address="0",
            leader_elect=True,
            kubeconfig=str(proxy.kubeconfig),
        )
        identity = process.OperatorIdentity(component="besieged", lease="besieged", namespace=namespace)
        running = asyncio.create_task(process.run(settings, identity, lambda _: None))
        async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:

            async def renewals() -> datetime | None:
                lease = await client.find(Lease, "besieged", namespace)
                return lease.spec.renew_time if lease is not None and lease.spec.holder_identity else None

            first = await eventually(renewals)
            assert first is not None
            strangers = asyncio.create_task(besiege(port))

            async def is_renewed_for_long() -> bool:
                assert not running.done(), "the process has lost its lease"
                latest = await renewals()
                return latest is not None and (latest - first).total_seconds() > Terms().lease_duration_seconds

            await eventually(is_renewed_for_long, within=60)
        strangers.cancel()
        running.cancel()
        await asyncio.wait([strangers, running])


async def besiege(port: int) -> None:
    """Ask for metrics with one new token after the other, from many addresses, and wait for each answer."""

    async def stranger(number: int) -> None:
        connector = aiohttp.TCPConnector(ssl=False, local_addr=(f"127.0.0.{2 + number}", 0))
        async with aiohttp.ClientSession(connector=connector) as session:
            for turn in itertools.count():
                headers = {"Authorization": f"Bearer {number}-{turn}"}
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with session.get(f"https://127.0.0.1:{port}/metrics", headers=headers) as response:
                        await response.read()
                await asyncio.sleep(0.05)

    await asyncio.gather(*(stranger(number) for number in range(100)))
