"""Reports of remote clusters to a process that watches Kymas on a real API server."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import aiohttp
import pytest

from stellwerk.api.core import Namespace, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, metadata_of
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.settings import Settings
from stellwerk.operators.kyma.watcher import listener
from stellwerk.operators.kyma.watcher.listener import HEADER, PATH
from stellwerk.runtime.certificates import certs
from stellwerk.runtime.certificates.certs import Wish
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.eventually import eventually

ISTIO = "istio-of-listener"
HERE = Settings(kyma_skr_listener_bind_address="127.0.0.1:0", istio_namespace=ISTIO)


def body(
    kind: type[Kind], name: str, namespace: str, marks: Mapping[str, str] | None = None, **parts: JsonValue
) -> JsonObject:
    resource = kind.resource
    metadata: JsonObject = {"name": name, "namespace": namespace, "labels": {**(marks or {})}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **parts}


@pytest.mark.req("KYMA-56")
@pytest.mark.req("R-704")
async def test_a_report_wakes_the_kyma_with_the_label_of_the_sender(
    client: Client, watcher_cluster: LocalCluster
) -> None:
    """Authorities come from the Secret of the Gateway, Kymas from the cache."""
    wish = Wish(common_name="ca", names=(), lifetime=timedelta(days=1), now=datetime.now(UTC))
    authority = certs.new_authority(wish)
    header = {HEADER: f'Cert="{quote(certs.issue(authority, replace(wish, common_name="r-1")).certificate.decode())}"'}
    awakened = list[ObjectKey]()
    async with Client.connect(ClusterConfig.load(watcher_cluster.kubeconfig), user_agent="klm") as ours:
        manager = Manager(ours, grace_seconds=2.0)
        kymas = manager.informer(Kyma, namespace=labels.KCP_NAMESPACE)
        server = listener.install(manager, HERE, kymas, lambda key, _: awakened.append(key))
        assert server is not None
        running = asyncio.create_task(manager.run())
        await eventually(lambda: server.is_listening and manager.leads)

        async with aiohttp.ClientSession() as session:

            async def status() -> int:
                url = f"http://127.0.0.1:{server.port}{PATH}"
                async with session.post(url, headers=header, data=b"{}") as response:
                    return response.status

            assert await status() == 401, "there is no Secret of the Gateway"
            bundle = {"ca.crt": base64.b64encode(authority.certificate).decode()}
            name, home = labels.GATEWAY_SECRET_NAME, labels.KCP_NAMESPACE
            await client.apply(Namespace, {"metadata": {"name": ISTIO}})
            await client.create(Secret, body(Secret, name, ISTIO, data={**bundle}))
            for name, runtime in (("k-1", "r-1"), ("k-2", "r-2")):
                made = body(Kyma, name, home, {labels.RUNTIME_ID_LABEL: runtime}, spec={"channel": "regular"})
                await client.create(Kyma, made)

            async def has_arrived() -> bool:
                return await status() == 200 and bool(awakened)

            await eventually(has_arrived)
        assert {*awakened} == {ObjectKey(labels.KCP_NAMESPACE, "k-1")}
        manager.stop()
        await running
    for name in ("k-1", "k-2"):
        await client.delete(metadata_of(Kyma), name, labels.KCP_NAMESPACE)


@pytest.mark.parametrize(
    "settings", [replace(HERE, kyma_skr_listener_bind_address="0"), replace(HERE, disable_watcher=True)]
)
async def test_without_a_watcher_nothing_listens(
    client: Client, watcher_cluster: LocalCluster, settings: Settings
) -> None:
    manager = Manager(client)
    kymas = manager.informer(Kyma, namespace=labels.KCP_NAMESPACE)
    assert listener.install(manager, settings, kymas, lambda *_: None) is None
