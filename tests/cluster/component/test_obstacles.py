"""What the API server refuses is told as what stands in the way, troubles one Component only, and may be taken away."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest

from stellwerk.api.core import ConfigMap, Namespace, Service
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.webhooks import Reject, ScriptedAdmissionServer, WebhookRule
from tests.cluster.component.given import Given, config_map
from tests.cluster.component.manifests import manifest
from tests.cluster.component.rights import ALL, Rights
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

QUOTAS = unstructured(Resource("", "v1", "ResourceQuota", "resourcequotas", True))
PORTS: JsonObject = {"spec": {"ports": [{"port": 80}]}}
SERVICE = {"service.yaml": manifest("Service", "front", PORTS)}
MANY_TRIES = 20
"""More than any back-off that doubles from 5 ms makes in the time of a test."""


@pytest.fixture
async def modest(component_cluster: LocalCluster, may: Rights) -> AsyncIterator[Running]:
    """The operator, as somebody who may do what he is granted."""
    running = Running(component_cluster.kubeconfig_for(may.user))
    yield running
    await running.stop()


@pytest.mark.req("R-206")
async def test_a_right_that_is_missing_is_named_and_concerns_the_kind_alone(
    given: Given, modest: Running, then: Then, may: Rights
) -> None:
    await may.are(("configmaps", ALL))
    await given.source({**SERVICE, "one.yaml": config_map("one")}, "with-service", revision="r1")
    await given.source({"two.yaml": config_map("two")})
    await modest.start()
    await given.component("blocked", "with-service")
    await given.component("fine")
    where = f"services in namespace {then.namespace}"
    await then.shows("Error", "Error", "blocked", saying=f"not permitted to list and watch {where}")
    await then.ready("fine")

    await may.are(("configmaps", ALL), ("services", ["get", "list", "watch"]))
    await modest.waits(minutes=20)
    await then.shows("Error", "Error", "blocked", saying=f"user {may.user} may not patch {where}")
    assert modest.passes < MANY_TRIES * 3
    await may.are(("configmaps", ALL), ("services", ALL))
    await modest.waits(minutes=20)
    await then.ready("blocked")

    await may.are(("configmaps", ALL), ("services", ["get", "list", "watch"]))
    await given.source({"one.yaml": config_map("one")}, "with-service", revision="r2")
    await given.source({"two.yaml": config_map("two", a="changed")}, revision="r2")
    await then.shows("Error", "Error", "blocked", saying=f"may not delete {where}")
    await then.ready("fine", revision="r2")
    await may.are(("configmaps", ALL), ("services", ALL))
    await modest.waits(minutes=20)
    await then.ready("blocked", revision="r2")
    assert not await then.exists(Service, "front")


@pytest.mark.req("R-208")
async def test_a_namespace_that_is_on_its_way_out_is_named(given: Given, running: Running, then: Then) -> None:
    there = await given.a_namespace()
    far = Given(given.client, given.server, there)
    await far.config("holder")
    await far.finalizers("holder", "tests.example/held")
    await given.client.delete(metadata_of(Namespace), there)
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    await given.component(namespace=there)
    await then.shows("Error", "Error", saying=f"Namespace {there} is being deleted")
    assert running.passes < MANY_TRIES
    await far.finalizers("holder")
    # Not "until it is absent": the operator may make it anew between two looks.
    await running.tries_until(lambda: then.ready(within=3), minutes=20)
    assert await then.exists(ConfigMap, "one", there)


@pytest.mark.req("R-208")
async def test_a_quota_that_is_used_up_is_named_and_the_rest_of_the_wave_is_written(
    given: Given, running: Running, then: Then
) -> None:
    there = await given.a_namespace()
    metadata: JsonObject = {"name": "small", "namespace": there}
    await given.client.apply(QUOTAS, {"metadata": metadata, "spec": {"hard": {"count/services": "0"}}})
    await eventually(lambda: is_counted(given.client, there), describe="the quota is counted")
    await given.source({**SERVICE, "one.yaml": config_map("one")})
    await running.start()
    await given.component(namespace=there)
    await then.shows("Error", "Error", saying=f"ResourceQuota {there}/small is used up")
    assert await then.exists(ConfigMap, "one", there)
    assert running.passes < MANY_TRIES
    await given.client.delete(QUOTAS, "small", there)
    await running.tries_until(lambda: then.ready(within=3), minutes=20)


@pytest.mark.req("R-208")
async def test_a_webhook_that_refuses_or_is_down_is_named(
    given: Given, running: Running, then: Then, component_cluster: LocalCluster
) -> None:
    name = f"guard-{secrets.token_hex(4)}"
    await given.source({"one.yaml": config_map("one")})
    await running.start()
    async with ScriptedAdmissionServer(Reject("not on a Friday")) as server:
        rules = [WebhookRule(resource="configmaps")]
        guard = server.configuration(name, rules, namespace=then.namespace)
        async with server.registered(component_cluster.kubeconfig, guard, then.namespace):
            await given.component()
            refused = await then.shows("Error", "Error", saying=f"{name}.test.example.com")
            assert "not on a Friday" in refused.status.conditions[0].message
            assert running.passes < MANY_TRIES
            assert then.reasons().count("Error") == 1
        guard["webhooks"][0]["clientConfig"]["url"] = "https://127.0.0.1:1/"  # type: ignore[call-overload,index]
        async with server.registered(component_cluster.kubeconfig, guard, then.namespace):
            await given.source({"one.yaml": config_map("one", a="changed")}, revision="r2")
            await then.shows("Error", "Error", saying="does not answer")
    await running.tries_until(lambda: then.ready(revision="r2", within=3), minutes=20)


async def is_counted(client: Client, namespace: str) -> bool:
    found = await client.get(QUOTAS, "small", namespace)
    return "count/services" in str(found.body.get("status"))
