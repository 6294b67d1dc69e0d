"""flux's notification-controller hears of every change, once, and never holds anybody up."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest
from aiohttp import web
from tests.unit.component.given import component

from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata, JsonObject
from stellwerk.operators.component.api import Component
from stellwerk.operators.component.observers import flux_notifications
from stellwerk.operators.component.observers.flux_notifications import Receiver
from stellwerk.operators.component.observers.observers import AnnotatedSink
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.telemetry.metrics import Metrics
from stellwerk.testing.clock import FakeClock
from stellwerk.testing.eventually import Signal, eventually


def shown(
    name: str = "web", state: str = "Ready", reason: str = "Ready", message: str = "done", **more: Any
) -> Component:
    ready: JsonObject = {"type": "Ready", "status": "True", "reason": reason, "message": message}
    status: JsonObject = {"state": state, "conditions": [ready], "processingDigest": "d", **more}
    return component(
        name,
        status=status,
        annotations={"event.toolkit.fluxcd.io/team": "blue", "private": "no"},
    )


@dataclass
class Desk:
    """A receiver that answers what the test wants, and who sends to it."""

    address: str
    sender: Receiver
    clock: FakeClock
    metrics: Metrics
    answers: list[int] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    rung: Signal = field(default_factory=Signal)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.received.append(json.loads(await request.read()))
        self.rung.ring()
        return web.Response(status=self.answers.pop(0) if self.answers else 202)

    def tell(self, *components: Component) -> None:
        for one in components:
            self.sender.told(one, one.status)

    async def heard(self, *messages: str) -> None:
        await eventually(lambda: [one["message"] for one in self.received] == [*messages], on=self.rung)

    async def counted(self, outcome: str, count: float = 1.0) -> None:
        labels = {"outcome": outcome}
        name = "component_operator_notifications_total"
        await eventually(lambda: self.metrics.registry.get_sample_value(name, labels) == count)


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    clock, metrics = FakeClock(), Metrics()
    found: list[Desk] = []

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return await found[0].answer(request)

    runner = web.ServerRunner(web.Server(handle, access_log=None), handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    sender = Receiver(address, instance="pod-1", clock=clock, metrics=metrics)
    found.append(Desk(address, sender, clock, metrics))
    running = asyncio.create_task(sender.run())
    yield found[0]
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    await runner.cleanup()


async def test_a_notification_is_what_flux_reads(desk: Desk) -> None:
    desk.tell(shown(lastAttemptedRevision="main@sha1:1"))
    await desk.heard("done")

    assert desk.received[0] == {
        "involvedObject": {
            "apiVersion": "core.cs.sap.com/v1alpha1",
            "kind": "Component",
            "namespace": "shop",
            "name": "web",
            "uid": "uid-web",
            "resourceVersion": "1",
        },
        "severity": "info",
        "timestamp": "2030-01-01T00:00:00Z",
        "message": "done",
        "reason": "Ready",
        "metadata": {
            "event.toolkit.fluxcd.io/team": "blue",
            "core.cs.sap.com/revision": "main@sha1:1",
            "core.cs.sap.com/token": "uid-web:d",
        },
        "reportingController": "component-operator.cs.sap.com",
        "reportingInstance": "pod-1",
    }


async def test_an_error_is_an_error(desk: Desk) -> None:
    desk.tell(shown(state="Error", reason="Error", message="no quota"))
    await desk.heard("no quota")

    assert desk.received[0]["severity"] == "error"


@pytest.mark.req("R-108")
async def test_the_same_again_is_no_news_and_an_error_is_after_five_minutes(desk: Desk) -> None:
    fine, broken = shown(message="fine"), shown("db", state="Error", reason="Error", message="broken")
    desk.tell(fine, broken, fine, broken)
    await desk.heard("fine", "broken")
    await desk.clock.advance(301)
    desk.tell(fine, broken)

    await desk.heard("fine", "broken", "broken")


async def test_other_objects_that_are_waited_for_are_no_news_but_another_revision_is(desk: Desk) -> None:
    for message, revision in (("waiting for a", "1"), ("waiting for b", "1"), ("waiting for c", "2")):
        desk.tell(shown(state="Processing", reason="Processing", message=message, lastAttemptedRevision=revision))

    await desk.heard("waiting for a", "waiting for c")


async def test_a_failing_receiver_is_tried_again_and_a_duplicate_is_not(desk: Desk) -> None:
    desk.answers = [503, 202, 429, 400]
    desk.tell(shown(message="first"))
    await desk.heard("first")
    await desk.clock.until_sleeping()
    await desk.clock.advance(1)
    await desk.counted("sent")

    desk.tell(shown(message="second"), shown(message="third"))
    await desk.heard("first", "first", "second", "third")
    await desk.counted("duplicate")
    await desk.counted("failed")


async def test_a_receiver_that_stays_away_is_given_up_and_the_next_notification_goes_out(desk: Desk) -> None:
    desk.answers = [500] * flux_notifications.TRIES
    desk.tell(shown(message="lost"), shown(message="kept"))

    async def has_given_up() -> bool:
        await desk.clock.advance(1)
        return len(desk.received) > flux_notifications.TRIES

    await eventually(has_given_up)
    await desk.counted("failed")
    await desk.counted("sent")
    assert [one["message"] for one in desk.received] == ["lost"] * flux_notifications.TRIES + ["kept"]


async def test_what_does_not_fit_is_dropped_and_the_first_ones_are_kept() -> None:
    metrics = Metrics()
    sender = Receiver("http://127.0.0.1:1/", instance="pod", clock=FakeClock(), metrics=metrics)
    for number in range(flux_notifications.QUEUE_LIMIT + 3):
        sender.told(shown(f"c{number}"), shown(f"c{number}").status)

    assert sender.waiting == flux_notifications.QUEUE_LIMIT
    found = metrics.registry.get_sample_value("component_operator_notifications_total", {"outcome": "dropped"})
    assert found == 3


async def test_a_first_look_is_not_worth_a_notification_and_a_forgotten_component_is_new_again(desk: Desk) -> None:
    desk.tell(shown(state="Pending", reason="FirstSeen", message="First seen"), shown(message="one"))
    desk.sender.forget(ObjectKey("shop", "web"))
    desk.tell(shown(message="one"))

    await desk.heard("one", "one")


async def test_what_is_left_is_sent_at_the_end(desk: Desk) -> None:
    ending = Receiver(desk.address, instance="pod", clock=desk.clock, metrics=Metrics())
    running = asyncio.create_task(ending.run())
    await asyncio.sleep(0)
    ending.told(shown(message="last"), shown(message="last").status)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert [one["message"] for one in desk.received] == ["last"]


class Tape:
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        self.notices.append(notice)


def test_an_event_on_a_component_carries_revision_and_token_and_is_as_grave_as_its_state() -> None:
    tape = Tape()
    sink = AnnotatedSink(tape)
    before = component()
    sink.told(before, shown(state="Pending", reason="Retrying", lastAttemptedRevision="r").status)
    sink.send(before, Notice("Retrying", "no source", Severity.WARNING))
    sink.told(before, shown(state="Error", reason="Timeout").status)
    sink.send(before, Notice("Timeout", "late"))
    sink.send(before, Notice("DriftDetected", "changed", Severity.WARNING))

    assert [one.severity.value for one in tape.notices] == ["Normal", "Warning", "Warning"]
    assert dict(tape.notices[0].annotations) == {
        "core.cs.sap.com/revision": "r",
        "core.cs.sap.com/token": "uid-web:d",
    }
    sink.forget(before.key)
    sink.send(before, Notice("Ready", "done"))
    assert dict(tape.notices[-1].annotations) == {"core.cs.sap.com/token": "uid-web:"}


@pytest.mark.req("R-413")
@pytest.mark.req("R-512")
async def test_a_notification_that_cannot_be_encoded_stops_no_other(desk: Desk) -> None:
    odd = shown("odd")
    ready = msgspec.structs.replace(odd.status.conditions[0], message="a lone \udcff surrogate")
    desk.sender.told(odd, msgspec.structs.replace(odd.status, conditions=(ready,)))
    desk.tell(shown("web"))
    await eventually(lambda: len(desk.received) == 1, on=desk.rung)
    assert desk.received[0]["involvedObject"]["name"] == "web"
    count = desk.metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": "notification"})
    assert count == 1
