"""The next pass of a lamp, decided with the rights of a user and without a watch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

import pytest
from tests.cluster.runtime.example_kind import Lamp, LampStatus, lamp
from tests.cluster.runtime.test_steps import BULBS, LampLogic, LampStep, bulb, fit_socket, refused

from stellwerk.api.core import ConfigMap, Secret
from stellwerk.delivery.insight import PreviewFailed
from stellwerk.delivery.ready_steps import ReadyStatus, keep, ready, waiting
from stellwerk.delivery.step_kind import StepKind
from stellwerk.delivery.step_preview import Awaited, StepPreview
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unstructured, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.control.step import Delete, Step, Wait
from stellwerk.runtime.reading.known import ABSENT, Present, Unknown
from stellwerk.runtime.reading.live_sources import LiveSources
from stellwerk.runtime.reading.loads import SecretData
from stellwerk.runtime.reading.questions import Collection, Index
from stellwerk.runtime.reading.view import View
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.faults import AnswerInstead, FaultProxy, requests

NAMED = Index(BULBS, "name", lambda each: (each.metadata.name,))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def previewer(logic: LampLogic) -> StepPreview[Lamp, LampStatus]:
    return StepPreview(logic=logic, field_manager="lamps")


async def test_the_writes_of_the_next_pass_are_shown_and_none_is_sent(
    client: Client, namespace: str, audit: AuditLog
) -> None:
    obj = await client.create(Lamp, lamp("hall", namespace))
    audit.mark()
    preview = await previewer(LampLogic()).preview(obj, client, NOW)
    assert {str(ref): why for ref, why in preview.changed.items()} == {
        f"Lamp {namespace}/hall": "changed fields: metadata.finalizers"
    }
    assert [str(each.ref) for each in preview.objects] == [f"ConfigMap {namespace}/hall"]
    assert preview.warnings == ("waiting for the socket",)
    assert not audit.entries(lambda entry: entry.is_write and entry.namespace == namespace)


async def test_an_object_of_a_file_has_no_uid_and_only_the_names_of_what_it_gets(
    client: Client, namespace: str
) -> None:
    await fit_socket(client, namespace)
    obj = Lamp(metadata=ObjectMeta(name="hall", namespace=namespace))
    preview = await previewer(LampLogic()).preview(obj, client, NOW)
    assert not preview.objects
    assert {str(ref): why for ref, why in preview.created.items()} == {
        f"ConfigMap {namespace}/hall": "it does not exist"
    }
    assert preview.warnings == ()


async def test_an_object_that_is_deleted_shows_what_goes_with_it(client: Client, namespace: str) -> None:
    await client.create(Lamp, lamp("hall", namespace))
    found = await client.get(Lamp, "hall", namespace)
    await client.create(ConfigMap, bulb(found))

    def leave(obj: Lamp, view: View) -> LampStep | None:
        there = view.find(BULBS, obj.key)
        assert there is not None
        return (
            None if there.metadata.is_terminating else Step(writes=(Delete(BULBS, there, refused, "it has burnt out"),))
        )

    preview = await previewer(LampLogic(extra=leave)).preview(found, client, NOW)
    assert {str(ref): why for ref, why in preview.deleted.items()} == {
        f"ConfigMap {namespace}/hall": "it has burnt out"
    }
    assert (await client.find(metadata_of(ConfigMap), "hall", namespace)) is not None


async def test_what_the_user_may_not_read_is_unknown_and_shown(
    client: Client, namespace: str, proxy: FaultProxy
) -> None:
    obj = await client.create(Lamp, lamp("hall", namespace))
    async with Client.connect(ClusterConfig.load(proxy.kubeconfig)) as user:
        with proxy.on_requests(requests("get", "configmaps", namespace=namespace), AnswerInstead(403)):
            course = await previewer(LampLogic()).course(obj, user, NOW, ())
            preview = await previewer(LampLogic()).preview(obj, user, NOW)
            awaited = await previewer(LampLogic()).awaited(obj, user, NOW)
    assert awaited == Awaited((), (f"configmaps in {namespace}",))
    assert not preview.objects
    assert not preview.created
    assert course.status.conditions[0].reason == "Unknown"
    assert any("ConfigMap" in warning for warning in preview.warnings)


class Door(Kind, frozen=True, kw_only=True):
    resource: ClassVar[Resource] = Resource("engine.test", "v1", "Door", "doors", namespaced=True)
    status: ReadyStatus = ReadyStatus()


def lock(door: Door, view: View) -> Step[ReadyStatus]:
    """A door waits for the ConfigMap of its name, and has a lock then."""
    if view.find(BULBS, door.key) is None:
        return waiting(door, view, "NoPlan", Wait((BULBS, door.key), f"ConfigMap {door.key} does not exist"))
    return ready(door, view, "Locked", writes=keep(view, BULBS, door, {}, name=f"{door.key.name}-lock"))


DOOR = StepKind(name="doors", collection=Collection(Door), decide=lock)


async def test_why_names_no_cause_that_rests_on_what_the_user_may_not_read(namespace: str, proxy: FaultProxy) -> None:
    door: JsonObject = {
        "apiVersion": "engine.test/v1",
        "kind": "Door",
        "metadata": {"name": "a", "namespace": namespace},
    }
    shown: JsonObject = {"type": "Ready", "status": "False", "reason": "Former", "message": "as it was before"}
    subject = Unstructured.of({**door, "status": {"conditions": [shown]}})
    async with Client.connect(ClusterConfig.load(proxy.kubeconfig)) as user:
        with proxy.on_requests(requests("get", "configmaps", namespace=namespace), AnswerInstead(403)):
            diagnosis = await DOOR.insight().diagnostician.diagnose(user, subject)
    assert [each.because for each in diagnosis.findings] == [()]
    assert diagnosis.hidden == (f"configmaps in {namespace}",)


@pytest.mark.parametrize("has_plan", [False, True])
async def test_why_names_what_a_pass_would_wait_for_now_and_nothing_if_it_would_write(
    client: Client, namespace: str, has_plan: bool
) -> None:
    metadata: JsonObject = {"name": "front", "namespace": namespace, "uid": "u1"}
    shown: JsonObject = {"type": "Ready", "status": "False", "reason": "Former", "message": "as it was before"}
    door: JsonObject = {"apiVersion": "engine.test/v1", "kind": "Door", "metadata": metadata}
    subject = Unstructured.of({**door, "status": {"conditions": [shown]}})
    if has_plan:
        plan: JsonObject = {"name": "front", "namespace": namespace, "labels": {"engine.test/bulb": "yes"}}
        await client.create(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": plan})
    diagnosis = await DOOR.insight().diagnostician.diagnose(client, subject)
    (finding,) = diagnosis.findings
    assert finding.text == "as it was before"
    expected = () if has_plan else (f"ConfigMap {namespace}/front does not exist",)
    assert tuple(each.text for each in finding.because) == expected
    assert finding.is_root_cause == has_plan


@pytest.mark.parametrize("is_everywhere", [False, True])
async def test_a_listing_is_of_the_namespace_or_of_all(client: Client, namespace: str, is_everywhere: bool) -> None:
    body: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap"}
    body["metadata"] = {"name": f"of-{namespace}", "namespace": namespace}
    await client.create(ConfigMap, body)
    sources = LiveSources(client, "default", everywhere=(BULBS,) if is_everywhere else ())
    sources.of(BULBS).by(NAMED, f"of-{namespace}")
    assert await sources.load()
    assert len(sources.of(BULBS).by(NAMED, f"of-{namespace}").values) == int(is_everywhere)
    assert not await sources.load(), "what is loaded is not loaded again"


async def test_a_decision_that_asks_for_more_and_more_is_stopped(client: Client, namespace: str) -> None:
    def curious(obj: Lamp, view: View) -> LampStep | None:
        number = 0
        while view.get(BULBS, ObjectKey(namespace, f"bulb-{number}")) == ABSENT:
            number += 1
        return Step(waits=(Wait("more"),))

    obj = await client.create(Lamp, lamp("hall", namespace))
    with pytest.raises(PreviewFailed, match="more and more"):
        await previewer(LampLogic(extra=curious)).preview(obj, client, NOW)


async def test_the_content_of_a_secret_is_loaded_at_the_version_that_was_seen(client: Client, namespace: str) -> None:
    body: JsonObject = {"apiVersion": "v1", "kind": "Secret", "stringData": {"word": "open"}}
    secret = await client.create(Secret, {**body, "metadata": {"name": "door", "namespace": namespace}})
    sources = LiveSources(client, namespace)
    now, former = (SecretData(secret.key, version) for version in (secret.metadata.resource_version, "1"))
    gone = SecretData(ObjectKey(namespace, "none"), "1")
    view = View(sources=sources, now=NOW, loads=sources.loads)
    assert {*map(type, map(view.load, (now, former, gone)))} == {Unknown}
    assert await sources.load()
    later = View(sources=sources, now=NOW, loads=sources.loads)
    assert later.load(now) == Present(secret)
    assert isinstance(later.load(former), Unknown)
    assert later.load(gone) == ABSENT
    assert now.size(secret) > 0
