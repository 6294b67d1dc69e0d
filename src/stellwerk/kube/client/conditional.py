"""Writes to objects that others write as well: a conflict is a value, and is never taken for a change.

The API server answers 409 for four causes: another client has changed the object, another object has its name, the
name is taken, or the server found no free moment in etcd. Who catches the error takes one cause for all of them. So it
is caught here alone, and callers get values:

    change                 a patch of what was seen, computed again from what is there   Written | Left | Ended
    ensure                 an object of ours, although another client was faster         Ensured | Taken
    delete                 the end of the very object that was seen                      Deletion | Left
    *_if_absent, *_if_unchanged    one try; the caller reads again, or needs no more     the object | NotAsSeen

`Busy` is raised if nothing has changed and the server refuses nevertheless, or if others change the object all the
time: an outage, which the queue tries again later and later. See designs/client-rules.md.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from stellwerk.kube.client.client import Client, Deletion, FieldValidation, Propagation, Target
from stellwerk.kube.client.patch import MergePatch, Patch
from stellwerk.kube.client.writes import document_of, key_of
from stellwerk.kube.types.errors import AlreadyExists, Busy, Conflict, Invalid, NotFound, StatusError
from stellwerk.kube.types.model import HasMetadata, JsonObject
from stellwerk.kube.types.object_meta import ObjectMeta

T = TypeVar("T", bound=HasMetadata)
S = TypeVar("S", bound=HasMetadata)
U = TypeVar("U")

ROUNDS = 5
"""How many concurrent changes to an object one write tolerates."""


@dataclass(frozen=True, slots=True)
class Written(Generic[U]):
    """The object as it is after the change."""

    obj: U


@dataclass(frozen=True, slots=True)
class Left(Generic[U]):
    """The object as it is. The change had nothing to do on it, or was given up."""

    obj: U


@dataclass(frozen=True, slots=True)
class Ended:
    """The object is gone, and another one may have its name."""


@dataclass(frozen=True, slots=True)
class Ensured(Generic[U]):
    """The object is there and ours. `is_new`: the answer to this call is that it was created."""

    obj: U
    is_new: bool


@dataclass(frozen=True, slots=True)
class Taken(Generic[U]):
    """Another object has the name."""

    obj: U


@dataclass(frozen=True, slots=True)
class NotAsSeen:
    """Nothing was written: read the object again to learn why. It may be unchanged."""

    refusal: StatusError


async def change(
    client: Client,
    target: Target[T],
    seen: S,
    change_of: Callable[[S | T], Patch | None],
    *,
    any_version: bool = False,
    dry_run: bool = False,
    field_validation: FieldValidation | None = None,
) -> Written[T] | Left[S | T] | Ended:
    """Patch the very object that was seen. Raises Busy, ApiError.

    `change_of` computes the patch from an object, and gives None if nothing is (any more) to be done on it. After a
    conflict it is asked again about what is there, so a change that must not follow another one is given up there.
    The uid and the resourceVersion are added to a merge patch; a JSON patch has tests of its own. `any_version`: the
    change is right for every version of the object, so the resourceVersion is left out. A server without a free moment
    is asked again at once, because the caller may have done already what the patch notes. The request is sent again
    after a lost answer: if the first one has arrived, `change_of` finds its own work.
    """
    current: S | T = seen
    rounds = 0
    while (patch := change_of(current)) is not None:
        metadata = current.metadata
        try:
            written = await client.patch(
                target,
                metadata.name,
                metadata.namespace,
                _preconditioned(patch, metadata, any_version=any_version),
                dry_run=dry_run,
                field_validation=field_validation,
            )
            return Written(written)
        except NotFound:
            return Ended()
        except (Conflict, Invalid) as error:  # Invalid is also the answer to a JSON patch whose test does not hold
            refused = error
        if is_about_another(refused):
            return Ended()
        found = await client.find(target, metadata.name, metadata.namespace)
        if found is None or found.metadata.uid != metadata.uid:
            return Ended()
        if isinstance(refused, Invalid) and (isinstance(patch, MergePatch) or change_of(found) == patch):
            raise refused
        rounds += 1
        if rounds == ROUNDS:
            is_unchanged = found.metadata.resource_version == metadata.resource_version
            raise (Busy(refused.status, refused.attempted) if is_unchanged else _fight(refused)) from refused
        current = found
    return Left(current)


async def ensure(
    client: Client,
    target: Target[T],
    desired: T | JsonObject,
    is_ours: Callable[[T], bool],
    *,
    dry_run: bool = False,
) -> Ensured[T] | Taken[T]:
    """Create an object, or find the one that has its name. Raises Busy, ApiError.

    `is_ours` judges by owner or labels whether one that is there is what was to be created: by another replica, a pass
    whose cache was behind, or this very request if its answer was lost. One that has just gone is created again.
    """
    key = key_of(document_of(desired))
    rounds = 0
    while True:
        made = await create_if_absent(client, target, desired, dry_run=dry_run, repeatable=True)
        if not isinstance(made, NotAsSeen):
            return Ensured(made, is_new=True)
        found = await client.find(target, key.name, key.namespace)
        if found is not None:
            return Ensured(found, is_new=False) if is_ours(found) else Taken(found)
        rounds += 1
        if rounds == ROUNDS:
            raise _fight(made.refusal) from made.refusal


async def delete(
    client: Client,
    target: Target[T],
    seen: HasMetadata,
    *,
    if_unchanged: bool = False,
    propagation: Propagation | None = None,
) -> Deletion | Left[T]:
    """Ask for the end of the very object that was seen; with `if_unchanged`, of this version. Raises Busy, ApiError.

    `Deletion.ABSENT` if it is gone, although another one may have its name; `Left` if it has changed.
    """
    metadata = seen.metadata
    version = metadata.resource_version if if_unchanged else None
    try:
        return await client.delete(
            target,
            metadata.name,
            metadata.namespace,
            uid=metadata.uid,
            resource_version=version,
            propagation=propagation,
        )
    except Conflict as error:
        refused = error
    found = await client.find(target, metadata.name, metadata.namespace)
    if found is None or found.metadata.uid != metadata.uid:
        return Deletion.ABSENT
    if if_unchanged and found.metadata.resource_version != metadata.resource_version:
        return Left(found)
    raise Busy(refused.status, refused.attempted) from refused


# ---- one try


async def create_if_absent(
    client: Client,
    target: Target[T],
    desired: T | JsonObject,
    *,
    dry_run: bool = False,
    field_manager: str | None = None,
    repeatable: bool = False,
) -> T | NotAsSeen:
    """Create an object, unless one has its name. Only for what every client makes alike, or reads afterwards.

    Raises Busy, ApiError.
    """
    try:
        return await client.create(target, desired, dry_run=dry_run, field_manager=field_manager, repeatable=repeatable)
    except AlreadyExists as error:
        return NotAsSeen(error)
    except Conflict as error:
        raise Busy(error.status, error.attempted) from error


async def patch_if_unchanged(
    client: Client,
    target: Target[T],
    name: str,
    namespace: str,
    patch: Patch,
    *,
    subresource: str = "",
    field_validation: FieldValidation | None = None,
) -> T | NotAsSeen:
    """Send a patch that has its own conditions."""
    return await _tried(
        client.patch(target, name, namespace, patch, subresource=subresource, field_validation=field_validation)
    )


async def update_if_unchanged(
    client: Client,
    target: Target[T],
    body: JsonObject,
    *,
    subresource: str = "",
    dry_run: bool = False,
    field_validation: FieldValidation | None = None,
    field_manager: str | None = None,
) -> T | NotAsSeen:
    """Replace the version of an object that the body names."""
    return await _tried(
        client.update(
            target,
            body,
            subresource=subresource,
            dry_run=dry_run,
            field_validation=field_validation,
            field_manager=field_manager,
        )
    )


async def _tried(write: Awaitable[U]) -> U | NotAsSeen:
    try:
        return await write
    except Conflict as error:
        return NotAsSeen(error)


def _preconditioned(patch: Patch, metadata: ObjectMeta, *, any_version: bool) -> Patch:
    """The patch for this very object, and this version of it."""
    if not isinstance(patch, MergePatch):
        return patch
    changed = patch.body.get("metadata")
    conditions: JsonObject = {"uid": metadata.uid}
    if not any_version:
        conditions["resourceVersion"] = metadata.resource_version
    return MergePatch({**patch.body, "metadata": {**(changed if isinstance(changed, dict) else {}), **conditions}})


def is_about_another(refused: StatusError) -> bool:
    """Whether the server reports that another object has the name. A read may show an older view, so none is sent.

    A merge patch that names the uid gets an invalid field instead of a failed precondition.
    """
    status = refused.status
    is_invalid = any(cause.field == "metadata.uid" for cause in status.details.causes)
    return is_invalid or "Precondition failed: UID in precondition" in status.message


def _fight(refused: StatusError) -> Busy:
    fight = "another client keeps changing the object"
    return Busy(msgspec.structs.replace(refused.status, message=fight), refused.attempted)
