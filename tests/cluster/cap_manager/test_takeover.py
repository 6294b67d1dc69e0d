"""What the original's manager has installed is taken over as it is: nothing is deleted or created again.

The cluster is brought into the state that the original leaves: its digests on the objects and in the status are of 64
digits, the inventory knows no uids, and updates replaced objects.
"""

from __future__ import annotations

import hashlib

from stellwerk.api.apps import Deployment, ReplicaSet
from stellwerk.api.core import Pod
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.identifiers import GroupVersionKind
from stellwerk.kube.types.model import JsonObject, JsonValue, metadata_of, to_json_object
from stellwerk.operators.cap_manager.api import MANAGER, CAPOperator
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from tests.cluster.cap_manager.conftest import OPERATOR, Running
from tests.cluster.cap_manager.scene import NAME, Scene


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def left_by_the_original(client: Client, scene: Scene) -> CAPOperator:
    """What a former manager has installed, as the original notes it."""
    found = await scene.capoperator()
    inventory: list[JsonValue] = []
    for item in found.status.inventory:
        resource = await client.mapper.resource(GroupVersionKind(item.group, item.version, item.kind))
        marked = MergePatch({"metadata": {"annotations": {f"{MANAGER}/digest": digest(item.name)}}})
        await client.patch(metadata_of(resource), item.name, item.namespace, marked, field_manager=MANAGER)
        entry: JsonObject = {**to_json_object(item), "digest": digest(item.name), "updatePolicy": "Replace"}
        entry.pop("uid", None)
        inventory.append(entry)
    own: JsonObject = {"processingDigest": digest("content"), "lastProcessingDigest": digest("content"), "revision": 7}
    status = MergePatch({"status": {**own, "inventory": inventory}})
    return await client.patch(CAPOperator, NAME, scene.namespace, status, subresource="status")


async def identities(client: Client, scene: Scene) -> dict[str, str]:
    """The uids of all objects of the installation, their replica sets and pods."""
    uids: dict[str, str] = {}
    for item in (await scene.capoperator()).status.inventory:
        resource = await client.mapper.resource(GroupVersionKind(item.group, item.version, item.kind))
        found = await client.get(metadata_of(resource), item.name, item.namespace)
        uids[f"{item.kind} {item.name}"] = found.metadata.uid
    for kind in (Pod, ReplicaSet):
        for obj in (await client.list(metadata_of(kind), scene.namespace)).items:
            uids[str(obj.key)] = obj.metadata.uid
    return uids


async def test_an_installation_of_the_original_is_taken_over_without_touching_a_pod(
    scene: Scene, running: Running, admin: Client, audit: AuditLog
) -> None:
    await running.start()
    await scene.asks()
    await scene.shows("Ready")
    await running.stop()
    await left_by_the_original(admin, scene)
    before = await identities(admin, scene)
    audit.mark()

    await running.start()

    async def is_ours() -> bool:
        status = (await scene.capoperator()).status
        return status.processing_digest != digest("content") and status.state == "Ready"

    await eventually(is_ours, describe="the installation is taken over")
    await running.settled(admin)
    assert await identities(admin, scene) == before
    mine = audit.entries(lambda entry: entry.user == OPERATOR)
    assert not [entry for entry in mine if entry.verb in ("delete", "create") and entry.resource != "events"]
    assert (await scene.shows("Ready")).status.revision == 8

    await scene.deletes()
    await scene.is_gone()
    assert await admin.find(metadata_of(Deployment), f"{NAME}-controller", scene.namespace) is None


async def test_objects_without_an_owner_and_of_another_owner_are_adopted(
    scene: Scene, running: Running, admin: Client
) -> None:
    """As by `helm install`, or by a CAPOperator of another name that is gone."""
    await running.start()
    await scene.asks()
    await scene.shows("Ready")
    await running.stop()
    before = await scene.deployment("controller")
    labels: JsonObject = {f"{MANAGER}/owner-id": "somebody"}
    await admin.patch(
        metadata_of(Deployment),
        before.metadata.name,
        scene.namespace,
        MergePatch({"metadata": {"labels": labels}}),
    )
    patch = MergePatch({"metadata": {"finalizers": None}})
    await admin.patch(metadata_of(CAPOperator), NAME, scene.namespace, patch)
    await scene.deletes()
    await scene.is_gone()
    await scene.asks()
    await running.start()
    await scene.shows("Ready")
    after = await scene.deployment("controller")
    assert after.metadata.uid == before.metadata.uid
    assert after.metadata.labels[f"{MANAGER}/owner-id"] != "somebody"
