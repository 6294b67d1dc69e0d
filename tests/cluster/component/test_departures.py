"""What a manifest no longer has goes when everything new is ready, and stays where its author wants it to."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, gate, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def test_what_is_no_longer_wanted_goes_after_everything_new_is_ready_and_in_its_own_order(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    old = [
        config("last", delete_order="7"),
        config("first", delete_order="-1"),
        config("middle"),
        config("kept", delete_order="-5"),
    ]
    await given.source({"old.yaml": "---\n".join(old)}, revision="r1")
    await given.component()
    await running.start()
    await then.ready(revision="r1")
    await given.source({"new.yaml": gate("new") + "---\n" + config("kept", "2")}, revision="r2")
    waiting = await then.shows("Processing", "Processing", saying="Gate")
    assert {item.name: (item.phase, item.digest == "") for item in waiting.status.inventory} == {
        "last": ("ScheduledForDeletion", True),
        "first": ("ScheduledForDeletion", True),
        "middle": ("ScheduledForDeletion", True),
        "kept": ("Ready", False),
        "new": ("Creating", False),
    }
    for name in ("last", "first", "middle"):
        assert await then.exists(ConfigMap, name)
    await given.opened("new")
    await then.ready(revision="r2")
    assert [one for one in writes.to("configmaps") if one.startswith("delete")] == [
        "delete configmaps/first",
        "delete configmaps/middle",
        "delete configmaps/last",
    ]


async def test_an_object_may_ask_to_stay_when_it_is_dropped_or_when_the_component_goes(
    given: Given, running: Running, then: Then
) -> None:
    asked = {
        "never": {"delete_policy": "orphan"},
        "on-apply": {"delete_policy": "orphan-on-apply"},
        "on-delete": {"delete_policy": "OrphanOnDelete"},
        "normal": {"delete_policy": "default"},
    }
    dropped = {f"{name}.yaml": config(f"dropped-{name}", **asked[name]) for name in asked}
    kept = {f"kept-{name}.yaml": config(f"kept-{name}", **asked[name]) for name in asked}
    await given.source(dropped | kept, revision="r1")
    await given.component()
    await running.start()
    await then.ready(revision="r1")
    await given.source(kept, revision="r2")
    ready = await then.ready(revision="r2")
    assert {item.name for item in ready.status.inventory} == {f"kept-{name}" for name in asked}
    assert await _present(then, "dropped", asked) == ["never", "on-apply"]
    await given.deleted()
    await then.gone()
    assert await _present(then, "kept", asked) == ["never", "on-delete"]


async def _present(then: Then, what: str, asked: dict[str, dict[str, str]]) -> list[str]:
    return [name for name in asked if await then.exists(ConfigMap, f"{what}-{name}")]


async def test_a_component_may_leave_its_objects_behind_but_not_what_its_manifests_drop(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"stays.yaml": config("stays"), "drops.yaml": config("drops")}, revision="r1")
    await given.component(deletePolicy="Orphan")
    await running.start()
    await then.ready(revision="r1")
    await given.source({"stays.yaml": config("stays")}, revision="r2")
    await then.ready(revision="r2")
    assert not await then.exists(ConfigMap, "drops")
    await given.deleted()
    await then.gone()
    assert await then.exists(ConfigMap, "stays")


@pytest.mark.req("R-105")
async def test_what_somebody_else_makes_anew_while_we_wait_for_the_old_one_is_his(
    given: Given, running: Running, then: Then
) -> None:
    held: JsonObject = {"metadata": {"finalizers": ["test.example.com/hold"]}}
    await given.source({"a.yaml": config("dropped"), "b.yaml": config("kept")}, revision="r1")
    await given.component()
    await running.start()
    await then.ready(revision="r1")
    for name in ("dropped", "kept"):
        await given.client.patch(metadata_of(ConfigMap), name, given.namespace, MergePatch(held))

    await given.source({"b.yaml": config("kept")}, revision="r2")
    waiting = await then.shows("Processing", saying="waits for finalizers test.example.com/hold")
    assert [(item.name, item.phase, item.status) for item in waiting.status.inventory if not item.digest] == [
        ("dropped", "Deleting", "Terminating")
    ]
    await _made_anew(given, "dropped")
    ready = await then.ready(revision="r2")
    assert [item.name for item in ready.status.inventory] == ["kept"]

    await given.deleted()
    await then.shows("Deleting", "DeletionProcessing", saying="waits for finalizers test.example.com/hold")
    await _made_anew(given, "kept")
    await then.gone()
    for name in ("dropped", "kept"):
        assert (await then.config(name)).data == {"whose": "another"}


@pytest.mark.req("R-105")
async def test_what_somebody_else_puts_in_the_place_of_ours_is_known_by_its_uid_and_never_deleted(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"a.yaml": config("taken", "ours"), "b.yaml": config("left")})
    await given.component(updatePolicy="Recreate")
    await running.start()
    ready = await then.ready()
    ours = {name: (await then.config(name)).metadata.uid for name in ("taken", "left")}
    assert {item.name: item.uid for item in ready.status.inventory} == ours

    await running.stop()
    for name in ours:
        await given.client.delete(metadata_of(ConfigMap), name, given.namespace)
        await given.config(name, whose="another")
    theirs = {name: (await then.config(name)).metadata.uid for name in ours}
    await given.source({"a.yaml": config("taken", "ours")}, revision="r2")
    await running.start()
    ready = await then.ready(revision="r2")
    assert {item.name: item.uid for item in ready.status.inventory} == {"taken": theirs["taken"]}
    taken, left = await then.config("taken"), await then.config("left")
    assert {"taken": taken.metadata.uid, "left": left.metadata.uid} == theirs
    assert taken.data == {"value": "ours", "whose": "another"}
    assert left.data == {"whose": "another"}


async def _made_anew(given: Given, name: str) -> None:
    """The object that is held goes, and somebody else makes one of its name."""
    released = MergePatch({"metadata": {"finalizers": None}})
    await given.client.patch(metadata_of(ConfigMap), name, given.namespace, released)
    await given.config(name, whose="another")


async def test_a_namespace_comes_before_what_is_in_it_and_goes_after(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    place = f"{given.namespace}-inner"
    files = {
        "a.yaml": config("inside", namespace=place),
        "b.yaml": config("early", namespace=place, delete_order="-3"),
        "z.yaml": manifest("Namespace", place),
    }
    await given.source(files)
    await given.component()
    await running.start()
    await then.ready()
    applied = writes.to("namespaces", "configmaps", namespace=place)
    assert applied[0] == f"apply namespaces/{place}"
    assert sorted(applied[1:]) == ["apply configmaps/early", "apply configmaps/inside"]
    await given.deleted()
    await then.gone()
    assert writes.to("namespaces", "configmaps", namespace=place)[3:] == [
        "delete configmaps/early",
        "delete configmaps/inside",
        f"delete namespaces/{place}",
    ]
