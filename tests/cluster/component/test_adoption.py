"""Whose an object is: what exists already is taken only as far as somebody has said so, and never from an owner."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.operators.component.api import OWNER_ID
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config, config_of
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def owner(then: Then, name: str) -> str:
    """The owner that an object names, without the cluster; empty for none."""
    _, _, rest = (await then.config(name)).metadata.annotations.get(OWNER_ID, "").partition("/")
    return rest


async def test_an_object_of_nobody_is_taken_unless_that_is_forbidden(
    given: Given, running: Running, then: Then
) -> None:
    await given.config("one", a="theirs", b="theirs")
    await given.source({"one.yaml": config_map("one", a="ours")})
    await running.start()
    await given.component(adoptionPolicy="Never")
    refused = await then.shows("Error", "Error", saying="found existing object")
    assert f"ConfigMap {then.namespace}/one" in refused.status.conditions[0].message
    assert await owner(then, "one") == ""
    assert (await then.config("one")).data == {"a": "theirs", "b": "theirs"}

    await given.component(adoptionPolicy="IfUnowned")
    await then.ready()
    assert await owner(then, "one") == f"{then.namespace}/comp"
    assert (await then.config("one")).data == {"a": "ours", "b": "theirs"}


async def test_an_object_of_nobody_that_is_being_deleted_is_created_soon_after_it_is_gone(
    given: Given, running: Running, then: Then
) -> None:
    former = await given.config("one")
    await given.finalizers("one", "test.example.com/hold")
    await given.config_deleted("one")
    await given.source({"one.yaml": config_map("one", a="ours")})
    await running.start()
    await given.component()
    await then.shows("Processing", saying="waits for finalizers test.example.com/hold")
    await running.rests()
    await given.finalizers("one")
    await running.waits(seconds=11)  # no watch shows its end: it has no owner
    await then.ready()
    assert (await then.config("one")).metadata.uid != former.metadata.uid


async def test_the_word_on_an_object_overrides_that_of_the_component_however_it_is_spelled(
    given: Given, running: Running, then: Then
) -> None:
    for name in ("pascal", "camel", "kebab", "silent"):
        await given.config(name)
    words = {"pascal": "IfUnowned", "camel": "ifUnowned", "kebab": "if-unowned"}
    files = {f"{name}.yaml": config(name, adoption_policy=word) for name, word in words.items()}
    await given.source(files)
    await running.start()
    await given.component(adoptionPolicy="Never")
    await then.ready()
    assert [await owner(then, name) for name in words] == [f"{then.namespace}/comp"] * 3

    await given.source({**files, "silent.yaml": config_map("silent")})
    await then.shows("Error", "Error", saying=f"ConfigMap {then.namespace}/silent: found existing object")
    await given.component(adoptionPolicy="Always")
    await then.ready()


async def test_an_object_that_forbids_to_be_taken_is_left_whatever_the_component_says(
    given: Given, running: Running, then: Then
) -> None:
    await given.config("one")
    await given.source({"one.yaml": config("one", adoption_policy="never"), "two.yaml": config_map("two")})
    await running.start()
    await given.component(adoptionPolicy="Always")
    await then.shows("Error", "Error", saying="found existing object")
    assert not await then.exists(ConfigMap, "two")


@pytest.mark.req("R-111")
async def test_an_object_of_another_component_stays_his_and_both_are_named(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one", a="first")}, "first")
    await given.source({"one.yaml": config_map("one", a="second"), "two.yaml": config_map("two")}, "second")
    await running.start()
    await given.component("first", "first")
    await then.ready("first")
    await given.component("second", "second")
    refused = await then.shows("Error", "Error", "second", saying="owner conflict")
    message = refused.status.conditions[0].message
    assert f"ConfigMap {then.namespace}/one" in message
    assert f"owned by {(await then.config('one')).metadata.annotations[OWNER_ID]}" in message
    assert not await then.exists(ConfigMap, "two")
    assert (await then.config("one")).data == {"a": "first"}
    await given.deleted("second")
    await then.gone("second")
    assert await then.exists(ConfigMap, "one")
    assert await owner(then, "one") == f"{then.namespace}/first"


@pytest.mark.req("R-111")
async def test_an_object_moves_from_one_component_to_another_without_being_deleted(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one", a="first"), "left.yaml": config_map("left")}, "first")
    await given.source({"one.yaml": config_of("one", {"a": "second"}, adoption_policy="always")}, "second")
    await running.start()
    await given.component("first", "first")
    await then.ready("first")
    before = await then.config("one")
    await given.component("second", "second")
    await then.ready("second")
    assert await owner(then, "one") == f"{then.namespace}/second"
    loser = await then.shows("Error", "Error", "first", saying="owner conflict")
    assert f"{then.namespace}/second" in loser.status.conditions[0].message

    await given.source({"left.yaml": config_map("left")}, "first", revision="without")
    dropped = await then.ready("first", revision="without")
    assert [item.name for item in dropped.status.inventory] == ["left"]
    await given.deleted("first")
    await then.gone("first")
    after = await then.config("one")
    assert after.metadata.uid == before.metadata.uid
    assert after.data == {"a": "second"}
