"""Our finalizer on an object: put on before the first outside effect, taken off after the last.

Finalizers are a list that a patch replaces whole, and another controller's finalizer must survive. To put ours on, a
merge patch carries the resourceVersion that it was computed from. To take it off, a JSON patch tests the uid and the
list: a status or an annotation that another client writes meanwhile is no reason to ask twice. Where the list has
changed, the object is read again.
"""

from __future__ import annotations

from typing import TypeVar

from stellwerk.kube.client import patch as operations
from stellwerk.kube.client.client import Client, Target
from stellwerk.kube.client.patch import JsonPatch, MergePatch
from stellwerk.kube.types.errors import Conflict, Invalid, NotFound, Status
from stellwerk.kube.types.model import HasMetadata, JsonValue, Kind, metadata_of
from stellwerk.runtime.cache.informer import wrote_own_object

K = TypeVar("K", bound=Kind)
T = TypeVar("T", bound=HasMetadata)

_TRIES = 5


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

    Returns the object as it is then, None when it is gone or another one has its name. Raises Conflict when it keeps
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
    current, found = obj, None
    for attempt in range(1, _TRIES + 1):
        patch, metadata = removing(current, name), current.metadata
        if patch is None:
            break
        try:
            # Unknown fields are not looked for: there is none in a list of names, and the looking costs the API server.
            return await client.patch(target, metadata.name, metadata.namespace, patch, field_validation="Ignore")
        except NotFound:
            return None
        except (Conflict, Invalid) as refused:
            # Invalid is the answer to a failed test, too. Where nothing that is tested has changed, it is not that.
            found = await client.find(target, metadata.name, metadata.namespace)
            if found is None or found.metadata.uid != metadata.uid:
                return None
            if isinstance(refused, Invalid) and found.metadata.finalizers == metadata.finalizers:
                raise
            if attempt == _TRIES:
                fight = Status(code=409, reason="Conflict", message="another client keeps changing the object")
                raise Conflict(fight, refused.attempted) from refused
            current = found
    return found


async def is_of_the_present(client: Client, obj: Kind) -> bool:
    """Whether this very object is still there. Raises ApiError where the server does not answer.

    A server may show an older view, in which an object lives or is leaving that is long gone; what it has left behind
    under its name belongs to a successor. So it is asked by way of a write, which is always about the present: a change
    that changes nothing and is only rehearsed.
    """
    itself = MergePatch({"metadata": {"uid": obj.metadata.uid}})
    try:
        await client.patch(metadata_of(obj.resource), obj.metadata.name, obj.metadata.namespace, itself, dry_run=True)
    except (Conflict, NotFound):
        return False
    return True
