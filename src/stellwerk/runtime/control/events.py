"""Events: what people read under `kubectl describe`, sent without holding anybody up.

`EventRecorder.send` only remembers; a task of its own writes. What is lost is counted and never raised: an Event is a
courtesy to readers, and a reconcile must not fail for one. Three limits keep courtesy from becoming noise, all
client-go's:

- The same again within six minutes is one Event with a growing series, not another Event.
- One object may cause 25 Events at once and then one every five minutes; further ones are dropped. Five more may be
  warnings: an object with much to report must still be able to report what went wrong.
- The queue is bounded (`event_queue`); what it drops is logged, once for each time that it was full.

Names are made from the object and the time, so that a write whose answer was lost can be sent again: the second one
finds the first.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from stellwerk.api.coordination import micro_time
from stellwerk.api.events import Event
from stellwerk.kube.client import conditional
from stellwerk.kube.client.client import Client
from stellwerk.kube.client.patch import MergePatch
from stellwerk.kube.types.errors import ApiError, NotFound
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata, JsonObject, metadata_of
from stellwerk.runtime import conditions
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.control.event_queue import EventQueue
from stellwerk.runtime.reconciler import Notice, Severity
from stellwerk.runtime.supervision.tasks import ProcessEnds, surprise
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.metrics import Metrics

QUEUE_LIMIT = 5_000
"""The Events of about 700 tenants that are provisioned at once; at most 10 MiB."""
NOTE_LIMIT = 1_024
SERIES_SECONDS = 360.0
BURST = 25
FOR_WARNINGS = 5
REFILL_SECONDS = 300.0
DRAIN_SECONDS = 2.0
_REMEMBERED = 4_096
_WRITE_SECONDS = 10.0
_LONGEST_NAME = 253
_LONGEST_WORD = 128
"""The API's limit for reason, action and reportingInstance."""

_view = metadata_of(Event)
_log = logging.getLogger(__name__)


@runtime_checkable
class HasReference(Protocol):
    """An object that knows its own kind: a `Kind`, or `Unstructured`."""

    @property
    def ref(self) -> ObjectRef: ...


class _About(HasMetadata, HasReference, Protocol):
    """What an Event can be about."""


class _Same(NamedTuple):
    """What makes two Events the same."""

    ref: ObjectRef
    uid: str
    reason: str
    action: str
    type: str
    note: str
    related: ObjectRef | None
    annotations: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Series:
    """An Event that was sent, and how often it has happened since."""

    key: ObjectKey
    about: str
    """The resourceVersion of the object that it is about."""
    first: datetime
    last: datetime
    seen: float
    count: int = 1
    queued: bool = False
    written: bool = False


@dataclass(slots=True)
class _Allowance:
    """A token bucket: how many Events one object may still cause."""

    since: float
    tokens: float = field(default=float(BURST))

    def take(self, now: float, *, is_warning: bool) -> bool:
        """Use up one token, if there is one."""
        self.tokens = min(float(BURST), self.tokens + (now - self.since) / REFILL_SECONDS)
        self.since = now
        if self.tokens < (1 - FOR_WARNINGS if is_warning else 1):
            return False
        self.tokens -= 1
        return True


@dataclass(frozen=True, slots=True)
class _Pending:
    """An Event to write: new, or a series to bring up to date."""

    same: _Same
    series: _Series
    secrets: secrecy.SecretWords
    """What the pass that sent it had read; the texts are masked with it when they are written."""

    async def shown(self) -> _Same:
        """The Event with masked texts."""
        note = await self.secrets.masked(self.same.note)
        annotations = tuple([(key, await self.secrets.masked(value)) for key, value in self.same.annotations])
        return self.same._replace(note=note, annotations=annotations)


