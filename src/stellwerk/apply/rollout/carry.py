"""Does what a stage says, one object at a time.

Nothing is read first: a stage was decided from caches, and every write carries what it was decided from. A new object
is created only where there is none; a change is meant for that very object (its uid); a deletion for the object in the
very state that was seen, because whose it is may have changed since. Where the server says that the object is not what
we saw, it is read, and the next stage decides anew.
"""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from stellwerk.apply import edit, ownership
from stellwerk.apply.desired import Address, Desired
from stellwerk.apply.errors import Failure
from stellwerk.apply.failures import failure_of
from stellwerk.apply.plan import Confirmation, Live, confirm
from stellwerk.apply.rollout.actions import Action, Create, LookUp, Release, Remove, Update
from stellwerk.apply.rollout.policy import UpdatePolicy
from stellwerk.kube.client import Client, Deletion
from stellwerk.kube.errors import ApiError, Conflict, Invalid, NotFound, StatusError
from stellwerk.kube.meta import ObjectMeta
from stellwerk.kube.model import (
    JsonObject,
    JsonValue,
    PartialObjectMetadata,
    View,
    decode_json,
    dig,
    metadata_of,
    unstructured,
)
from stellwerk.kube.patch import JsonPatch, replace, test

_IMPOSSIBLE_VERSION = "1"
"""No object has it, so an apply that carries it creates and never changes."""
_TAKEOVER_TRIES = 5
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Carried:
    """What came of an action."""

    action: Action
    live: Live | None
    """The object as the server answered; None where it is gone."""
    done: bool = True
    """Otherwise nothing was done: the object is not as it was seen, and `live` is how it is."""
    confirmation: Confirmation | None = None

    @property
    def address(self) -> Address:
        """Which object."""
        return self.action.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Carrier:
    """Carries out single actions with one client."""

    client: Client
    field_manager: str
    reclaims: tuple[str, ...]
    now: datetime
    clock: float

    async def carry_out(self, action: Action) -> Carried | Failure:
        """Do it. Refusals of the API server are answered; anything else (a lost leadership) is raised."""
        match action:
            case Create():
                return await self._try(action, "apply", self._create(action))
            case Update():
                return await self._try(action, "apply", self._update(action))
            case Remove():
                return await self._try(action, "delete", self._remove(action))
            case Release():
                return await self._try(action, "release", self._release(action))
            case LookUp():
                return await self._try(action, "get", self._look_up(action))

    async def _try(self, action: Action, verb: str, attempt: Awaitable[Carried]) -> Carried | Failure:
        try:
            return await attempt
        except ApiError as error:
            if not _is_elsewhere(error):
                return failure_of(action.address, verb, error)
        try:
            return Carried(action, await self._read(action.address), done=False)
        except ApiError as error:
            return failure_of(action.address, "get", error)

    # Writing

    async def _create(self, action: Create) -> Carried:
        body = action.desired.body
        if action.update.is_apply:
            stamped = edit.with_value(body, _IMPOSSIBLE_VERSION, "metadata", "resourceVersion")
            answer = await self._apply(action.desired, stamped, force=False)
        else:
            view = _view(action.address)
            answer = await self.client.create(view, body, field_manager=self.field_manager)
        return self._written(action, answer)

    async def _update(self, action: Update) -> Carried:
        if action.update is UpdatePolicy.REPLACE:
            answer = await self._replace(action)
        else:
            if action.takes_over:
                await self._take_over(action)
            stamped = edit.with_value(action.desired.body, action.uid, "metadata", "uid")
            answer = await self._apply(action.desired, stamped, force=True)
        return self._written(action, answer)

    async def _apply(self, desired: Desired, body: JsonObject, *, force: bool) -> Live:
        """The answer about a Secret is asked for without its content, so that we hold none of it."""
        view = _view(desired.address)
        return await self.client.apply(view, body, force=force, field_manager=self.field_manager)

    async def _replace(self, action: Update) -> Live:
        """The whole object, in the place of the very state that was seen. Finalizers belong to whoever set them."""
        wanted = dig(action.desired.body, "metadata", "finalizers")
        finalizers = [*dict.fromkeys([*(wanted if isinstance(wanted, list) else []), *action.finalizers])]
        body = edit.with_value(action.desired.body, action.resource_version, "metadata", "resourceVersion")
        if finalizers:
            body = edit.with_value(body, finalizers, "metadata", "finalizers")
        return await self.client.update(_view(action.address), body, field_manager=self.field_manager)

    async def _take_over(self, action: Update) -> None:
        """Fold the fields that we claim into our own entry; tried again where a controller's write comes between."""
        for _ in range(_TAKEOVER_TRIES - 1):
            with suppress(Conflict):
                return await self._rewrite_managers(action)
        return await self._rewrite_managers(action)

    async def _rewrite_managers(self, action: Update) -> None:
        resource, key = action.address.resource, action.address.key
        path = resource.path(key.namespace, key.name)
        found = decode_json(await self.client.raw("GET", path, accept=_METADATA_ONLY))
        entries = dig(found, "metadata", "managedFields")
        claims = claims_of(action.update, self.field_manager, self.reclaims)
        ours = ownership.reclaimed(_mappings(entries), self.field_manager, claims)
        version = dig(found, "metadata", "resourceVersion")
        patch = JsonPatch(
            [
                test("/metadata/uid", action.uid),
                replace("/metadata/managedFields", [*ours]),
                replace("/metadata/resourceVersion", version),
            ]
        )
        await self.client.patch(metadata_of(resource), key.name, key.namespace, patch, repeatable=False)

    async def _remove(self, action: Remove) -> Carried:
        key = action.address.key
        came = await self.client.delete(
            metadata_of(action.address.resource),
            key.name,
            key.namespace,
            uid=action.uid,
            resource_version=action.resource_version,
            propagation="Background",
        )
        return Carried(action, self._terminating(action) if came is Deletion.TERMINATING else None)

    def _terminating(self, action: Remove) -> Live:
        """What is known of an object that stays for a while."""
        key = action.address.key
        metadata = ObjectMeta(
            name=key.name,
            namespace=key.namespace,
            uid=action.uid,
            resource_version=action.resource_version,
            deletion_timestamp=self.now,
        )
        return PartialObjectMetadata(metadata=metadata)

    async def _release(self, action: Release) -> Carried:
        key = action.address.key
        kept: list[JsonValue] = [name for name in action.finalizers if name != self.field_manager]
        patch = JsonPatch(
            [
                test("/metadata/uid", action.uid),
                test("/metadata/finalizers", [*action.finalizers]),
                replace("/metadata/finalizers", kept),
            ]
        )
        view = metadata_of(action.address.resource)
        try:
            return Carried(action, await self.client.patch(view, key.name, key.namespace, patch))
        except NotFound:
            return Carried(action, None)

    # Reading

    async def _look_up(self, action: LookUp) -> Carried:
        return Carried(action, await self._read(action.address))

    async def _read(self, address: Address) -> Live | None:
        return await self.client.find(_view(address), address.key.name, address.key.namespace)

    def _written(self, action: Create | Update, answer: Live) -> Carried:
        restored_at = self.clock if action.restores else None
        memory = confirm(action.desired, answer, self.field_manager, restored_at=restored_at)
        return Carried(action, answer, confirmation=memory)


