"""What every object of the CAP Operator carries before it is worked on: finalizer, owner, labels and annotations.

What is present is never corrected: objects of the original keep what they have (spec 3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, Kind, View, owner_reference, view
from stellwerk.operators.cap import names
from stellwerk.runtime.cache.informer import wrote_own_object

K = TypeVar("K", bound=Kind)


def absent(
    obj: Kind, finalizer: str, labels: Mapping[str, str], annotations: Mapping[str, str], owner: Kind | None = None
) -> JsonObject | None:
    """The metadata that the object lacks, for `write` (pure); None where it lacks nothing.

    `owner` becomes its controller, unless it has one. Lists are given whole, as a merge patch replaces them.
    """
    metadata = obj.metadata
    lacking: JsonObject = {}
    if finalizer not in metadata.finalizers:
        lacking["finalizers"] = [*metadata.finalizers, finalizer]
    if owner is not None and metadata.controller is None:
        references = [*metadata.owner_references, owner_reference(owner)]
        lacking["ownerReferences"] = [msgspec.to_builtins(reference) for reference in references]
    for key, wanted, present in (
        ("labels", labels, metadata.labels),
        ("annotations", annotations, metadata.annotations),
    ):
        if missing := names.missing(wanted, present):
            lacking[key] = {**missing}
    return lacking or None


async def write(client: Client, obj: K, lacking: JsonObject) -> K:
    """Write metadata to the very object that was seen, and return it as it is then. Raises ApiError; Conflict."""
    metadata = obj.metadata
    target: View[K] = view(type(obj))
    body: JsonObject = {"uid": metadata.uid, "resourceVersion": metadata.resource_version, **lacking}
    patch = MergePatch({"metadata": body})
    written = await client.patch(target, metadata.name, metadata.namespace, patch, field_validation="Ignore")
    wrote_own_object(written)
    return written
