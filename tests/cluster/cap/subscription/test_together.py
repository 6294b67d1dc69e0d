"""The subscription server and the operator work on one subscription, each with its own rights."""

from __future__ import annotations

import pytest
from tests.cluster.cap.conftest import Running
from tests.cluster.cap.shop import Shop, job, router
from tests.cluster.cap.subscription.bookshop import Bookshop

from stellwerk.api.batch import Job
from stellwerk.kube.types.model import JsonObject, JsonValue, unstructured
from stellwerk.operators.cap import names


@pytest.fixture
async def release(running: Running, shop: Bookshop) -> Shop:
    """The application has a version that is ready, whose Jobs wait for the test."""
    made = Shop(shop.client, shop.namespace)
    await made.serve(f"{shop.namespace}.example.com")
    await made.release("1", job("mtxs", fate="hang"), router())
    await made.version_shows("WorkloadsReady")
    return made


async def the_job_ends(release: Shop, operation: str) -> None:
    """The Job of an operation does its work."""
    (pod,) = await release.names_of_pods(f"sme.sap.com/tenant-operation-type={operation}")
    await release.end_fate(pod)


async def payload_of_the_job(release: Shop) -> JsonValue:
    """Where the Job reads the payload of the subscription from."""
    (made,) = (await release.client.list(unstructured(Job.resource), release.namespace)).items
    containers = made.at("spec", "template", "spec", "containers")
    assert isinstance(containers, list)
    (container,) = (each for each in containers if isinstance(each, dict))
    variables = container["env"]
    assert isinstance(variables, list)
    (found,) = (each for each in variables if isinstance(each, dict) and each["name"] == "CAPOP_SUBSCRIPTION_PAYLOAD")
    return found["valueFrom"]


@pytest.mark.req("CAP-27", "CAP-31", "CAP-33")
async def test_a_subscription_is_provisioned_and_deprovisioned_and_each_end_is_reported(
    running: Running, shop: Bookshop, release: Shop
) -> None:
    assert (await shop.subscribe()).status == 202
    name = (await shop.tenant()).metadata.name
    tenant = await release.tenant_shows("ProvisioningOperationCreated", state="Provisioning", name=name)
    assert tenant.spec.version == "1.0.0"
    await running.settled(shop.client)
    (context,) = await shop.contexts()
    reference: JsonObject = {"name": context.metadata.name, "key": names.CONTEXT_KEY}
    assert await payload_of_the_job(release) == {"secretKeyRef": reference}
    assert shop.registries.callbacks == []

    await the_job_ends(release, "provisioning")
    (callback,) = await shop.registries.received()
    assert callback.body["status"] == "SUCCEEDED"
    assert callback.body["subscriptionUrl"] == f"https://acme.{shop.namespace}.example.com"
    routes = await release.routes(name)
    assert routes is not None
    assert routes.spec.hosts == (f"acme.{shop.namespace}.example.com",)

    assert (await shop.unsubscribe()).status == 202
    await release.tenant_shows("DeprovisioningOperationCreated", state="Deleting", name=name)
    await running.settled(shop.client)
    assert len(shop.registries.callbacks) == 1
    await the_job_ends(release, "deprovisioning")
    _, callback = await shop.registries.received(2)
    assert (callback.path, callback.body["status"]) == ("/callback/end", "SUCCEEDED")
    assert await shop.tenants() == [], "the end is reported when the tenant is gone"
