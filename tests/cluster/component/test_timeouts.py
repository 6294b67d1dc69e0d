"""A Component says so when its objects take too long, goes on all the same, and counts anew when anything changes."""

from __future__ import annotations

from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import gate
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

SLOW = {"slow.yaml": gate("slow"), "one.yaml": config_map("one")}


async def test_objects_that_take_too_long_are_named_and_may_become_ready_later(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(SLOW)
    await running.start()
    await given.component(timeout="10m")
    waiting = await then.shows("Processing", "Processing", saying="slow: InProgress: condition Ready is missing")
    assert waiting.status.processing_since is not None
    await running.waits(minutes=9)
    await running.rests()
    assert then.reasons() == ["Processing"]
    await running.waits(seconds=61)
    late = await then.shows("Error", "Timeout", saying="slow")
    assert {item.name: (item.phase, item.status) for item in late.status.inventory} == {
        "slow": ("Creating", "InProgress"),
        "one": ("Ready", "Current"),
    }
    await given.opened("slow")
    ready = await then.ready()
    assert ready.status.processing_since is None


async def test_time_spent_waiting_for_others_does_not_count(given: Given, running: Running, then: Then) -> None:
    await running.start()
    await given.component(timeout="10m")
    await then.shows("Pending", "Retrying")
    await running.waits(minutes=30)
    await given.source(SLOW)
    await then.shows("Processing", "Processing", saying="slow")
    assert "Timeout" not in then.reasons()


async def test_an_edit_and_a_new_revision_begin_the_time_anew(given: Given, running: Running, then: Then) -> None:
    await given.source(SLOW, revision="r1")
    await running.start()
    await given.component(timeout="10m")
    await then.shows("Processing", "Processing", saying="slow")
    await running.waits(minutes=10, seconds=1)
    await then.shows("Error", "Timeout")
    await given.component(timeout="10m", values={"edited": True})
    await then.shows("Processing", "Processing", saying="slow")
    await running.waits(minutes=9)
    await running.rests()
    assert then.reasons()[-3:] == ["Timeout", "Restarting", "Processing"]
    await running.waits(seconds=61)
    await then.turned("Timeout", times=2)
    await given.source({**SLOW, "two.yaml": config_map("two")}, revision="r2")
    await then.shows("Processing", "Processing", saying="slow")
    assert then.reasons()[-3:] == ["Timeout", "Restarting", "Processing"]


async def test_without_a_timeout_the_requeue_interval_is_it(given: Given, running: Running, then: Then) -> None:
    await given.source(SLOW)
    await running.start()
    await given.component(requeueInterval="3m")
    await then.shows("Processing", "Processing", saying="slow")
    await running.waits(seconds=165)
    await running.rests()
    assert "Timeout" not in then.reasons()
    await running.waits(seconds=16)
    await then.shows("Error", "Timeout")


async def test_without_a_retry_interval_the_requeue_interval_is_it(given: Given, running: Running, then: Then) -> None:
    await given.source(SLOW)
    await running.start()
    await given.component(requeueInterval="3m", dependencies=[{"name": "absent"}])
    await then.shows("Pending", "Retrying", saying=f"dependent component {then.namespace}/absent not found")
    await running.looks_again(not_within=165, within=191)


async def test_a_ready_component_is_looked_at_in_its_requeue_interval(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component(requeueInterval="3m")
    await then.ready()
    await running.looks_again(not_within=165, within=191)
