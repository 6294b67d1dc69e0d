"""A suspended Component is left alone, and can still be deleted."""

from __future__ import annotations

from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then, Writes

from stellwerk.api.core import ConfigMap


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
    await running.has_seen_all(given.client)
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
