"""A Component is ready when its objects are, by the rules of their kinds and the hints of their authors."""

from __future__ import annotations

from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import GATE, config, gate, job
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def test_a_condition_that_a_hint_names_is_waited_for(given: Given, running: Running, then: Then) -> None:
    await given.source({"gate.yaml": gate("gate", status_hint="conditions=Synced;Green"), "one.yaml": config("one")})
    await given.component()
    await running.start()
    await then.shows("Processing", saying=f"Gate {then.key('gate')}")
    await _shows(given, Ready="True", Synced="False", Green="True")
    waiting = await then.shows("Processing", saying="Synced")
    assert {item.name: item.status for item in waiting.status.inventory} == {"gate": "InProgress", "one": "Current"}
    await _shows(given, Ready="True", Synced="True", Green="True")
    await then.ready()
    await _shows(given, Ready="True", Synced="True")
    await then.shows("Processing", saying="Green")


async def test_an_observed_generation_that_a_hint_asks_for_is_waited_for(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"gate.yaml": gate("gate", status_hint="has-observed-generation")})
    await given.component()
    await running.start()
    await then.shows("Processing", saying=f"Gate {then.key('gate')}")
    status: JsonObject = {"status": {"observedGeneration": 1}}
    await given.client.patch(metadata_of(GATE), "gate", given.namespace, MergePatch(status), subresource="status")
    await then.ready()


async def test_a_failed_job_is_never_ready_and_names_itself_until_it_is_replaced(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"job.yaml": job("work", fate="fail"), "one.yaml": config("one")}, revision="r1")
    await given.component(timeout="10m")
    await running.start()
    await then.shows("Processing", saying=f"Job {then.key('work')}: Failed")
    await running.waits(minutes=11)
    late = await then.shows("Error", "Timeout", saying=f"Job {then.key('work')}: Failed")
    assert {item.name: item.status for item in late.status.inventory} == {"work": "Failed", "one": "Current"}
    await running.rests()
    await given.source({"job.yaml": job("work", update_policy="recreate"), "one.yaml": config("one")}, revision="r2")
    await then.ready(revision="r2")
    assert then.reasons() == ["Processing", "Timeout", "Restarting", "Processing", "Ready"]


async def _shows(given: Given, **conditions: str) -> None:
    """The gate says that these conditions have these values."""
    found: JsonObject = {"status": {"conditions": [_condition(*one) for one in conditions.items()]}}
    await given.client.patch(metadata_of(GATE), "gate", given.namespace, MergePatch(found), subresource="status")


def _condition(type_: str, status: str) -> JsonObject:
    return {"type": type_, "status": status, "reason": "Test"}
