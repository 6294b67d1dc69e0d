"""Watchers on a real API server: their routes, and what wakes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from tests.cluster.runtime.conftest import Bell

from stellwerk.api.istio import Gateway, VirtualService
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api_watcher import Watcher, WatcherStatus
from stellwerk.operators.kyma.collections import GATEWAYS, ROUTES, WATCHERS
from stellwerk.operators.kyma.watcher.decide import WatcherLogic, WatcherSettings
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.executor import Deciding, InformerSources
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

HOME = labels.KCP_NAMESPACE
MINE = {labels.WATCHER_GATEWAY_LABEL: "default"}


@dataclass
class Works:
    """The controller of Watchers, running."""

    engine: Deciding[Watcher, WatcherStatus]
    bell: Bell

    def is_calm(self) -> bool:
        queue = self.engine.controller.queue
        return not queue.running and not len(queue)


@pytest.fixture
async def works(watcher_cluster: LocalCluster) -> AsyncIterator[Works]:
    config = ClusterConfig.load(watcher_cluster.kubeconfig)
    async with Client.connect(config, field_manager=labels.FIELD_MANAGER, user_agent="klm") as ours:
        manager, bell = Manager(ours, grace_seconds=2.0), Bell()
        sources = InformerSources(manager, (WATCHERS, GATEWAYS, ROUTES))
        logic, settings = WatcherLogic(manager.clock), (WatcherSettings(),)
        engine = Deciding(logic=logic, sources=sources, client=ours, clock=manager.clock, settings=settings)
        controller = Controller(
            "watchers",
            sources.informer(WATCHERS),
            engine,
            write_status=StatusWriter(client=ours),
            recorder=bell,
            metrics=manager.metrics,
        )
        engine.serve(controller)
        manager.add_controller(controller)
        task = asyncio.create_task(manager.run())
        try:
            yield Works(engine, bell)
        finally:
            manager.stop()
            async with asyncio.timeout(30):
                await task


def body(kind: type[Kind], name: str, spec: JsonObject, **metadata: Any) -> JsonObject:
    resource = kind.resource
    named: JsonObject = {"name": name, "namespace": HOME, **metadata}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": named, "spec": spec}


def a_watcher(name: str) -> JsonObject:
    spec: JsonObject = {
        "serviceInfo": {"name": "events", "namespace": HOME, "port": 8082},
        "manager": "lifecycle-manager",
        "labelsToWatch": {labels.WATCHED_BY_LABEL: "kyma"},
        "resourceToWatch": {"group": "operator.kyma-project.io", "version": "*", "resource": "kymas"},
        "field": "spec",
        "gateway": {"selector": {"matchLabels": {**MINE}}},
    }
    return body(Watcher, name, spec)


def a_gateway(name: str, host: str) -> JsonObject:
    server: JsonObject = {"port": {"number": 443, "protocol": "HTTPS", "name": "https"}, "hosts": [host]}
    return body(Gateway, name, {"servers": [server], "selector": {"istio": "ingressgateway"}}, labels=MINE)


async def shows(client: Client, name: str, state: str) -> Watcher:
    seen: list[Watcher] = []

    async def found() -> bool:
        seen.append(await client.get(Watcher, name, HOME))
        return seen[-1].status.state == state

    await eventually(found, within=30, describe=f"{name} is {state}")
    return seen[-1]


@pytest.mark.req("KYMA-54")
async def test_a_watcher_follows_its_gateways_and_takes_its_route_with_it(
    client: Client, works: Works, watcher_cluster: LocalCluster
) -> None:
    """Without a Gateway it says so, with one it is Ready; an edited route is restored; at rest nothing is asked."""
    await client.create(Watcher, a_watcher("kyma"))
    lonely = await shows(client, "kyma", "Error")
    assert "no Gateway in namespace kcp-system" in lonely.status.conditions[0].message
    await eventually(lambda: [notice.reason for _, notice in works.bell.heard[-1:]] == ["WatcherGatewayNotFound"])
    await client.create(Gateway, a_gateway("gate", "listen.example.com"))
    ready = await shows(client, "kyma", "Ready")
    assert ready.metadata.finalizers == (labels.WATCHER_FINALIZER,)
    route = await client.get(VirtualService, "kyma", HOME)
    assert route.spec.hosts == ("listen.example.com",)
    assert route.spec.http[0].name == "kcp-system/kyma"
    assert route.metadata.controller is not None
    assert route.metadata.controller.uid == ready.metadata.uid

    await client.patch(metadata_of(VirtualService), "kyma", HOME, MergePatch({"spec": {"hosts": ["elsewhere"]}}))

    async def restored() -> bool:
        return (await client.get(VirtualService, "kyma", HOME)).spec.hosts == ("listen.example.com",)

    await eventually(restored, within=30)
    await eventually(works.is_calm)
    audit = AuditLog(watcher_cluster)
    works.engine.controller.queue.add(ready.key)
    await eventually(works.is_calm)
    assert audit.entries(lambda entry: entry.namespace == HOME and entry.verb != "watch") == []

    await client.delete(metadata_of(Watcher), "kyma", HOME)

    async def gone() -> bool:
        watchers = await client.find(Watcher, "kyma", HOME)
        return watchers is None and await client.find(VirtualService, "kyma", HOME) is None

    await eventually(gone, within=30)


async def test_a_watcher_awaits_the_end_of_a_route_that_it_does_not_own(client: Client, works: Works) -> None:
    await client.apply(Gateway, a_gateway("gate", "listen.example.com"))
    await client.create(VirtualService, body(VirtualService, "taken", {"hosts": ["mine"]}))
    await client.create(Watcher, a_watcher("taken"))
    refused = await shows(client, "taken", "Error")
    assert "kubectl delete virtualservice taken -n kcp-system" in refused.status.conditions[0].message
    assert (await client.get(VirtualService, "taken", HOME)).spec.hosts == ("mine",)
    await client.delete(metadata_of(VirtualService), "taken", HOME)
    await shows(client, "taken", "Ready")
