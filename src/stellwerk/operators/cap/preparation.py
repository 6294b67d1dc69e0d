"""What every object of the CAP Operator carries before it is worked on: finalizer, owner, labels and annotations.

What is present is never corrected: objects of the original keep what they have (spec 3). The identity of the first
releases is the one exception: it goes as soon as the application has the other (spec 3.1). Each pass looks for it, so
that objects that come later, and those that a crash left behind, are migrated as well.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

import msgspec

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.model import JsonObject, Kind, View, owner_reference, view
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.operators.cap import names
from stellwerk.runtime.cache.informer import wrote_own_object

K = TypeVar("K", bound=Kind)


def absent(
    obj: Kind,
    finalizer: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owner: Kind | None = None,
    *,
    former: Collection[str] = (),
) -> JsonObject | None:
    """The metadata that the object lacks, for `write` (pure); None where it lacks nothing.

    `owner` becomes its controller, unless it has one. Labels and annotations in `former` go. Lists are given whole, as
    a merge patch replaces them.
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
        missing = names.missing({name: value for name, value in wanted.items() if name not in former}, present)
        changes: JsonObject = {**missing, **{name: None for name in former if name in present}}
        if changes:
            lacking[key] = changes
    return lacking or None


def prepared(obj: K, lacking: JsonObject) -> K:
    """The object as it is after `write` (pure)."""
    metadata: JsonObject = msgspec.to_builtins(obj.metadata)
    for key, value in lacking.items():
        former = metadata.get(key)
        metadata[key] = {**former, **value} if isinstance(former, dict) and isinstance(value, dict) else value
    return msgspec.structs.replace(obj, metadata=msgspec.convert(metadata, ObjectMeta))


def removed_again(lacking: JsonObject) -> str:
    """What to report where the object lacks this still after `write` (pure)."""
    fields = " and ".join(f"metadata.{field}" for field in lacking)
    return (
        f"a mutating webhook removes what the operator writes to {fields}: correct it; "
        "kubectl get mutatingwebhookconfigurations lists them"
    )


async def write(client: Client, obj: K, lacking: JsonObject, spec: JsonObject | None = None) -> K:
    """Write metadata to the very object that was seen, and return it as it is then. Raises ApiError; Conflict.

    `spec`: fields that are written with it.
    """
    metadata = obj.metadata
    target: View[K] = view(type(obj))
    body: JsonObject = {"uid": metadata.uid, "resourceVersion": metadata.resource_version, **lacking}
    patch = MergePatch({"metadata": body, **({"spec": spec} if spec else {})})
    written = await client.patch(target, metadata.name, metadata.namespace, patch, field_validation="Ignore")
    wrote_own_object(written)
    return written
