"""A limited rollout on a real API server: turns come one after the other, and a rollout at rest asks nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta

import pytest
from tests.cluster.component.kinds import serve
from tests.cluster.own_cluster import own_cluster

from stellwerk.api.core import ConfigMap, Namespace
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, Kind, metadata_of
from stellwerk.kube.types.object_meta import Record
from stellwerk.local.cluster import LocalCluster
from stellwerk.local.components import Options
from stellwerk.operators.kyma import api, labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.api_manifest import Manifest
from stellwerk.operators.kyma.api_module import ModuleTemplate
from stellwerk.operators.kyma.collections import KYMAS, MANIFESTS, METAS
from stellwerk.operators.kyma.fleet.rollout import (
    ROLLOUTS,
    VERSIONS,
    ModuleVersion,
    RolloutLogic,
    RolloutSettings,
    TurnState,
    has_turn,
    read,
    waiting_message,
)
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.executor import Deciding, InformerSources
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.view import Overlay
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

HOME = labels.KCP_NAMESPACE
TEMPLATE, KEY = ObjectKey(HOME, "keda-2.0.0"), ObjectKey(HOME, "rollout-keda-2.0.0")
SETTINGS = RolloutSettings(at_once=1, stop_share=0.5, patience=timedelta(minutes=10))


async def prepare(cluster: LocalCluster) -> None:
    """Have the cluster serve the kinds of the lifecycle manager."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        await serve(client, *api.DEFINITIONS)
        await client.apply(Namespace, {"metadata": {"name": HOME}})


@pytest.fixture(scope="module")
def fleet_cluster() -> Iterator[LocalCluster]:
    """An API server alone."""
    with own_cluster("fleet", prepare, Options(durable=False, controllers=False, pods=False)) as cluster:
        yield cluster


@pytest.fixture
async def client(fleet_cluster: LocalCluster) -> AsyncIterator[Client]:
    """A user's."""
    async with Client.connect(ClusterConfig.load(fleet_cluster.kubeconfig), field_manager="user") as client:
        yield client


@pytest.fixture
async def engine(fleet_cluster: LocalCluster) -> AsyncIterator[Deciding[ModuleVersion, Record]]:
    """The controller of rollouts, running."""
    async with Client.connect(ClusterConfig.load(fleet_cluster.kubeconfig), user_agent="klm") as ours:
        manager = Manager(ours, grace_seconds=2.0)
        sources = InformerSources(manager, (VERSIONS, ROLLOUTS, KYMAS, MANIFESTS, METAS))
        made = Deciding(logic=RolloutLogic(), sources=sources, client=ours, clock=manager.clock, settings=(SETTINGS,))
        informer = sources.informer(VERSIONS)
        made.serve(
            Controller("rollouts", informer, made, write_status=StatusWriter(client=ours), metrics=manager.metrics)
        )
        manager.add_controller(made.controller)
        task = asyncio.create_task(manager.run())
        yield made
        manager.stop()
        async with asyncio.timeout(30):
            await task


def body(kind: type[Kind], name: str, spec: JsonObject, **metadata: JsonObject) -> JsonObject:
    resource = kind.resource
    named: JsonObject = {"name": name, "namespace": HOME, **metadata}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": named, "spec": spec}


async def brought(client: Client, kyma: str, version: str, *, waits: bool) -> None:
    """Put the Kyma and its Manifest into a state, as their passes do."""
    spec: JsonObject = {"version": version, "install": {"name": "raw-manifest", "source": {"ref": version}}}
    ready: JsonObject = {"state": "Ready"}
    patch = MergePatch({"spec": spec, "metadata": {"annotations": {labels.SYNCED_LAYER_ANNOTATION: version}}})
    await client.patch(metadata_of(Manifest), f"{kyma}-keda", HOME, patch)
    await client.patch(metadata_of(Manifest), f"{kyma}-keda", HOME, MergePatch({"status": ready}), subresource="status")
    module: JsonObject = {"name": "keda", "state": "Ready", "channel": "regular", "version": version}
    module["message"] = waiting_message("2.0.0") if waits else ""
    status: JsonObject = {"state": "Ready", "modules": [module]}
    await client.patch(metadata_of(Kyma), kyma, HOME, MergePatch({"status": status}), subresource="status")


async def test_turns_come_one_after_the_other_and_at_rest_nothing_is_asked(
    client: Client, engine: Deciding[ModuleVersion, Record], fleet_cluster: LocalCluster
) -> None:
    for name in ("a", "b"):
        marks: JsonObject = {labels.KYMA_NAME_LABEL: name, labels.MODULE_NAME_LABEL: "keda"}
        install: JsonObject = {"name": "raw-manifest", "source": {"ref": "1.0.0"}}
        await client.create(Kyma, body(Kyma, name, {"channel": "regular"}))
        await client.create(
            Manifest, body(Manifest, f"{name}-keda", {"install": install, "remote": True}, labels=marks)
        )
        await brought(client, name, "1.0.0", waits=True)
    template: JsonObject = {"moduleName": "keda", "version": "2.0.0", "descriptor": {}}
    await client.create(ModuleTemplate, body(ModuleTemplate, "keda-2.0.0", template))

    async def turns_of() -> list[str]:
        found = await client.find(ConfigMap, KEY.name, HOME)
        return read(found).of(TurnState.UNDER_WAY) if found is not None else []

    async def turn_of(name: str) -> bool:
        return await turns_of() == [name]

    await eventually(lambda: turn_of("a"), describe="a has its turn")
    await eventually(lambda: has_turn(engine.view(TEMPLATE, Overlay()), ObjectKey(HOME, "a"), TEMPLATE))
    assert not has_turn(engine.view(TEMPLATE, Overlay()), ObjectKey(HOME, "b"), TEMPLATE)
    audit = AuditLog(fleet_cluster)
    engine.wake(TEMPLATE)
    queue = engine.controller.queue
    await eventually(lambda: not queue.running and not len(queue))
    assert audit.entries(lambda entry: entry.namespace == HOME and entry.verb != "watch") == []

    await brought(client, "a", "2.0.0", waits=False)
    await eventually(lambda: turn_of("b"), describe="b has its turn")
    await brought(client, "b", "2.0.0", waits=False)

    async def over() -> bool:
        return await client.find(ConfigMap, KEY.name, HOME) is None

    await eventually(over, describe="the rollout is over")