class EventRecorder:
    """Sends Events of one component. `run` must be running for anything to be written."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        instance: str,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        before_write: Callable[[], None] | None = None,
        drain_seconds: float = DRAIN_SECONDS,
    ) -> None:
        """`before_write` may raise to keep an Event from being sent; `leader.Fence.check_not_lost` is for it.

        `drain_seconds`: how long a stop waits for what was sent.
        """
        self._client = client
        self._before_write = before_write
        self._drain_seconds = drain_seconds
        self._component = component
        self._instance = instance[:_LONGEST_WORD]
        self._clock = clock or SystemClock()
        self._metrics = metrics
        self._pending: EventQueue[_Pending] = EventQueue(QUEUE_LIMIT)
        self._writing: _Pending | None = None
        self._overflow: Counter[str] = Counter()
        """How many were dropped since the queue was empty, by namespace."""
        self._arrived = asyncio.Event()
        self._series: OrderedDict[_Same, _Series] = OrderedDict()
        self._allowances: OrderedDict[tuple[ObjectRef, str], _Allowance] = OrderedDict()
        self._last_number = 0

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        """Send an Event about an object. Never blocks, and raises nothing but TypeError.

        The object must know its kind; one of which only the metadata was read does not, and raises TypeError.
        """
        if not isinstance(obj, HasReference):
            raise TypeError(f"an Event needs an object that knows its kind, not {type(obj).__name__}")
        try:
            self._send(obj, notice, related)
        except Exception as error:  # the work that the Event is about goes on
            _log.error("Event %s about %s was not made", notice.reason, obj.ref, exc_info=error, extra=logs.STACK)
            self._dropped("failed")

    def _send(self, obj: _About, notice: Notice, related: ObjectRef | None) -> None:
        same = _Same(
            obj.ref,
            obj.metadata.uid,
            notice.reason[:_LONGEST_WORD],
            notice.action[:_LONGEST_WORD],
            notice.severity.value,
            shortened(notice.message),
            related,
            notice.annotations,
        )
        now = self._clock.monotonic()
        allowed = self._may_send(same, now)
        if (series := self._running_series(same, now)) is not None:
            self._count_again(same, series, now, write=allowed)
        elif not allowed:
            self._dropped("rate")
        else:
            self._begin(same, obj.metadata.resource_version, now)

    async def run(self) -> None:
        """Write what was sent, until cancelled; then what is left, for as long as a stop may take."""
        try:
            while True:
                await self._arrived.wait()
                await self._write_all()
        except asyncio.CancelledError:
            await self._drain()
            raise

    @property
    def waiting(self) -> int:
        """How many Events wait to be written."""
        return len(self._pending) + (self._writing is not None)

    def _may_send(self, same: _Same, now: float) -> bool:
        key = (same.ref, same.uid)
        allowance = self._allowances.get(key)
        if allowance is None:
            allowance = self._allowances[key] = _Allowance(now)
        self._allowances.move_to_end(key)
        _forget_oldest(self._allowances)
        return allowance.take(now, is_warning=same.type == Severity.WARNING.value)

    def _running_series(self, same: _Same, now: float) -> _Series | None:
        series = self._series.get(same)
        return series if series is not None and now - series.seen < SERIES_SECONDS else None

    def _begin(self, same: _Same, resource_version: str, now: float) -> None:
        moment = self._clock.now()
        # Two Events about one object in one tick need two names.
        self._last_number = max(self._last_number + 1, int(moment.timestamp() * 1_000_000) * 1_000)
        name = _event_name(same.ref.key.name, self._last_number)
        key = ObjectKey(same.ref.key.namespace or "default", name)
        series = self._series[same] = _Series(key, resource_version, moment, moment, now)
        self._series.move_to_end(same)
        _forget_oldest(self._series)
        self._enqueue(same, series)

    def _count_again(self, same: _Same, series: _Series, now: float, *, write: bool) -> None:
        series.count += 1
        series.last, series.seen = self._clock.now(), now
        self._series.move_to_end(same)
        # One write reports everything that happened until then; where none is allowed, a later one does.
        if write and not series.queued:
            self._enqueue(same, series)

    def _enqueue(self, same: _Same, series: _Series) -> None:
        series.queued = True
        pending = _Pending(same, series, secrecy.current())
        is_warning = same.type == Severity.WARNING.value
        if (dropped := self._pending.add(same.ref.key.namespace, pending, is_warning=is_warning)) is not None:
            self._overflowed(dropped)
        self._arrived.set()

    def _overflowed(self, dropped: _Pending) -> None:
        dropped.series.queued = False
        if not dropped.series.written:
            self._series.pop(dropped.same, None)
        if not self._overflow:
            _log.warning(
                "More than %d Events wait to be written; the newest of the longest lists are dropped", QUEUE_LIMIT
            )
        self._overflow[dropped.same.ref.key.namespace] += 1
        self._dropped("full")

    async def _write_all(self) -> None:
        # What a cancellation interrupts is written by the drain.
        while (pending := self._writing or self._pending.take()) is not None:
            self._writing = pending
            await self._write(pending)
            self._writing = None
        self._arrived.clear()
        if self._overflow:
            places = [
                f"{count} of namespace {namespace or 'default'}" for namespace, count in self._overflow.most_common()
            ]
            what = "%d Events were dropped because more than %d waited: %s"
            _log.warning(what, self._overflow.total(), QUEUE_LIMIT, conditions.first_of(places))
            self._overflow.clear()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self._write_all()
        except TimeoutError:
            _log.warning("%d Events were not written before the end", self.waiting)
            for _ in range(self.waiting):
                self._dropped("failed")

    async def _write(self, pending: _Pending) -> None:
        series = pending.series
        series.queued = False
        try:
            if self._before_write is not None:
                self._before_write()
            async with asyncio.timeout(_WRITE_SECONDS):
                await (self._continue(pending) if series.written else self._create(pending))
        except BaseException as raised:  # whatever it is: no work depends on an Event
            self._note_failure(pending.same, raised if isinstance(raised, Exception) else surprise(raised))
            self._series.pop(pending.same, None)
            self._dropped("failed")
            return
        series.written = True
        if self._metrics is not None:
            self._metrics.event_sent()

    def _note_failure(self, same: _Same, error: Exception) -> None:
        if isinstance(error, ApiError | TimeoutError | ProcessEnds):
            _log.debug("Event %s about %s was not written: %s", same.reason, same.ref, error)
            return
        what = "Event %s about %s was not written: unexpected %s"
        _log.error(what, same.reason, same.ref, type(error).__name__, exc_info=error, extra=logs.STACK)
        if self._metrics is not None:
            self._metrics.task_failed("event")

    async def _create(self, pending: _Pending) -> None:
        key = pending.series.key
        body = self._body(await pending.shown(), pending.series)
        if isinstance(await conditional.create_if_absent(self._client, _view, body), conditional.NotAsSeen):
            _log.debug("Event %s was written by an earlier try", key.name)

    async def _continue(self, pending: _Pending) -> None:
        key = pending.series.key
        try:
            await self._client.patch(_view, key.name, key.namespace, MergePatch(_series_fields(pending.series)))
        except NotFound:  # Events expire, and may be deleted: send it again
            await self._create(pending)

    def _body(self, same: _Same, series: _Series) -> JsonObject:
        metadata: JsonObject = {"name": series.key.name, "namespace": series.key.namespace}
        if same.annotations:
            metadata["annotations"] = dict(same.annotations)
        body: JsonObject = {
            "apiVersion": Event.resource.api_version,
            "kind": "Event",
            "metadata": metadata,
            "eventTime": micro_time(series.first),
            "reportingController": self._component,
            "reportingInstance": self._instance,
            "regarding": _reference(same.ref, same.uid, series.about),
            "reason": same.reason,
            "action": same.action,
            "type": same.type,
            "note": same.note,
        }
        if same.related is not None:
            body["related"] = _reference(same.related, "", "")
        return {**body, **_series_fields(series)} if series.count > 1 else body

    def _dropped(self, why: Literal["full", "rate", "failed"]) -> None:
        if self._metrics is not None:
            self._metrics.event_dropped(why)


def shortened(text: str, limit: int = NOTE_LIMIT) -> str:
    """The text in at most `limit` characters; the API counts bytes, so this does too, and cuts between characters."""
    encoded = text.encode(errors="replace")  # a lone surrogate cannot be sent at all
    if len(encoded) <= limit:
        return encoded.decode()
    return f"{encoded[: limit - len('…'.encode())].decode(errors='ignore')}…"


def _event_name(name: str, number: int) -> str:
    tail = f".{number:x}"
    return f"{name[: _LONGEST_NAME - len(tail)].rstrip('.-')}{tail}"


def _series_fields(series: _Series) -> JsonObject:
    return {"series": {"count": series.count, "lastObservedTime": micro_time(series.last)}}


def _reference(ref: ObjectRef, uid: str, resource_version: str) -> JsonObject:
    words = {
        "apiVersion": ref.gvk.api_version,
        "kind": ref.gvk.kind,
        "namespace": ref.key.namespace,
        "name": ref.key.name,
        "uid": uid,
        "resourceVersion": resource_version,
    }
    return {word: value for word, value in words.items() if value}


def _forget_oldest(remembered: OrderedDict[_Same, _Series] | OrderedDict[tuple[ObjectRef, str], _Allowance]) -> None:
    while len(remembered) > _REMEMBERED:
        remembered.popitem(last=False)
