"""What a controller does with each outcome of a pass, on a real API server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.cluster.runtime.conftest import Start, Works
from tests.cluster.runtime.example_kind import Electrician, Lamp, LampStatus, lamp, shining, switch

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Conflict, Status, Unreachable
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, PartialObjectMetadata, metadata_of, unstructured
from stellwerk.runtime.cache.informer import Delta
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.controller import Controller, only_status_changed
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next, Notice, ReconcileError, Retry, Severity
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps", namespaced=True)


class BulbMissing(ReconcileError):
    """Somebody must put a bulb in."""

    reason = "BulbMissing"
    retry = Retry.WHEN_CHANGED


class Flickering(ReconcileError):
    """It may pass."""

    reason = "Flickering"


async def shown(client: Client, name: str, namespace: str) -> LampStatus | None:
    return (await client.get(Lamp, name, namespace)).status


def count(works: Works, name: str, **labels: str) -> float:
    for family in text_string_to_metric_families(works.manager.metrics.exposition().decode()):
        for sample in family.samples:
            if sample.name == name and labels.items() <= sample.labels.items():
                return sample.value
    raise AssertionError(f"no sample {name} {labels}")


async def seen_status(client: Client, name: str, namespace: str) -> LampStatus:
    """The lamp's status, as soon as it has one."""
    status = await eventually(lambda: shown(client, name, namespace))
    assert status is not None
    return status


async def test_the_answered_status_is_written_and_the_transition_becomes_one_event(
    client: Client, namespace: str, start: Start
) -> None:
    works = await start(Electrician())
    await client.create(Lamp, lamp("hall", namespace))
    status = await seen_status(client, "hall", namespace)
    assert status.shines is True
    await works.rests(passes=2)  # the second pass comes from our own write, and changes nothing
    assert [(name, notice.reason, notice.severity) for name, notice in works.bell.heard] == [
        ("hall", "Switched", Severity.NORMAL)
    ]


@pytest.mark.req("R-108")
async def test_an_unchanged_object_is_neither_written_nor_read(
    client: Client, namespace: str, start: Start, audit: AuditLog
) -> None:
    works = await start(Electrician())
    await client.create(Lamp, lamp("hall", namespace))
    await works.rests(passes=2)
    audit.mark()
    heard = len(works.bell.heard)
    for _ in range(50):
        works.controller.queue.add(ObjectKey(namespace, "hall"))
        await works.rests(passes=len(works.electrician.seen) + 1)
    assert len(works.electrician.seen) >= 52
    assert audit.entries(lambda entry: entry.namespace == namespace) == []
    assert len(works.bell.heard) == heard


async def test_a_failure_for_the_user_shows_in_status_event_and_metrics(
    client: Client, namespace: str, start: Start
) -> None:
    async def fail(obj: Lamp) -> Next[LampStatus]:
        raise BulbMissing(f"lamp {obj.key} has no bulb: put one in")

    works = await start(Electrician(fail))
    await client.create(Lamp, lamp("hall", namespace))
    status = await seen_status(client, "hall", namespace)
    (ready,) = status.conditions
    assert (ready.status, ready.reason, ready.message) == (
        "False",
        "BulbMissing",
        f"lamp {namespace}/hall has no bulb: put one in",
    )
    await works.rests(passes=2)
    assert [(notice.reason, notice.severity) for _, notice in works.bell.heard] == [("BulbMissing", Severity.WARNING)]
    assert count(works, "controller_runtime_terminal_reconcile_errors_total") == 2
    assert works.controller.queue.delayed == 1, "it is looked at now and then"


async def test_a_passing_failure_is_tried_again_until_it_passes(client: Client, namespace: str, start: Start) -> None:
    async def flicker(obj: Lamp) -> Next[LampStatus]:
        if len(works.electrician.seen) < 5:
            raise Flickering("the light flickers")
        return await switch(obj)

    works = await start(Electrician(flicker))
    await client.create(Lamp, lamp("hall", namespace))

    async def shines() -> bool:
        status = await shown(client, "hall", namespace)
        return status is not None and status.shines is True

    await eventually(shines)
    await works.rests(passes=5)
    assert [notice.reason for _, notice in works.bell.heard] == ["Flickering", "Switched"]


