"""Passes that look at another cluster and write there: a lamp whose bulb is in the cluster of a login.

Both clusters are one API server. The other one is reached through a proxy, so that it can be silent or lying alone.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from tests.cluster.runtime.conftest import Bell
from tests.cluster.runtime.example_kind import Lamp, LampStatus, lamp, shining
from tests.cluster.runtime.test_steps import ChangedFirst, Here, refused

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, metadata_of
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.remote_clusters import Kubeconfig, RemoteClusters
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.executor import Deciding, InformerSources, RemoteSources
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.control.step import Apply, Create, Delete, Failure, Patch, RemoveFinalizer, Step, Wait
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.known import NotKnown, Present, Unknown
from stellwerk.runtime.reading.loads import SecretData
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.supervision.tasks import Border
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import AnswerInstead, CutConnection, FaultProxy, first, requests
from stellwerk.testing.faults.traffic import RecordedRequest

pytestmark = [pytest.mark.req("R-210"), pytest.mark.req("R-203")]

LAMPS = Collection(Lamp)
LOGINS: Collection[PartialObjectMetadata] = Collection(metadata_of(Secret), labels="engine.test/login")
BULBS = Collection(ConfigMap, labels="engine.test/bulb")
OURS = "engine.test/bulb"
LOGIN = "login"
MANAGER = "remote-lamps"
LampStep = Step[LampStatus]


def bulb(obj: Lamp, **data: str) -> JsonObject:
    name: JsonObject = {"name": f"bulb-{obj.metadata.name}", "namespace": obj.metadata.namespace}
    name["labels"] = {OURS: "yes"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {**data}}


def key_of_bulb(obj: Lamp) -> ObjectKey:
    return ObjectKey(obj.metadata.namespace, f"bulb-{obj.metadata.name}")


@dataclass
class RemoteLampLogic:
    """What a lamp needs next."""

    collection: Collection[Lamp] = LAMPS
    passes: list[str] = field(default_factory=list)

    def decide(self, obj: Lamp, view: View) -> LampStep:
        self.passes.append(obj.metadata.name)
        if OURS not in obj.metadata.finalizers:
            if obj.metadata.is_terminating:
                return Step()
            return Step(writes=(Patch(LAMPS, obj, {"metadata": {"finalizers": [OURS]}}, refused),))
        login = ObjectKey(obj.metadata.namespace, LOGIN)
        secret = view.find(LOGINS, login)
        if secret is None:
            if obj.metadata.is_terminating:
                return Step(writes=(RemoveFinalizer(OURS),))
            return Step(status=shining(obj, False, "NoLogin"), waits=(Wait((LOGINS, login), "waiting for a login"),))
        content = view.load(SecretData(login, secret.metadata.resource_version))
        if not isinstance(content, Present):
            raise NotKnown("the login", content.why if isinstance(content, Unknown) else "it is gone")
        there = Kubeconfig(login, content.value.decoded()["config"])
        found = view.on(there).find(BULBS, key_of_bulb(obj))
        if obj.metadata.is_terminating:
            return self._leave(found, there)
        if found is None:
            return Step(writes=(Create(BULBS, bulb(obj, power="off"), refused, there),))
        if found.data.get("power") != "on":
            return Step(writes=(Patch(BULBS, found, {"data": {"power": "on"}}, refused, there),))
        if found.data.get("colour") != "warm":
            return Step(writes=(Apply(BULBS, bulb(obj, colour="warm"), MANAGER, refused, found, there),))
        return Step(status=shining(obj))

    def _leave(self, found: ConfigMap | None, there: Kubeconfig) -> LampStep:
        if found is None:
            return Step(writes=(RemoveFinalizer(OURS),))
        if found.metadata.is_terminating:
            return Step(waits=(Wait((BULBS, found.key), "it is being deleted", cluster=there),))
        return Step(writes=(Delete(BULBS, found, refused, cluster=there),))

    def unknown(self, obj: Lamp, view: View, missing: NotKnown) -> LampStep:
        return Step(status=shining(obj, False, "Unknown", str(missing)))

    def failed(self, obj: Lamp, failure: Failure) -> LampStatus:
        return shining(obj, False, "Failed", failure.message)

    def unexpected(self, obj: Lamp, message: str) -> LampStatus:
        return shining(obj, False, "Bug", message)


@dataclass
class Works:
    """An operator of lamps that runs, and a user."""

    logic: RemoteLampLogic
    engine: Deciding[Lamp, LampStatus]
    clusters: RemoteClusters[RemoteSources]
    client: Client
    namespace: str

    async def log_in(self, kubeconfig: bytes, comment: str = "") -> None:
        """Give the lamps a login, or another one."""
        metadata: JsonObject = {"name": LOGIN, "namespace": self.namespace, "labels": {"engine.test/login": "yes"}}
        text = kubeconfig.decode() + f"# {comment}\n"
        await self.client.apply(Secret, {"metadata": metadata, "stringData": {"config": text}})

    async def shows(self, reason: str, name: str = "hall", message: str = "") -> None:
        async def found() -> bool:
            status = (await self.client.get(Lamp, name, self.namespace)).status
            shown = status.conditions[0] if status is not None else None
            return shown is not None and shown.reason == reason and message in shown.message

        await eventually(found, within=60, describe=f"{name} shows {reason} {message}")

    async def is_lit(self) -> bool:
        found = await self.client.find(ConfigMap, "bulb-hall", self.namespace)
        return found is not None and found.data == {"power": "on", "colour": "warm"}

    async def is_gone(self) -> bool:
        return await self.client.find(Lamp, "hall", self.namespace) is None

    def is_calm(self) -> bool:
        queue = self.engine.controller.queue
        return not queue.running and not len(queue)


@pytest.fixture
async def works(client: Client, namespace: str) -> AsyncIterator[Works]:
    async with contextlib.AsyncExitStack() as stack:
        manager = Manager(client, grace_seconds=2.0)
        sources = InformerSources(Here(manager, namespace), (LAMPS, LOGINS))
        clusters = RemoteClusters[RemoteSources](
            Cluster(client, clock=manager.clock),
            connect=lambda config, bounds: Client.connect(config, bounds),
            build=lambda cluster, _: RemoteSources(cluster, (BULBS,)),
            clock=manager.clock,
            border=Border(manager.metrics, manager.clock),
            field_manager="engine-test",
            on_trouble=RemoteSources.note,
        )
        loads = Loads(client, manager.clock, sources.wakes)
        logic = RemoteLampLogic()
        engine = Deciding(
            logic=logic, sources=sources, client=client, clock=manager.clock, loads=loads, clusters=clusters
        )
        controller = Controller(
            "lamps",
            sources.informer(LAMPS),
            engine,
            write_status=StatusWriter(client=client),
            backoff=Backoff(first_seconds=0.01, limit_seconds=0.5),
            recorder=Bell(),
            metrics=manager.metrics,
        )
        engine.serve(controller)
        manager.add_controller(controller)
        manager.add_controller(loads)
        apart = asyncio.create_task(clusters.run())
        task = asyncio.create_task(manager.run())
        stack.push_async_callback(_end, manager, task, apart)
        yield Works(logic, engine, clusters, client, namespace)


async def _end(manager: Manager, task: asyncio.Task[None], apart: asyncio.Task[None]) -> None:
    manager.stop()
    async with asyncio.timeout(30):
        await task
    apart.cancel()
    await asyncio.wait([apart])


async def test_what_changes_in_another_cluster_wakes_and_is_written_there(
    works: Works, namespace: str, proxy: FaultProxy, audit: AuditLog
) -> None:
    """At rest nothing is asked; what was made there goes with the object, and the cluster is left."""
    await works.client.create(Lamp, lamp("hall", namespace))
    await works.shows("NoLogin")
    assert len(works.clusters) == 0
    await works.log_in(proxy.kubeconfig.read_bytes())
    await works.shows("Switched")
    assert await works.is_lit()
    assert [each.request.verb for each in proxy.history.writes()] == ["create", "patch", "apply"]
    await eventually(works.is_calm)
    audit.mark()
    works.engine.controller.queue.add(ObjectKey(namespace, "hall"))
    await eventually(works.is_calm)
    assert audit.entries(lambda entry: entry.namespace == namespace and entry.verb != "watch") == []
    await works.client.patch(ConfigMap, "bulb-hall", namespace, MergePatch({"data": {"power": "off"}}))
    await eventually(works.is_lit, within=30)
    await works.client.delete(metadata_of(ConfigMap), "bulb-hall", namespace)
    await eventually(works.is_lit, within=30)
    await works.client.delete(metadata_of(Lamp), "hall", namespace)
    await eventually(works.is_gone, within=30)
    assert await works.client.find(ConfigMap, "bulb-hall", namespace) is None
    await eventually(lambda: len(works.clusters) == 0, describe="the cluster is left")


async def test_a_cluster_is_watched_as_long_as_it_is_asked_about(
    works: Works, namespace: str, proxy: FaultProxy
) -> None:
    for name in ("hall", "attic"):
        await works.client.create(Lamp, lamp(name, namespace))
    await works.log_in(proxy.kubeconfig.read_bytes())
    for name in ("hall", "attic"):
        await works.shows("Switched", name)
    assert len(works.clusters) == 1, "objects with one login share its cluster"
    (opened,) = [each.opened for each in works.clusters._remotes.values()]
    assert opened is not None
    assert len(opened.cluster.informers) == 1
    await works.log_in(proxy.kubeconfig.read_bytes(), "another")
    for name in ("hall", "attic"):
        await eventually(lambda: len(works.clusters) == 1 and works.is_calm())
        await works.shows("Switched", name)
    await works.client.delete(metadata_of(Secret), LOGIN, namespace)
    for name in ("hall", "attic"):
        await works.shows("NoLogin", name)
    await eventually(lambda: len(works.clusters) == 0)
    assert not opened.cluster.informers, "its watch ended with the last question"


@pytest.mark.parametrize("content", [b"no: kubeconfig", b"\xff\xfe", b""], ids=repr)
async def test_a_login_that_is_invalid_is_named_and_mended(
    works: Works, namespace: str, proxy: FaultProxy, content: bytes
) -> None:
    metadata: JsonObject = {"name": LOGIN, "namespace": namespace, "labels": {"engine.test/login": "yes"}}
    body: JsonObject = {"metadata": metadata, "data": {"config": base64.b64encode(content).decode()}}
    await works.client.apply(Secret, body)
    await works.client.create(Lamp, lamp("hall", namespace))
    await works.shows("Unknown", message=f"the cluster of Secret {namespace}/{LOGIN}: ")
    await works.client.delete(metadata_of(Secret), LOGIN, namespace)
    await works.log_in(proxy.kubeconfig.read_bytes())
    await works.shows("Switched")


async def test_a_failing_cluster_is_unknown_and_not_empty(works: Works, namespace: str, proxy: FaultProxy) -> None:
    """Nothing is created, and no finalizer is removed, while what is there cannot be read."""
    with proxy.on_requests(requests("list", "configmaps"), AnswerInstead(500)):
        await works.log_in(proxy.kubeconfig.read_bytes())
        await works.client.create(Lamp, lamp("hall", namespace))
        await works.shows("Unknown", message="ConfigMap")
        await works.client.delete(metadata_of(Lamp), "hall", namespace)
        await eventually(works.is_calm)
        assert not await works.is_gone()
        assert list(proxy.history.writes()) == []
    await eventually(works.is_gone, within=90)


@pytest.mark.parametrize(
    ("fault", "cause"),
    [(AnswerInstead(401), "the fault proxy refuses it"), (CutConnection(), "connection")],
    ids=["refused", "cut"],
)
async def test_a_cluster_that_is_of_no_use_names_the_cause_and_is_used_again(
    works: Works, namespace: str, proxy: FaultProxy, fault: Any, cause: str
) -> None:
    await works.log_in(proxy.kubeconfig.read_bytes())
    with proxy.on_requests(requests(), fault):
        await works.client.create(Lamp, lamp("hall", namespace))
        await works.shows("Unknown", message=f"the cluster of Secret {namespace}/{LOGIN}: ")
        await works.shows("Unknown", message=cause)
    await works.shows("Switched")


async def _touch(client: Client, request: RecordedRequest) -> None:
    if request.verb == "create":
        labels: JsonObject = {OURS: "yes", "by": "another"}
        metadata: JsonObject = {"name": "bulb-hall", "namespace": request.namespace, "labels": labels}
        await client.create(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        return
    patch = MergePatch({"metadata": {"labels": {"touched": f"at-{request.number}"}}})
    await client.patch(ConfigMap, request.name, request.namespace, patch)


FAULTS: dict[str, Callable[[Client], Any]] = {
    "a conflict without a cause": lambda client: AnswerInstead(409),
    "a lost answer": lambda client: CutConnection(after_forwarding=True),
    "a lost request": lambda client: CutConnection(),
    "a real change": lambda client: ChangedFirst(partial(_touch, client)),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("verb", ["create", "patch", "apply", "delete"])
async def test_a_fault_of_any_write_to_another_cluster_converges(
    works: Works, namespace: str, proxy: FaultProxy, fault: str, verb: str
) -> None:
    await works.log_in(proxy.kubeconfig.read_bytes())
    when = requests(verb, "configmaps")
    with proxy.on_requests(when, FAULTS[fault](works.client), first(1)) as rule:
        await works.client.create(Lamp, lamp("hall", namespace))
        await works.shows("Switched")
        assert await works.is_lit()
        await works.client.delete(metadata_of(Lamp), "hall", namespace)
        await eventually(works.is_gone, within=30)
        assert await works.client.find(ConfigMap, "bulb-hall", namespace) is None
    assert rule.fired == 1
