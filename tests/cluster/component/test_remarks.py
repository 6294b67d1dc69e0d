"""What the API server remarks about objects is told to their Component when it comes up, and costs nothing else."""

from __future__ import annotations

import pytest

from stellwerk.api.events import Event
from stellwerk.kube.types.model import JsonObject
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import RELIC_REMARK, config, manifest, policies, relic
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

PORTS: JsonObject = {"spec": {"ports": [{"port": 80}], "portz": "canary"}}


async def warnings(given: Given) -> list[str]:
    """What was told."""
    found = (await given.client.list(Event, given.namespace)).items
    told = [one for one in found if one.reason == "ApiServerWarning" and one.regarding.name == "comp"]
    assert {one.type for one in told} <= {"Warning"}
    return sorted(one.note or "" for one in told for _ in range(one.series.count if one.series else 1))


@pytest.mark.usefixtures("relics")
async def test_a_deprecated_kind_is_told_once_however_often_its_object_is_written(
    given: Given, running: Running, then: Then
) -> None:
    await running.start()
    await given.source({"relic.yaml": relic("bone", "1")}, revision="r1")
    await given.component()
    await then.ready(revision="r1")
    told = f"the API server warns: Relic {then.namespace}/bone: {RELIC_REMARK}"
    await then.event("ApiServerWarning", about="comp", saying=told)
    await given.source({"relic.yaml": relic("bone", "2")}, revision="r2")
    await then.ready(revision="r2")
    await running.has_sent_events()
    assert await warnings(given) == [told]


@pytest.mark.req("R-801")
async def test_a_field_that_the_server_drops_is_named_without_its_value(
    given: Given, running: Running, then: Then
) -> None:
    asked = policies(update_policy="replace")
    secret: JsonObject = {"stringData": {"token": "canary"}, "dato": "canary"}
    files = {
        "service.yaml": manifest("Service", "front", PORTS, annotations=asked),
        "secret.yaml": manifest("Secret", "login", secret, annotations=asked),
        "fine.yaml": config("fine"),
    }
    await running.start()
    await given.source(files)
    await given.component()
    await then.ready()
    await running.has_sent_events()
    (told,) = await warnings(given)
    assert f'Service {then.namespace}/front: unknown field "spec.portz"' in told
    assert f'Secret {then.namespace}/login: unknown field "dato"' in told
    assert "fine" not in told
    assert "canary" not in told
