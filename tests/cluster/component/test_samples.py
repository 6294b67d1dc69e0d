"""The samples become Ready as they are, on a real API server that checks every field."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from stellwerk.api.core import Namespace, Secret
from stellwerk.apply.objects.manifests import read_folder
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, dig, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import Component
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.scenarios.writes import Writes
from tests.cluster.component.running import Running

SAMPLES = [document.body for document in read_folder(Path(__file__).parents[3] / "samples" / "component")]
NAMESPACE = "stellwerk-sample"


async def apply(client: Client, body: JsonObject) -> None:
    gvk = GroupVersionKind.parse(str(body["apiVersion"]), str(body["kind"]))
    await client.apply(unstructured(await client.mapper.resource(gvk)), body, field_validation="Strict")


@pytest.fixture
async def sampled(admin: Client, running: Running) -> AsyncIterator[Client]:
    for body in SAMPLES:
        await apply(admin, body)
    await running.start()
    yield admin
    await admin.delete(Namespace, NAMESPACE)


@pytest.mark.timeout(180)
async def test_the_samples_become_ready_in_their_order_and_the_one_with_a_hook_for_its_end_runs_it(
    sampled: Client, component_cluster: LocalCluster
) -> None:
    await eventually(lambda: _all_ready(sampled), within=60, describe="all sample Components are Ready")

    password = (await sampled.get(Secret, "database", NAMESPACE)).text("password")
    assert password == "replace-me"
    deployment = await sampled.get(
        unstructured(await sampled.mapper.resource(GroupVersionKind("apps", "v1", "Deployment"))), "web", NAMESPACE
    )
    assert dig(deployment.body, "spec", "replicas") == 2
    found = {one.metadata.name: one for one in (await sampled.list(Component, NAMESPACE)).items}
    database, web = found["database"].status.last_applied_at, found["web"].status.last_applied_at
    assert database is not None
    assert web is not None
    assert database <= web

    writes = Writes(AuditLog(component_cluster), "component-operator", NAMESPACE)
    await sampled.delete(metadata_of(Component), "console", NAMESPACE)

    async def is_gone() -> bool:
        return await sampled.find(metadata_of(Component), "console", NAMESPACE) is None

    await eventually(is_gone, describe="the Component is gone")
    assert writes.to("jobs", "deployments") == [
        "create jobs/console-farewell",
        "delete jobs/console-farewell",
        "delete deployments/console",
    ]


async def _all_ready(client: Client) -> bool:
    found = (await client.list(Component, NAMESPACE)).items
    waiting = [one.metadata.name for one in found if not one.is_ready]
    assert waiting == ["reports"], [[(c.type, c.reason, c.message) for c in one.status.conditions] for one in found]
    return True
