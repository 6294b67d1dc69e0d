"""What the original operator has set up is taken over as it is: nothing is deleted, made anew, or rolled out again.

The cluster is brought into the state that the original leaves: its field manager, labels, annotations and digests on
the objects, its finalizer and inventory on the Component. Its digests are of 64 digits and made of other
representations than ours, so none of them can be equal to one of ours.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from stellwerk.api.apps import Deployment, ReplicaSet
from stellwerk.api.core import ConfigMap, Namespace, Pod
from stellwerk.apply.set.model.owner import hash_of
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, metadata_of, unstructured
from stellwerk.local.cluster import LocalCluster
from stellwerk.operators.component.api import DIGEST_ANNOTATION, FINALIZER, OWNER_ID, RECONCILER, Component
from stellwerk.testing.cluster import AuditLog
from stellwerk.testing.eventually import eventually
from stellwerk.testing.servers.artifacts import Published
from tests.cluster.component.given import Given
from tests.cluster.component.manifests import config
from tests.cluster.component.running import Running
from tests.cluster.component.then import Then

FILES = {
    "config.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: config}\ndata: {a: b}\n",
    "web.yaml": """apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "example.com/web:1"}]}
""",
}
CONFIG: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config"}, "data": {"a": "b"}}
WEB: JsonObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "example.com/web:1"}]},
        },
    },
}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


async def left_by_the_original(client: Client, given: Given, artifact: Published) -> None:
    """Objects and Component as the original leaves them when all is Ready."""
    home = await client.get(metadata_of(Namespace), "kube-system")
    created = await given.component()
    owner = f"{home.metadata.uid}/{created.key}"
    for body, view in ((CONFIG, unstructured(ConfigMap.resource)), (WEB, unstructured(Deployment.resource))):
        name = str(body["metadata"]["name"])  # type: ignore[index, call-overload]  # ours
        marks: JsonObject = {
            "labels": {OWNER_ID: hash_of(owner)},
            "annotations": {OWNER_ID: owner, DIGEST_ANNOTATION: digest(name)},
        }
        metadata: JsonObject = {"name": name, "namespace": given.namespace, **marks}
        await client.apply(view, {**body, "metadata": metadata}, field_manager=RECONCILER)
    patch = MergePatch({"metadata": {"finalizers": [FINALIZER]}})
    await client.patch(metadata_of(Component), "comp", given.namespace, patch)
    status = MergePatch({"status": status_of(created.metadata.generation, artifact, given.namespace)})
    await client.patch(metadata_of(Component), "comp", given.namespace, status, subresource="status")


def status_of(generation: int, artifact: Published, namespace: str) -> JsonObject:
    moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    found: JsonObject = {"url": artifact.url, "digest": artifact.digest, "revision": artifact.revision}
    policies: JsonObject = {
        "adoptionPolicy": "IfUnowned",
        "reconcilePolicy": "OnObjectChange",
        "updatePolicy": "SsaOverride",
        "deletePolicy": "Delete",
        "applyOrder": 0,
        "deleteOrder": 0,
        "phase": "Ready",
        "status": "Current",
        "lastAppliedAt": moment,
        "namespace": namespace,
    }
    config: JsonObject = {
        "group": "",
        "version": "v1",
        "kind": "ConfigMap",
        "name": "config",
        "digest": digest("config"),
    }
    web: JsonObject = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "web", "digest": digest("web")}
    ready: JsonObject = {
        "type": "Ready",
        "status": "True",
        "reason": "Ready",
        "message": "Dependent resources successfully reconciled",
        "lastTransitionTime": moment,
    }
    return {
        "observedGeneration": generation,
        "appliedGeneration": generation,
        "lastObservedAt": moment,
        "lastAppliedAt": moment,
        "processingDigest": digest("component"),
        "lastProcessingDigest": digest("component"),
        "revision": 7,
        "sourceRef": {"artifact": found, "digest": digest("source")},
        "lastAttemptedDigest": artifact.digest,
        "lastAttemptedRevision": artifact.revision,
        "lastAppliedDigest": artifact.digest,
        "lastAppliedRevision": artifact.revision,
        "conditions": [ready],
        "state": "Ready",
        "inventory": [{**policies, **web}, {**policies, **config}],
    }


def completed(namespace: str) -> JsonObject:
    """The entry of a hook that has done its work under the original."""
    return {
        "group": "", "version": "v1", "kind": "ConfigMap", "namespace": namespace, "name": "done",
        "adoptionPolicy": "IfUnowned", "reconcilePolicy": "OnObjectOrComponentChange", "updatePolicy": "SsaOverride",
        "deletePolicy": "Delete", "applyOrder": 0, "deleteOrder": 0, "phase": "Completed",
        "digest": f"{digest('done')}@{digest('component')}",
    }  # fmt: skip


async def identities(client: Client, namespace: str) -> dict[str, str]:
    """The uids of the objects, their replica sets and pods."""
    pods = (await client.list(metadata_of(Pod), namespace)).items
    sets = (await client.list(metadata_of(ReplicaSet), namespace)).items
    config = await client.get(metadata_of(ConfigMap), "config", namespace)
    web = await client.get(metadata_of(Deployment), "web", namespace)
    return {obj.metadata.name: obj.metadata.uid for obj in (*pods, *sets, config, web)}


@pytest.mark.req("R-306")
async def test_a_component_of_the_original_is_taken_over_without_touching_a_pod(
    given: Given, running: Running, then: Then, admin: Client, component_cluster: LocalCluster
) -> None:
    artifact = await given.source(FILES, revision="r1")
    await left_by_the_original(admin, given, artifact)

    async def is_up() -> bool:
        found = await admin.get(Deployment, "web", given.namespace)
        return found.status.available_replicas == 1

    await eventually(is_up, describe="the Deployment of the original is up")
    before = await identities(admin, given.namespace)
    audit = AuditLog(component_cluster)

    await running.start()
    await eventually(lambda: _is_ours(admin, given.namespace), describe="the Component is taken over")
    await running.rests()

    taken = await then.ready()
    assert taken.status.revision == 7, "a take-over is no new release"
    assert await identities(admin, given.namespace) == before
    mine = audit.entries(lambda entry: entry.user == "component-operator" and entry.namespace == given.namespace)
    assert not [entry for entry in mine if entry.verb in ("delete", "create") and entry.resource != "events"]
    assert {item.name: item.phase for item in taken.status.inventory} == {"web": "Ready", "config": "Ready"}

    await given.deleted()
    await then.gone()
    assert not await then.exists(ConfigMap, "config")
    await then.absent(Deployment, "web")


async def _is_ours(client: Client, namespace: str) -> bool:
    found = await client.get(Component, "comp", namespace)
    return found.is_ready and found.status.processing_digest != digest("component")


@pytest.mark.req("R-306")
async def test_an_installation_that_the_original_has_begun_goes_on_and_repeats_no_hook(
    given: Given, running: Running, then: Then, admin: Client, component_cluster: LocalCluster
) -> None:
    files = {
        "done.yaml": config("done", purge_order="0", reconcile_policy="on-object-or-component-change"),
        "waits.yaml": config("waits"),
    }
    artifact = await given.source(files, revision="r1")
    created = await given.component()
    whole = status_of(created.metadata.generation, artifact, given.namespace)
    moment = whole["lastObservedAt"]
    applied = ("appliedGeneration", "lastAppliedAt", "lastAppliedDigest", "lastAppliedRevision")
    left: JsonObject = {
        **{name: value for name, value in whole.items() if name not in applied},
        "revision": 1,
        "state": "Processing",
        "processingSince": moment,
        "conditions": [
            {"type": "Ready", "status": "Unknown", "reason": "Processing", "message": "", "lastTransitionTime": moment}
        ],
        "inventory": [completed(given.namespace)],
    }
    await admin.patch(
        metadata_of(Component), "comp", given.namespace, MergePatch({"status": left}), subresource="status"
    )
    audit = AuditLog(component_cluster)
    await running.start()
    taken = await then.ready()
    assert taken.status.revision == 1, "an installation is no upgrade"
    assert {item.name: item.phase for item in taken.status.inventory} == {"done": "Completed", "waits": "Ready"}
    mine = audit.entries(lambda entry: entry.user == "component-operator" and entry.namespace == given.namespace)
    assert not [entry for entry in mine if entry.is_write and entry.name == "done"]


@pytest.mark.req("R-306")
async def test_a_job_that_ran_under_the_original_runs_again_for_the_next_change_and_not_for_the_take_over(
    given: Given, running: Running, then: Then, admin: Client, component_cluster: LocalCluster
) -> None:
    files = {"done.yaml": config("done", purge_order="0", reconcile_policy="on-object-or-component-change")}
    artifact = await given.source(files, revision="r1")
    created = await given.component()
    left: JsonObject = {
        **status_of(created.metadata.generation, artifact, given.namespace),
        "inventory": [completed(given.namespace)],
    }
    await admin.patch(
        metadata_of(Component), "comp", given.namespace, MergePatch({"status": left}), subresource="status"
    )
    audit = AuditLog(component_cluster)

    def runs() -> int:
        mine = audit.entries(lambda entry: entry.user == "component-operator" and entry.namespace == given.namespace)
        return sum(entry.is_write and entry.name == "done" and entry.verb != "delete" for entry in mine)

    await running.start()
    await eventually(lambda: _is_ours(admin, given.namespace), describe="the Component is taken over")
    await running.rests()
    taken = await then.ready()
    assert [(item.name, item.phase) for item in taken.status.inventory] == [("done", "Completed")]
    assert runs() == 0

    await given.annotated(poke="1")
    await eventually(lambda: runs() > 0, describe="it runs again")
    await then.phases({"done": "Completed"})
