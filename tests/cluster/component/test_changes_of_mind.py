"""Whatever was asked for on the way, what was asked for last is what is there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, unstructured
from stellwerk.operators.component.api import DIGEST_ANNOTATION, OWNER_ID, Component
from stellwerk.testing.scenarios.normalize import Masks
from stellwerk.testing.scenarios.writes import Writes
from stellwerk.testing.servers.artifacts import Slow
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import GATE, config, gate
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

NAMED = """{{- range .names }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ . }}
data:
  among: {{ $.names | join "," }}
  revision: "{{ component.Status.LastAttemptedRevision }}"
{{- end }}
"""
FILES = {"named.yaml": NAMED, "gate.yaml": gate("door"), "late.yaml": config("late", apply_order="1")}
A: JsonObject = {"names": ["one", "two"]}
B: JsonObject = {"names": ["two", "three"]}
MARKS = (
    ("metadata", "labels", OWNER_ID),
    ("metadata", "annotations", OWNER_ID),
    ("metadata", "annotations", DIGEST_ANNOTATION),
)
"""These stand for the Component's name and the namespace, which differ."""


async def owned(client: Client, namespace: str) -> list[JsonObject]:
    """What Components have made in a namespace."""
    found: list[JsonObject] = []
    for resource in (ConfigMap.resource, GATE):
        found += [obj.body for obj in (await client.list(unstructured(resource), namespace, labels=OWNER_ID)).items]
    return found


def inventory(component: Component) -> Sequence[tuple[str, str, str, str]]:
    return [(item.kind, item.name, item.phase, item.status) for item in component.status.inventory]


@pytest.mark.req("R-107")
async def test_a_spec_that_went_there_and_back_leaves_what_a_fresh_one_makes(
    given: Given, running: Running, then: Then
) -> None:
    there = await given.a_namespace()
    await given.source(FILES, revision="r1")
    await running.start()
    await given.component(values=A)
    await then.shows("Processing", "Processing", saying="door")
    await given.component(values=B)
    await given.component(values=A)
    await then.shows("Processing", "Processing", saying="door")
    await given.component(values=B)
    await given.opened("door")
    await given.component(values=A)
    ready = await then.ready()

    await given.component("fresh", namespace=there, values=A)
    far = Given(given.client, given.server, there)
    await far.opened("door")
    fresh = await then.ready("fresh")
    assert inventory(ready) == inventory(fresh)
    masks = Masks(words={then.namespace: "HERE", there: "HERE"}, paths=MARKS)
    assert masks.objects(await owned(given.client, then.namespace)) == masks.objects(await owned(given.client, there))


@pytest.mark.req("R-107")
async def test_a_source_that_changes_while_objects_are_waited_for_is_taken_at_once(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"gate.yaml": gate("stuck"), "late.yaml": config("late", apply_order="1")}, revision="r1")
    await running.start()
    await given.component()
    await then.shows("Processing", "Processing", saying="stuck")
    await given.source({"one.yaml": config_map("one")}, revision="r2")
    ready = await then.ready(revision="r2")
    assert [item.name for item in ready.status.inventory] == ["one"]
    assert not await then.exists(ConfigMap, "late")


@pytest.mark.req("R-107")
async def test_a_source_that_goes_back_while_its_newer_content_is_loaded_is_taken_as_it_is_last(
    given: Given, running: Running, then: Then
) -> None:
    former = await given.source({"one.yaml": config_map("one", a="former")}, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    path, slow = f"{given.namespace}/newer.tar.gz", Slow(pieces=4, pause_seconds=0.5)
    newer = given.server.publish(path, {"one.yaml": config_map("one", a="newer")}, revision="r2", behaviour=slow)
    await given.offers(newer)
    await given.server.asked(path)
    await given.offers(former)
    ready = await then.counts(3)
    assert ready.status.last_applied_revision == "r1"
    assert (await then.config("one")).data == {"a": "former"}


@pytest.mark.req("R-107")
async def test_a_component_that_is_deleted_while_it_is_made_leaves_nothing(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    await given.source(FILES, revision="r1")
    await running.start()
    await given.component(values=A)
    await then.shows("Processing", "Processing", saying="door")
    await given.deleted()
    await then.gone()
    assert await owned(given.client, then.namespace) == []
    for number in range(5):
        await given.component(f"brief-{number}", namespace=then.namespace, values={"names": [f"brief-{number}"]})
        await given.deleted(f"brief-{number}")
    for number in range(5):
        await then.gone(f"brief-{number}")
    await running.has_seen(await given.component("last", suspend=True))
    await running.rests()
    assert await owned(given.client, then.namespace) == [], writes.history()
