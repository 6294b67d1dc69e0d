"""Our finalizer on an object: put on before the first outside effect, taken off after the last.

Finalizers are a list that a patch replaces whole, and another controller's finalizer must survive. To put ours on, a
merge patch carries the resourceVersion that it was computed from. To take it off, a JSON patch tests the uid and the
list: a status or an annotation that another client writes meanwhile is no reason to ask twice. Where the list has
changed, the object is read again.
"""

from __future__ import annotations

from typing import TypeVar, cast

from stellwerk.kube.client import conditional
from stellwerk.kube.client import patch as operations
from stellwerk.kube.client.client import Client, Target
from stellwerk.kube.client.patch import JsonPatch, MergePatch
from stellwerk.kube.types.model import HasMetadata, JsonValue, Kind, metadata_of
from stellwerk.runtime.cache.informer import wrote_own_object

K = TypeVar("K", bound=Kind)
T = TypeVar("T", bound=HasMetadata)


def present(obj: HasMetadata, name: str) -> bool:
    """Whether the object carries the finalizer."""
    return name in obj.metadata.finalizers


def is_lost(old: HasMetadata, new: HasMetadata, name: str) -> bool:
    """Whether an update has removed the finalizer."""
    return present(old, name) and not present(new, name)


def adding(obj: HasMetadata, name: str) -> MergePatch | None:
    """The patch that puts the finalizer on (pure); None when there is nothing to do.

    A terminating object gets none: the API server forbids new finalizers there.
    """
    if present(obj, name) or obj.metadata.is_terminating:
        return None
    metadata = obj.metadata
    finalizers: list[JsonValue] = [*metadata.finalizers, name]
    return MergePatch(
        {"metadata": {"uid": metadata.uid, "resourceVersion": metadata.resource_version, "finalizers": finalizers}}
    )


def removing(obj: HasMetadata, name: str) -> JsonPatch | None:
    """The patch that takes the finalizer off (pure); None when there is nothing to do."""
    if not present(obj, name):
        return None
    path = "/metadata/finalizers"
    kept: list[JsonValue] = [other for other in obj.metadata.finalizers if other != name]
    return JsonPatch(
        (
            operations.test("/metadata/uid", obj.metadata.uid),
            operations.test(path, [*obj.metadata.finalizers]),
            operations.replace(path, kept),
        )
    )


async def add(client: Client, obj: K, name: str) -> K:
    """Put the finalizer on, unless it is there or the object is terminating. Returns the object as it is then.

    Raises Conflict when the object was changed meanwhile, NotFound when it is gone: the next pass sees which.
    """
    patch = adding(obj, name)
    if patch is None:
        return obj
    metadata = obj.metadata
    written = await client.patch(type(obj), metadata.name, metadata.namespace, patch, field_validation="Ignore")
    wrote_own_object(written)
    return written


async def remove(client: Client, obj: K, name: str) -> K | None:
    """Take the finalizer off the very object of this pass, and no other of its finalizers.

    Returns the object as it is then, None when it is gone or another one has its name. Raises Busy when it keeps
    changing under us, and Invalid when the API server refuses the object itself.
    """
    if not present(obj, name):
        return obj
    left = await remove_from(client, type(obj), obj, name)
    if left is not None:
        wrote_own_object(left)
    return left


async def remove_from(client: Client, target: Target[T], obj: HasMetadata, name: str) -> T | None:
    """Take the finalizer off any object, read as `target`. Returns None where it has none; else as `remove` does."""
    if not present(obj, name):
        return None
    # Unknown fields are not looked for: there is none in a list of names, and the looking costs the API server.
    outcome = await conditional.change(
        client, target, obj, lambda current: removing(current, name), field_validation="Ignore"
    )
    return None if isinstance(outcome, conditional.Ended) else cast(T, outcome.obj)


async def is_of_the_present(client: Client, obj: Kind) -> bool:
    """Whether this very object is still there. Raises ApiError where the server does not answer.

    A server may show an older view, in which an object lives or is leaving that is long gone; what it has left behind
    under its name belongs to a successor. So it is asked by way of a write, which is always about the present: a change
    that changes nothing and is only rehearsed.
    """
    nothing = MergePatch({})
    outcome = await conditional.change(
        client, metadata_of(obj.resource), obj, lambda _: nothing, any_version=True, dry_run=True
    )
    return not isinstance(outcome, conditional.Ended)
