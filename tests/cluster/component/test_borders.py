"""Whatever code raises, and wherever, the Component operator goes on, and recovers when the fault ends (R-512)."""

from __future__ import annotations

import itertools

import pytest

from stellwerk.delivery.reconcile_request import REQUESTED_AT_ANNOTATION
from stellwerk.kube.client.client import Client
from stellwerk.testing.checks.surprises import SURPRISES
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

pytestmark = pytest.mark.req("R-512")

PASSES = ("render", "fetch", "update components")


def failures(running: Running, kind: str) -> float:
    """How many unexpected exceptions were counted of this kind of task."""
    return running.manager.metrics.registry.get_sample_value("stellwerk_task_failures_total", {"kind": kind}) or 0.0


async def all_was_raised(running: Running, given: Given | None = None, minutes: int = 31) -> None:
    """Let time pass until everything was raised; with `given`, request a pass each time, which writes the status."""
    saboteur, turns = running.saboteur, itertools.count()

    async def passes() -> bool:
        if given is not None:
            await given.annotated(**{REQUESTED_AT_ANNOTATION: f"turn {next(turns)}"})
        await running.clock.jump(minutes=minutes)
        return saboteur.is_done

    await eventually(passes, within=120, describe=f"all is raised at {saboteur.place}")
    assert saboteur.fired == len(SURPRISES)
    assert not running.ended


@pytest.mark.parametrize("place", PASSES)
async def test_a_pass_that_raises_anything_is_told_and_others_go_on(
    given: Given, running: Running, then: Then, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await given.source({"two.yaml": config_map("two")}, "other")
    await running.start()
    await given.component()
    await then.ready()
    running.saboteur.arm(place)
    await given.source({"one.yaml": config_map("one", key="changed")})
    await given.component("other", "other")
    await all_was_raised(running, given)
    assert failures(running, "pass") >= len(SURPRISES) / 2
    assert "Traceback" in caplog.text
    await running.clock.jump(minutes=30)
    await then.ready("other")
    await then.ready()
    await then.config_holds("one", {"key": "changed"})


async def test_a_look_at_a_web_server_that_raises_anything_parks_that_address_alone(
    given: Given, running: Running, then: Then
) -> None:
    app = given.server.publish(f"{given.namespace}/app.tar.gz", {"one.yaml": config("one", "1")})
    await given.component(sourceRef={"httpRepository": {"url": app.url}})
    await running.start()
    await then.ready()
    running.saboteur.arm("head")
    await all_was_raised(running)
    assert failures(running, "http repository") + failures(running, "pass") >= len(SURPRISES) / 2
    given.server.publish(f"{given.namespace}/app.tar.gz", {"one.yaml": config("one", "2")})
    await running.clock.jump(minutes=31)
    await then.config_holds("one", {"value": "2"})


@pytest.mark.parametrize("place", ["elsewhere list configmaps", "elsewhere watch configmaps"])
async def test_a_watch_of_another_cluster_that_raises_anything_costs_only_its_components(
    given: Given, running: Running, then: Then, remote: Client, login: str, place: str
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await given.secret("there", **{"value.yaml": login})
    await running.start()
    running.saboteur.arm(place)
    await given.component(kubeConfig={"secretRef": {"name": "there"}})
    await given.component("home")
    await then.ready("home")
    await all_was_raised(running)
    assert failures(running, "informer") >= len(SURPRISES) / 2
    for _ in range(2):  # the pause after the last failure may begin after the first jump
        await running.clock.jump(minutes=30)
        await running.rests()
    await then.ready()


async def test_an_event_that_raises_anything_is_lost_and_nothing_else(given: Given, running: Running) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    running.saboteur.arm("create events")
    for number in range(len(SURPRISES)):
        await given.component(f"comp-{number}")
    await all_was_raised(running)
    await given.component("other")
    await running.has_sent_events()
    assert not running.ended
