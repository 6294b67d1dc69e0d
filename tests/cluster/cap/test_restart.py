"""A restart of the operator changes nothing of an application that is in order."""

from __future__ import annotations

import json

import pytest

from stellwerk.api.apps import Deployment
from stellwerk.api.batch import Job
from stellwerk.api.core import Pod, Secret
from stellwerk.api.istio import VirtualService
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.model import JsonObject, metadata_of
from stellwerk.operators.cap.kinds.application import CAPApplication
from stellwerk.operators.cap.kinds.tenant import CAPTenant, CAPTenantOperation
from stellwerk.operators.cap.kinds.version import CAPApplicationVersion
from stellwerk.operators.cap.watches import VERSION_KINDS
from stellwerk.testing.cluster import AuditLog
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, server

PROVIDER: JsonObject = {"subDomain": "provider", "tenantId": "provider-id"}
OWN = (CAPApplication, CAPApplicationVersion, CAPTenant, CAPTenantOperation)
CHILDREN = (Deployment, Job, Pod, Secret, VirtualService)
MADE = {
    *(kind.resource.kind for kind in (*OWN, *CHILDREN)),
    *("Service", "NetworkPolicy", "DestinationRule", "PodDisruptionBudget", "HorizontalPodAutoscaler"),
}
"""The kinds of which the scene has objects."""


async def opened(shop: Shop) -> None:
    """A provider and a subscriber have followed to a second version with all that a version can have."""
    given: JsonObject = {"name": "srv-api", "url": "http://elsewhere", "timeout": 60000}
    destinations: JsonObject = {"name": "destinations", "value": json.dumps([given])}
    srv = server(
        "srv",
        ports=[
            {"name": "web", "port": 4004, "routerDestinationName": "srv-api"},
            {"name": "metrics", "port": 9000, "networkPolicy": "Cluster"},
        ],
        podDisruptionBudget={"maxUnavailable": 1},
        horizontalPodAutoscaler={"minReplicas": 1, "maxReplicas": 2},
        monitoring={"scrapeConfig": {"port": "metrics"}},
    )
    api = server("api", "Service", ports=[{"name": "api", "port": 8080}])
    exposure: JsonObject = {"subDomain": "api", "routes": [{"workloadName": "api", "port": 8080}]}
    await shop.bind()
    await shop.apply(host="shop.example.com", provider=PROVIDER, rolloutOnCredentialUpdate=True)
    await shop.release("1")
    await shop.shows_application("VersionExists", state="Consistent")
    await shop.subscribe()
    await shop.tenant_shows("ProvisioningCompleted")
    await shop.release(
        "2",
        srv,
        api,
        server("app", "Router", env=[destinations]),
        server("worker", "Additional"),
        job("load", "Content"),
        job("mtxs"),
        serviceExposures=[exposure],
    )
    for name in ("shop-provider", "acme"):
        await shop.tenant_shows("UpgradeCompleted", name=name)
    await shop.shows_application("AllTenantsReady", state="Consistent", condition="AllTenantsReady")


async def objects(shop: Shop) -> dict[str, tuple[str, str]]:
    """Uid and version of each object."""
    found: dict[str, tuple[str, str]] = {}
    for resource in (*(kind.resource for kind in (*OWN, *CHILDREN)), *VERSION_KINDS):
        try:
            listed = await shop.client.list(metadata_of(resource), shop.namespace)
        except NotServed:
            continue
        for each in listed.items:
            key = f"{resource.kind} {each.metadata.name}"
            found[key] = each.metadata.uid, each.metadata.resource_version
    return found


@pytest.mark.req("R-108", "CAP-55")
async def test_a_restart_looks_at_all_objects_of_an_application_in_order_and_changes_none(
    running: Running, shop: Shop, audit: AuditLog
) -> None:
    await opened(shop)
    await running.settled(shop.client)
    before = await objects(shop)
    assert {key.split()[0] for key in before} >= MADE, "nothing is proved about a kind without objects"
    reconciled = [key for key in before if key.split()[0] in {kind.resource.kind for kind in OWN}]
    await running.stop()
    audit.mark()

    await running.start()
    await running.settled(shop.client)

    assert running.passes >= len(reconciled) >= 9
    assert [entry for entry in shop.requests(audit) if entry.is_write] == []
    assert await objects(shop) == before