def claims_of(policy: UpdatePolicy, ours: str, prefixes: tuple[str, ...]) -> ownership.Claims:
    """Whose fields become ours under a policy: what we wrote by other verbs; with SsaOverride, those of some tools."""
    if policy is UpdatePolicy.SSA_OVERRIDE:
        return lambda manager: manager == ours or manager.startswith(prefixes)
    if policy is UpdatePolicy.SSA_MERGE:
        return lambda manager: manager == ours
    return lambda manager: False


def _view(address: Address) -> View[Live]:
    """The shape in which an object is held: of Secrets there is only the metadata."""
    return cast("View[Live]", metadata_of(address.resource) if address.is_secret else unstructured(address.resource))


def _is_elsewhere(error: ApiError) -> bool:
    """Whether the server means: this is not the object, or not the state, that you saw."""
    if isinstance(error, Conflict):
        return True
    if isinstance(error, NotFound):
        return bool(error.status.details.name) and "namespaces" not in error.status.message
    return isinstance(error, Invalid) and _is_about_identity(error)


def _is_about_identity(error: StatusError) -> bool:
    """Another uid under the same name, or a test of a patch that did not hold."""
    fields = {cause.field for cause in error.status.details.causes}
    return "metadata.uid" in fields or "the server rejected our request due to an error in our request" in (
        error.status.message
    )


def _mappings(value: object) -> list[JsonObject]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
