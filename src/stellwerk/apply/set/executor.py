"""Carries out a stage, one object at a time.

Nothing is read first: a stage was decided from caches, and every write carries what it was decided from. A new object
is created only where there is none; a change and a deletion are meant for that very object (its uid) in the very state
that was seen (its resourceVersion), because its owner may have changed since. Where the server shows that the object
is not what we saw, it is read, and the next stage decides again.

We refused applies without a resourceVersion. They would meet fewer conflicts where a controller writes a status at the
same time, but they would take an object back from an owner that received it a moment ago; behind a stale cache, long
ago.
"""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass
from dataclasses import replace as replaced
from http import HTTPStatus

from stellwerk.apply.errors import Obstacle, WriteFailure
from stellwerk.apply.failures import REPLACE, failure_of
from stellwerk.apply.fields import defaulted_unions, hindering_fields, managed_fields
from stellwerk.apply.fields.managed_fields import Claims
from stellwerk.apply.objects import json_edit
from stellwerk.apply.objects.desired import Address, Desired, is_aggregated
from stellwerk.apply.set import server_warnings
from stellwerk.apply.set.model.confirmation import Confirmation, Live, confirm, live_view
from stellwerk.apply.set.model.desired_set import is_definition
from stellwerk.apply.set.model.owner import Ownership, Standing
from stellwerk.apply.set.model.policy import UpdatePolicy
from stellwerk.apply.set.plan.actions import Action, Create, LookUp, Remove, RemoveFinalizer, Update
from stellwerk.kube.client.client import Client, Deletion
from stellwerk.kube.client.patch import JsonPatch, MergePatch, remove, replace, test
from stellwerk.kube.http import warnings
from stellwerk.kube.types.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    NotFound,
    NotServed,
    Status,
    Unreachable,
)
from stellwerk.kube.types.identifiers import ObjectRef
from stellwerk.kube.types.model import METADATA_ONLY, JsonObject, JsonValue, dig, metadata_of