async def test_a_change_of_state_is_one_line_of_level_info_and_a_pass_without_change_none(
    client: Client, namespace: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stellwerk")
    works = await start(Electrician())
    await client.create(Lamp, lamp("hall", namespace))
    await works.rests(passes=2)
    assert [(record.levelname, record.getMessage().split(":")[0]) for record in caplog.records] == [
        ("INFO", "Switched")
    ]
    caplog.clear()
    for _ in range(5):
        works.controller.queue.add(ObjectKey(namespace, "hall"))
        await works.rests(passes=len(works.electrician.seen) + 1)
    assert caplog.messages == []


async def test_a_failure_is_a_line_of_level_error(
    client: Client, namespace: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(obj: Lamp) -> Next[LampStatus]:
        if obj.metadata.name == "hall":
            raise BulbMissing("put a bulb in")
        raise Unreachable("no route to the API server")

    caplog.set_level(logging.INFO, "stellwerk")
    works = await start(Electrician(fail))
    await client.create(Lamp, lamp("hall", namespace))
    await works.rests(passes=2)
    await client.create(Lamp, lamp("attic", namespace))
    await eventually(lambda: "no route to the API server" in caplog.text)
    assert {record.levelname for record in caplog.records} == {"ERROR"}
    assert "BulbMissing: put a bulb in" in caplog.messages


@pytest.mark.req("R-304")
async def test_a_bug_in_one_pass_is_counted_and_backed_off_while_others_go_on(
    client: Client, namespace: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def trip(obj: Lamp) -> Next[LampStatus]:
        if obj.metadata.name == "bad":
            raise ZeroDivisionError("a bug")
        return await switch(obj)

    works = await start(Electrician(trip))
    await client.create(Lamp, lamp("bad", namespace))
    await eventually(lambda: len(works.electrician.of("bad")) >= 3, on=works.electrician.rang)
    await client.create(Lamp, lamp("good", namespace))
    await eventually(lambda: shown(client, "good", namespace))
    assert count(works, "controller_runtime_reconcile_panics_total") >= 3
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.req("R-304")
async def test_a_pass_without_end_is_cancelled_and_others_go_on(client: Client, namespace: str, start: Start) -> None:
    async def hang(obj: Lamp) -> Next[LampStatus]:
        while obj.metadata.name == "endless":  # noqa: ASYNC110  # the loop without end is the point
            await asyncio.sleep(0)
        return await switch(obj)

    works = await start(Electrician(hang), timeout=0.2)
    await client.create(Lamp, lamp("endless", namespace))
    await eventually(lambda: works.electrician.of("endless"), on=works.electrician.rang)
    await client.create(Lamp, lamp("good", namespace))
    await eventually(lambda: shown(client, "good", namespace))
    assert count(works, "controller_runtime_reconcile_total", result="error") >= 1


async def test_a_conflict_is_nobodys_fault_and_looked_at_again(client: Client, namespace: str, start: Start) -> None:
    async def collide(obj: Lamp) -> Next[LampStatus]:
        if len(works.electrician.seen) == 1:
            raise Conflict(Status(code=409, message="the object has been modified"))
        return await switch(obj)

    works = await start(Electrician(collide))
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: shown(client, "hall", namespace))
    assert count(works, "controller_runtime_reconcile_total", result="error") == 0
    assert count(works, "controller_runtime_reconcile_total", result="requeue") == 1


async def test_a_pass_can_ask_for_another_one_and_for_events(client: Client, namespace: str, start: Start) -> None:
    async def twice(obj: Lamp) -> Next[LampStatus]:
        if len(works.electrician.seen) == 1:
            return Next[LampStatus].now().with_events(Notice("WarmingUp", "it takes a moment"))
        return await switch(obj)

    works = await start(Electrician(twice))
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: shown(client, "hall", namespace))
    assert [notice.reason for _, notice in works.bell.heard][:1] == ["WarmingUp"]


@pytest.mark.req("R-106")
async def test_a_key_is_not_looked_at_again_before_its_own_writes_are_visible(
    client: Client, namespace: str, start: Start
) -> None:
    """Each pass raises a counter that it reads from the cache: a stale read would repeat a number."""

    async def count_up(obj: Lamp) -> Next[LampStatus]:
        number = int(obj.metadata.annotations.get("count", "0")) + 1
        if number > 40:
            return Next.done()
        patch = MergePatch({"metadata": {"annotations": {"count": str(number)}}})
        written = await client.patch(Lamp, obj.metadata.name, namespace, patch)
        works.controller.primary.expect(obj.key, written.metadata.resource_version)
        written_numbers.append(number)
        return Next.now()

    written_numbers: list[int] = []
    works = await start(Electrician(count_up), workers=4)
    await client.create(Lamp, lamp("hall", namespace))
    await works.rests(passes=41)
    assert written_numbers == list(range(1, 41))


@pytest.mark.req("R-104")
async def test_the_first_status_of_a_process_does_not_replace_one_that_arrives_during_the_pass(
    client: Client, namespace: str, start: Start
) -> None:
    """The last status of a former leader reaches the cache after the pass has begun with an older one."""

    async def count_seen(obj: Lamp) -> Next[LampStatus]:
        if not passes:
            version = await StatusWriter(client=client).write(obj, shining(obj))
            assert version is not None
            await works.controller.primary.wait_for(obj.key, version, 20)
        passes.append(obj.status)
        return Next.done(obj.status or shining(obj, False))

    passes: list[LampStatus | None] = []
    works = await start(Electrician(count_seen))
    await client.create(Lamp, lamp("hall", namespace))
    await works.rests(passes=2)
    status = await shown(client, "hall", namespace)
    assert status is not None
    assert status.shines
    assert (passes[0], passes[-1]) == (None, status)


async def test_the_first_status_of_a_process_follows_what_the_pass_itself_has_written(
    client: Client, namespace: str, start: Start, audit: AuditLog
) -> None:
    """Also where the cache shows that write before the pass ends."""

    async def adopt(obj: Lamp) -> Next[LampStatus]:
        if not finalizer.present(obj, "engine.test/lamp"):
            held = await finalizer.add(client, obj, "engine.test/lamp")
            await works.controller.primary.wait_for(obj.key, held.metadata.resource_version, 20)
        return await switch(obj)

    works = await start(Electrician(adopt))
    await client.create(Lamp, lamp("hall", namespace))
    audit.mark()
    await seen_status(client, "hall", namespace)
    requests = audit.entries(lambda entry: entry.namespace == namespace and entry.resource == "lamps")
    assert [entry.verb for entry in requests if entry.is_write and entry.verb != "create"] == ["patch", "update"]


@pytest.mark.req("R-106")
async def test_a_finalizer_that_a_pass_has_put_on_is_there_in_the_next_pass(
    client: Client, namespace: str, start: Start
) -> None:
    async def adopt(obj: Lamp) -> Next[LampStatus]:
        if obj.metadata.is_terminating:
            await finalizer.remove(client, obj, "engine.test/lamp")
            return Next.done()
        if not finalizer.present(obj, "engine.test/lamp"):
            await finalizer.add(client, obj, "engine.test/lamp")
            return Next.now()
        return await switch(obj)

    works = await start(Electrician(adopt))
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: shown(client, "hall", namespace))
    assert [finalizer.present(obj, "engine.test/lamp") for obj in works.electrician.seen[:2]] == [False, True]
    await client.delete(Lamp, "hall", namespace)
    await eventually(lambda: works.electrician.forgotten == [ObjectKey(namespace, "hall")])
    assert count(works, "controller_runtime_reconcile_total", result="error") == 0


