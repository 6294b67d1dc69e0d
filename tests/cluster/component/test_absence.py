"""An object is gone when its API server says so. A proxy's page, or a server that does not know, is no such word."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stellwerk.api.core import ConfigMap
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import metadata_of
from stellwerk.operators.component.api import Component
from stellwerk.testing.faults import AnswerInstead, FaultProxy, RecordedRequest, When, requests
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import GATE
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

PAGE = b"<html><body>404 page not found</body></html>"
FILES = {"one.yaml": config_map("one"), "two.yaml": config_map("two")}
GATES = {**FILES, "gate.yaml": "apiVersion: test.example.com/v1\nkind: Gate\nmetadata:\n  name: north\n"}
DISCOVERY: When[RecordedRequest] = When(lambda request: request.path_and_query == "/apis", "discovery of all groups")


@pytest.mark.req("R-210", "R-112")
async def test_a_deletion_that_a_proxy_answers_with_404_is_not_done(
    proxy: FaultProxy, behind: Running, given: Given, then: Then
) -> None:
    await given.source(FILES, revision="r1")
    await behind.start()
    await given.component()
    await then.ready(revision="r1")
    page = AnswerInstead(404, raw=PAGE)
    with proxy.on_requests(requests("delete", "configmaps") | requests("get", "configmaps"), page):
        await given.client.delete(metadata_of(Component), "comp", given.namespace)
        await then.shows("Error", saying="that is not an API server's")
        assert await then.exists(ConfigMap, "one")
        assert await then.exists(ConfigMap, "two")
    await then.gone()
    await then.absent(ConfigMap, "one")
    await then.absent(ConfigMap, "two")


async def stale(client: Client, group: str) -> bytes:
    """What discovery says while the API service of a group does not answer, and never has."""
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    document: dict[str, Any] = json.loads(await client.raw("GET", "/apis", accept=accept))
    for item in document["items"]:
        if item["metadata"]["name"] == group:
            item["versions"] = [{**each, "resources": [], "freshness": "Stale"} for each in item["versions"]]
    return json.dumps(document).encode()


@pytest.mark.req("R-210", "R-112")
async def test_an_object_of_a_kind_that_discovery_does_not_know_now_is_not_forgotten(
    proxy: FaultProxy, behind: Running, given: Given, then: Then, admin: Client
) -> None:
    await given.source(GATES, revision="r1")
    await behind.start()
    await given.component()
    await given.opened("north")
    await then.ready(revision="r1")
    await behind.stop()
    await given.source(FILES, revision="r2")
    with proxy.on_requests(DISCOVERY, AnswerInstead(200, raw=await stale(admin, GATE.group))):
        await behind.start()
        await then.shows("Error", saying=f"API service v1.{GATE.group} does not answer")
        found = await then.shows("Error")
        assert "north" in [item.name for item in found.status.inventory]
        assert await admin.find(metadata_of(GATE), "north", given.namespace) is not None
    await then.ready(revision="r2")
    assert await admin.find(metadata_of(GATE), "north", given.namespace) is None
