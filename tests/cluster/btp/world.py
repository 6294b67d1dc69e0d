"""What surrounds the module: what an administrator installs once, and the clean slate before each test."""

from __future__ import annotations

from pathlib import Path

import yaml

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.api.batch import Job
from stellwerk.api.btp import ServiceBinding, ServiceInstance
from stellwerk.api.core import ConfigMap, Namespace, Pod, Secret, ServiceAccount
from stellwerk.api.events import Event
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.errors import NotFound, NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind, Resource
from stellwerk.kube.types.model import JsonObject, Unstructured, View, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.btp.api import CLUSTER_ID_SECRET_NAME, BtpOperator
from stellwerk.operators.btp.btpoperator.probe import JOB_NAME
from stellwerk.testing.eventually import eventually
from tests.cluster.btp import priority_class

ROOT = Path(__file__).parents[3]
ACCOUNT = "system:serviceaccount:kyma-system:btp-manager-controller-manager"
GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kyma-system")
OURS = "app.kubernetes.io/managed-by=btp-manager"


async def prepare(cluster: LocalCluster) -> None:
    """Install what `stellwerk install` would: the CRD, the rights, the priority class, the namespace."""
    async with Client.connect(ClusterConfig.load(cluster.kubeconfig)) as client:
        await client.apply(Namespace, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kyma-system"}})
        for file in sorted([*(ROOT / "deploy/crds").glob("*.yaml"), *(ROOT / "deploy/rbac").glob("btp-*.yaml")]):
            for document in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
                await client.apply(await _view(client, document), document)
        await _until_kubernetes_has_furnished(client)


async def _until_kubernetes_has_furnished(client: Client) -> None:
    """Its controllers put something into every namespace: without it pods are refused, and later it would look new."""

    async def furnished() -> bool:
        account = await client.find(metadata_of(ServiceAccount), "default", "kyma-system")
        return bool(account and await client.find(metadata_of(ConfigMap), "kube-root-ca.crt", "kyma-system"))

    await eventually(furnished, within=60, describe="the namespace kyma-system has what every namespace has")


async def _view(client: Client, document: JsonObject) -> View[Unstructured]:
    gvk = GroupVersionKind.parse(str(document["apiVersion"]), str(document["kind"]))
    return unstructured(await client.mapper.resource(gvk))


def operator_kubeconfig(cluster: LocalCluster) -> Path:
    """The operator's own account: what its role grants and nothing else."""
    return cluster.kubeconfig_for(ACCOUNT, GROUPS)


async def clean(client: Client) -> None:
    """Remove every trace of a former test; returns when it is gone."""
    await _release_all(client)
    await client.delete(Secret, "sap-btp-manager", "kyma-system")
    for written in (await client.list(metadata_of(Secret), fields=f"metadata.name={CLUSTER_ID_SECRET_NAME}")).items:
        await client.delete(metadata_of(Secret), written.metadata.name, written.metadata.namespace)
    await client.delete(ConfigMap, "sap-btp-manager", "kyma-system")
    for resource in await _module_resources(client):
        for obj in (await client.list(metadata_of(resource), labels=OURS)).items:
            await client.delete(metadata_of(resource), obj.metadata.name, obj.metadata.namespace)
    await client.delete(Job, JOB_NAME, "kyma-system", propagation="Background")
    await priority_class.exists(client)
    await _until_gone(client)
    # What a former test was told is no news to this one.
    await client.delete_collection(metadata_of(Event), "kyma-system")


async def _release_all(client: Client) -> None:
    for operator in (await client.list(BtpOperator)).items:
        name, namespace = operator.metadata.name, operator.metadata.namespace
        await client.delete(BtpOperator, name, namespace)
        await _cut(client, BtpOperator, name, namespace)
    for kind in (ServiceBinding, ServiceInstance):
        try:
            listed = await client.list(metadata_of(kind))
        except NotServed:
            continue
        for obj in listed.items:
            await client.delete(kind, obj.metadata.name, obj.metadata.namespace)
            await _cut(client, kind, obj.metadata.name, obj.metadata.namespace)


async def _cut(
    client: Client, kind: type[BtpOperator] | type[ServiceBinding] | type[ServiceInstance], name: str, namespace: str
) -> None:
    try:
        await client.patch(metadata_of(kind), name, namespace, MergePatch({"metadata": {"finalizers": None}}))
    except NotFound:
        return


async def _module_resources(client: Client) -> list[Resource]:
    kinds = {
        "": "Secret ConfigMap Service ServiceAccount",
        "apps": "Deployment",
        "rbac.authorization.k8s.io": "ClusterRole ClusterRoleBinding Role RoleBinding",
        "networking.k8s.io": "NetworkPolicy",
        "admissionregistration.k8s.io": "MutatingWebhookConfiguration ValidatingWebhookConfiguration",
        "apiextensions.k8s.io": "CustomResourceDefinition",
    }
    return [
        await client.mapper.resource(GroupVersionKind(group, "v1", kind))
        for group, names in kinds.items()
        for kind in names.split()
    ]


async def _until_gone(client: Client) -> None:
    """CRDs and pods take a moment to go."""

    async def left() -> list[str]:
        definitions = await client.list(metadata_of(CustomResourceDefinition), labels=OURS)
        pods = await client.list(metadata_of(Pod), "kyma-system")
        return [str(obj.key) for obj in (*definitions.items, *pods.items)]

    async def none_left() -> bool:
        return not await left()

    await eventually(none_left, within=60, describe="the former test's CRDs and pods are gone")
