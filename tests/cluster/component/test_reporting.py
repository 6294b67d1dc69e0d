"""What a pass tells besides its status: Events with their revision, metrics that come and go, notifications to flux."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.operators.component.api import EVENT_REVISION_ANNOTATION, EVENT_TOKEN_ANNOTATION
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

STATE = "component_operator_runtime_component_state"


class Ear:
    """Plays flux's notification-controller."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.heard.append(json.loads(await request.read()))
        return web.Response(status=202)

    def reasons(self, name: str = "comp") -> list[str]:
        return [one["reason"] for one in self.heard if one["involvedObject"]["name"] == name]


@pytest.fixture
async def ear() -> AsyncIterator[Ear]:
    ear = Ear()
    runner = web.ServerRunner(web.Server(ear.answer, access_log=None), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    ear.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    yield ear
    await runner.cleanup()


async def test_events_on_a_component_carry_revision_and_token(
    given: Given, running: Running, then: Then, admin: Client, home: str
) -> None:
    await given.source({"one.yaml": config_map("one")}, revision="r1")
    await running.start()
    await given.component()
    ready = await then.ready()

    async def said() -> Event:
        found = (await admin.list(Event, home)).items
        return next(one for one in found if one.regarding.kind == "Component" and one.reason == "Ready")

    async def is_said() -> bool:
        found = (await admin.list(Event, home)).items
        return any(one.regarding.kind == "Component" and one.reason == "Ready" for one in found)

    await eventually(is_said)
    event = await said()
    assert event.type == "Normal"
    assert event.metadata.annotations == {
        EVENT_REVISION_ANNOTATION: "r1",
        EVENT_TOKEN_ANNOTATION: f"{ready.metadata.uid}:{ready.status.processing_digest}",
    }


async def test_a_component_is_in_exactly_one_state_and_leaves_no_series_behind(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one"), "two.yaml": config_map("two")})
    await running.start()
    await given.component()
    await then.ready()
    await running.rests()

    lines = series(running, "comp")
    assert [line.rsplit(" ", 1)[1] for line in lines if line.startswith(f"{STATE}{{")].count("1.0") == 1
    assert any(line.startswith(STATE) and 'state="Ready"' in line and line.endswith(" 1.0") for line in lines)
    assert any(
        line.startswith("component_operator_runtime_dependents_total") and line.endswith(" 2.0") for line in lines
    )
    assert any("unready_dependents_total" in line and line.endswith(" 0.0") for line in lines)

    await given.deleted()
    await then.gone()
    await eventually(lambda: not series(running, "comp"))


def series(running: Running, name: str) -> list[str]:
    """The series of one Component, as a scrape reads them."""
    text = running.manager.metrics.exposition().decode()
    return [line for line in text.splitlines() if f'name="{name}"' in line and line.startswith("component_operator")]


async def test_flux_is_told_of_each_change_once(given: Given, running: Running, then: Then, ear: Ear) -> None:
    await running.start(events_address=ear.url)
    await given.component(retryInterval="1h")
    await then.shows("Pending", "Retrying")
    await given.source({"one.yaml": config_map("one")}, revision="r1")
    await then.ready()
    await eventually(lambda: ear.reasons()[-1:] == ["Ready"])

    first, last = ear.heard[0], ear.heard[-1]
    assert (first["reason"], first["severity"]) == ("Retrying", "info")
    assert last["metadata"][EVENT_REVISION_ANNOTATION] == "r1"
    assert last["reportingController"] == "component-operator.cs.sap.com"
    assert ear.reasons().count("Retrying") == ear.reasons().count("Ready") == 1


async def test_the_next_failure_is_told_although_its_reason_is_that_of_the_former(
    given: Given, running: Running, then: Then, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    broken = (
        (config_map("one").replace("kind: ConfigMap", ""), "object without kind"),
        (config_map("one").replace("name: one", ""), "without metadata.name"),
        ("kind: [", "is not yaml"),
    )
    await running.start()
    await given.component()
    for revision, (text, cause) in enumerate(broken):
        await given.source({"one.yaml": text}, revision=f"r{revision}")
        told = await then.shows("Error", "Error", saying=cause)
        await then.event("Error", about="comp", saying=told.status.conditions[0].message)
    failures = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(failures) >= len(broken)
    assert not any("Component" in line for line in failures), "the line's fields name it"


async def test_the_next_obstacle_is_told_although_the_component_waits_as_before(
    given: Given, running: Running, then: Then
) -> None:
    await running.start()
    await given.component(dependencies=[{"name": "base"}])
    told = await then.shows("Pending", "Retrying", saying="not found")
    await then.event("Retrying", about="comp", saying=told.status.conditions[0].message)
    await given.source({"one.yaml": config_map("one")})
    told = await then.shows("Pending", "Retrying", saying="dependent component")
    await then.event("Retrying", about="comp", saying=told.status.conditions[0].message)
