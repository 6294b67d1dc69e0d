"""What others change in an object that is in sync is put back when its time has come, and what they delete at once."""

from __future__ import annotations

import pytest

from stellwerk.operators.component.settings import DriftPolicy
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import config_of
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


@pytest.mark.req("R-110")
async def test_a_changed_field_is_told_and_put_back_at_the_next_reapply(
    given: Given, running: Running, then: Then
) -> None:
    await given.source(
        {"hourly.yaml": config_map("hourly"), "often.yaml": config_of("often", {"a": "b"}, reapply_interval="20m")}
    )
    await running.start()
    await given.component()
    await then.ready()
    for name in ("hourly", "often"):
        await given.written_by("other", name, a="changed")
    await then.event("DriftDetected", about="comp", saying="hourly")
    await given.annotated(poke="1")
    await then.counts(2)
    await running.rests()
    assert [(await then.config(name)).data for name in ("hourly", "often")] == [{"a": "changed"}] * 2

    await running.waits(minutes=21)
    await then.config_holds("often", {"a": "b"})
    await running.rests()
    assert (await then.config("hourly")).data == {"a": "changed"}
    await running.waits(minutes=40)
    await then.config_holds("hourly", {"a": "b"})
    await then.ready()


@pytest.mark.req("R-110")
async def test_the_component_may_have_its_objects_put_back_more_often(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component(reapplyInterval="15m")
    await then.ready()
    await given.written_by("other", "one", a="changed")
    await running.waits(minutes=11)
    await running.rests()
    assert (await then.config("one")).data == {"a": "changed"}
    await running.waits(minutes=11)
    await then.config_holds("one", {"a": "b"})


@pytest.mark.req("R-110")
async def test_a_changed_field_is_put_back_at_the_reapply_interval_though_the_component_is_looked_at_more_seldom(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component(requeueInterval="24h", reapplyInterval="15m")
    await then.ready()
    await given.written_by("other", "one", a="changed")
    await then.event("DriftDetected", about="comp", saying="one")
    await running.waits(minutes=16)
    await then.config_holds("one", {"a": "b"})


@pytest.mark.req("R-110")
async def test_a_field_changed_after_a_calm_interval_is_reported_and_put_back_at_the_next(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component()
    await then.ready()
    for _ in range(7):  # calm passes, the last of them after the interval
        await running.waits(minutes=11)
        await running.rests()
    await given.written_by("other", "one", a="changed")
    await then.event("DriftDetected", about="comp", saying="one")
    await running.rests()
    assert (await then.config("one")).data == {"a": "changed"}
    for _ in range(6):
        await running.waits(minutes=11)
    await then.config_holds("one", {"a": "b"})


@pytest.mark.req("R-110")
async def test_a_deleted_object_is_made_again_at_once(given: Given, running: Running, then: Then) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component()
    await then.ready()
    before = (await then.config("one")).metadata.uid
    await given.config_deleted("one")
    await then.config_is_another("one", before)


@pytest.mark.req("R-110")
async def test_an_operator_that_repairs_puts_a_changed_field_back_at_once(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_map("one")})
    await running.start(drift_policy=DriftPolicy.REPAIR)
    await given.component()
    await then.ready()
    await given.written_by("other", "one", a="changed")
    await then.config_holds("one", {"a": "b"})


@pytest.mark.req("R-110")
@pytest.mark.parametrize("deletes", [False, True], ids=["changed", "deleted"])
async def test_who_does_it_again_and_again_is_named_and_resisted_every_ten_seconds_only(
    given: Given, running: Running, then: Then, writes: Writes, deletes: bool
) -> None:
    async def spoiled() -> None:
        await (given.config_deleted("one") if deletes else given.written_by("other", "one", a="changed"))

    await given.source({"one.yaml": config_map("one")})
    await running.start(drift_policy=DriftPolicy.REPAIR)
    await given.component()
    await then.ready()
    await spoiled()
    await then.config_holds("one", {"a": "b"})
    await then.ready()
    for restorations in (1, 2):
        await spoiled()
        words = "it is deleted again and again" if deletes else "other changes it again and again"
        await then.shows("Processing", saying=f"{words}; restored every 10 s only")
        await running.rests()
        assert len(writes.to("configmaps")) == 1 + restorations
        await running.waits(seconds=11)
        await then.config_holds("one", {"a": "b"})
        await then.ready()


async def test_an_object_for_once_is_never_changed_again_but_made_again(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config_of("one", {"a": "first"}, reconcile_policy="once")}, revision="r1")
    await running.start()
    await given.component()
    await then.ready(revision="r1")
    await given.written_by("other", "one", a="changed", b="added")
    await given.source({"one.yaml": config_of("one", {"a": "second"}, reconcile_policy="once")}, revision="r2")
    await then.ready(revision="r2")
    await running.waits(hours=2)
    await given.annotated(poke="1")
    await then.counts(3)
    await running.rests()
    before = await then.config("one")
    assert before.data == {"a": "changed", "b": "added"}
    await given.config_deleted("one")
    await then.config_is_another("one", before.metadata.uid)
    assert (await then.config("one")).data == {"a": "second"}
