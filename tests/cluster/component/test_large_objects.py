"""Objects as large as an API server takes them are deployed like others; a larger one is named."""

from __future__ import annotations

import pytest

from stellwerk.api.core import ConfigMap
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, manifest
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


def large(kibibytes: int, letter: str) -> str:
    """A ConfigMap of this size, with a quarter of it at most in an annotation."""
    note = {"example.com/note": letter * (min(200, kibibytes // 4) << 10)}
    return manifest("ConfigMap", "large", {"data": {"text": letter * (kibibytes << 10)}}, annotations=note)


@pytest.mark.req("R-209")
async def test_a_very_large_object_is_made_changed_and_taken_away(given: Given, running: Running, then: Then) -> None:
    await running.start()
    await given.component()
    for letter in "ab":
        await given.source({"large.yaml": large(900, letter), "one.yaml": config("one")}, revision=letter)
        await then.ready(revision=letter)
        assert (await then.config("large")).data["text"][:1] == letter
    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "large")


@pytest.mark.req("R-209")
async def test_an_object_that_is_too_large_is_named_and_its_words_are_not(
    given: Given, running: Running, then: Then
) -> None:
    await given.source({"large.yaml": large(1_200, "x"), "one.yaml": config("one")}, revision="large")
    await running.start()
    await given.component()
    failed = await then.shows("Error", "Error", saying=f"ConfigMap {then.namespace}/large")
    assert "xxx" not in failed.status.conditions[0].message
    assert await then.exists(ConfigMap, "one")
    await given.source({"large.yaml": large(100, "x"), "one.yaml": config("one")}, revision="smaller")
    await then.ready(revision="smaller")
