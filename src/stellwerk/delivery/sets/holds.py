"""What keeps an object from becoming ready, if only a person or another wave can end it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stellwerk.apply.readiness import kstatus
from stellwerk.delivery import workloads
from stellwerk.kube.types.errors import NotServed
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.runtime.insight.diagnosis import ClusterReader

_STORAGE_CLASS = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")
_SELECTED_NODE = "volume.kubernetes.io/selected-node"
_CONSUMERS = (*workloads.KINDS, ("apps", "ReplicaSet"), ("batch", "Job"), ("batch", "CronJob"), ("", "Pod"))
"""Kinds whose pods can use a claim."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why an object waits without an end of its own, and what a person can do."""

    what: str
    step: str


async def read(reader: ClusterReader, live: Unstructured, later: Sequence[ObjectRef]) -> Hold | None:
    """What holds an object, with the StorageClass of a claim."""
    name = live.at("spec", "storageClassName")
    if not _is_open_claim(live) or not isinstance(name, str) or not name:
        return hold_of(live)
    try:
        resource = await reader.client.mapper.resource(_STORAGE_CLASS)
    except NotServed:
        return hold_of(live)
    found = await reader.find(resource, name, "")
    if found is None and not reader.may_not_see(resource, "") and live.at("status", "phase") != "Lost":
        what = f"StorageClass {name} does not exist, and no PersistentVolume of this class fits it"
        return Hold(what, "correct spec.storageClassName or create the class: kubectl get storageclass,pv")
    return hold_of(live, found, later)


def hold_of(
    live: Unstructured, storage_class: Unstructured | None = None, later: Sequence[ObjectRef] = ()
) -> Hold | None:
    """What holds an object; `later` are the objects whose wave has not begun. Pure."""
    if _is_open_claim(live):
        return _hold_of_claim(live, storage_class, later)
    if _is(live, "", "Pod") and (gates := kstatus.scheduling_gates(live)):
        step = f"check that the controller that removes {gates} runs, or take the gate out of the manifest"
        return Hold(f"scheduling gates: {gates}", f"{step}: {_describe(live)}")
    if not _is(live, "batch", "Job") or kstatus.has_ended(live):
        return None
    if live.at("spec", "suspend") is True:
        step = "set spec.suspend to false in its manifest, or let its queue admit it"
        return Hold(kstatus.SUSPENDED_JOB, f"{step}: {_describe(live)}")
    if manager := kstatus.foreign_job_controller(live):
        what = f"the Job is left to controller {manager} (spec.managedBy)"
        return Hold(what, f"check that {manager} runs: {_describe(live)}")
    return None


def _describe(live: Unstructured) -> str:
    return f"kubectl describe {live.gvk.kind.lower()} {live.key.name} -n {live.key.namespace}"


def _hold_of_claim(claim: Unstructured, storage_class: Unstructured | None, later: Sequence[ObjectRef]) -> Hold | None:
    name = claim.at("spec", "storageClassName")
    if claim.at("status", "phase") == "Lost":
        volume = claim.at("spec", "volumeName")
        return Hold(f"PersistentVolume {volume}, which it was bound to, is gone", "restore the volume or the claim")
    if not name and not claim.at("spec", "volumeName"):
        what = "it has no StorageClass, and no PersistentVolume fits it"
        return Hold(what, "set spec.storageClassName or create a PersistentVolume: kubectl get storageclass,pv")
    if storage_class is None:
        return None
    ref, provisioner = f"StorageClass {name}", storage_class.at("provisioner")
    node = claim.metadata.annotations.get(_SELECTED_NODE)
    if storage_class.at("volumeBindingMode") != "WaitForFirstConsumer" or node:
        place = f" for node {node}" if node else ""
        step = f"check that {provisioner} runs: kubectl describe pvc {claim.key.name} -n {claim.key.namespace}"
        return Hold(f"provisioner {provisioner} of {ref} has made no volume{place} yet", step)
    consumers = [str(one) for one in later if (one.gvk.group, one.gvk.kind) in _CONSUMERS]
    behind = f"; of a later wave: {', '.join(consumers[:3])}" if consumers else "; no pod that uses it is scheduled yet"
    return Hold(
        f"waits for its first consumer ({ref} binds late){behind}",
        "apply the claim in the same wave as the workload that uses it: give both the same apply-order",
    )


def _is_open_claim(live: Unstructured) -> bool:
    return _is(live, "", "PersistentVolumeClaim") and live.at("status", "phase") != "Bound"


def _is(live: Unstructured, group: str, kind: str) -> bool:
    return (live.ref.gvk.group, live.ref.gvk.kind) == (group, kind)
