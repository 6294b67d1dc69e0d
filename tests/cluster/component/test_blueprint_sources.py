"""Components follow a Blueprint, each in its own time, and it does not vanish under them."""

from __future__ import annotations

from typing import Any

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.component.api import Blueprint, BlueprintVersion
from stellwerk.testing.eventually import eventually
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config, gate
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

FROM_PRINT: dict[str, Any] = {"sourceRef": {"blueprint": {"name": "print"}}}


async def drawn(given: Given, **files: str) -> None:
    """A Blueprint that holds these files."""
    metadata: JsonObject = {"name": "print", "namespace": given.namespace}
    await given.client.apply(Blueprint, {"metadata": metadata, "spec": {"files": {**files}}}, force=True)


async def versions(given: Given) -> set[str]:
    """The revisions of which there are versions."""
    return {one.spec.revision for one in (await given.client.list(BlueprintVersion, given.namespace)).items}


async def test_components_follow_an_edited_blueprint_and_versions_last_as_long_as_their_users(
    given: Given, running: Running, then: Then
) -> None:
    await drawn(given, **{"app/one.yaml": config("one", "{{ .value }}"), "slow/gate.yaml": gate("gate")})
    await given.component("quick", path="app", values={"value": "1"}, **FROM_PRINT)
    await given.component("slow", path="slow", sticky=True, **FROM_PRINT)
    await running.start()
    ready = await then.ready("quick", revision="generation:1")
    assert (await then.config("one")).data == {"value": "1"}
    artifact = ready.status.source_ref and ready.status.source_ref.artifact
    assert artifact
    assert artifact.url == f"blueprint://{given.namespace}/print/{artifact.digest}"
    kept = await given.client.get(BlueprintVersion, f"print--{artifact.digest}", given.namespace)
    assert (kept.spec.blueprint, kept.spec.revision) == ("print", "generation:1")
    await then.shows("Processing", name="slow", saying="gate")

    # The slow one is not done with the first version yet; it goes on with it after a new start, too.
    await drawn(given, **{"app/one.yaml": config("one", "new"), "slow/other.yaml": config("other")})
    await then.ready("quick", revision="generation:2")
    assert (await then.config("one")).data == {"value": "new"}
    await running.stop()
    await running.start()
    await then.shows("Processing", name="slow", saying="gate")
    await running.rests()
    assert await versions(given) == {"generation:1", "generation:2"}
    await given.opened("gate")
    await then.ready("slow", revision="generation:2")


@pytest.mark.req("R-112")
async def test_a_blueprint_in_use_is_not_deleted_before_its_last_user(
    given: Given, running: Running, then: Then
) -> None:
    await drawn(given, **{"one.yaml": config("one")})
    await given.component(**FROM_PRINT)
    await running.start()
    await then.ready()
    await given.client.delete(metadata_of(Blueprint), "print", given.namespace)
    await then.event("DeletionBlocked", about="print")
    await given.annotated(poked="yes")
    await then.ready(revision="generation:2")  # Kubernetes counts that somebody has asked for an object's end
    await running.rests()
    found = await given.client.get(Blueprint, "print", given.namespace)
    assert found.metadata.is_terminating
    await given.deleted()
    await then.gone()
    await then.absent(Blueprint, "print")
    assert await versions(given) == set()
    assert not await then.exists(ConfigMap, "one")


async def test_a_blueprint_that_comes_later_or_was_drawn_badly_is_waited_for(
    given: Given, running: Running, then: Then
) -> None:
    await given.component(**FROM_PRINT)
    await running.start()
    await then.shows("Pending", "Retrying", saying=f"Blueprint {then.key('print')} not found")
    await drawn(given, **{"../up.yaml": config("one")})
    await then.shows("Error", "Error", saying="invalid file path in blueprint: ../up.yaml")
    await drawn(given, **{"one.yaml": config("one")})
    await then.ready()


async def test_versions_that_nobody_uses_are_taken_away(given: Given, running: Running, then: Then) -> None:
    await drawn(given, **{"one.yaml": config("one", "1")})
    await given.component(**FROM_PRINT)
    await running.start()
    for number in (2, 3):
        await drawn(given, **{"one.yaml": config("one", str(number))})
        await then.ready(revision=f"generation:{number}")

    async def are_gone() -> bool:
        await running.clock.skip(minutes=20)  # again: the first time it may not be known yet that nobody uses them
        return await versions(given) == {"generation:3"}

    await eventually(are_gone, describe="only the last version is left")
