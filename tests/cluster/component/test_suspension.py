"""A suspended Component is left alone, and can still be deleted."""

from __future__ import annotations

from stellwerk.api.core import ConfigMap
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def test_suspended_nothing_is_written_and_afterwards_what_was_missed_is_made_up(
    given: Given, running: Running, then: Then, writes: Writes
) -> None:
    await given.source({"one.yaml": config("one", "1")}, revision="r1")
    await running.start()
    await given.component("new", path=".", suspend=True, namespace=given.namespace)
    await given.component()
    await then.ready(revision="r1")
    await given.component(suspend=True)
    await then.shows("Pending", "Suspended")
    await then.shows("Pending", "Suspended", "new")
    written = writes.to("configmaps")
    await given.source({"one.yaml": config("one", "2")}, revision="r2")
    await given.client.delete(ConfigMap, "one", given.namespace)
    await running.settled(given.client)
    assert writes.to("configmaps") == written
    assert not await then.exists(ConfigMap, "one")
    await given.component()
    await then.ready(revision="r2")
    assert (await then.config("one")).data == {"value": "2"}


async def test_a_suspended_component_can_be_deleted_with_all_that_it_brought(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"one.yaml": config("one")})
    await given.component()
    await running.start()
    await then.ready()
    await given.component(suspend=True)
    await then.shows("Pending", "Suspended")
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")


async def test_who_depends_on_a_suspended_component_stays_ready_and_others_are_told_so(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"base/a.yaml": config("a"), "app/b.yaml": config("b")})
    await running.start()
    await given.component("base", path="base")
    await given.component("app", path="app", dependencies=[{"name": "base"}])
    await then.ready("app")
    await given.component("base", path="base", suspend=True)
    await then.shows("Pending", "Suspended", "base")
    await given.component("late", path="app", dependencies=[{"name": "base"}], namespace=given.namespace)
    await then.shows("Pending", "Retrying", "late", saying=f"{then.key('base')} not ready: it is suspended")
    await running.clock.jump(minutes=11)
    await running.settled(given.client)
    assert (await then.shows("Ready", "Ready", "app")).status.state == "Ready"
    assert then.reasons("app")[-1] == "Ready"
    assert then.reasons("app").count("Retrying") <= 1, "before base was ready for the first time"
    await given.annotated("app", poke="1")  # a new content, of the same spec and artifact
    await then.shows("Pending", "Retrying", "app", saying=f"{then.key('base')} not ready: it is suspended")
    await given.component("base", path="base")
    await then.ready("app")
