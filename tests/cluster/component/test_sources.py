"""A Component waits for its source without anybody's help, and takes only what the source says now."""

from __future__ import annotations

import pytest

from stellwerk.api import flux
from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then


async def test_a_source_that_is_absent_is_looked_for_every_ten_seconds_and_taken_when_it_comes(
    given: Given, running: Running, then: Then
) -> None:
    await running.start()
    await given.component()
    await then.shows("Pending", "Retrying", saying=f"GitRepository {then.namespace}/source not found")
    await running.looks_again(not_within=4, within=10.6)
    await given.source({"one.yaml": config_map("one")}, ready=False)
    await running.waits(seconds=11)
    await then.shows("Pending", "Retrying", saying="is not Ready: cannot clone")
    assert not await then.exists(ConfigMap, "one")
    await given.source({"one.yaml": config_map("one")})
    await then.ready()
    assert await then.exists(ConfigMap, "one")


@pytest.mark.parametrize("lacking", ["condition", "url", "digest", "revision"])
async def test_a_source_without_all_that_it_takes_is_not_ready(
    given: Given, running: Running, then: Then, lacking: str
) -> None:
    artifact = await given.source({"one.yaml": config_map("one")})
    wrong: JsonObject = {"conditions": []} if lacking == "condition" else {"artifact": {lacking: ""}}
    await given.source_says(wrong)
    await running.start()
    await given.component()
    await then.shows("Pending", "Retrying", saying="source not ready")
    await given.offers(artifact)
    await then.ready()


async def test_what_a_source_said_before_its_last_edit_does_not_count(
    given: Given, running: Running, then: Then
) -> None:
    artifact = await given.source({"one.yaml": config_map("one")})
    edit = MergePatch({"spec": {"ref": {"branch": "next"}}})
    await given.client.patch(metadata_of(flux.GitRepository), "source", given.namespace, edit)
    await running.start()
    await given.component()
    shown = await then.shows("Pending", "Retrying", saying="source not ready")
    assert shown.status.inventory == ()
    assert not await then.exists(ConfigMap, "one")
    await given.offers(artifact)
    await then.ready()
