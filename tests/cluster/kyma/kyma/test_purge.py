"""A purge on two real API servers: finalizers of custom resources go when a deletion takes too long, and no others."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial

from tests.cluster.component.kinds import established

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.core import ConfigMap, Secret
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.kyma import labels
from stellwerk.operators.kyma.api import Kyma
from stellwerk.operators.kyma.controllers import Adding
from stellwerk.operators.kyma.kyma.purge import PurgeLogic, PurgeMetrics
from stellwerk.operators.kyma.settings import Settings
from stellwerk.runtime.process.manager import Manager
from stellwerk.testing.eventually import eventually

HOME, NAME = labels.KCP_NAMESPACE, "purged"
PURGED, KEPT, GROUP_KEPT = (
    Resource(group, "v1", "Widget", "widgets", namespaced=True)
    for group in ("purged.example.com", "kept.example.com", "all.example.com")
)
HOLD = "example.com/hold"


def definition(resource: Resource) -> JsonObject:
    schema: JsonObject = {"openAPIV3Schema": {"type": "object"}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@asynccontextmanager
async def running(cluster: LocalCluster) -> AsyncIterator[Manager]:
    """The controller alone; a deletion takes too long at once."""
    settings = Settings(
        enable_purge_finalizer=True,
        purge_finalizer_timeout=timedelta(seconds=0.001),
        skip_finalizer_purging_for=(KEPT.group_resource, f"*.{GROUP_KEPT.group}"),
    )
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager=labels.FIELD_MANAGER) as ours:
        manager = Manager(ours, grace_seconds=2.0)
        adding = Adding.to(manager, settings, lambda config, bounds: Client.connect(config, bounds), None)
        own = (settings, PurgeMetrics(manager.metrics))
        adding.kind(PurgeLogic(), own, 1, name="purge", looks_abroad=True)
        task = asyncio.create_task(manager.run())
        try:
            yield manager
        finally:
            manager.stop()
            async with asyncio.timeout(30):
                await task


async def test_finalizers_go_when_a_deletion_takes_too_long_and_those_that_are_skipped_stay(
    home_cluster: LocalCluster, remote_cluster: LocalCluster, home_client: Client, remote_client: Client
) -> None:
    for each in (PURGED, KEPT, GROUP_KEPT):
        await remote_client.apply(unstructured(CustomResourceDefinition.resource), definition(each))
        await eventually(partial(established, remote_client, each.group_resource), within=30)
    held: JsonObject = {"name": "held", "namespace": "default", "finalizers": [HOLD]}
    for each in (PURGED, KEPT, GROUP_KEPT):
        body: JsonObject = {"apiVersion": each.api_version, "kind": each.kind, "metadata": held}
        await remote_client.create(unstructured(each), body)
    await remote_client.apply(ConfigMap, {"metadata": {**held, "name": "of-no-definition"}})
    login = base64.b64encode(remote_cluster.kubeconfig.read_bytes()).decode()
    access: JsonObject = {"name": f"access-{NAME}", "namespace": HOME, "labels": {labels.KYMA_NAME_LABEL: NAME}}
    await home_client.apply(Secret, {"metadata": access, "data": {"config": login}})
    async with running(home_cluster) as manager:
        for name in (NAME, "unreachable"):
            metadata: JsonObject = {"name": name, "namespace": HOME, "finalizers": ["example.com/other"]}
            await home_client.apply(Kyma, {"metadata": metadata, "spec": {"channel": "regular"}})

        async def is_held(name: str, *finalizers: str) -> bool:
            found = await home_client.find(metadata_of(Kyma), name, HOME)
            return found is not None and found.metadata.finalizers == finalizers

        for name in (NAME, "unreachable"):
            await eventually(partial(is_held, name, "example.com/other", labels.PURGE_FINALIZER), within=30)
            await home_client.delete(metadata_of(Kyma), name, HOME)
        for name in (NAME, "unreachable"):
            await eventually(partial(is_held, name, "example.com/other"), within=30)
        figures = manager.metrics.exposition().decode()

    left = {
        each.group: (await remote_client.get(metadata_of(each), "held", "default")).metadata.finalizers
        for each in (PURGED, KEPT, GROUP_KEPT)
    }
    assert left == {PURGED.group: (), KEPT.group: (HOLD,), GROUP_KEPT.group: (HOLD,)}
    other = await remote_client.get(metadata_of(ConfigMap), "of-no-definition", "default")
    assert other.metadata.finalizers == (HOLD,)
    assert "lifecycle_mgr_purgectrl_requests_total 1.0" in figures.splitlines()
    await _clean(home_client, remote_client)


async def _clean(home: Client, remote: Client) -> None:
    free = MergePatch({"metadata": {"finalizers": None}})
    for name in (NAME, "unreachable"):
        await home.patch(metadata_of(Kyma), name, HOME, free)
    await home.delete(metadata_of(Secret), f"access-{NAME}", HOME)
    for each in (PURGED, KEPT, GROUP_KEPT):
        await remote.patch(metadata_of(each), "held", "default", free)
        await remote.delete(metadata_of(CustomResourceDefinition), each.group_resource)
    await remote.patch(metadata_of(ConfigMap), "of-no-definition", "default", free)
    await remote.delete(metadata_of(ConfigMap), "of-no-definition", "default")