async def test_the_reconciler_is_told_when_an_object_is_gone(client: Client, namespace: str, start: Start) -> None:
    works = await start(Electrician())
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: works.electrician.seen, on=works.electrician.rang)
    await client.delete(Lamp, "hall", namespace)
    await eventually(lambda: works.electrician.forgotten == [ObjectKey(namespace, "hall")])


@pytest.mark.req("R-105")
async def test_an_object_made_again_under_its_name_is_new_and_gets_nothing_of_the_old_one(
    client: Client, namespace: str, start: Start
) -> None:
    async def replace_meanwhile(obj: Lamp) -> Next[LampStatus]:
        if len(works.electrician.seen) == 1:
            await client.delete(Lamp, obj.metadata.name, namespace)
            await client.create(Lamp, lamp("hall", namespace, lit=False))
            return Next.done(shining(obj, True, "Old"))
        return Next.done()

    works = await start(Electrician(replace_meanwhile))
    await client.create(Lamp, lamp("hall", namespace))
    await works.rests(passes=2)
    assert await shown(client, "hall", namespace) is None
    assert works.electrician.forgotten == [ObjectKey(namespace, "hall")]
    assert works.electrician.seen[0].metadata.uid != works.electrician.seen[1].metadata.uid
    assert works.bell.heard == []