_IMPOSSIBLE_VERSION = "1"
"""No object has it, so an apply that carries it creates and never changes."""


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What came of an action."""

    action: Action
    live: Live | None
    """The object as the server answered; None where it is gone."""
    done: bool = True
    """Otherwise nothing was done: the object is not as it was seen. `live` is how it is, as far as that is known."""
    confirmation: Confirmation | None = None
    stays: bool = False
    """Whether an object that we asked the server to delete exists for a while. The answer did not contain it."""
    remarks: tuple[str, ...] = ()
    """What the server remarked about the object that it took."""

    @property
    def address(self) -> Address:
        """Which object."""
        return self.action.address


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """Carries out single actions with one client."""

    client: Client
    owner: Ownership
    reclaims: Claims
    clock: float
    writes_as: str = ""
    """The identity whose rights a write proves, if that is asked for."""
    witness: Client | None = None
    """Sees whether an object exists of which no write is known, if `client` may not ask for it."""

    @property
    def field_manager(self) -> str:
        """The name under which the API server records the fields."""
        return self.owner.prefix

    async def carry_out(self, action: Action) -> ActionResult | WriteFailure:
        """Do it. Refusals of the API server are answered; anything else (a lost leadership) is raised."""
        match action:
            case Create():
                return await self._try(action, "apply", self._create(action))
            case Update():
                return await self._try(action, "apply", self._update(action))
            case Remove():
                return await self._try(action, "delete", self._remove(action))
            case RemoveFinalizer():
                return await self._try(action, "release", self._release(action))
            case LookUp():
                return await self._try(action, "get", self._look_up(action))

    async def _try(self, action: Action, verb: str, attempt: Awaitable[ActionResult]) -> ActionResult | WriteFailure:
        try:
            with warnings.Listening() as heard:
                done = await attempt
            return replaced(done, remarks=server_warnings.shown(action.address, heard)) if heard else done
        except NotServed as error:
            if isinstance(action, Remove | RemoveFinalizer | LookUp):
                return await self._unserved(action, verb)
            return failure_of(action.address, verb, error)
        except _OutdatedView as error:
            return _outdated(action, verb, str(error))
        except _NotAsSeen:
            pass
        except ApiError as error:
            if not _is_elsewhere(action.address, error):
                return await self._named(action, failure_of(action.address, verb, error))
        try:
            found = await self._read(action.address)
        except ApiError as error:
            return failure_of(action.address, "get", error)
        if isinstance(action, Remove) and found is not None and self._is_successor(found, action.uid):
            # Whether that is to go is decided when caches show it, and with it who wants it: behind a stale cache it
            # belongs to a later revision, or to a successor of the owner.
            return conflict(action.address.ref, "delete", "it was created again in the meantime")
        return ActionResult(action, found, done=False)

    async def _named(self, action: Action, failure: WriteFailure) -> WriteFailure:
        """The failure, with the fields of other managers that are the cause of a refusal."""
        error = failure.error
        if not (isinstance(action, Update) and isinstance(error, Invalid) and hindering_fields.may_hinder(error)):
            return failure
        key = action.address.key
        try:
            found = await self.client.document(
                action.address.resource.path(key.namespace, key.name), accept=METADATA_ONLY
            )
        except ApiError:
            return failure
        entries = dig(found, "metadata", "managedFields")
        fields = hindering_fields.hindering(action.desired.body, entries, self.field_manager, error)
        if not fields:
            return failure
        cause = "; ".join((failure.cause, *map(str, fields)))
        return replaced(failure, cause=cause, fix=REPLACE)

    async def _unserved(self, action: Action, verb: str) -> ActionResult | WriteFailure:
        """A kind that is gone took all its objects with it. They exist where only this version of it is gone: then the
        next pass meets them in another one."""
        resource = action.address.resource
        try:
            others = await self.client.mapper.other_versions(resource)
        except ApiError as error:
            return failure_of(action.address, "get", error)
        if others:
            return _outdated(action, verb, f"the API server serves {resource.gvk} as {others[0]} now")
        return ActionResult(action, None)

    def _is_successor(self, found: Live, uid: str) -> bool:
        """Whether it is another object, and yet one of a set of ours."""
        return found.metadata.uid != uid and self.owner.is_ours_or_siblings(found.metadata)

    # Writing

    async def _create(self, action: Create) -> ActionResult:
        body = action.desired.body
        if action.takes_all:
            answer = await self._apply(action.desired, body, force=True)
            answer = await self._recorded(action, answer)
        elif action.update.is_apply:
            stamped = json_edit.with_value(body, _IMPOSSIBLE_VERSION, "metadata", "resourceVersion")
            answer = await self._apply(action.desired, stamped, force=False)
        else:
            view = live_view(action.address.resource)
            answer = await self.client.create(view, body, field_manager=self.field_manager)
        return self._written(action, answer)

    async def _update(self, action: Update) -> ActionResult:
        if action.marks_only:
            answer = await self._mark(action)
        elif action.update is UpdatePolicy.REPLACE and not is_aggregated(action.desired.body):
            answer = await self._replace(action)
        else:
            answer = await self._override(action)
        return self._written(action, answer)

    async def _override(self, action: Update) -> Live:
        version = action.resource_version
        if action.claimed:
            version = await self._take_over(action, action.uid, version)
        try:
            answer = await self._force(action.desired, action.uid, version)
        except Invalid as error:
            if not (defaulted := defaulted_unions.hindering(action.desired, error)):
                raise
            version = await self._take_over(action, action.uid, version, defaulted)
            desired = replaced(action.desired, body=defaulted_unions.without_null(action.desired))
            answer = await self._force(desired, action.uid, version)
        return await self._recorded(action, answer) if action.update is UpdatePolicy.SSA_OVERRIDE else answer

    async def _recorded(self, action: Create | Update, answer: Live) -> Live:
        """Apply once more where no owner of some fields was recorded, so that the server could not know which fields
        to remove. After the take-over it can."""
        metadata = answer.metadata
        if not managed_fields.is_unrecorded(metadata.managers):
            return answer
        version = await self._take_over(action, metadata.uid, metadata.resource_version)
        return await self._force(action.desired, metadata.uid, version)

    async def _force(self, desired: Desired, uid: str, version: str) -> Live:
        seen: JsonObject = {"uid": uid, "resourceVersion": version}
        return await self._apply(desired, json_edit.merged(desired.body, seen, "metadata"), force=True)

    async def _mark(self, action: Update) -> Live:
        """The owner's marks, and our finalizer where the kind needs it; nothing else."""
        ours = f"{self.field_manager}/"
        metadata = dig(action.desired.body, "metadata")
        marks: JsonObject = {name: _beginning_with(ours, dig(metadata, name)) for name in ("labels", "annotations")}
        if is_definition(action.desired.resource.gvk) and self.field_manager not in action.finalizers:
            marks["finalizers"] = [*action.finalizers, self.field_manager]
        seen: JsonObject = {"uid": action.uid, "resourceVersion": action.resource_version}
        key = action.address.key
        patch = MergePatch({"metadata": {**seen, **marks}})
        view = live_view(action.address.resource)
        return await self.client.patch(view, key.name, key.namespace, patch, field_manager=self.field_manager)

    async def _apply(self, desired: Desired, body: JsonObject, *, force: bool) -> Live:
        """The answer about a Secret is asked for without its content, so that we hold none of it."""
        view = live_view(desired.resource)
        return await self.client.apply(view, body, force=force, field_manager=self.field_manager)

    async def _replace(self, action: Update) -> Live:
        """The whole object, in the place of the state that was seen. Finalizers belong to the clients that set them."""
        wanted = dig(action.desired.body, "metadata", "finalizers")
        finalizers = [*dict.fromkeys([*(wanted if isinstance(wanted, list) else []), *action.finalizers])]
        body = json_edit.with_value(action.desired.body, action.resource_version, "metadata", "resourceVersion")
        if finalizers:
            body = json_edit.with_value(body, finalizers, "metadata", "finalizers")
        return await self.client.update(live_view(action.address.resource), body, field_manager=self.field_manager)

    async def _take_over(
        self, action: Create | Update, uid: str, version: str, defaulted: JsonObject | None = None
    ) -> str:
        """Fold the fields that we claim, and those that the server has set by default, into our own entry. Returns the
        resourceVersion after that.

        Caches do not keep field lists, so they are read here, and nothing else with them. Until the apply that has to
        follow, nothing else shows that fields have to go: the object loses its digest, so that it is written even if
        this process ends now.
        """
        resource, key = action.address.resource, action.address.key
        path = resource.path(key.namespace, key.name)
        found = await self.client.document(path, accept=METADATA_ONLY)
        if dig(found, "metadata", "resourceVersion") != version:
            raise _NotAsSeen
        claims = action.update.claims(self.field_manager, self.reclaims)
        entries = dig(found, "metadata", "managedFields")
        owned = managed_fields.reclaimed(entries, self.field_manager, claims)
        if defaulted is not None:
            owned = managed_fields.with_owned(owned, self.field_manager, defaulted)
        operations = [
            test("/metadata/uid", uid),
            replace("/metadata/managedFields", [*owned]),
            replace("/metadata/resourceVersion", version),
        ]
        digest = ("metadata", "annotations", self.owner.digest_key)
        if dig(found, *digest) is not None:
            operations.append(remove(digest))
        patch = JsonPatch(operations)
        view = metadata_of(resource)
        answer = await self.client.patch(view, key.name, key.namespace, patch, repeatable=False)
        return answer.metadata.resource_version

    async def _remove(self, action: Remove) -> ActionResult:
        key = action.address.key
        came = await self.client.delete(
            metadata_of(action.address.resource),
            key.name,
            key.namespace,
            uid=action.uid,
            resource_version=action.resource_version,
            propagation="Background",
        )
        return ActionResult(action, None, stays=came is Deletion.TERMINATING)

    async def _release(self, action: RemoveFinalizer) -> ActionResult:
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
            return ActionResult(action, await self.client.patch(view, key.name, key.namespace, patch))
        except NotFound:
            return ActionResult(action, None)

    # Reading

    async def _look_up(self, action: LookUp) -> ActionResult:
        """Whether the object is gone. An API server may show an older view, so its no is asked for once more by way of
        a write, which is always about the present: a deletion that is only rehearsed."""
        try:
            found = await self._read(action.address)
            if found is None and await self._is_there(action.address):
                raise _OutdatedView
        except NotServed:
            found = None
        except Forbidden:
            if self.witness is None or not action.is_unwritten or await self._is_witnessed(action.address):
                raise
            found = None
        return ActionResult(action, found)

    async def _is_witnessed(self, address: Address) -> bool:
        """Whether an object of ours exists. An identity without rights must not keep a set that it never wrote."""
        assert self.witness is not None
        key = address.key
        found = await self.witness.find(metadata_of(address.resource), key.name, key.namespace)
        return found is not None and self.owner.standing(found.metadata) is Standing.OURS

    async def _is_there(self, address: Address) -> bool:
        key = address.key
        try:
            return bool(await self.client.delete(metadata_of(address.resource), key.name, key.namespace, dry_run=True))
        except BadRequest:
            return False  # some webhook refuses rehearsals; then the reading has to do

    async def _read(self, address: Address) -> Live | None:
        return await self.client.find(live_view(address.resource), address.key.name, address.key.namespace)

    def _written(self, action: Create | Update, answer: Live) -> ActionResult:
        restored_at = self.clock if action.restores else None
        memory = confirm(action.desired, answer, self.field_manager, restored_at=restored_at)
        return ActionResult(
            action, answer, confirmation=replaced(memory, written_at=self.clock, written_as=self.writes_as)
        )


