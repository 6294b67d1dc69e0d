"""Passes that are values, on a real API server: a lamp gets a bulb, and shines when its socket is there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, ClassVar

import pytest
from tests.cluster.runtime.conftest import Bell
from tests.cluster.runtime.example_kind import Lamp, LampStatus, lamp, shining

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.control.controller import Controller, only_status_changed
from stellwerk.runtime.control.executor import Deciding, InformerSources, Uncovered, rehearse
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.control.step import (
    Again,
    Create,
    Delete,
    Failure,
    Hands,
    Patch,
    RemoveFinalizer,
    Step,
    Wait,
)
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.known import NotKnown, Present
from stellwerk.runtime.reading.questions import Collection, PlainSource
from stellwerk.runtime.reading.view import Overlay, PlainSources, View, exists
from stellwerk.runtime.reconciler import Notice
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.faults import AnswerInstead, CutConnection, FaultProxy, Hold, events, first, requests
from stellwerk.testing.faults.on_requests import Proceed
from stellwerk.testing.faults.reply import Reply
from stellwerk.testing.faults.traffic import RecordedRequest

LAMPS, BULBS = Collection(Lamp), Collection(ConfigMap)
OURS = "engine.test/bulb"
SOCKET = "socket"
LampStep = Step[LampStatus]


def refused(message: str, _: object) -> Failure:
    return Failure(message=message, event_reason="Refused")


def bulb(obj: Lamp) -> JsonObject:
    name: JsonObject = {"name": obj.metadata.name, "namespace": obj.metadata.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name, "data": {"power": "on"}}


@dataclass
class LampLogic:
    """What a lamp needs next."""

    collection: Collection[Lamp] = LAMPS
    passes: list[str] = field(default_factory=list)
    extra: Callable[[Lamp, View], LampStep | None] = lambda obj, view: None

    def decide(self, obj: Lamp, view: View) -> LampStep:
        self.passes.append(obj.metadata.name)
        if obj.metadata.is_terminating:
            return self._leave(obj, view)
        if (step := self.extra(obj, view)) is not None:
            return step
        if OURS not in obj.metadata.finalizers:
            return Step(writes=(Patch(LAMPS, obj, {"metadata": {"finalizers": [OURS]}}, refused),))
        if obj.status is None:
            return Step(status=shining(obj, False, "Switching"), events=(Notice("Switching", "it is being switched"),))
        found = view.find(BULBS, obj.key)
        if found is None:
            return Step(writes=(Create(BULBS, bulb(obj), refused),), events=(Notice("Fitted", "it has a bulb"),))
        if found.data.get("power") != "on":
            return Step(writes=(Patch(BULBS, found, {"data": {"power": "on"}}, refused),))
        socket = ObjectKey(obj.metadata.namespace, SOCKET)
        if not isinstance(view.get(BULBS, socket, exists), Present):
            message = "waiting for the socket"
            return Step(status=shining(obj, False, "Waiting", message), waits=(Wait((BULBS, socket), message),))
        return Step(status=shining(obj))

    def _leave(self, obj: Lamp, view: View) -> LampStep:
        found = view.find(BULBS, obj.key)
        if found is not None and not found.metadata.is_terminating:
            return Step(writes=(Delete(BULBS, found, refused),))
        return Step(writes=(RemoveFinalizer(OURS),) if OURS in obj.metadata.finalizers else ())

    def unknown(self, obj: Lamp, view: View, missing: NotKnown) -> LampStep:
        return Step(status=shining(obj, False, "Unknown", str(missing)))

    def failed(self, obj: Lamp, failure: Failure) -> LampStatus:
        return shining(obj, False, "Failed", failure.message)

    def unexpected(self, obj: Lamp, message: str) -> LampStatus:
        return shining(obj, False, "Bug", message)


@dataclass
class Here:
    """Makes informers of one namespace."""

    manager: Manager
    namespace: str

    def informer(self, target: Any, *, labels: str = "", fields: str = "", optional: bool = False) -> Any:
        return self.manager.informer(target, namespace=self.namespace, labels=labels, fields=fields, optional=optional)


@dataclass
class Works:
    """An operator of lamps that runs."""

    logic: LampLogic
    engine: Deciding[Lamp, LampStatus]
    bell: Bell
    client: Client
    namespace: str

    async def shows(self, reason: str, name: str = "hall") -> Lamp:
        async def found() -> bool:
            seen.append(await self.client.get(Lamp, name, self.namespace))
            status = seen[-1].status
            return status is not None and status.conditions[0].reason == reason

        seen: list[Lamp] = []
        await eventually(found, within=30, describe=f"{name} shows {reason}")
        return seen[-1]

    def is_calm(self) -> bool:
        queue = self.engine.controller.queue
        return not queue.running and not len(queue)

    def heard(self) -> list[str]:
        return [notice.reason for _, notice in self.bell.heard]


Begin = Callable[..., Awaitable[Works]]


@pytest.fixture
async def begin(client: Client, namespace: str) -> AsyncIterator[Begin]:
    async with contextlib.AsyncExitStack() as stack:

        async def begin(
            logic: LampLogic, *, through: FaultProxy | None = None, ignores: Callable[[Lamp, Lamp], bool] | None = None
        ) -> Works:
            used = client
            if through is not None:
                used = await stack.enter_async_context(Client.connect(ClusterConfig.load(through.kubeconfig)))
            manager, bell = Manager(used, grace_seconds=2.0), Bell()
            sources = InformerSources(Here(manager, namespace), (LAMPS, BULBS))
            engine = Deciding(logic=logic, sources=sources, client=used, clock=manager.clock)
            controller = Controller(
                "lamps",
                sources.informer(LAMPS),
                engine,
                write_status=StatusWriter(client=used),
                backoff=Backoff(first_seconds=0.01, limit_seconds=0.5),
                recorder=bell,
                metrics=manager.metrics,
            )
            engine.serve(controller)
            if ignores is not None:
                controller.ignore_updates(ignores)
            manager.add_controller(controller)
            task = asyncio.create_task(manager.run())
            stack.push_async_callback(partial(_end, manager, task))
            return Works(logic, engine, bell, client, namespace)

        yield begin


async def _end(manager: Manager, task: asyncio.Task[None]) -> None:
    manager.stop()
    async with asyncio.timeout(30):
        await task


async def fit_socket(client: Client, namespace: str) -> None:
    metadata: JsonObject = {"name": SOCKET, "namespace": namespace}
    await client.create(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


async def test_an_object_moves_as_far_as_it_can_in_one_pass(
    client: Client, namespace: str, begin: Begin, audit: AuditLog
) -> None:
    await fit_socket(client, namespace)
    works = await begin(LampLogic())
    await client.create(Lamp, lamp("attic", namespace))
    await works.shows("Switched", "attic")  # so that the caches are filled
    await eventually(works.is_calm)
    works.bell.heard.clear()
    audit.mark()
    await client.create(Lamp, lamp("hall", namespace))
    await works.shows("Switched")
    await eventually(works.is_calm)
    written = audit.entries(lambda entry: entry.is_write and entry.namespace == namespace)
    assert [(each.verb, each.resource, each.subresource) for each in written] == [
        ("create", "lamps", ""),
        ("patch", "lamps", ""),
        ("update", "lamps", "status"),
        ("create", "configmaps", ""),
        ("update", "lamps", "status"),
    ], "the status that the bulb relies on is saved before it is made"
    assert works.heard() == ["Switching", "Fitted"]


async def test_the_first_status_of_an_object_is_saved(client: Client, namespace: str, begin: Begin) -> None:
    works = await begin(LampLogic(extra=lambda obj, view: Step(status=shining(obj, reason="Only"))))
    await client.create(Lamp, lamp("hall", namespace))
    await works.shows("Only")


async def test_what_is_waited_for_wakes_and_is_shown(client: Client, namespace: str, begin: Begin) -> None:
    works = await begin(LampLogic())
    await client.create(Lamp, lamp("hall", namespace))
    await works.shows("Waiting")
    await eventually(works.is_calm)
    (wait,) = works.engine.waits_of(ObjectKey(namespace, "hall"))
    assert wait.on == (BULBS, ObjectKey(namespace, SOCKET))
    await fit_socket(client, namespace)
    await works.shows("Switched")
    await eventually(lambda: not works.engine.waits_of(ObjectKey(namespace, "hall")))


async def test_a_calm_object_is_awakened_by_what_it_asked_for_and_by_nothing_else(
    client: Client, namespace: str, begin: Begin
) -> None:
    await fit_socket(client, namespace)
    works = await begin(LampLogic())
    for name in ("hall", "attic"):
        await client.create(Lamp, lamp(name, namespace))
        await works.shows("Switched", name)
    await eventually(works.is_calm)
    works.logic.passes.clear()
    await client.patch(ConfigMap, SOCKET, namespace, MergePatch({"data": {"any": "thing"}}))
    await client.patch(ConfigMap, "hall", namespace, MergePatch({"data": {"power": "off"}}))
    await eventually(lambda: len(works.logic.passes) >= 2)
    await eventually(works.is_calm)
    assert {*works.logic.passes} == {"hall"}, "the presence of the socket is asked for, and not its content"
    assert (await client.get(ConfigMap, "hall", namespace)).data == {"power": "on"}


async def test_the_end_deletes_what_was_made_and_releases_the_object(
    client: Client, namespace: str, begin: Begin
) -> None:
    works = await begin(LampLogic())
    await client.create(Lamp, lamp("hall", namespace))
    await works.shows("Waiting")
    await client.delete(metadata_of(Lamp), "hall", namespace)
    await eventually(lambda: _is_gone(client, Lamp, namespace))
    assert await _is_gone(client, ConfigMap, namespace)
    await eventually(lambda: not works.engine._askers)
    assert not works.engine.sources.informer(BULBS).store.get(ObjectKey(namespace, "hall"))


async def _is_gone(client: Client, target: Any, namespace: str) -> bool:
    return await client.find(target, "hall", namespace) is None


def test_a_wait_for_what_was_not_asked_for_is_a_bug() -> None:
    namespace = "here"

    def careless(obj: Lamp, view: View) -> LampStep | None:
        return Step(waits=(Wait((BULBS, ObjectKey(namespace, SOCKET)), "waiting"),))

    logic = LampLogic(extra=careless)
    with pytest.raises(Uncovered, match="did not ask for it"):
        rehearse(logic, Lamp(metadata=_metadata(namespace)), _plain_view)


def _metadata(namespace: str) -> ObjectMeta:
    return ObjectMeta(name="hall", namespace=namespace, uid="1", resource_version="1")


def _plain_view(overlay: Overlay) -> View:
    sources = PlainSources().add(BULBS, PlainSource())
    return View(sources=sources, now=datetime.now(UTC), overlay=overlay)


def test_a_rehearsal_takes_the_steps_of_a_pass_without_a_request() -> None:
    course = rehearse(LampLogic(), Lamp(metadata=_metadata("here")), _plain_view)
    assert [write.about for write in course.writes] == ["Lamp here/hall", "ConfigMap here/hall"]
    assert course.status.conditions[0].reason == "Waiting"


async def test_writes_that_do_not_stay_are_a_failure_that_names_the_webhook(
    client: Client, namespace: str, begin: Begin
) -> None:
    def stubborn(obj: Lamp, view: View) -> LampStep | None:
        return Step(writes=(Patch(LAMPS, obj, {"metadata": {"labels": {"colour": "red"}}}, refused),))

    works = await begin(LampLogic(extra=stubborn))
    await client.create(Lamp, lamp("hall", namespace))
    shown = await works.shows("Failed")
    assert shown.status is not None
    assert "kubectl get mutatingwebhookconfigurations" in shown.status.conditions[0].message


async def test_a_refused_write_is_what_the_kind_makes_of_it(client: Client, namespace: str, begin: Begin) -> None:
    def odd(obj: Lamp, view: View) -> LampStep | None:
        body = bulb(obj) | {"data": {"no name for a key": "x"}}
        return Step(writes=(Create(BULBS, body, lambda said, _: Failure(message=f"refused: {said}")),))

    works = await begin(LampLogic(extra=odd))
    await client.create(Lamp, lamp("hall", namespace))
    shown = await works.shows("Failed")
    assert shown.status is not None
    assert shown.status.conditions[0].message.startswith("refused: cannot create ConfigMap")


@pytest.mark.parametrize("is_independent", [False, True])
async def test_a_refused_write_holds_up_later_ones_unless_they_are_independent(
    client: Client, namespace: str, begin: Begin, is_independent: bool
) -> None:
    def two(obj: Lamp, view: View) -> LampStep | None:
        name: JsonObject = {"name": "bad", "namespace": namespace}
        bad = Create(BULBS, bulb(obj) | {"metadata": name, "data": {"no name for a key": "x"}}, refused)
        good = () if view.find(BULBS, obj.key) is not None else (Create(BULBS, bulb(obj), refused),)
        return Step(status=shining(obj, False, "Two"), writes=(bad, *good), is_independent=is_independent)

    works = await begin(LampLogic(extra=two))
    await client.create(Lamp, lamp("hall", namespace))
    shown = await works.shows("Failed")
    assert shown.status is not None
    assert "ConfigMap" in shown.status.conditions[0].message
    assert (await client.find(ConfigMap, "hall", namespace) is not None) is is_independent


@dataclass(frozen=True)
class Meeting:
    """A write that ends when another one is under way, too, and then fails."""

    verbs: ClassVar[Mapping[str, str]] = {}

    about: str
    barrier: asyncio.Barrier = field(compare=False)
    failure: Exception | None = field(compare=False)

    async def perform(self, hands: Hands) -> None:
        async with asyncio.timeout(20):
            await self.barrier.wait()
        if isinstance(self.failure, Again):
            raise self.failure
        hands.fail(Failure(message="a user should read this"))

    def rehearse(self, overlay: Overlay, now: datetime) -> None:
        """It changes nothing."""


async def test_independent_writes_are_side_by_side_and_a_refused_one_is_shown(
    client: Client, namespace: str, begin: Begin
) -> None:
    barrier = asyncio.Barrier(2)

    def meet(obj: Lamp, view: View) -> LampStep | None:
        writes = (Meeting("a", barrier, Again()), Meeting("b", barrier, None))
        return Step(writes=writes, is_independent=True)

    works = await begin(LampLogic(extra=meet))
    await client.create(Lamp, lamp("hall", namespace))
    shown = await works.shows("Failed")
    assert shown.status is not None
    assert shown.status.conditions[0].message == "a user should read this"


@dataclass(frozen=True, slots=True)
class ChangedFirst:
    """Another client changes the object just before the request reaches the server."""

    change: Callable[[RecordedRequest], Awaitable[object]]

    async def meet(self, request: RecordedRequest, proceed: Proceed) -> Reply:
        await self.change(request)
        return await proceed(request)


async def _touch(client: Client, request: RecordedRequest) -> None:
    """Change the object of a request, or make the one that it would make."""
    target: Any = {"lamps": Lamp, "configmaps": ConfigMap}[request.resource]
    if request.verb == "create":
        metadata: JsonObject = {"name": "hall", "namespace": request.namespace, "labels": {"by": "another"}}
        await client.create(target, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        return
    patch = MergePatch({"metadata": {"labels": {"touched": f"at-{request.number}"}}})
    await client.patch(target, request.name, request.namespace, patch)


FAULTS: dict[str, Callable[[Client], Any]] = {
    "a conflict without a cause": lambda client: AnswerInstead(409),
    "a lost answer": lambda client: CutConnection(after_forwarding=True),
    "a lost request": lambda client: CutConnection(),
    "a real change": lambda client: ChangedFirst(partial(_touch, client)),
}
WRITES = {
    "finalizer": requests("patch", Lamp.resource.group_resource, subresource=""),
    "status": requests("update", Lamp.resource.group_resource, subresource="status"),
    "bulb": requests("create", "configmaps"),
    "power": requests("patch", "configmaps"),
    "removal": requests("delete", "configmaps"),
}


@pytest.mark.req("R-203")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("write", WRITES)
async def test_a_fault_of_any_write_converges(
    client: Client, namespace: str, proxy: FaultProxy, begin: Begin, fault: str, write: str
) -> None:
    await fit_socket(client, namespace)
    works = await begin(LampLogic(), through=proxy)
    when = WRITES[write] & requests(namespace=namespace)
    with proxy.on_requests(when, FAULTS[fault](client), first(1)) as rule:
        await client.create(Lamp, lamp("hall", namespace))
        await works.shows("Switched")
        await client.patch(ConfigMap, "hall", namespace, MergePatch({"data": {"power": "off"}}))
        await eventually(lambda: _is_on(client, namespace))
        await works.shows("Switched")
        await client.delete(metadata_of(Lamp), "hall", namespace)
        await eventually(lambda: _is_gone(client, Lamp, namespace))
        assert await _is_gone(client, ConfigMap, namespace)
    assert rule.fired == 1
    heard = works.heard()
    assert heard[:1] == ["Switching"]
    assert len(heard) == len({*heard}), "an Event is sent once, and not for a write that did not happen"


async def test_a_change_that_wakes_nothing_while_a_status_is_saved_is_looked_at_all_the_same(
    client: Client, namespace: str, proxy: FaultProxy, begin: Begin
) -> None:
    async def show_another(request: RecordedRequest) -> None:
        shown: JsonObject = {"type": "Ready", "status": "False", "reason": "Another", "message": ""}
        body: JsonObject = {"status": {"conditions": [shown]}}
        await client.patch(metadata_of(Lamp), request.name, request.namespace, MergePatch(body), subresource="status")

    await fit_socket(client, namespace)
    works = await begin(LampLogic(), through=proxy, ignores=only_status_changed)
    await client.create(Lamp, lamp("attic", namespace))
    await works.shows("Switched", "attic")  # so that the caches are filled
    await eventually(works.is_calm)
    body = lamp("hall", namespace)
    body["metadata"] = {"name": "hall", "namespace": namespace, "finalizers": [OURS]}
    with proxy.on_requests(WRITES["status"] & requests(name="hall"), ChangedFirst(show_another), first(1)):
        await client.create(Lamp, body)
        await works.shows("Switched")
    await client.delete(metadata_of(Lamp), "hall", namespace)
    await eventually(lambda: _is_gone(client, Lamp, namespace))


async def _is_on(client: Client, namespace: str) -> bool:
    found = await client.find(ConfigMap, "hall", namespace)
    return found is not None and found.data.get("power") == "on"


async def test_an_object_that_the_cache_does_not_show_yet_is_laid_over_the_view(
    client: Client, namespace: str, proxy: FaultProxy, begin: Begin
) -> None:
    hold = Hold()
    proxy.on_events(events("ADDED", "configmaps", name="hall"), hold)
    works = await begin(LampLogic(), through=proxy)
    await client.create(Lamp, lamp("attic", namespace))
    await works.shows("Waiting", "attic")
    metadata: JsonObject = {"name": "hall", "namespace": namespace}
    await client.create(ConfigMap, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await hold.caught()
    await client.create(Lamp, lamp("hall", namespace))
    await works.shows("Waiting")
    written = [each.request for each in proxy.history.writes() if each.request.name == "hall"]
    assert [each.verb for each in written if each.resource == "configmaps"] == ["create", "patch"]
    assert (await client.get(ConfigMap, "hall", namespace)).data == {"power": "on"}
    hold.release()
