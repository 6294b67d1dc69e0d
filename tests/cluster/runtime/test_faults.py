"""What a controller does while the line to the API server misbehaves."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from tests.cluster.runtime.conftest import Start
from tests.cluster.runtime.example_kind import Electrician, Lamp, LampStatus, lamp, switch

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reconciler import Next
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import AnswerInstead, CutFrame, FaultProxy, Hide, Hold, Repeat, events, nth, requests

LAMPS = Lamp.resource.group_resource


@pytest.fixture
async def behind(proxy: FaultProxy) -> AsyncIterator[Client]:
    """The operator's client: all that it says and hears passes the proxy."""
    async with Client.connect(ClusterConfig.load(proxy.kubeconfig)) as made:
        yield made


def shows(client: Client, namespace: str, shines: bool) -> Callable[[], Awaitable[bool]]:
    async def check() -> bool:
        status = (await client.get(Lamp, "hall", namespace)).status
        return status is not None and status.shines is shines

    return check


@pytest.mark.req("R-106")
async def test_a_key_rests_while_its_own_write_is_held_back_and_others_do_not(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start
) -> None:
    async def write(obj: Lamp) -> Next[LampStatus]:
        if obj.metadata.name == "hall" and not obj.metadata.labels:
            patch = MergePatch({"metadata": {"labels": {"written": "yes"}}})
            written = await behind.patch(Lamp, "hall", namespace, patch)
            works.controller.primary.expect(obj.key, written.metadata.resource_version)
        return Next.done()

    hold = Hold()
    proxy.on_events(events("MODIFIED", LAMPS, name="hall"), hold)
    works = await start(Electrician(write), client=behind)
    await client.create(Lamp, lamp("attic", namespace))
    await works.rests()
    await client.create(Lamp, lamp("hall", namespace))
    await hold.caught()
    for name in ("hall", "attic"):
        works.controller.queue.add(ObjectKey(namespace, name))
    await eventually(lambda: len(works.electrician.of("attic")) == 2, on=works.electrician.rang)
    assert len(works.electrician.of("hall")) == 1
    hold.release()
    await eventually(lambda: len(works.electrician.of("hall")) >= 2, on=works.electrician.rang)
    assert works.electrician.of("hall")[1].metadata.labels == {"written": "yes"}
    assert [one.request.verb for one in proxy.history.writes()] == ["patch"]


@pytest.mark.req("R-106")
async def test_an_object_that_a_pass_has_released_is_not_looked_at_again_while_the_cache_still_shows_it(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start
) -> None:
    async def release(obj: Lamp) -> Next[LampStatus]:
        if obj.metadata.is_terminating:
            await finalizer.remove(behind, obj, "engine.test/ours")
        return Next.done()

    hold = Hold()
    proxy.on_events(events("DELETED", LAMPS, name="hall"), hold)
    works = await start(Electrician(release), client=behind)
    await client.create(Lamp, lamp("attic", namespace))
    await client.create(Lamp, lamp("hall", namespace, finalizers=["engine.test/ours"]))
    await works.rests(passes=2)
    await client.delete(Lamp, "hall", namespace)
    await hold.caught()
    looks, attic = len(works.electrician.of("hall")), len(works.electrician.of("attic"))
    for name in ("hall", "attic"):
        works.controller.queue.add(ObjectKey(namespace, name))
    await eventually(lambda: len(works.electrician.of("attic")) > attic, on=works.electrician.rang)
    assert len(works.electrician.of("hall")) == looks
    hold.release()
    await eventually(lambda: bool(works.electrician.forgotten), on=works.electrician.rang)
    assert len(works.electrician.of("hall")) == looks


