"""The provisioner of a local cluster: PersistentVolumes for claims, without storage behind them.

The controller manager binds claims, protects volumes in use, and marks the claims of our storage class. It leaves two
steps to a provisioner: create a volume for a marked claim, and delete a released volume. Both are done here, for claims
of any storage class that names this provisioner. No container runs on a local cluster, so a volume is only an object;
its path exists on no disk.

Alternatives: the provisioner that the controller manager has for tests makes folders in /tmp/hostpath_pv, which remain
after the cluster and which other users of the machine cannot share. A fixed set of volumes runs out, and a volume that
is used again is not deleted with its claim.

Each watch begins with all objects that exist, so a restart needs no state. This process uses the standard library
only: it starts with every cluster.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue

from stellwerk.local.wire import Wire

NAME = "stellwerk.local/volumes"
"""The provisioner, as storage classes name it."""
CLASS = "standard"
"""The default storage class of a local cluster."""

_CLAIMS, _VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
_CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
_CLAIMED_BY = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
_PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
_WATCH_SECONDS = 50
_PAUSE_SECONDS = 0.5
"""Between a request that failed and the next watch."""

Object = Mapping[str, object]


def storage_class() -> dict[str, object]:
    """The default storage class."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": CLASS, "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": NAME,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    }


def needs_volume(claim: Object) -> bool:
    """Whether the controller manager asks this provisioner for a volume for the claim."""
    metadata, spec = _mapping(claim, "metadata"), _mapping(claim, "spec")
    annotations = _mapping(metadata, "annotations")
    asked = any(annotations.get(key) == NAME for key in _CLAIMED_BY)
    return asked and not spec.get("volumeName") and not metadata.get("deletionTimestamp")


def volume_for(claim: Object, storage_class: Object) -> dict[str, object]:
    """The volume for a claim: of the size and the modes that it requests, and reserved for it."""
    metadata, spec = _mapping(claim, "metadata"), _mapping(claim, "spec")
    name = f"pvc-{metadata['uid']}"
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    reference |= {key: str(metadata[key]) for key in ("namespace", "name", "uid", "resourceVersion")}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {_PROVISIONED_BY: NAME}},
        "spec": {
            "storageClassName": spec.get("storageClassName", ""),
            "capacity": {"storage": _mapping(_mapping(spec, "resources"), "requests").get("storage")},
            "accessModes": spec.get("accessModes"),
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "mountOptions": storage_class.get("mountOptions"),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "hostPath": {"path": f"/var/lib/stellwerk/volumes/{name}"},
            "claimRef": reference,
        },
    }


def is_over(volume: Object) -> bool:
    """Whether the claim of a volume of ours is gone, and the volume has to go with it."""
    metadata, spec = _mapping(volume, "metadata"), _mapping(volume, "spec")
    is_ours = _mapping(metadata, "annotations").get(_PROVISIONED_BY) == NAME
    is_released = _mapping(volume, "status").get("phase") == "Released" and not metadata.get("deletionTimestamp")
    return is_ours and is_released and spec.get("persistentVolumeReclaimPolicy") == "Delete"


def provide(wire: Wire, claim: Object) -> bool:
    """Create the volume that a claim needs. Returns whether nothing is left to do for this state of the claim."""
    if not needs_volume(claim):
        return True
    found = wire.ask("GET", f"{_CLASSES}/{_mapping(claim, 'spec').get('storageClassName')}")
    if found is None or found.status != 200:
        return found is not None and found.status == 404  # deleted since: the controller manager decides again
    answer = wire.ask("POST", _VOLUMES, volume_for(claim, found.json()))
    if answer is not None and answer.status == 422:
        sys.stderr.write(f"{answer.body.decode(errors='replace')}\n")
    return answer is not None and answer.status in (201, 409, 422)


def remove(wire: Wire, volume: Object) -> bool:
    """Delete a volume that is over. Returns whether nothing is left to do for this state of the volume."""
    if not is_over(volume):
        return True
    metadata = _mapping(volume, "metadata")
    same = {"preconditions": {key: metadata[key] for key in ("uid", "resourceVersion")}}
    answer = wire.ask("DELETE", f"{_VOLUMES}/{metadata['name']}", same)
    return answer is not None and answer.status in (200, 202, 404, 409)  # a conflict: its next state is on its way


def main() -> None:
    """Provide volumes until the process is ended. Arguments: the port, and the files for trust and identity."""
    port, authority, identity = sys.argv[1:]
    wire = Wire(int(port), authority=Path(authority), identity=Path(identity))
    failures: SimpleQueue[BaseException] = SimpleQueue()

    def work(path: str, handle: Callable[[Wire, Object], bool]) -> None:
        try:
            while True:
                if not _follow(wire, path, handle):
                    time.sleep(_PAUSE_SECONDS)
        except BaseException as error:  # in either thread, it ends the process
            failures.put(error)

    for path, handle in ((_CLAIMS, provide), (_VOLUMES, remove)):
        threading.Thread(target=work, args=(path, handle), name=path, daemon=True).start()
    raise failures.get()


def _follow(wire: Wire, path: str, handle: Callable[[Wire, Object], bool]) -> bool:
    """Handle all objects of a path and their changes. Returns False after a failure, else when the watch has ended."""
    try:
        for line in wire.follow(f"{path}?watch=1&timeoutSeconds={_WATCH_SECONDS}"):
            event = json.loads(line)
            if event.get("type") not in ("ADDED", "MODIFIED", "DELETED"):
                return False
            if event["type"] != "DELETED" and not handle(wire, event["object"]):
                return False
    except (OSError, http.client.HTTPException, ValueError):
        return False
    return True


def _mapping(obj: Object, key: str) -> Object:
    value = obj.get(key)
    return value if isinstance(value, Mapping) else {}


if __name__ == "__main__":
    main()
