"""The single status write of a pass, and the Event that goes with it.

The status is put in the place of the one that was seen: with uid and resourceVersion, and without a spec, which the
status subresource does not look at. That costs the API server a fifth less than a patch.

Another client may have changed the object during the pass, which does not invalidate the status. Then it is written by
a JSON patch that tests nothing but the uid. Only the first write of a process must meet the object as it was seen: a
process that has just started may look at an older view of the cluster, and would put an old inventory in the place of a
newer one. Later its view is never older than its own writes. We refused the merge patch with `metadata.uid`: on the
status subresource of a custom resource the API server resets the metadata before it compares, so a new object of the
same name would get the old one's status (seen on 1.36).

The request disables the API server's validation of unknown fields: it would only warn, the statuses are of our
own making, and the looking is a fifth of what a write of a long inventory costs it. The answer is asked for without the
object, of which only the resourceVersion is new.

Messages are masked here, with the secret words that the pass has read (`secrecy`): no other code writes a status.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

import msgspec

from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.conditional import NotAsSeen
from stellwerk.kube.client.patch import JsonPatch, MergePatch, add, test
from stellwerk.kube.types.errors import (
    Busy,
    Invalid,
    NotFound,
    Outdated,
    ServerFault,
    StatusError,
    TooManyRequests,
    Unreachable,
    causes,
)
from stellwerk.kube.types.model import JsonObject, JsonValue, Kind, Unreadable, dig, metadata_of, unstructured
from stellwerk.kube.types.object_meta import Condition, Record
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.reconciler import Notice, ReconcileError, Severity
from stellwerk.runtime.supervision.backoff import Backoff

R = TypeVar("R", bound=Record)

_READY = "Ready"
_PASSING = (Busy, ServerFault, TooManyRequests, Unreachable)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusWriter:
    """Writes statuses through one client."""

    client: Client
    clock: Clock = field(default_factory=SystemClock)
    patience_seconds: float = 10.0
    """For how long passing failures of the API server are tried again before the pass counts as failed."""
    keeps_conditions: bool = False
    """Whether `merge` keeps conditions of other types, and all other fields that are there, at the price of reading the
    object: others decide by them."""
    _written: set[str] = field(default_factory=set)
    """The uids of objects whose status this process has written."""

    async def write(self, obj: Kind, status: Record, version: str = "") -> str | None:
        """Make this the status of this very object.

        `version` is the object's resourceVersion where that is known to be another one, because the pass itself
        has written to the object. Returns the resourceVersion of the write; None when nothing was written, because the
        status is equal, or the object is gone or was replaced. Raises ApiError: Invalid when the status breaks the
        schema, Outdated when what was seen of the object may be out of date, or what the API server answered until
        patience ran out.
        """
        masked = await secrecy.masked_status(status, status_of(obj))
        if not differs(obj, masked):
            return None
        await asyncio.sleep(0)  # to compare and to encode a status of a MiB takes its time
        try:
            return await self._patiently(lambda: self._send(obj, masked, version or obj.metadata.resource_version))
        except UnicodeEncodeError:
            return await self.write(obj, sendable(masked), version)

    async def write_in_place(self, obj: Kind, status: Record) -> str | None:
        """Make this another status of this object as it was seen, and of nothing else.

        The caller has compared, because None means only that the object is gone or was replaced. Raises ApiError as
        `write` does: Outdated whenever the object has changed.
        """
        masked = await secrecy.masked_status(status, status_of(obj))
        try:
            return await self._patiently(lambda: self._send_in_place(obj, masked))
        except UnicodeEncodeError:
            return await self.write_in_place(obj, sendable(masked))

    async def merge(self, obj: Unreadable, fields: JsonObject) -> None:
        """Set these fields of the status of an object that cannot be decoded; all others stay. Raises ApiError.

        Nothing happens where the object is gone. Where conditions are kept, a change since they were read is a
        Conflict: a pass that was under way may have written the one that others decide by. Each Conflict is raised: the
        API server answers with one for want of a free moment, too, and then no change follows.
        """
        metadata = obj.metadata
        identity: JsonObject = {"uid": metadata.uid}
        if self.keeps_conditions:
            live = await self.client.find(unstructured(obj.resource), metadata.name, metadata.namespace)
            if live is None or live.metadata.uid != metadata.uid:
                return
            kept = {name: there for name in fields if (there := live.at("status", name)) is not None}
            fields = {**fields, **kept, "conditions": _with_others(kept.get("conditions"), fields["conditions"])}
            identity["resourceVersion"] = live.metadata.resource_version
        patch = MergePatch({"metadata": identity, "status": fields})
        with contextlib.suppress(NotFound):
            await self.client.patch(
                metadata_of(obj.resource),
                metadata.name,
                metadata.namespace,
                patch,
                subresource="status",
                field_validation="Ignore",
            )

    async def _patiently(self, send: Callable[[], Awaitable[str | None]]) -> str | None:
        """Send, again after a passing failure."""
        deadline = self.clock.monotonic() + self.patience_seconds
        backoff, failures = Backoff(first_seconds=0.1, limit_seconds=2.0), 0
        while True:
            try:
                return await send()
            except Outdated:
                raise  # the next pass sees what there is
            except _PASSING as error:
                failures += 1
                delay = max(backoff.delay_seconds(failures, 0.0), wanted_delay_seconds(error))
                if self.clock.monotonic() + delay > deadline:
                    raise
            await self.clock.sleep(delay)

    def has_written(self, obj: Kind) -> bool:
        """Whether this process has written the status of the object before."""
        return obj.metadata.uid in self._written

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._written.discard(uid)

    async def _send(self, obj: Kind, status: Record, version: str) -> str | None:
        try:
            written = await self._replace(obj, status, version)
        except NotFound:
            return None
        if isinstance(written, str):
            return written
        if not self.has_written(obj):
            return await self._seen_anew(obj, status, version, written.refusal)
        return await self._patch(obj, status)

    async def _send_in_place(self, obj: Kind, status: Record) -> str | None:
        version = obj.metadata.resource_version
        try:
            written = await self._replace(obj, status, version)
        except NotFound:
            return None
        return written if isinstance(written, str) else await self._seen_anew(obj, status, version, written.refusal)

    async def _seen_anew(self, obj: Kind, status: Record, version: str, refusal: StatusError) -> str | None:
        """The version of the object if it has this status: from an attempt whose answer was lost.

        Raises Outdated if it has changed, Busy if it has not: the API server had no free moment.
        """
        metadata = obj.metadata
        if conditional.is_about_another(refusal):
            return None
        found = await self.client.find(type(obj), metadata.name, metadata.namespace)
        if found is None or found.metadata.uid != metadata.uid:
            return None
        if not differs(found, status):
            return found.metadata.resource_version
        kind = Busy if found.metadata.resource_version == version else Outdated
        raise kind(refusal.status, refusal.attempted) from refusal

    async def _replace(self, obj: Kind, status: Record, version: str) -> str | NotAsSeen:
        body = body_for(obj, status, version)
        written = await conditional.update_if_unchanged(
            self.client, metadata_of(type(obj)), body, subresource="status", field_validation="Ignore"
        )
        if isinstance(written, NotAsSeen):
            return written
        self._written.add(obj.metadata.uid)
        return written.metadata.resource_version

    async def _patch(self, obj: Kind, status: Record) -> str | None:
        metadata = obj.metadata
        try:
            written = await conditional.patch_if_unchanged(
                self.client,
                metadata_of(type(obj)),
                metadata.name,
                metadata.namespace,
                patch_for(obj, status),
                subresource="status",
                field_validation="Ignore",
            )
        except NotFound:
            return None
        except Invalid:
            # Also the answer to a failed test: was it that, or is the status itself refused?
            if await self._is_same(obj):
                raise
            return None
        if isinstance(written, NotAsSeen):  # the patch tests the uid alone: the API server had no free moment
            raise Busy(written.refusal.status, written.refusal.attempted) from written.refusal
        return written.metadata.resource_version

    async def _is_same(self, obj: Kind) -> bool:
        found = await self.client.find(metadata_of(type(obj)), obj.metadata.name, obj.metadata.namespace)
        return found is not None and found.metadata.uid == obj.metadata.uid


def _with_others(there: JsonValue, new: JsonValue) -> list[JsonValue]:
    """The conditions that are there, without those of the types that are set now, which come last."""
    assert isinstance(new, list)
    types = {dig(condition, "type") for condition in new}
    kept = there if isinstance(there, list) else []
    return [*(condition for condition in kept if dig(condition, "type") not in types), *new]


def differs(obj: Kind, status: Record) -> bool:
    """Whether the object shows another status, compared as the JSON that would be written."""
    current = status_of(obj)
    return current is None or msgspec.to_builtins(current) != msgspec.to_builtins(status)


def sendable(status: R) -> R:
    """The same status with a replacement for each character that cannot be sent: a lone surrogate (pure)."""
    return msgspec.convert(_sendable(msgspec.to_builtins(status)), type(status))


def _sendable(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="replace").decode()
        case list():
            return [_sendable(each) for each in value]
        case dict():
            return {_sendable(key): _sendable(each) for key, each in value.items()}
        case _:
            return value


def status_of(obj: Kind) -> Record | None:
    """The status that the object shows."""
    return cast("Record | None", getattr(obj, "status", None))


def body_for(obj: Kind, status: Record, version: str) -> JsonObject:
    """The object with this status, as the status subresource takes it (pure)."""
    metadata: JsonObject = {"name": obj.metadata.name, "uid": obj.metadata.uid, "resourceVersion": version}
    if obj.metadata.namespace:
        metadata["namespace"] = obj.metadata.namespace
    resource = type(obj).resource
    body = cast(JsonObject, msgspec.to_builtins(status))
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "status": body}


def patch_for(obj: Kind, status: Record) -> JsonPatch:
    """The patch that sets the status of this very object (pure)."""
    body = cast(JsonObject, msgspec.to_builtins(status))
    return JsonPatch((test("/metadata/uid", obj.metadata.uid), add("/status", body)))


def transition(
    obj: Kind, status: Record, severity: Severity, *, failure: ReconcileError | None = None
) -> Notice | None:
    """The Event that a change of status is worth (pure). `failure`: what the status reports of a pass that failed.

    A failure is worth another Event when its message changes: the user has mended one cause and must read the next one.
    What waits is worth another Event when its cause is another one, as kstatus' conditions name it; its message may
    count, unless the failure has a reason of its own for Events. Everything else is worth an Event only when readiness
    or its reason changes, else None.
    """
    new = _headline(status)
    if new is None or not new.reason:
        return None
    current = status_of(obj)
    if current is not None and not _has_news(current, status, failure):
        return None
    notice = Notice(new.reason, conditions.truncated(new.message or new.reason), severity)
    if failure is None:
        return notice
    return replace(notice, reason=failure.event_reason or notice.reason, action=failure.action)


def _has_news(former: Record, status: Record, failure: ReconcileError | None) -> bool:
    old, new = _headline(former), _headline(status)
    if old is None or new is None:
        return True
    if failure is not None and failure.event_reason:
        return old.message != new.message
    if (old.status, old.reason) != (new.status, new.reason):
        return True
    if failure is None:
        return False
    return old.message != new.message if is_failure(status) else _cause(former) != _cause(status)


def is_failure(status: Record) -> bool:
    """Whether the status of a failed pass reports a failure, not that the object waits (pure)."""
    headline = _headline(status)
    return headline is not None and headline.status == "False"


def _headline(status: Record) -> Condition | None:
    """The condition that speaks for the object: Ready, or the first where there is no Ready."""
    listed = _conditions(status)
    return conditions.find(listed, _READY) or next(iter(listed), None)


def _cause(status: Record) -> str:
    """The reason of the kstatus condition that is true besides Ready; empty where none is."""
    cause = conditions.true_cause(_conditions(status))
    return cause.reason if cause is not None else ""


def _conditions(status: Record) -> tuple[Condition, ...]:
    return cast("tuple[Condition, ...]", getattr(status, "conditions", ()))


def wanted_delay_seconds(error: BaseException) -> float:
    """For how long the servers behind a failure asked us to wait; 0 when none did."""
    return max((each.retry_after or 0.0 for each in causes(error) if isinstance(each, StatusError)), default=0.0)
