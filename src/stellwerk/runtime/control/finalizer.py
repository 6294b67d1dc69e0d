"""Our finalizer on an object: put on before the first outside effect, taken off after the last.

Both are merge patches that carry the resourceVersion they were computed from: finalizers are a list, a merge patch
replaces it whole, and another controller's finalizer must survive. After a conflict the object is read again.
"""

from __future__ import annotations

from typing import TypeVar

from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import Conflict, Invalid, NotFound
from stellwerk.kube.types.model import HasMetadata, Kind, metadata_of
from stellwerk.runtime.cache.informer import wrote_own_object

K = TypeVar("K", bound=Kind)

_TRIES = 5


def present(obj: HasMetadata, name: str) -> bool:
    """Whether the object carries the finalizer."""
    return name in obj.metadata.finalizers


def adding(obj: HasMetadata, name: str) -> MergePatch | None:
    """The patch that puts the finalizer on (pure); None when there is nothing to do.

    A terminating object gets none: the API server forbids new finalizers there.
    """
    if present(obj, name) or obj.metadata.is_terminating:
        return None
    return _finalizers(obj, (*obj.metadata.finalizers, name))


def removing(obj: HasMetadata, name: str) -> MergePatch | None:
    """The patch that takes the finalizer off (pure); None when there is nothing to do."""
    if not present(obj, name):
        return None
    return _finalizers(obj, tuple(kept for kept in obj.metadata.finalizers if kept != name))


async def add(client: Client, obj: K, name: str) -> K:
    """Put the finalizer on, unless it is there or the object is terminating. Returns the object as it is then.

    Raises Conflict when the object was changed meanwhile, NotFound when it is gone: the next pass sees which.
    """
    patch = adding(obj, name)
    return obj if patch is None else await _send(client, obj, patch)


async def remove(client: Client, obj: K, name: str) -> K | None:
    """Take the finalizer off this very object, and no other of its finalizers.

    Returns the object as it is then, None when it is gone or another one has its name. Raises Conflict when it keeps
    changing under us.
    """
    current: K | None = obj
    for _ in range(_TRIES - 1):
        if current is None or (patch := removing(current, name)) is None:
            return current
        try:
            return await _send(client, current, patch)
        except NotFound:
            return None
        except Conflict:
            current = await _again(client, obj)
    patch = removing(current, name) if current is not None else None
    return current if current is None or patch is None else await _send(client, current, patch)


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
    except Invalid as refused:
        # Identities cannot be changed: to the server it is an invalid change where another object has the name.
        if any(cause.field == "metadata.uid" for cause in refused.status.details.causes):
            return False
        raise
    return True


async def _again(client: Client, obj: K) -> K | None:
    """The object as the server has it now; None when it is gone or replaced."""
    found = await client.find(type(obj), obj.metadata.name, obj.metadata.namespace)
    return found if found is not None and found.metadata.uid == obj.metadata.uid else None


async def _send(client: Client, obj: K, patch: MergePatch) -> K:
    # Unknown fields are not looked for: there is none in a list of names, and the looking costs the API server.
    written = await client.patch(type(obj), obj.metadata.name, obj.metadata.namespace, patch, field_validation="Ignore")
    wrote_own_object(written)
    return written


def _finalizers(obj: HasMetadata, names: tuple[str, ...]) -> MergePatch:
    metadata = obj.metadata
    return MergePatch(
        {
            "metadata": {
                "uid": metadata.uid,
                "resourceVersion": metadata.resource_version,
                "finalizers": [*names],
            }
        }
    )
