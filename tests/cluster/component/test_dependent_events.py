"""What is done to objects is told by Events on them, unless their Component or the operator wants that less."""

from __future__ import annotations

import pytest

from stellwerk.api.events import Event
from stellwerk.operators.component.api import DISABLE_EVENTS_ANNOTATION
from stellwerk.operators.component.settings import DependentEvents
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

WRITES = {("one", "Created"), ("two", "Created"), ("one", "Updated"), ("two", "Deleted")}
LATER = WRITES - {("one", "Created"), ("two", "Created")}


async def told(given: Given, kind: str) -> set[tuple[str, str]]:
    """The Events about objects of a kind: name and reason."""
    found = (await given.client.list(Event, given.namespace)).items
    return {(one.regarding.name, one.reason) for one in found if one.regarding.kind == kind and one.reason}


async def are_told(given: Given, kind: str, expected: set[tuple[str, str]]) -> None:
    """These Events, and maybe others, come: an operator that stops waits for them for two seconds only."""

    async def have_come() -> bool:
        missing = expected - await told(given, kind)
        assert not missing, missing
        return True

    await eventually(have_come)


async def a_life(given: Given, then: Then) -> None:
    """A Component whose objects are created, updated and deleted."""
    await given.source({"one.yaml": config("one", "1"), "two.yaml": config("two")}, revision="r1")
    await then.ready(revision="r1")
    await given.source({"one.yaml": config("one", "2")}, revision="r2")
    await then.ready(revision="r2")


@pytest.mark.parametrize(
    ("asked", "expected"), [(DependentEvents.ALL, WRITES), (DependentEvents.CHANGES, LATER), (DependentEvents.NONE, ())]
)
async def test_an_operator_tells_as_much_as_it_is_told_to(
    given: Given, running: Running, then: Then, asked: DependentEvents, expected: set[tuple[str, str]]
) -> None:
    await running.start(dependent_events=asked)
    await given.component()
    await a_life(given, then)
    await are_told(given, "ConfigMap", {*expected})
    await running.stop()  # what else was to be sent has been sent
    assert await told(given, "ConfigMap") == {*expected}


async def test_a_component_may_have_no_events_on_its_objects_and_still_has_its_own(
    given: Given, running: Running, then: Then
) -> None:
    await given.component()
    await given.annotated(**{DISABLE_EVENTS_ANNOTATION: "true"})
    await running.start(dependent_events=DependentEvents.ALL)
    await a_life(given, then)
    await are_told(given, "Component", {("comp", "Ready")})
    await running.stop()
    assert await told(given, "ConfigMap") == set()


async def test_what_fails_is_told_on_the_object_and_on_the_component(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config("one", "x" * 1_100_000)})
    await given.component()
    await running.start()
    await then.shows("Error", "Error", saying="ConfigMap")
    await are_told(given, "ConfigMap", {("one", "UpdateError")})
    await are_told(given, "Component", {("comp", "Error")})