@pytest.mark.req("R-106")
async def test_a_key_rests_until_the_cache_shows_the_child_that_it_has_made(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start
) -> None:
    async def make_child(obj: Lamp) -> Next[LampStatus]:
        children = works.manager.informer(metadata_of(ConfigMap), namespace=namespace)
        if obj.metadata.name == "hall" and children.store.get(obj.key) is None:
            body: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hall"}}
            made = await behind.create(ConfigMap, body, namespace)
            children.expect(made.key, made.metadata.resource_version)
            return Next.now()
        return Next.done()

    def wire(controller: Controller[Lamp, LampStatus], manager: Manager) -> None:
        controller.watches(manager.informer(metadata_of(ConfigMap), namespace=namespace), lambda delta: [delta.key])

    hold = Hold()
    proxy.on_events(events("ADDED", "configmaps", name="hall"), hold)
    works = await start(Electrician(make_child), client=behind, wire=wire)
    await client.create(Lamp, lamp("hall", namespace))
    await hold.caught()
    works.controller.queue.add(ObjectKey(namespace, "hall"))
    await client.create(Lamp, lamp("attic", namespace))
    await eventually(lambda: works.electrician.of("attic"), on=works.electrician.rang)
    assert len(works.electrician.of("hall")) == 1
    hold.release()
    await eventually(lambda: len(works.electrician.of("hall")) >= 2, on=works.electrician.rang)
    assert [(one.request.verb, one.status) for one in proxy.history.writes()] == [("create", 201)]


@pytest.mark.req("R-201")
async def test_an_event_cut_in_its_frame_arrives_within_five_seconds(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start
) -> None:
    proxy.on_events(events("ADDED", LAMPS, name="hall"), CutFrame(), nth(1))
    works = await start(Electrician(), client=behind)
    await eventually(lambda: works.controller.primary.has_synced)
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(shows(client, namespace, True))
    lists = proxy.history.all(requests("list", LAMPS))
    assert len(lists) == 2, "a cut watch goes on where it was; the second list asks for the newest version only"


@pytest.mark.req("R-103")
async def test_repeated_events_change_nothing(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start
) -> None:
    proxy.on_events(events(resource=LAMPS), Repeat(2))
    works = await start(Electrician(), client=behind)
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(shows(client, namespace, True))
    await client.patch(Lamp, "hall", namespace, MergePatch({"spec": {"lit": False}}))
    await eventually(shows(client, namespace, False))
    await works.rests()
    assert len(proxy.history.writes()) == 2
    assert len(works.bell.heard) == 2


@pytest.mark.req("R-103")
@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED"])
async def test_a_hidden_event_is_found_out(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start, kind: str
) -> None:
    hidden = events(kind, LAMPS, name="hall")
    works = await start(Electrician(switch), client=behind, verify_seconds=0.2)
    await eventually(lambda: works.controller.primary.has_synced)
    if kind == "ADDED":
        proxy.on_events(hidden, Hide(), nth(1))
        await client.create(Lamp, lamp("hall", namespace, lit=False))
    else:
        await client.create(Lamp, lamp("hall", namespace))
        await eventually(shows(client, namespace, True))
        await eventually(lambda: works.controller.queue.running == 0)
        proxy.on_events(hidden, Hide(), nth(1))
        await client.patch(Lamp, "hall", namespace, MergePatch({"spec": {"lit": False}}))
    await eventually(shows(client, namespace, False))


@pytest.mark.req("R-103")
async def test_a_hidden_deletion_is_found_out(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start
) -> None:
    works = await start(Electrician(), client=behind, verify_seconds=0.2)
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(shows(client, namespace, True))
    proxy.on_events(events("DELETED", LAMPS, name="hall"), Hide(), nth(1))
    await client.delete(Lamp, "hall", namespace)
    await eventually(lambda: works.electrician.forgotten == [ObjectKey(namespace, "hall")])


@pytest.mark.req("R-102")
async def test_a_status_whose_answer_is_lost_is_written_in_the_end(
    client: Client, namespace: str, proxy: FaultProxy, behind: Client, start: Start
) -> None:
    lost = requests("update", LAMPS, subresource="status")
    proxy.on_requests(lost, AnswerInstead(504, after_forwarding=True), nth(1))
    proxy.on_requests(lost, AnswerInstead(503), nth(2))
    works = await start(Electrician(), client=behind)
    await client.create(Lamp, lamp("hall", namespace))
    await eventually(lambda: works.bell.heard)
    await works.rests()
    assert [one.status for one in proxy.history.writes()] == [504, 503, 409]
    assert await shows(client, namespace, True)()
