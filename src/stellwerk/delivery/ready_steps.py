"""Steps of kinds whose status is the condition Ready, and objects that such a kind keeps.

`decide` of a kind returns `ready`, `waiting` or `failed`. What it keeps for an object are the writes of `keep`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar, cast

import msgspec

from stellwerk.kube.types.errors import StatusError
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import (
    HasMetadata,
    JsonObject,
    JsonValue,
    Kind,
    encode_json,
    owner_reference,
    plain_json,
)
from stellwerk.kube.types.object_meta import Condition, Record, rfc3339
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import status_writer as statuses
from stellwerk.runtime.control.step import Create, Failure, Patch, Step, Wait, Write, body_of, merged
from stellwerk.runtime.insight.reason_catalog import ITSELF, NO_USER, YOURS, Catalogue, Meaning
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.questions import Collection
from stellwerk.runtime.reading.view import View
from stellwerk.runtime.reconciler import Notice, Retry, Severity

K = TypeVar("K", bound=Kind)
T = TypeVar("T", bound=HasMetadata)

READY = "Ready"
RESTORED = "stellwerk/restored"
"""The annotation of a kept object with the digest of what it was restored to, and when."""
PAUSE = timedelta(seconds=10)
"""Between two restorations of an object that another client changes again and again."""


class ReadyStatus(Record, frozen=True, kw_only=True):
    """A status with the condition Ready. A subclass adds further fields."""

    observed_generation: int = 0
    """The generation of the spec that this status is about; an older one means: not looked at yet."""
    conditions: tuple[Condition, ...] = ()


class ReadyState(StrEnum):
    """What a reason means for an object, and so who acts next."""

    READY = "Ready"
    WAITING = "Waiting"
    FAILED = "Failed"


class KeptReason(StrEnum):
    """Reasons that a kind has without declaring them."""

    NAME_TAKEN = "NameTaken"
    FORMER_ENDING = "FormerChildEnding"
    CHANGED_BY_OTHERS = "ChangedByOthers"
    NOT_KNOWN = "NotKnown"
    REFUSED = "WriteRefused"
    UNEXPECTED = "UnexpectedError"


_KEPT = {
    KeptReason.NAME_TAKEN: Meaning(
        state=ReadyState.FAILED,
        meaning="An object that belongs to someone else has the name of one that is needed here.",
        fix=("Rename or delete one of the two.",),
    ),
    KeptReason.FORMER_ENDING: Meaning(
        state=ReadyState.WAITING, meaning="An object with a name that is needed here is being deleted."
    ),
    KeptReason.CHANGED_BY_OTHERS: Meaning(
        state=ReadyState.FAILED,
        meaning="Another client undoes each restoration of an object.",
        fix=("Have the other client leave the object alone.",),
    ),
    KeptReason.NOT_KNOWN: Meaning(state=ReadyState.WAITING, meaning="An object that is needed cannot be read."),
    KeptReason.REFUSED: Meaning(state=ReadyState.FAILED, meaning="The API server refuses a write."),
    KeptReason.UNEXPECTED: Meaning(
        state=ReadyState.FAILED, meaning="The operator has a bug; its log has the stack.", turn=ITSELF
    ),
}
_TURNS = {ReadyState.READY: NO_USER, ReadyState.WAITING: ITSELF, ReadyState.FAILED: YOURS}


def catalogue(reasons: dict[str, Meaning[ReadyState]]) -> Catalogue[Any, Any]:
    """The reasons of a kind, and those that it has without declaring them."""
    return Catalogue(cast("Any", {**reasons, **_KEPT}), _TURNS)


class NotReady(Exception):
    """`decide` can go no further: its step shows and awaits this. Raised by `keep`, and by an operator's own parts."""

    def __init__(self, reason: str, message: str, *waits: Wait, retry: Retry | None = None) -> None:
        """`retry`: the pass counts as failed and is tried again so; None: the object waits."""
        super().__init__(message)
        self.reason, self.waits, self.retry = reason, waits, retry


# ---- steps


def ready(
    obj: K, view: View, reason: str, message: str = "", *, writes: tuple[Write, ...] = (), **fields: object
) -> Step[Any]:
    """The object is as it asks to be once the writes are done. `fields`: further fields of its status."""
    return _showing(obj, view.now, "True", reason, message, fields, writes=writes)


