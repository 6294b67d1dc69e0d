"""What is pinned is applied and nothing else, and a pin never stands in the way of a deletion."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.testing.servers.artifacts import Published, packed
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

FIRST = {"one.yaml": config_map("one", a="first")}
SECOND = {"one.yaml": config_map("one", a="second"), "two.yaml": config_map("two")}


def pins(given: Given) -> dict[str, dict[str, str]]:
    """The second content, named in either way, and the words that say which is there instead."""
    digest = Published("", packed(SECOND), "").digest
    return {"revision": {"revision": "r2"}, "digest": {"digest": digest}}


@pytest.mark.parametrize("what", ["revision", "digest"])
async def test_a_component_waits_until_its_source_reaches_the_pin(
    given: Given, running: Running, then: Then, what: str
) -> None:
    pin = pins(given)[what]
    first = await given.source(FIRST, revision="r1")
    await running.start()
    await given.component(**pin)
    found = first.revision if what == "revision" else first.digest
    waiting = await then.shows("Pending", "Retrying", saying=f"{found}) does not match specified {what} ({pin[what]})")
    assert waiting.status.inventory == ()
    assert not await then.exists(ConfigMap, "one")
    await given.source(SECOND, revision="r2")
    await then.ready(revision="r2")
    assert (await then.config("one")).data == {"a": "second"}


@pytest.mark.parametrize("what", ["revision", "digest"])
async def test_objects_stay_as_they_are_while_the_source_is_past_the_pin_and_go_with_the_component(
    given: Given, running: Running, then: Then, what: str
) -> None:
    first = await given.source(FIRST, revision="r1")
    await running.start()
    await given.component(**({"revision": "r1"} if what == "revision" else {"digest": first.digest}))
    await then.ready(revision="r1")
    await given.source(SECOND, revision="r2")
    waiting = await then.shows("Pending", "Retrying", saying=f"does not match specified {what}")
    assert [item.name for item in waiting.status.inventory] == ["one"]
    assert waiting.status.last_applied_revision == "r1"
    assert (await then.config("one")).data == {"a": "first"}
    assert not await then.exists(ConfigMap, "two")
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "one")
