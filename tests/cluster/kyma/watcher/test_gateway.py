"""The Secret of the Gateway on a real API server: it follows the authority, and no other Secret is looked at."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
from tests.unit.kyma.watcher.authorities import an_authority, content

from stellwerk.api.core import Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.model import JsonObject
from stellwerk.kube.types.object_meta import Record
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher.certificates import GATEWAY_SECRETS, ROOT_SECRETS, AuthoritySecret
from stellwerk.operators.kyma.watcher.gateway import GatewayLogic
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.executor import Deciding, InformerSources
from stellwerk.runtime.control.loads import Loads
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually

PLACE = labels.ISTIO_NAMESPACE
GATEWAY, ROOT = labels.GATEWAY_SECRET_NAME, labels.ROOT_SECRET_NAME
NOW = datetime.now(UTC).replace(microsecond=0)
FORMER, NEWER = an_authority(NOW - timedelta(days=60)), an_authority(NOW)


@pytest.fixture
async def engine(watcher_cluster: LocalCluster) -> AsyncIterator[Deciding[AuthoritySecret, Record]]:
    """The controller of the Secret, running."""
    config = ClusterConfig.load(watcher_cluster.kubeconfig)
    async with Client.connect(config, field_manager=labels.FIELD_MANAGER, user_agent="klm") as ours:
        for name in (ROOT, GATEWAY):  # those of other tests in the same cluster
            await ours.delete(Secret, name, PLACE)
        manager = Manager(ours, grace_seconds=2.0)
        sources = InformerSources(manager, (ROOT_SECRETS, GATEWAY_SECRETS))
        loads = Loads(ours, manager.clock, sources.wakes)
        engine = Deciding(
            logic=GatewayLogic(),
            sources=sources,
            client=ours,
            clock=manager.clock,
            settings=(Settings(),),
            loads=loads,
        )
        controller = Controller(
            "gateway-secret",
            sources.informer(ROOT_SECRETS),
            engine,
            write_status=StatusWriter(client=ours),
            metrics=manager.metrics,
        )
        engine.serve(controller)
        manager.add_controller(controller)
        manager.add_controller(loads)
        task = asyncio.create_task(manager.run())
        try:
            yield engine
        finally:
            manager.stop()
            async with asyncio.timeout(30):
                await task


async def write(client: Client, name: str, data: dict[str, str]) -> None:
    body: JsonObject = {"metadata": {"name": name, "namespace": PLACE}, "data": {**data}}
    await client.apply(Secret, body)


async def trusts(client: Client, *authorities: certs.KeyPair) -> bool:
    found = await client.find(Secret, GATEWAY, PLACE)
    bundle = [each.certificate for each in authorities]
    return found is not None and certs.split(base64.b64decode(found.data["ca.crt"])) == bundle


async def test_the_gateway_follows_its_authority_and_is_restored(
    client: Client, engine: Deciding[AuthoritySecret, Record], watcher_cluster: LocalCluster
) -> None:
    """An authority that is renewed is trusted at once; the Gateway shows its former certificate for now."""
    await write(client, "another", content(FORMER))
    await write(client, ROOT, content(FORMER))
    await eventually(lambda: trusts(client, FORMER), within=30)
    made = await client.get(Secret, GATEWAY, PLACE)
    assert made.data == content(FORMER)

    await write(client, ROOT, content(NEWER))
    await eventually(lambda: trusts(client, NEWER, FORMER), within=30)
    changed = await client.get(Secret, GATEWAY, PLACE)
    assert changed.data["tls.key"] == content(FORMER)["tls.key"]
    assert changed.metadata.annotations["caAddedToBundleAt"] >= made.metadata.annotations["caAddedToBundleAt"]

    edit: JsonObject = {"data": {"ca.crt": content(FORMER)["ca.crt"], "tls.crt": "", "tls.key": ""}}
    await client.patch(Secret, GATEWAY, PLACE, MergePatch(edit))
    await eventually(lambda: trusts(client, NEWER, FORMER), within=30)
    shown = await client.get(Secret, GATEWAY, PLACE)
    assert shown.data["tls.key"] == content(NEWER)["tls.key"], "nothing that is shown could be spared"

    queue = engine.controller.queue
    await eventually(lambda: not queue.running and not len(queue))
    assert [each.metadata.name for each in engine.controller.primary.store.all()] == [ROOT]
    audit = AuditLog(watcher_cluster)
    queue.add(next(iter(engine.controller.primary.store.all())).key)
    await eventually(lambda: not queue.running and not len(queue))
    assert audit.entries(lambda entry: entry.namespace == PLACE and entry.verb != "watch") == []