def waiting(obj: K, view: View, reason: str, *waits: Wait, **fields: object) -> Step[Any]:
    """The object waits, and shows the message of its first wait. An object that is awaited must have been asked for."""
    return _showing(obj, view.now, "False", reason, waits[0].message, fields, waits=waits)


def failed(obj: K, view: View, reason: str, message: str, *, retry: Retry = Retry.WHEN_CHANGED) -> Step[Any]:
    """The object cannot be as it asks to be, and the pass counts as failed."""
    failure = Failure(message=message, event_reason=reason, retry=retry)
    return Step(status=_status(obj, view.now, "False", reason, message, {}), failure=failure)


def _showing(
    obj: Kind,
    now: datetime,
    value: str,
    reason: str,
    message: str,
    fields: dict[str, object],
    *,
    writes: tuple[Write, ...] = (),
    waits: tuple[Wait, ...] = (),
) -> Step[Any]:
    status = _status(obj, now, value, reason, message, fields)
    former, shown = (conditions.find(each.conditions, READY) for each in (_shown(obj), status))
    is_news = shown is not None and (former is None or (former.status, former.reason) != (shown.status, shown.reason))
    event = Notice(reason, message or reason, Severity.NORMAL)
    return Step(status=status, writes=writes, events=(event,) if is_news else (), waits=waits)


def _status(obj: Kind, now: datetime, value: str, reason: str, message: str, fields: dict[str, object]) -> ReadyStatus:
    generation, former = obj.metadata.generation, _shown(obj)
    shown = Condition(type=READY, status=value, reason=reason, message=message, observed_generation=generation)
    settled = conditions.set_condition(former.conditions, shown, now)
    return msgspec.structs.replace(former, observed_generation=generation, conditions=settled, **fields)


def _shown(obj: Kind) -> ReadyStatus:
    status = statuses.status_of(obj)
    assert isinstance(status, ReadyStatus), f"the status of a {obj.resource.kind} has a ReadyStatus as its default"
    return status


@dataclass(slots=True)
class ReadyLogic(Generic[K]):
    """A kind whose status is the condition Ready, for the engine."""

    clock: Clock
    collection: Collection[K]
    rule: Callable[[K, View], Step[Any]]
    """What an object needs next."""

    def decide(self, obj: K, view: View) -> Step[Any]:
        """As `Logic.decide`."""
        try:
            return self.rule(obj, view)
        except NotReady as cause:
            if cause.retry is not None:
                return failed(obj, view, cause.reason, str(cause), retry=cause.retry)
            return waiting(obj, view, cause.reason, *cause.waits)

    def unknown(self, obj: K, view: View, missing: NotKnown) -> Step[Any]:
        """As `Logic.unknown`."""
        return waiting(obj, view, KeptReason.NOT_KNOWN, Wait(str(missing), str(missing)))

    def failed(self, obj: K, failure: Failure) -> Any:
        """As `Logic.failed`."""
        return _status(obj, self.clock.now(), "False", failure.event_reason or KeptReason.REFUSED, failure.message, {})

    def unexpected(self, obj: K, message: str) -> Any:
        """As `Logic.unexpected`."""
        return _status(obj, self.clock.now(), "False", KeptReason.UNEXPECTED, message, {})


# ---- objects that are kept