@pytest.mark.req("R-107")
async def test_a_spec_changed_to_and_fro_during_a_pass_ends_as_last_asked(
    client: Client, namespace: str, start: Start
) -> None:
    async def slowly(obj: Lamp) -> Next[LampStatus]:
        if len(works.electrician.seen) == 1:
            for lit in (False, True, False):
                await client.patch(Lamp, "hall", namespace, MergePatch({"spec": {"lit": lit}}))
        return await switch(obj)

    works = await start(Electrician(slowly))
    await client.create(Lamp, lamp("hall", namespace))
    await works.rests(passes=2)

    async def is_dark() -> bool:
        status = await shown(client, "hall", namespace)
        return status is not None and status.shines is False

    await eventually(is_dark)


async def test_a_change_of_a_watched_object_wakes_whom_it_concerns(
    client: Client, namespace: str, start: Start
) -> None:
    def wakes(delta: Delta[PartialObjectMetadata]) -> Iterable[ObjectKey]:
        owner = delta.latest.metadata.labels.get("lamp")
        return [ObjectKey(delta.key.namespace, owner)] if owner else []

    def wire(controller: Controller[Lamp, LampStatus], manager: Manager) -> None:
        controller.watches(manager.informer(metadata_of(CONFIG_MAPS), namespace=namespace), wakes)

    works = await start(Electrician(), wire=wire)
    for name in ("hall", "attic"):
        await client.create(Lamp, lamp(name, namespace))
    await works.rests(passes=4)
    works.electrician.seen.clear()
    await client.create(
        unstructured(CONFIG_MAPS),
        {"metadata": {"name": "bulb", "namespace": namespace, "labels": {"lamp": "attic"}}},
        namespace,
    )
    await works.rests(passes=1)
    assert works.electrician.names() == ["attic"]


async def test_updates_that_ask_for_nothing_wake_nobody(client: Client, namespace: str, start: Start) -> None:
    works = await start(Electrician(), wire=lambda controller, _: controller.ignore_updates(only_status_changed))
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: shown(client, "hall", namespace))
    await client.patch(Lamp, "hall", namespace, MergePatch({"spec": {"lit": False}}))
    await works.rests(passes=2)

    async def is_dark() -> bool:
        status = await shown(client, "hall", namespace)
        return status is not None and status.shines is False

    await eventually(is_dark)
    await works.rests(passes=2)
    assert len(works.electrician.seen) == 2


async def test_many_workers_never_meet_on_one_object(client: Client, namespace: str, start: Start) -> None:
    inside: set[str] = set()

    async def enter(obj: Lamp) -> Next[LampStatus]:
        assert obj.metadata.name not in inside
        inside.add(obj.metadata.name)
        turn: JsonObject = {"turn": str(len(works.electrician.seen))}
        await client.patch(Lamp, obj.metadata.name, namespace, MergePatch({"metadata": {"annotations": turn}}))
        inside.discard(obj.metadata.name)
        return await switch(obj)

    works = await start(Electrician(enter), workers=8)
    for number in range(6):
        await client.create(Lamp, lamp(f"lamp-{number}", namespace))
    await eventually(lambda: len(works.electrician.seen) > 60, on=works.electrician.rang)
    assert count(works, "controller_runtime_reconcile_panics_total") == 0


@pytest.mark.req("R-208")
async def test_a_pass_that_always_asks_for_another_one_slows_down(
    client: Client, namespace: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    async def restless(obj: Lamp) -> Next[LampStatus]:
        return Next.now()

    works = await start(Electrician(restless))
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: len(works.electrician.seen) > 54, on=works.electrician.rang)
    assert works.controller.queue.failures(ObjectKey(namespace, "hall")) > 0
    assert "again and again" in caplog.text
