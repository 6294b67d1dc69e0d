"""A Component brings its source's objects into the cluster, keeps them, and takes them back."""

from __future__ import annotations

from stellwerk.api.core import ConfigMap
from stellwerk.apply.set.model.owner import hash_of
from stellwerk.operators.component.api import DIGEST_ANNOTATION, OWNER_ID
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def test_a_new_component_goes_from_processing_to_ready_with_marked_objects(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one"), "two.yaml": config_map("two")})
    await running.start()
    await given.component()
    ready = await then.ready()
    assert then.reasons() == ["Processing", "Ready"]
    assert [(item.name, item.phase, item.status) for item in ready.status.inventory] == [
        ("one", "Ready", "Current"),
        ("two", "Ready", "Current"),
    ]
    for name in ("one", "two"):
        metadata = (await then.config(name)).metadata
        assert metadata.labels[OWNER_ID] == hash_of(metadata.annotations[OWNER_ID])
        assert metadata.annotations[OWNER_ID].endswith(f"/{then.namespace}/comp")
        assert metadata.annotations[DIGEST_ANNOTATION]


async def test_a_new_revision_is_rolled_out_and_what_it_no_longer_has_goes(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one"), "two.yaml": config_map("two")}, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    await given.source({"one.yaml": config_map("one", a="c"), "three.yaml": config_map("three")}, revision="r2")
    ready = await then.ready(revision="r2")
    assert then.reasons()[2:] == ["Restarting", "Ready"]
    assert ready.status.revision == 2
    assert [item.name for item in ready.status.inventory] == ["one", "three"]
    assert (await then.config("one")).data == {"a": "c"}
    assert not await then.exists(ConfigMap, "two")


async def test_a_component_is_not_ready_while_a_new_revision_changes_its_objects(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one")}, revision="r1")
    await running.start()
    await given.component()
    first = await then.ready(revision="r1")
    await given.source({"one.yaml": config_map("one", a="c")}, revision="r2")
    second = await then.ready(revision="r2")
    assert then.reasons() == ["Processing", "Ready", "Restarting", "Ready"]
    assert [first.status.revision, second.status.revision] == [1, 2]


async def test_a_component_stays_ready_through_a_revision_that_changes_no_object(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one", a="c")}, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    await given.source({"one.yaml": config_map("one", a="c")}, revision="r2")
    await then.ready(revision="r2")
    await given.annotated(poke="1")
    await then.counts(3)
    assert then.reasons() == ["Processing", "Ready"]


async def test_a_deleted_component_takes_its_objects_with_it(given: Given, running: Running, then: Then) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component()
    await then.ready()
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")
