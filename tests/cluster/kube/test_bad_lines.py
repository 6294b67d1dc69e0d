"""What is sent again after a failure, what is not, and that a restarted server is found without a hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cluster.conftest import MakeCluster
from tests.cluster.kube.conftest import Read, config_map

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client, WatchEvent
from stellwerk.kube.client.patch import JsonPatch, MergePatch, add
from stellwerk.kube.http.transport import Transport
from stellwerk.kube.login.auth import Material
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import (
    Conflict,
    Gone,
    LoginFailed,
    ServerFault,
    ServerTimeout,
    Status,
    TooManyRequests,
    Undecodable,
    Unreachable,
    refusal,
)
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.kube.watch.watch import Watcher
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import API_SERVER
from stellwerk.testing.cluster import restore_data, save_data
from stellwerk.testing.faults import WRITES, AnswerInstead, CutConnection, FaultProxy, first, nth
from stellwerk.testing.servers.artifacts import ArtifactServer, Endless

RESTS: list[float] = []


@pytest.fixture
async def behind(proxy: FaultProxy) -> AsyncIterator[Client]:
    """A client behind the bad line that rests in no time and notes how long it was told to."""
    RESTS.clear()

    async def rest(seconds: float) -> None:
        RESTS.append(seconds)
        await asyncio.sleep(0)

    transport = Transport(ClusterConfig.load(proxy.kubeconfig), user_agent="wire-test", rest=rest)
    async with Client(transport, field_manager="wire-test") as client:
        yield client


@pytest.mark.req("R-203")
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
async def test_an_apply_survives_a_passing_failure(
    behind: Client, proxy: FaultProxy, namespace: str, status: int
) -> None:
    proxy.on_requests(WRITES, AnswerInstead(status), first(3))
    await config_map(behind, ConfigMap, namespace, "one")
    assert len(proxy.history.writes()) == 4


async def test_patience_ends(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    proxy.on_requests(WRITES, AnswerInstead(503))
    with pytest.raises(ServerFault):
        await config_map(behind, ConfigMap, namespace, "one")
    assert len(proxy.history.writes()) == 5


@pytest.mark.req("R-203")
async def test_a_wait_that_the_server_asks_for_is_obeyed(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    proxy.on_requests(WRITES, AnswerInstead(429, retry_after_seconds=3), nth(1))
    await config_map(behind, ConfigMap, namespace, "one")
    assert len(RESTS) == 1
    assert 3.0 <= RESTS[0] <= 3.6


@pytest.mark.req("R-203")
async def test_a_long_wait_is_left_to_the_caller(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    proxy.on_requests(WRITES, AnswerInstead(429, retry_after_seconds=120))
    with pytest.raises(TooManyRequests) as told:
        await config_map(behind, ConfigMap, namespace, "one")
    assert told.value.retry_after == 120
    assert RESTS == []


@pytest.mark.req("R-102")
async def test_a_create_whose_answer_was_lost_is_not_sent_again(
    behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.on_requests(WRITES, CutConnection(after_forwarding=True), nth(1))
    with pytest.raises(Unreachable) as lost:
        await behind.create(ConfigMap, {"metadata": {"name": "one", "namespace": namespace}})
    assert lost.value.outcome_unknown
    assert str(lost.value) == (
        f"cannot create ConfigMap {namespace}/one: {proxy.url} does not answer: the connection was cut"
    )
    assert len(proxy.history.writes()) == 1
    assert await behind.find(ConfigMap, "one", namespace) is not None


@pytest.mark.req("R-102")
async def test_a_create_that_timed_out_at_the_server_is_not_sent_again(
    behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.on_requests(WRITES, AnswerInstead(504, after_forwarding=True), nth(1))
    with pytest.raises(ServerTimeout):
        await behind.create(ConfigMap, {"metadata": {"name": "one", "namespace": namespace}})
    assert len(proxy.history.writes()) == 1


async def test_a_create_that_was_put_off_is_sent_again(behind: Client, proxy: FaultProxy, namespace: str) -> None:
    proxy.on_requests(WRITES, AnswerInstead(429), nth(1))
    await behind.create(ConfigMap, {"metadata": {"name": "one", "namespace": namespace}})
    assert len(proxy.history.writes()) == 2


@pytest.mark.req("R-102")
async def test_writes_that_do_no_harm_twice_are_sent_again_after_a_lost_answer(
    behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    proxy.on_requests(WRITES, CutConnection(after_forwarding=True), nth(1, 3, 5))
    made = await config_map(behind, ConfigMap, namespace, "one", a="1")
    merged = await behind.patch(ConfigMap, "one", namespace, MergePatch({"data": {"a": "2"}}))
    assert merged.data == {"a": "2"}
    await behind.delete(ConfigMap, "one", namespace, uid=made.metadata.uid)
    assert await behind.find(ConfigMap, "one", namespace) is None
    assert len(proxy.history.writes()) == 6


@pytest.mark.req("R-102")
async def test_writes_that_may_do_harm_twice_are_not_sent_again(
    behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    await config_map(behind, ConfigMap, namespace, "one")
    proxy.history.clear()
    proxy.on_requests(WRITES, CutConnection())
    await behind.list(ConfigMap, namespace)  # a kept connection, on which aiohttp would try again by itself
    plain: JsonObject = {"metadata": {"name": "one", "namespace": namespace}, "data": {"a": "1"}}
    for write in (
        behind.update(ConfigMap, plain),
        behind.delete(ConfigMap, "one", namespace),
        behind.patch(ConfigMap, "one", namespace, JsonPatch([add(("metadata", "finalizers", "-"), "a.example/b")])),
        behind.delete_collection(ConfigMap, namespace, labels="none=such"),
    ):
        proxy.history.clear()
        with pytest.raises(Unreachable):
            await write
        assert len(proxy.history.writes()) == 1


async def test_an_update_with_a_version_meets_itself_as_a_conflict(
    behind: Client, proxy: FaultProxy, namespace: str
) -> None:
    made = await config_map(behind, ConfigMap, namespace, "one")
    proxy.on_requests(WRITES, CutConnection(after_forwarding=True), nth(1))
    metadata = {"name": "one", "namespace": namespace, "resourceVersion": made.metadata.resource_version}
    with pytest.raises(Conflict):
        await behind.update(ConfigMap, {"metadata": dict(metadata), "data": {"a": "2"}})
    assert (await behind.get(ConfigMap, "one", namespace)).data == {"a": "2"}


async def test_nobody_listening_is_said_in_one_steady_sentence(cluster: LocalCluster) -> None:
    config = ClusterConfig(server="https://127.0.0.1:9", authority=ClusterConfig.load(cluster.kubeconfig).authority)
    transport = Transport(config, user_agent="wire-test", rest=lambda seconds: asyncio.sleep(0))
    async with Client(transport, field_manager="wire-test") as client:
        with pytest.raises(Unreachable) as refused:
            await client.list(ConfigMap, "default")
    told = "cannot list configmaps in default: https://127.0.0.1:9 does not answer: the connection was refused"
    assert str(refused.value) == told
    assert not refused.value.outcome_unknown


async def test_a_server_of_another_authority_is_not_spoken_to(
    cluster: LocalCluster, remote_cluster: LocalCluster
) -> None:
    ours, other = ClusterConfig.load(cluster.kubeconfig), ClusterConfig.load(remote_cluster.kubeconfig)
    async with Client.connect(replace(ours, authority=other.authority)) as client:
        with pytest.raises(LoginFailed, match="does not prove its identity") as refused:
            await client.list(ConfigMap, "default")
    assert "unable to get local issuer certificate" in str(refused.value)


@pytest.mark.req("R-205")
async def test_a_restarted_server_and_its_new_certificate_need_no_hand(make_cluster: MakeCluster, read: Read) -> None:
    cluster = make_cluster(controllers=False, pods=False)
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="wire-test") as client:
        reasons: list[str] = []
        reader = read(Watcher(client, ConfigMap, "default", labels="made-by=wire-test", on_restart=reasons.append))
        await config_map(client, ConfigMap, "default", "one")
        await reader.shows("one")
        await asyncio.to_thread(cluster.restart, API_SERVER)
        await config_map(client, ConfigMap, "default", "two")
        await reader.shows("one", "two")
        cluster.renew_serving_certificate()
        await asyncio.to_thread(cluster.restart, API_SERVER)
        await config_map(client, ConfigMap, "default", "three")
        await reader.shows("one", "two", "three")
        # A restarted server knows no history: a new list whenever it says so, for somebody wrote since our last event,
        # and no more.
        assert 1 <= reader.lists <= 1 + reasons.count("gone")
        with pytest.raises(Gone):
            await anext(aiter(_told(client.watch(ConfigMap, "default", resource_version="1"))))


@pytest.mark.req("R-205")
async def test_a_renewed_client_certificate_is_used_and_half_a_renewal_is_not(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    old = ClusterConfig.load(cluster.kubeconfig_for("wire-old"))
    new = ClusterConfig.load(cluster.kubeconfig_for("wire-new"))
    certificate.write_bytes(old.client_certificate.read())
    key.write_bytes(old.client_key.read())
    config = replace(old, client_certificate=Material(file=certificate), client_key=Material(file=key))
    async with Client(
        Transport(config, user_agent="wire-test", renewal_seconds=0), field_manager="wire-test"
    ) as client:
        assert await who_am_i(client) == "wire-old"
        certificate.write_bytes(new.client_certificate.read())
        assert await who_am_i(client) == "wire-old"
        key.write_bytes(new.client_key.read())
        assert await who_am_i(client) == "wire-new"


async def who_am_i(client: Client) -> str:
    reviews = unstructured(Resource("authentication.k8s.io", "v1", "SelfSubjectReview", "selfsubjectreviews", False))
    answer = await client.create(reviews, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    return str(answer.at("status", "userInfo", "username"))


@pytest.mark.req("R-204")
async def test_a_cluster_restored_from_a_backup_is_listed_anew(make_cluster: MakeCluster, read: Read) -> None:
    cluster = make_cluster(controllers=False, pods=False)
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="wire-test") as client:
        await config_map(client, ConfigMap, "default", "kept")
        await asyncio.to_thread(save_data, cluster, "backup")
        reader = read(Watcher(client, ConfigMap, "default", labels="made-by=wire-test"))
        await reader.shows("kept")
        # More than a server writes by itself at its start: what is newest then must be older than what we have seen.
        lost = [f"lost-{number}" for number in range(40)]
        for name in lost:
            await config_map(client, ConfigMap, "default", name)
        await reader.shows("kept", *lost)
        await asyncio.to_thread(restore_data, cluster, "backup")
        await reader.shows("kept")
        await config_map(client, ConfigMap, "default", "after")
        await reader.shows("kept", "after")


async def _told(events: AsyncIterator[WatchEvent]) -> AsyncIterator[WatchEvent]:
    """The events; an ERROR as the error that it is."""
    async for event in events:
        if isinstance(event.object, Status):
            raise refusal(event.object)
        yield event


@pytest.mark.req("R-210")
async def test_an_answer_without_end_is_read_no_further_than_it_may_go() -> None:
    async with ArtifactServer(tls=True) as server:
        server.publish("version", b"", behaviour=Endless())
        config = ClusterConfig(server=server.url, authority=Material(server.authority.encode()))
        async with Client.connect(config, largest_answer_bytes=1 << 20) as client:
            with pytest.raises(Undecodable, match="larger than 1 MiB"):
                await client.document("/version")
