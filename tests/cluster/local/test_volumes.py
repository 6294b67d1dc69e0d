"""Claims are bound to volumes that go with them, and pods may ask for the storage that a node has."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from tests.cluster.local.conftest import wait_until
from tests.cluster.local.test_pod_fates import Workloads, has_condition, workloads

from stellwerk.local import components, volumes
from stellwerk.local.cluster import LocalCluster

__all__ = ["workloads"]

ONCE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
SOURCE = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]


def pod(**more: object) -> dict[str, object]:
    return {"restartPolicy": "Always", "containers": [{"name": "main", "image": "example.com/main:1", **more}]}


def is_bound(status: Mapping[str, object]) -> bool:
    return status.get("phase") == "Bound"


def is_gone(workloads: Workloads, path: str) -> Callable[[], bool]:
    def ask() -> bool:
        answer = workloads.wire.ask("GET", path)
        return answer is not None and answer.status == 404

    return ask


def volume_of(workloads: Workloads, claim: str) -> str:
    """The path of the volume that a claim is bound to."""
    workloads.wait(claim, is_bound)
    answer = workloads.wire.ask("GET", claim)
    assert answer is not None
    return f"/api/v1/persistentvolumes/{json.loads(answer.body)['spec']['volumeName']}"


def test_a_claim_is_bound_and_its_volume_goes_with_it(workloads: Workloads) -> None:
    claim = workloads.create(f"{workloads.core}/persistentvolumeclaims", "data", ONCE)
    volume = volume_of(workloads, claim)
    seen = workloads.wire.ask("GET", volume)
    assert seen is not None
    spec = seen.json()["spec"]
    assert isinstance(spec, dict)
    assert (spec["capacity"], spec["storageClassName"]) == ({"storage": "3Gi"}, volumes.CLASS)

    user = workloads.create(f"{workloads.core}/pods", "user", {**pod(), "volumes": SOURCE})
    workloads.wait(user, has_condition("Ready"))
    workloads.wire.ask("DELETE", claim)
    held = workloads.wire.ask("GET", claim)
    assert held is not None
    assert held.status == 200, "a claim stays while a pod uses it"
    workloads.wire.ask("DELETE", user)
    wait_until(is_gone(workloads, claim))
    wait_until(is_gone(workloads, volume))


def test_a_volume_is_kept_where_its_class_says_so_and_a_class_may_wait_for_a_pod(
    workloads: Workloads, namespace: str
) -> None:
    kept = {**volumes.storage_class(), "reclaimPolicy": "Retain", "volumeBindingMode": "WaitForFirstConsumer"}
    made = workloads.wire.ask(
        "POST", "/apis/storage.k8s.io/v1/storageclasses", {**kept, "metadata": {"name": namespace}}
    )
    assert made is not None
    assert made.status == 201, made.body
    spec = {**ONCE, "storageClassName": namespace}
    claim = workloads.create(f"{workloads.core}/persistentvolumeclaims", "data", spec)
    workloads.wait(
        workloads.create(f"{workloads.core}/pods", "user", {**pod(), "volumes": SOURCE}), has_condition("Ready")
    )
    volume = volume_of(workloads, claim)
    workloads.wire.ask("DELETE", f"{workloads.core}/pods/user")
    workloads.wire.ask("DELETE", claim)
    workloads.wait(volume, lambda status: status.get("phase") == "Released")
    for path in (volume, f"/apis/storage.k8s.io/v1/storageclasses/{namespace}"):
        workloads.wire.ask("DELETE", path)


def test_a_pod_may_ask_for_ephemeral_storage(workloads: Workloads) -> None:
    resources = {"requests": {"ephemeral-storage": "2Gi"}}
    path = workloads.create(f"{workloads.core}/pods", "user", pod(resources=resources))
    workloads.wait(path, has_condition("Ready"))


def test_a_node_of_a_former_version_offers_it_too_after_the_next_start(cluster: LocalCluster) -> None:
    wire, path = cluster.wire(), f"/api/v1/nodes/{components.NODE}/status"
    less = {field: {"ephemeral-storage": None} for field in ("capacity", "allocatable")}
    wire.ask("PATCH", path, {"status": less})
    cluster.up()
    seen = wire.ask("GET", path)
    assert seen is not None
    assert b"ephemeral-storage" in seen.body
