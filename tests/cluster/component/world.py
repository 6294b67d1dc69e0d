"""What lies around the operator under test: the kinds of flux, and a clean slate.

The CRDs are ours and say no more than that these kinds exist: nothing here checks what flux itself would check.
"""

from __future__ import annotations

import asyncio

from stellwerk.api import flux
from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import NotFound
from stellwerk.kube.types.identifiers import Resource
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import Blueprint, Component
from stellwerk.testing.eventually import eventually
from tests.cluster.component.kinds import established, serve
from tests.cluster.component.manifests import GATE

FLUX = (flux.GitRepository, flux.OciRepository, flux.Bucket, flux.HelmChart, flux.ExternalArtifact)


async def prepare(cluster: LocalCluster) -> None:
    """Have the cluster serve our kinds, those of flux, and gates."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig), field_manager="tests") as client:
        await serve(client)
        target = unstructured(CustomResourceDefinition.resource)
        resources = [GATE, *(kind.resource for kind in FLUX)]
        await asyncio.gather(*(client.apply(target, free_definition(resource)) for resource in resources))
        for resource in resources:
            await eventually(lambda name=resource.group_resource: established(client, name))  # type: ignore[misc]


def free_definition(resource: Resource) -> JsonObject:
    """A CRD under which anything is accepted."""
    free: JsonObject = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema: JsonObject = {"type": "object", "properties": {"spec": free, "status": free}}
    names: JsonObject = {"kind": resource.kind, "plural": resource.plural, "listKind": f"{resource.kind}List"}
    version: JsonObject = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource},
        "spec": {"group": resource.group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


async def clean(client: Client) -> None:
    """Take away every Component and Blueprint that a failed test has left: the next operator would work on it."""
    for kind in (Component, Blueprint):
        for obj in (await client.list(metadata_of(kind))).items:
            if obj.metadata.finalizers:
                await _release(client, kind, obj.metadata.name, obj.metadata.namespace)
            await client.delete(metadata_of(kind), obj.metadata.name, obj.metadata.namespace)


async def _release(client: Client, kind: type[Component] | type[Blueprint], name: str, namespace: str) -> None:
    try:
        await client.patch(metadata_of(kind), name, namespace, MergePatch({"metadata": {"finalizers": None}}))
    except NotFound:
        return
