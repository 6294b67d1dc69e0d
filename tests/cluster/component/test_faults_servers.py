"""etcd and the API server go down, come back, forget, or wake up in the past: Components need no hand and lose nothing.

The control plane is one of their own, because they break it. The operator speaks to it as to any other.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import API_SERVER, ETCD, ETCD_SOCKET, Options
from stellwerk.operators.component.api import Component
from stellwerk.testing import cluster as clusters
from stellwerk.testing.cluster import AuditLog, restore_data, save_data
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import ANYTHING, CutConnection, FaultProxy
from stellwerk.testing.servers.artifacts import ArtifactServer
from tests.cluster import outages
from tests.cluster.component import world
from tests.cluster.component.conftest import OPERATOR
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.shown import StatusHistory
from tests.cluster.component.then import Then
from tests.cluster.outages import BACK_WITHIN_SECONDS
from tests.cluster.own_cluster import own_cluster

FIRST = {"kept.yaml": config_map("kept", a="1"), "dropped.yaml": config_map("dropped")}
SECOND = {"kept.yaml": config_map("kept", a="2"), "new.yaml": config_map("new")}
FORGETFUL = {API_SERVER: ["--etcd-compaction-interval=1s"]}
"""It has etcd forget what is older than a second or two; by default five minutes."""
SMALL = {ETCD: ["--quota-backend-bytes=33554432"]}
"""It has room for our kinds and little else."""


def _options(flags: Mapping[str, Sequence[str]]) -> Options:
    return Options(controllers=False, pods=False, durable=False, extra_flags=flags)


@pytest.fixture(scope="module")
def frail() -> Iterator[LocalCluster]:
    """A control plane that may be broken, with what an administrator installs."""
    with own_cluster("frail", world.prepare, _options(FORGETFUL)) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def small() -> Iterator[LocalCluster]:
    """A control plane whose database is soon full."""
    with own_cluster("small", world.prepare, _options(SMALL)) as cluster:
        yield cluster


@dataclass(frozen=True, slots=True)
class Scene:
    """A Component that is Ready on the frail cluster, and who looks after it."""

    cluster: LocalCluster
    client: Client
    given: Given
    then: Then
    running: Running

    async def uids(self) -> dict[str, str]:
        """Each ConfigMap's identity."""
        listed = await self.client.list(metadata_of(ConfigMap), self.given.namespace)
        return {one.metadata.name: one.metadata.uid for one in listed.items}

    def deletions(self, audit: AuditLog) -> list[str]:
        """What the operator has deleted."""
        return outages.deletions(audit, OPERATOR, self.given.namespace)

    async def moves_on(self, revision: str, **data: str) -> None:
        """A further revision is taken over."""
        await self.given.source(
            {"kept.yaml": config_map("kept", **data), "new.yaml": config_map("new")}, revision=revision
        )
        await self.then.ready(revision=revision, within=BACK_WITHIN_SECONDS)


@pytest.fixture
async def scene(frail: LocalCluster) -> AsyncIterator[Scene]:
    async with played(frail, Running(frail.kubeconfig_for(OPERATOR, ["system:masters"]))) as scene:
        yield scene


@asynccontextmanager
async def played(cluster: LocalCluster, running: Running) -> AsyncIterator[Scene]:
    namespace = clusters.create_namespace(cluster)
    config = ClusterConfig.load(cluster.kubeconfig)
    async with (
        Client.connect(config, field_manager="tests", user_agent="tests") as client,
        ArtifactServer() as artifacts,
        asyncio.TaskGroup() as tasks,
    ):
        history = StatusHistory(client, namespace=namespace)
        writing = tasks.create_task(history.run(), name="history")
        scene = Scene(cluster, client, Given(client, artifacts, namespace), Then(client, history, namespace), running)
        try:
            await scene.given.source(FIRST, revision="r1")
            await running.start()
            await scene.given.component()
            await scene.then.ready(revision="r1")
            yield scene
        finally:
            await running.stop()
            await world.clean(client)
            writing.cancel()


async def is_forgotten(scene: Scene, version: str) -> bool:
    """Whether etcd was compacted beyond a version."""
    query = f"resourceVersion={version}&resourceVersionMatch=Exact"
    path = f"/api/v1/namespaces/{scene.given.namespace}/configmaps?{query}"
    answer = await asyncio.to_thread(scene.cluster.wire().ask, "GET", path)
    return answer is not None and answer.status == 410


@pytest.mark.req("R-204")
async def test_etcd_killed_and_started_again_costs_a_component_nothing(scene: Scene) -> None:
    before, audit = await scene.uids(), AuditLog(scene.cluster)
    async with outages.without_etcd(scene.cluster):
        await scene.running.waits(minutes=61)
    await scene.moves_on("r2", a="2")
    after = await scene.uids()
    assert after["kept"] == before["kept"]
    assert sorted(after) == ["kept", "new"]
    assert scene.deletions(audit) == ["configmaps/dropped"]


