"""Events reach the cluster as readers expect them, on a real API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.local.cluster import LocalCluster
from stellwerk.runtime.control.events import EventRecorder
from stellwerk.runtime.process.leader import Fence
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import eventually


class Sender:
    """A recorder that runs, and what it has counted."""

    def __init__(self, client: Client) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.recorder = EventRecorder(
            client,
            component="stellwerk.test",
            instance="pod-1",
            clock=self.clock,
            metrics=self.metrics,
            drain_seconds=60,
        )
        self.task = asyncio.create_task(self.recorder.run())

    async def stop(self) -> None:
        self.task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.task

    def count(self, outcome: str) -> float:
        value = self.metrics.registry.get_sample_value("stellwerk_events_total", {"outcome": outcome})
        return value or 0.0


@pytest.fixture
async def client(cluster: LocalCluster) -> AsyncIterator[Client]:
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
        yield client


@pytest.fixture
async def sender(client: Client) -> AsyncIterator[Sender]:
    sender = Sender(client)
    yield sender
    await sender.stop()


async def config_map(client: Client, namespace: str) -> ConfigMap:
    return await client.create(ConfigMap, {"metadata": {"name": "subject", "namespace": namespace}}, namespace)


async def events(client: Client, namespace: str, uid: str) -> list[Event]:
    found = (await client.list(Event, namespace)).items
    return [event for event in found if event.regarding.uid == uid]


async def test_an_event_carries_what_programs_want_to_know(client: Client, namespace: str, sender: Sender) -> None:
    subject = await config_map(client, namespace)
    for revision in ("1", "2"):
        sender.recorder.send(subject, Notice("Ready", "all is well", annotations=(("example.com/revision", revision),)))

    await eventually(lambda: _revisions(client, namespace, subject.metadata.uid))


async def _revisions(client: Client, namespace: str, uid: str) -> bool:
    found = [event.metadata.annotations for event in await events(client, namespace, uid)]
    return sorted(one["example.com/revision"] for one in found) == ["1", "2"]


async def test_an_event_names_the_object_the_reason_the_action_and_the_reporter(
    client: Client, namespace: str, sender: Sender
) -> None:
    subject = await config_map(client, namespace)
    related = ObjectRef(GroupVersionKind("", "v1", "Secret"), ObjectKey(namespace, "credentials"))
    notice = Notice("MissingSecret", "Secret credentials was not found", Severity.WARNING, "Provision")
    sender.recorder.send(subject, notice, related)
    [event] = await eventually(lambda: events(client, namespace, subject.metadata.uid))
    assert (event.reason, event.action, event.type) == ("MissingSecret", "Provision", "Warning")
    assert event.note == "Secret credentials was not found"
    assert (event.reporting_controller, event.reporting_instance) == ("stellwerk.test", "pod-1")
    assert (event.regarding.kind, event.regarding.name) == ("ConfigMap", "subject")
    assert event.related is not None
    assert (event.related.kind, event.related.name) == ("Secret", "credentials")
    assert event.event_time == sender.clock.now()
    assert event.series is None


async def test_the_same_again_becomes_a_series(client: Client, namespace: str, sender: Sender) -> None:
    subject = await config_map(client, namespace)
    for _ in range(3):
        sender.recorder.send(subject, Notice("Slow", "it takes its time"))
        await eventually(lambda: sender.recorder.waiting == 0)
        await sender.clock.advance(60)
    [event] = await events(client, namespace, subject.metadata.uid)
    assert event.series is not None
    assert event.series.count == 3


async def test_after_six_quiet_minutes_the_same_is_told_anew(client: Client, namespace: str, sender: Sender) -> None:
    subject = await config_map(client, namespace)
    for _ in range(2):
        sender.recorder.send(subject, Notice("Slow", "it takes its time"))
        await eventually(lambda: sender.recorder.waiting == 0)
        await sender.clock.advance(361)
    assert len(await events(client, namespace, subject.metadata.uid)) == 2


async def test_a_series_whose_event_was_deleted_is_told_anew(client: Client, namespace: str, sender: Sender) -> None:
    subject = await config_map(client, namespace)
    sender.recorder.send(subject, Notice("Slow", "it takes its time"))
    await eventually(lambda: sender.recorder.waiting == 0)
    await client.delete_collection(Event, namespace)
    sender.recorder.send(subject, Notice("Slow", "it takes its time"))
    await eventually(lambda: sender.recorder.waiting == 0)
    [event] = await events(client, namespace, subject.metadata.uid)
    assert event.series is not None
    assert event.series.count == 2


async def test_one_object_may_send_25_at_once_and_then_one_in_five_minutes(
    client: Client, namespace: str, sender: Sender
) -> None:
    subject = await config_map(client, namespace)
    for number in range(30):
        sender.recorder.send(subject, Notice("Busy", f"number {number}"))
    await eventually(lambda: sender.recorder.waiting == 0)
    assert len(await events(client, namespace, subject.metadata.uid)) == 25
    assert sender.count("rate") == 5
    await sender.clock.advance(301)
    sender.recorder.send(subject, Notice("Busy", "number 30"))
    sender.recorder.send(subject, Notice("Busy", "number 31"))
    await eventually(lambda: sender.recorder.waiting == 0)
    assert len(await events(client, namespace, subject.metadata.uid)) == 26


async def test_a_cluster_scoped_object_has_its_events_in_default(
    client: Client, namespace: str, sender: Sender
) -> None:
    subject = await client.get(Namespace, namespace)
    sender.recorder.send(subject, Notice("Counted", "x" * 5_000 + "ü" * 5_000))
    [event] = await eventually(lambda: events(client, "default", subject.metadata.uid))
    assert len(event.note.encode()) <= 1_024


async def test_a_stop_writes_what_was_sent(client: Client, namespace: str, sender: Sender) -> None:
    subject = await config_map(client, namespace)
    for number in range(10):
        sender.recorder.send(subject, Notice("Leaving", f"number {number}"))
    await sender.stop()
    assert len(await events(client, namespace, subject.metadata.uid)) == 10


async def test_a_refused_event_is_counted_and_the_next_one_arrives(
    client: Client, namespace: str, sender: Sender
) -> None:
    subject = await config_map(client, namespace)
    elsewhere = await client.get(Namespace, "default")
    sender.recorder.send(subject, Notice("", "an Event without a reason is refused"))
    sender.recorder.send(elsewhere, Notice("Arrives", "it does", Severity.NORMAL))
    await eventually(lambda: sender.recorder.waiting == 0)
    assert (sender.count("failed"), sender.count("sent")) == (1, 1)


@pytest.mark.req("R-301")
async def test_a_process_that_has_lost_its_lease_sends_no_event(client: Client, namespace: str) -> None:
    fence, metrics = Fence(FakeClock()), Metrics()
    recorder = EventRecorder(
        client, component="test", instance="pod", metrics=metrics, before_write=fence.check_not_lost
    )
    running = asyncio.create_task(recorder.run())
    subject = await config_map(client, namespace)
    fence.close(given_back=False)
    recorder.send(subject, Notice("Late", "the lease is somebody else's"))
    await eventually(lambda: recorder.waiting == 0)
    running.cancel()
    await asyncio.wait({running})
    assert await events(client, namespace, subject.metadata.uid) == []
    assert metrics.registry.get_sample_value("stellwerk_events_total", {"outcome": "failed"}) == 1
