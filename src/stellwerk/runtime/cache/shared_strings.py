"""Keeps each repeated string of cached objects once.

The objects of a cache repeat each other: the same label keys, the same few label values, the same owner kind and field
managers. Decoders make a new string each time, which is a third of the memory of a small object. The strings that a
cache shares are Python's interned ones, which are dropped with the last object that has them.
"""

from __future__ import annotations

from sys import intern

import msgspec
from msgspec.structs import force_setattr

from stellwerk.kube.types.model import HasMetadata, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta

MOST_SHARED = 1_000
"""Labels, annotations and references of one object: other objects rarely have more, and the event loop waits."""


def share(obj: HasMetadata) -> None:
    """Replace strings of the object's metadata by equal ones that other objects have, too.

    Values of annotations, names and uids are rarely repeated and stay as they are. The object is equal to
    what it was. The labels and annotations of a free-form object are then one dictionary with those of its metadata.
    """
    metadata = obj.metadata
    force_setattr(metadata, "namespace", intern(metadata.namespace))
    if 0 < len(metadata.labels) <= MOST_SHARED:
        force_setattr(metadata, "labels", {intern(key): intern(value) for key, value in metadata.labels.items()})
    if 0 < len(metadata.annotations) <= MOST_SHARED:
        force_setattr(metadata, "annotations", {intern(key): value for key, value in metadata.annotations.items()})
    if 0 < len(metadata.finalizers) <= MOST_SHARED:
        force_setattr(metadata, "finalizers", tuple(map(intern, metadata.finalizers)))
    for owner in metadata.owner_references[:MOST_SHARED]:
        _share_fields(owner, "api_version", "kind")
    for manager in metadata.managers[:MOST_SHARED]:
        _share_fields(manager, "manager", "operation", "subresource")
    if isinstance(obj, Unstructured):
        _share_with_body(obj, metadata)


def _share_fields(part: msgspec.Struct, *names: str) -> None:
    for name in names:
        force_setattr(part, name, intern(getattr(part, name)))


def _share_with_body(obj: Unstructured, metadata: ObjectMeta) -> None:
    body = obj.body.get("metadata")
    if isinstance(body, dict):
        for name, values in (("labels", metadata.labels), ("annotations", metadata.annotations)):
            if body.get(name):
                body[name] = values  # type: ignore[assignment]