@pytest.mark.req("R-204", "R-205")
async def test_what_has_happened_while_the_line_was_down_and_is_forgotten_since_is_found_out(
    frail: LocalCluster,
) -> None:
    async with (
        FaultProxy(frail.kubeconfig_for(OPERATOR, ["system:masters"])) as proxy,
        played(frail, Running(proxy.kubeconfig)) as scene,
    ):
        before, last = await scene.uids(), await scene.then.config("kept")
        down = proxy.on_requests(ANYTHING, CutConnection())
        await outages.restart_with_another_certificate(frail)
        await scene.given.config_deleted("kept")
        await scene.given.source(SECOND, revision="r2")
        await eventually(lambda: is_forgotten(scene, last.metadata.resource_version), within=BACK_WITHIN_SECONDS)
        await proxy.history.seen(3)
        down.end()
        await scene.then.ready(revision="r2", within=BACK_WITHIN_SECONDS)
        after = await scene.uids()
        assert sorted(after) == ["kept", "new"]
        assert after["kept"] != before["kept"]


@pytest.mark.req("R-205")
async def test_a_restarted_api_server_with_another_certificate_needs_no_hand(scene: Scene) -> None:
    before, audit = await scene.uids(), AuditLog(scene.cluster)
    await outages.restart_with_another_certificate(scene.cluster)
    await scene.moves_on("r2", a="2")
    assert (await scene.uids())["kept"] == before["kept"]
    assert scene.deletions(audit) == ["configmaps/dropped"]


@pytest.mark.req("R-204")
async def test_a_cluster_that_wakes_up_in_the_past_is_taken_from_there_and_nothing_is_deleted(scene: Scene) -> None:
    await scene.running.rests()
    before = await scene.uids()
    await asyncio.to_thread(save_data, scene.cluster, "backup")
    await scene.moves_on("r2", a="2")
    assert sorted(await scene.uids()) == ["kept", "new"]
    await much_happens(scene)
    await scene.running.rests()

    audit = AuditLog(scene.cluster)
    await asyncio.to_thread(restore_data, scene.cluster, "backup")
    await scene.running.settled(scene.client, within=BACK_WITHIN_SECONDS)
    past = await scene.client.get(Component, "comp", scene.given.namespace)
    assert (past.is_ready, past.status.last_applied_revision) == (True, "r1")
    assert await scene.uids() == before
    assert scene.deletions(audit) == [], "nor was anything created that had to go again"
    await scene.moves_on("r3", a="3")
    after = await scene.uids()
    assert sorted(after) == ["kept", "new"]
    assert after["kept"] == before["kept"]


async def much_happens(scene: Scene) -> None:
    """So much elsewhere that the future stays the future for the test: an API server writes some 20 versions at its
    start, and whoever resumes a watch after as many as he has seen is told of no past. The Component changes last, as
    the test's own watch of it is alone, and no other cache finds out for it."""
    for version in range(500):
        await scene.given.config("elsewhere", "default", version=str(version))
    await scene.given.annotated(late="true")
    await eventually(lambda: "late" in scene.then.history.latest["comp"].metadata.annotations)


def fill(cluster: LocalCluster) -> None:
    """Write to the database until it takes no more."""
    ballast = {"metadata": {"generateName": "ballast-"}, "data": {"weight": "x" * 900_000}}
    for _ in range(100):
        answer = cluster.wire().ask("POST", "/api/v1/namespaces/default/configmaps", ballast)
        assert answer is not None
        if answer.status >= 500:
            assert b"database space exceeded" in answer.body
            return
    raise AssertionError("the database has no end")


def make_room(cluster: LocalCluster) -> None:
    """Do what an administrator does: a larger database, and the alarm taken back."""
    LocalCluster(cluster.folder, _options({})).restart(ETCD)
    for alarm in told(cluster, {"action": "GET"}).get("alarms", []):
        told(cluster, {"action": "DEACTIVATE", **alarm})


def told(cluster: LocalCluster, about_alarms: Mapping[str, str]) -> dict[str, list[dict[str, str]]]:
    """What etcd answers."""
    with closing(http.client.HTTPConnection("etcd")) as connection:
        connection.sock = etcd_socket(cluster)
        connection.request("POST", "/v3/maintenance/alarm", json.dumps(about_alarms))
        answer: dict[str, list[dict[str, str]]] = json.loads(connection.getresponse().read())
        return answer


def etcd_socket(cluster: LocalCluster) -> socket.socket:
    here = os.open(cluster.folder, os.O_PATH)
    try:
        made = socket.socket(socket.AF_UNIX)
        made.connect(f"/proc/self/fd/{here}/{ETCD_SOCKET}")  # a socket's path has at most 107 bytes
    finally:
        os.close(here)
    return made


@pytest.mark.req("R-204")
async def test_a_full_database_is_waited_out_and_costs_a_component_nothing(small: LocalCluster) -> None:
    async with played(small, Running(small.kubeconfig_for(OPERATOR, ["system:masters"]))) as scene:
        before = await scene.uids()
        await asyncio.to_thread(fill, small)
        audit = AuditLog(small)
        await scene.given.config_deleted("kept")

        async def was_refused() -> bool:
            found = await asyncio.to_thread(audit.entries, lambda entry: entry.user == OPERATOR and entry.is_write)
            return any(entry.status >= 500 for entry in found)

        await eventually(was_refused, within=BACK_WITHIN_SECONDS)
        assert scene.deletions(audit) == []
        await asyncio.to_thread(make_room, small)

        async def is_back() -> bool:
            await scene.running.waits(minutes=20)
            return sorted(await scene.uids()) == sorted(before)

        await eventually(is_back, within=BACK_WITHIN_SECONDS)
        await scene.then.ready(revision="r1", within=BACK_WITHIN_SECONDS)
        assert (await scene.uids())["dropped"] == before["dropped"]
        await scene.moves_on("r2", a="2")
