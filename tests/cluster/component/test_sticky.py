"""A sticky Component finishes what it has begun before it takes anything newer."""

from __future__ import annotations

from stellwerk.kube.types.model import metadata_of
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import GATE, config, gate
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


def files(version: str) -> dict[str, str]:
    """A version that is ready when its gate is open."""
    return {"gate.yaml": gate(f"gate-{version}"), "config.yaml": config("one", version)}


async def test_of_two_quick_changes_the_first_is_finished_and_then_the_last_is_taken(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(files("1"), revision="r1")
    await given.component(sticky=True, timeout="10m")
    await running.start()
    await then.shows("Processing", saying="gate-1")
    await given.source(files("2"), revision="r2")
    await given.source(files("3"), revision="r3")
    await running.settled(given.client)
    await then.shows("Processing", saying="gate-1")
    assert (await then.config("one")).data == {"value": "1"}
    await given.opened("gate-1")
    waiting = await then.shows("Processing", saying="gate-3")
    assert (waiting.status.last_applied_revision, waiting.status.last_attempted_revision) == ("r1", "r3")
    await given.opened("gate-3")
    ready = await then.ready(revision="r3")
    assert ready.status.revision == 2
    assert "Ready" in then.reasons()[:-1]


async def test_a_version_that_never_becomes_ready_keeps_a_newer_one_out_until_its_time_is_over(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(files("1"), revision="r1")
    await given.component(sticky=True, timeout="10m")
    await running.start()
    await then.shows("Processing", saying="gate-1")
    await given.source({"config.yaml": config("one", "2")}, revision="r2")
    await running.waits(minutes=11)
    ready = await then.ready(revision="r2")
    assert ready.status.revision == 2
    assert (await then.config("one")).data == {"value": "2"}


async def test_without_stickiness_the_newest_is_taken_at_once(given: Given, running: Running, then: Then) -> None:
    await given.source(files("1"), revision="r1")
    await given.component(timeout="10m")
    await running.start()
    await then.shows("Processing", saying="gate-1")
    await given.source({"config.yaml": config("one", "2")}, revision="r2")
    await then.ready(revision="r2")
    assert await given.client.find(metadata_of(GATE), "gate-1", given.namespace) is None
