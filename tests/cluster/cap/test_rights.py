"""The CAP Operator has what it needs and nothing else: every right is used in a life, or its rare occasion is named."""

from __future__ import annotations

import pytest

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap import rights
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster import rights as audited
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.life import Life
from tests.cluster.cap.shop import OPERATOR, Shop, job, router, server


async def all_objects_of_workloads(shop: Shop) -> None:
    """A version with everything that the operator makes for workloads, and its end."""
    ports: JsonObject = {"name": "web", "port": 4004, "routerDestinationName": "srv-api", "networkPolicy": "Cluster"}
    srv = server(
        "srv",
        ports=[ports],
        podDisruptionBudget={"maxUnavailable": 1},
        horizontalPodAutoscaler={"minReplicas": 1, "maxReplicas": 2},
        monitoring={"scrapeConfig": {"port": "web"}},
    )
    await shop.bind()
    await shop.apply()
    await shop.release("1", srv, router(), job("mtxs"))
    await shop.version_shows("WorkloadsReady")
    await shop.client.delete(metadata_of(CAPApplication), "shop", shop.namespace)

    async def is_gone() -> bool:
        left = await shop.client.find(CAPApplication, "shop", shop.namespace)
        assert left is None, left.status
        return True

    await eventually(is_gone, within=30, describe="the application is gone")


@pytest.mark.req("R-504")
@pytest.mark.timeout(180)
async def test_every_right_of_the_controllers_of_applications_is_used_or_its_rare_occasion_is_named(
    monitors: None, running: Running, shop: Shop, admin: Client, audit: AuditLog
) -> None:
    await running.stop()
    audit.mark()
    await running.start()
    for part in Life(shop).parts():
        await part.ask()
        await part.done()
    await all_objects_of_workloads(shop)
    await running.settled(admin)

    requests = audit.entries(lambda entry: entry.user == OPERATOR)
    unused = audited.unused(rights.OWN, requests)
    assert not unused, f"granted and not used: {unused}"
    here = ("", shop.namespace)  # namespaces of other tests are on their way out, and take nothing more
    assert not [entry for entry in requests if entry.status == 403 and entry.namespace in here]
