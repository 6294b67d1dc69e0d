"""Values from Secrets and from the spec are merged, the nearest winning, and what is missing is waited for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stellwerk.kube.client.patch import MergePatch
from stellwerk.operators.component.api import Component
from tests.cluster.component.given import Given
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

SHOWN = {
    "shown.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shown\ndata:\n  values: {{ toJson . | quote }}\n"
}


async def shown(then: Then) -> Any:
    return json.loads((await then.config("shown")).data["values"])


async def test_what_is_nearer_wins_in_mappings_of_any_depth_and_replaces_lists(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(SHOWN)
    await given.secret(
        "far",
        values=json.dumps({"app": {"name": "far", "ports": [1, 2], "tags": {"one": "far", "two": "far"}}, "far": 1}),
    )
    await given.secret("near", **{"values.yaml": "app:\n  name: near\n  tags: {two: near}\nover: {a: {b: 1}}\n"})
    await running.start()
    await given.component(
        valuesFrom=[{"name": "far"}, {"name": "near"}],
        values={"app": {"ports": [3], "tags": {"three": "spec"}}, "over": "written over", "spec": True},
    )
    await then.ready()
    assert await shown(then) == {
        "app": {"name": "near", "ports": [3], "tags": {"one": "far", "two": "near", "three": "spec"}},
        "far": 1,
        "over": "written over",
        "spec": True,
    }


async def test_a_key_is_found_by_its_usual_names_and_a_named_one_is_waited_for(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(SHOWN)
    await given.secret("values", **{"values.yml": "found: by fallback"})
    await running.start()
    await given.component(valuesFrom=[{"name": "values"}])
    await then.ready()
    assert await shown(then) == {"found": "by fallback"}

    await given.component(valuesFrom=[{"name": "values", "key": "mine"}])
    await then.shows("Pending", "Retrying", saying=f"key mine not found in secret {then.namespace}/values")
    assert await shown(then) == {"found": "by fallback"}
    await given.secret("values", mine="found: by name")
    await then.ready()
    assert await shown(then) == {"found": "by name"}


async def test_everything_that_is_missing_is_named_at_once_and_waited_for(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(SHOWN)
    await given.secret("odd", other="a: 1")
    await running.start()
    await given.component(valuesFrom=[{"name": "absent"}, {"name": "odd"}])
    waiting = await then.shows("Pending", "Retrying", saying="error resolving references: ")
    message = waiting.status.conditions[0].message
    assert f"error loading secret {then.namespace}/absent: not found" in message
    assert f"no matching key found in secret {then.namespace}/odd" in message
    await given.secret("absent", values="a: 1")
    await given.secret("odd", values="b: 2")
    await then.ready()
    assert await shown(then) == {"a": 1, "b": 2}


async def test_a_component_whose_values_are_gone_can_be_deleted(given: Given, running: Running, then: Then) -> None:
    await given.source(SHOWN)
    await running.start()
    await given.component(valuesFrom=[{"name": "absent"}])
    await then.shows("Pending", "Retrying")
    await given.deleted()
    await then.gone()


@pytest.mark.parametrize("text", ["- a list", "a: [1", "a word"], ids=["list", "broken", "scalar"])
async def test_values_that_are_no_mapping_are_refused_with_their_place_and_without_their_words(
    given: Given, running: Running, then: Then, text: str
) -> None:
    await given.source(SHOWN)
    await given.secret("values", values=text)
    await running.start()
    await given.component(valuesFrom=[{"name": "values"}])
    failed = await then.shows("Error", "Error", saying=f"secret {then.namespace}/values, key values")
    assert text not in failed.status.conditions[0].message
    await given.secret("values", values="a: 1")
    await then.ready()


async def test_values_of_the_spec_that_are_no_mapping_are_refused(given: Given, running: Running, then: Then) -> None:
    await given.source(SHOWN)
    await running.start()
    await given.component()
    await then.ready()
    patch = MergePatch({"spec": {"values": ["a"]}})
    await given.client.patch(Component, "comp", then.namespace, patch)
    await then.shows("Error", "Error", saying="spec.values")