def conflict(
    ref: ObjectRef, verb: str, cause: str, *, obstacle: Obstacle = Obstacle.CHANGED, fix: str = ""
) -> WriteFailure:
    """The failure of a write for an object that is not as the write needs it."""
    return WriteFailure(ref, verb, obstacle, cause, fix, Conflict(Status(message=cause, code=HTTPStatus.CONFLICT)))


def _outdated(action: Action, verb: str, cause: str) -> WriteFailure:
    """What was decided from is out of date in a way that reading the object does not mend; the next pass may."""
    return WriteFailure(action.address.ref, verb, Obstacle.OUTAGE, cause, "", Unreachable(cause))


class _NotAsSeen(Exception):
    """The object is not in the state that was seen."""


class _OutdatedView(Exception):
    """The API server does not show an object that it has."""

    def __init__(self) -> None:
        super().__init__("the API server shows an outdated view of the cluster")


def _is_elsewhere(address: Address, error: ApiError) -> bool:
    """Whether the server means: this is not the object, or not the state, that you saw."""
    if isinstance(error, Conflict):
        return True
    if isinstance(error, NotFound):  # a namespace that is missing is another matter
        return error.status.details.kind == address.resource.plural
    # A test of a patch that did not hold.
    test_failed = "the server rejected our request due to an error in our request"
    return isinstance(error, Invalid) and test_failed in error.status.message


def _beginning_with(prefix: str, values: JsonValue) -> JsonObject:
    return {key: value for key, value in values.items() if key.startswith(prefix)} if isinstance(values, dict) else {}
