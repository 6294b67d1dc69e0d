"""Which release an object belongs to. A release is no object of Kubernetes; it is named as if it were one."""

from __future__ import annotations

from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, ObjectRef
from stellwerk.kube.types.model import Unstructured
from stellwerk.kube.types.object_meta import rfc3339
from stellwerk.releases.release import RECONCILER, Release
from stellwerk.runtime.insight.related_objects import Fact

KIND = GroupVersionKind(RECONCILER, "v1", "Release")
_OWNER_ID = f"{RECONCILER}/owner-id"
_PARTS_OF_AN_ID = 3


def release_of(obj: Unstructured) -> ObjectRef | None:
    """The release whose id the object carries."""
    parts = obj.metadata.annotations.get(_OWNER_ID, "").split("/")
    if len(parts) != _PARTS_OF_AN_ID or parts[0] != RECONCILER or not all(parts):
        return None
    return ObjectRef(KIND, ObjectKey(parts[1], parts[2]))


def origin(release: Release, obj: Unstructured) -> list[Fact]:
    """Revision and state of the release, and when the object was last applied."""
    ref = obj.ref
    entry = next((one for one in release.inventory if one.ref.key == ref.key and one.gvk.kind == ref.gvk.kind), None)
    facts = [
        ("Revision", str(release.revision)),
        ("State", release.state),
        ("Applied", rfc3339(entry.last_applied_at if entry else None)),
        ("Phase", entry.phase.value if entry else "not in the inventory"),
    ]
    return [(label, text) for label, text in facts if text]