def keep(
    view: View, collection: Collection[T], owner: Kind, content: JsonObject, *, name: str = ""
) -> tuple[Write, ...]:
    """What is to be written so that `owner` controls an object with this content; nothing if it has it.

    `content` is a merge patch (RFC 7396): its fields are restored, a field that is None is removed, and fields of
    others stay. The object is named like its owner without a `name`, has the labels by which the collection is
    selected, and is deleted with its owner. It is where `view` looks. Raises NotReady; ValueError if it cannot belong
    to that owner at all.
    """
    key, wanted = _wanted(collection, owner, content, name)
    ref = ObjectRef(collection.resource.gvk, key)
    live = view.find(collection, key)
    if live is None:
        made = {**plain_json(owner_reference(owner))}
        named: JsonObject = {"metadata": {"name": key.name, "ownerReferences": [made]}}
        if key.namespace:
            named = merged(named, {"metadata": {"namespace": key.namespace}})
        head: JsonObject = {"apiVersion": collection.resource.api_version, "kind": collection.resource.kind}
        body = merged({**head, **named}, wanted)
        return (Create(collection, body, _refused, view.cluster),)
    if not live.metadata.is_controlled_by(owner.metadata) or live.metadata.is_terminating:
        raise _occupied(collection, live, ref, owner, view)
    if _is_as(body_of(live), body_of(collection.shaped(merged(body_of(live), wanted)))):
        return ()
    digest = hashlib.sha256(encode_json(wanted)).hexdigest()[:16]
    if (due := _due(live, digest, view.now)) is not None and not view.is_past(due):
        message = (
            f"{ref} is changed by another client again and again, so it is restored every {PAUSE.seconds} s only. "
            f"See who changes it: kubectl get {collection.resource.group_resource} {key.name}"
            f"{f' -n {key.namespace}' if key.namespace else ''} -o yaml --show-managed-fields"
        )
        raise NotReady(KeptReason.CHANGED_BY_OTHERS, message, Wait(due, message))
    restored: JsonObject = {"metadata": {"annotations": {RESTORED: f"{digest} {rfc3339(view.now)}"}}}
    return (Patch(collection, live, merged(wanted, restored), _refused, view.cluster),)


def _wanted(collection: Collection[Any], owner: Kind, content: JsonObject, name: str) -> tuple[ObjectKey, JsonObject]:
    resource = collection.resource
    if owner.resource.namespaced and not resource.namespaced:
        raise ValueError(f"a {resource.kind} has no namespace and cannot belong to {owner.ref}, which has one")
    given = content.get("metadata")
    metadata: JsonObject = {**given} if isinstance(given, dict) else {}
    namespace = str(metadata.pop("namespace", "") or owner.metadata.namespace) if resource.namespaced else ""
    if owner.resource.namespaced and namespace != owner.metadata.namespace:
        raise ValueError(
            f"a {resource.kind} in {namespace} cannot belong to {owner.ref}: its owner is in its namespace"
        )
    pairs = (each.partition("=") for each in collection.labels.split(",") if each)
    selected: JsonObject = {label: value for label, _, value in pairs}
    wanted = merged({**content, "metadata": metadata}, {"metadata": {"labels": selected}})  # which keeps what is None
    return ObjectKey(namespace, name or owner.metadata.name), wanted


def _occupied(collection: Collection[Any], live: HasMetadata, ref: ObjectRef, owner: Kind, view: View) -> NotReady:
    if live.metadata.is_terminating:
        message = f"{ref} is being deleted, and is created for {owner.ref} when it is gone"
        # One that the collection does not select sends no event.
        on = Wait((collection, live.key), message, PAUSE.total_seconds(), cluster=view.cluster)
        return NotReady(KeptReason.FORMER_ENDING, message, on)
    cause = f"{ref} cannot be created for {owner.ref}: it exists and belongs to someone else"
    message = f"{cause}. Rename or delete one of the two"
    return NotReady(KeptReason.NAME_TAKEN, message, retry=Retry.BACKOFF)


def _is_as(live: JsonValue, wanted: JsonValue, *, in_list: bool = False) -> bool:
    """Whether an object is as wanted. Elements of lists may have more fields, which the API server has set."""
    if isinstance(live, dict) and isinstance(wanted, dict):
        has_fields = live.keys() >= wanted.keys() if in_list else live.keys() == wanted.keys()
        return has_fields and all(_is_as(live[name], value, in_list=in_list) for name, value in wanted.items())
    if isinstance(live, list) and isinstance(wanted, list):
        return len(live) == len(wanted) and all(_is_as(*pair, in_list=True) for pair in zip(live, wanted, strict=True))
    return live == wanted


def _due(live: HasMetadata, digest: str, now: datetime) -> datetime | None:
    """When an object may be restored to the same content again; None: now. A future time has no effect."""
    former, _, moment = live.metadata.annotations.get(RESTORED, "").partition(" ")
    try:
        restored = datetime.fromisoformat(moment)
    except ValueError:
        return None
    if former != digest or restored.tzinfo is None or restored > now:
        return None
    return restored + PAUSE


def _refused(message: str, _: StatusError | None) -> Failure:
    return Failure(message=message, event_reason=KeptReason.REFUSED)
