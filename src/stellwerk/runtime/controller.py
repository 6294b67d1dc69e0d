"""The worker loop of one kind, and the one `match` on what a pass came to.

A pass ends in one of five ways (`Outcome`). What follows from each is decided in one place, `_verdict`: status, Event,
metric and the answer to the queue. A reconciler knows none of these.

After a pass that wrote something the key stays *running* in the queue until the caches show the writes; the worker goes
on with other keys meanwhile. So a pass never sees the cluster as it was before the last one, and the queue's promise
(one worker on a key) is all that this takes.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from stellwerk.kube.errors import Forbidden
from stellwerk.kube.meta import Record
from stellwerk.kube.model import HasMetadata, Kind
from stellwerk.kube.names import ObjectKey, ObjectRef
from stellwerk.runtime import logs, traces
from stellwerk.runtime import status as statuses
from stellwerk.runtime.checkpoints import Checkpoints
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.contract import Next, Notice, ReconcileError, Reconciler, Retry, Severity
from stellwerk.runtime.informer import Delta, Informer, noting_own_writes
from stellwerk.runtime.metrics import Metrics, Result
from stellwerk.runtime.outcomes import (
    After,
    Answered,
    BackedOff,
    Broken,
    Outcome,
    Overtaken,
    PassTimedOut,
    Refused,
    Unserved,
    Verdict,
    outcome_of,
    unreported,
)
from stellwerk.runtime.outcomes import LeadershipLost as LeadershipLost
from stellwerk.runtime.progress import OwnWrite
from stellwerk.runtime.queue import (
    Backoff,
    Priority,
    QueueClosed,
    WorkQueue,
    one_tenant,
)
from stellwerk.runtime.status import StatusWriter
from stellwerk.runtime.tasks import Background, background, first_of

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)
T = TypeVar("T", bound=HasMetadata)

_log = logging.getLogger(__name__)

_VISIBLE_WITHIN_SECONDS = 120.0
_HURRIES = 50
_RECHECK_SECONDS = 600.0
"""How often a failure that only somebody's action can mend is looked at without a change: watches can miss things."""
_FORBIDDEN_SECONDS = 60.0
"""The longest back-off of a failure for want of a right."""
_TRY_AGAIN_SECONDS = 1.0
"""A moment for the caches that could not be filled either."""


class EventSink(Protocol):
    """Where Events go; `events.Recorder` is one. Must not block."""

    def send(self, obj: HasMetadata, notice: Notice, related: ObjectRef | None = None) -> None:
        """Send an Event about the object."""
        ...


class Controller(Generic[K, S]):
    """Calls one reconciler for the objects of one kind, whenever something that matters to them has changed."""

    def __init__(
        self,
        name: str,
        primary: Informer[K],
        reconciler: Reconciler[K, S],
        *,
        write_status: StatusWriter,
        checkpoints: Checkpoints[K, S] | None = None,
        workers: int = 1,
        pass_timeout_seconds: float = 300.0,
        backoff: Backoff | None = None,
        tenant_of: Callable[[ObjectKey], str] = one_tenant,
        recorder: EventSink | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.name = name
        self.primary = primary
        self._reconciler = reconciler
        self._write_status = write_status
        self.checkpoints: Checkpoints[K, S] = checkpoints or Checkpoints(primary, write_status)
        self._workers = workers
        self._pass_timeout_seconds = pass_timeout_seconds
        self._recorder = recorder
        self._metrics = metrics or Metrics()
        self._clock = clock or SystemClock()
        counts = self._metrics.queue(name, running=lambda: self.queue.running_seconds())
        shared = 0 if tenant_of is one_tenant else workers
        self.queue = WorkQueue(clock=self._clock, backoff=backoff, tenant_of=tenant_of, observer=counts, workers=shared)
        self._ignored: list[Callable[[K, K], bool]] = []
        self._wired: list[Callable[[], None]] = []
        self._uids: dict[ObjectKey, str] = {}
        self._hurries: dict[ObjectKey, int] = {}
        self._failing: set[ObjectKey] = set()
        self._landing: Background | None = None

    def watches(self, informer: Informer[T], wakes: Callable[[Delta[T]], Iterable[ObjectKey]]) -> None:
        """A change of `informer` wakes these keys of our kind. The function is pure and quick."""

        def on_change(delta: Delta[T]) -> None:
            for key in wakes(delta):
                self.queue.add(key, _priority(delta))

        self._wired.append(lambda: informer.on_change(on_change))

    def ignore_updates(self, predicate: Callable[[K, K], bool]) -> None:
        """Updates of our own objects (old, new) for which this holds wake nobody. Several predicates add up."""
        self._ignored.append(predicate)

    async def run(self) -> None:
        """Listen and work until `stop` or cancelled. Raises LeadershipLost."""
        self.primary.on_change(self._on_primary)
        for wire in self._wired:
            wire()
        self._metrics.controller(self.name, self._workers)
        try:
            await self._run_workers()
        except* LeadershipLost as lost:
            raise first_of(lost) from None

    def try_again(self) -> None:
        """Look in a moment at every object whose last pass failed: what they failed for may be mended."""
        for key in self._failing:
            self.queue.add_after(key, _TRY_AGAIN_SECONDS, Priority.CHANGE)

    def stop(self) -> None:
        """Take no further key. `run` returns when the passes under way have ended."""
        self.queue.close()

    async def _run_workers(self) -> None:
        async with background() as self._landing:
            self._landing.start(self.queue.run(), f"{self.name} timers")
            async with asyncio.TaskGroup() as workers:
                for number in range(self._workers):
                    workers.create_task(self._work(), name=f"{self.name} worker {number}")

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            await self._serve(key)
            # A pass that finds all in order never waits, nor does a queue that has keys: without this, ten thousand
            # of them would keep the loop from leases, probes and watches for half a second.
            await asyncio.sleep(0)

    async def _serve(self, key: ObjectKey) -> None:
        """One turn of a worker: a pass on the key's object, or its farewell, or neither yet."""
        unseen = self.primary.expected(key)
        if unseen is not None:
            self.queue.add(key)
            self._done_when_visible(key, [unseen])
            return
        self._metrics.busy_workers(self.name, 1)
        try:
            with noting_own_writes(self.primary) as writes:
                await self._look_at(key)
        finally:
            self.checkpoints.forget(key)
            self._metrics.busy_workers(self.name, -1)
        self._done_when_visible(key, writes)

    async def _look_at(self, key: ObjectKey) -> None:
        obj = self.primary.store.get(key)
        known = self._uids.get(key)
        if known is not None and (obj is None or obj.metadata.uid != known) and not await self._forget(key):
            return
        if obj is not None:
            self._uids[key] = obj.metadata.uid
            await self._pass(obj)

    async def _forget(self, key: ObjectKey) -> bool:
        """Let the reconciler drop what it knows of an object that is gone. Returns whether it could."""
        try:
            async with asyncio.timeout(self._pass_timeout_seconds):
                await self._reconciler.forget(key)
        except LeadershipLost:
            raise
        except Exception:
            _log.exception("%s cannot forget %s", self.name, key)
            self._metrics.surprised(self.name)
            self.queue.add_backed_off(key)
            return False
        self._write_status.forget(self._uids.pop(key))
        self._hurries.pop(key, None)
        self._failing.discard(key)
        self.queue.forget(key)
        return True

    async def _pass(self, obj: K) -> None:
        started = self._clock.monotonic()
        kind, pass_id = obj.resource.kind, str(uuid.uuid4())
        with logs.reconciling(kind, obj.key, pass_id), traces.reconciling(kind, obj.key, pass_id) as span:
            outcome = await self._attempt(obj)
            try:
                verdict = self._verdict(obj, outcome)
                await self._tell(obj, verdict)
            except LeadershipLost:
                raise
            except Exception as error:  # what cannot be told has not succeeded, whatever was done
                verdict = self._verdict(obj, unreported(error))
            span.tell(result=verdict.result)
        self._schedule(obj.key, verdict)
        self._metrics.reconciled(self.name, verdict.result, self._clock.monotonic() - started)

    async def _attempt(self, obj: K) -> Outcome[S]:
        limit = asyncio.timeout(self._pass_timeout_seconds)
        try:
            async with limit:
                return Answered(await self._reconciler.reconcile(obj))
        except LeadershipLost:
            raise
        except Exception as error:
            if limit.expired():
                return Broken(PassTimedOut(f"{obj.ref} took longer than {self._pass_timeout_seconds:g} s"))
            return outcome_of(error)

    def _verdict(self, obj: K, outcome: Outcome[S]) -> Verdict[S]:
        """What follows from an outcome."""
        match outcome:
            case Answered(answer):
                return Verdict(
                    _result(answer), _again(answer), answer.status, Severity.NORMAL, answer.notices, answer.quiet
                )
            case Refused(failure):
                status = self._reconciler.explain(obj, failure)
                return Verdict("error", self._retry(failure), status, Severity.WARNING)
            case Overtaken(error):
                _log.debug("%s: %s has changed meanwhile: %s", self.name, obj.ref, error)
                return Verdict("requeue", BackedOff())
            case Unserved(error):
                _log.warning("%s: %s waits: %s", self.name, obj.ref, error)
                return Verdict("error", BackedOff(statuses.wanted_delay_seconds(error), _longest_seconds(error)))
            case Broken(error):
                _log.error("%s failed on %s: a bug of ours", self.name, obj.ref, exc_info=error)
                self._metrics.surprised(self.name)
                return Verdict("error", BackedOff())

    def _retry(self, failure: ReconcileError) -> After | BackedOff:
        if failure.retry_after_seconds is not None:
            return After(failure.retry_after_seconds)
        if failure.retry is Retry.BACKOFF:
            return BackedOff(at_most_seconds=_longest_seconds(failure))
        self._metrics.failed_for_good(self.name)
        return After(_RECHECK_SECONDS * (1.0 + 0.1 * random.random()))

    async def _tell(self, obj: K, verdict: Verdict[S]) -> None:
        """Write the status where it differs, and send the Events."""
        obj, status = self.checkpoints.shown(obj), verdict.status
        version = await self._write_status.write(obj, status, self._version_of(obj)) if status is not None else None
        if status is not None and version is not None:
            self.primary.expect(obj.key, version)
            transition = statuses.transition(obj, status, verdict.severity)
            if transition is not None and not verdict.quiet:
                self._announce(obj, transition)
        for notice in verdict.notices:
            self._announce(obj, notice)

    def _version_of(self, obj: K) -> str:
        """The resourceVersion of the object after what the pass itself has written to it; empty where it is gone."""
        written = self.primary.expected(obj.key)
        if written is not None:
            return str(written.version)
        current = self.primary.store.get(obj.key)
        return current.metadata.resource_version if current and current.metadata.uid == obj.metadata.uid else ""

    def _announce(self, obj: K, notice: Notice) -> None:
        _log.info("%s: %s: %s", obj.ref, notice.reason, notice.message)
        if self._recorder is not None:
            self._recorder.send(obj, notice)

    def _schedule(self, key: ObjectKey, verdict: Verdict[S]) -> None:
        if verdict.result == "error":
            self._failing.add(key)
        else:
            self._failing.discard(key)
        match verdict.again:
            case BackedOff(at_least_seconds, at_most_seconds):
                self.queue.add_backed_off(key, at_least_seconds, at_most_seconds)
            case After(seconds) if seconds > 0 or self._may_hurry(key):
                self.queue.forget(key)
                self.queue.add_after(key, seconds, Priority.RESYNC if seconds > 0 else Priority.CONTINUATION)
            case After():
                self.queue.add_backed_off(key)
            case None:
                self.queue.forget(key)
        if not isinstance(verdict.again, After) or verdict.again.seconds > 0:
            self._hurries.pop(key, None)

    def _may_hurry(self, key: ObjectKey) -> bool:
        """Whether a key that asks for another pass at once gets it: a chain of steps does, an endless one does not."""
        self._hurries[key] = self._hurries.get(key, 0) + 1
        if self._hurries[key] == _HURRIES + 1:
            _log.warning("%s: %s asks again and again for another pass at once", self.name, key)
        return self._hurries[key] <= _HURRIES

    def _done_when_visible(self, key: ObjectKey, writes: Sequence[OwnWrite]) -> None:
        """Give the key back to the queue once the caches show what was written."""
        pending = [write for write in writes if not write.is_visible]
        if pending and self._landing is not None:
            self._landing.start(self._land(key, pending), f"{self.name} {key} becomes visible")
        else:
            self.queue.done(key)

    async def _land(self, key: ObjectKey, writes: Sequence[OwnWrite]) -> None:
        try:
            async with asyncio.timeout(_VISIBLE_WITHIN_SECONDS):
                for write in writes:
                    await write.visible()
        except TimeoutError:
            _log.warning("%s: the caches do not show what was written for %s; going on without", self.name, key)
        self.queue.done(key)

    def _on_primary(self, delta: Delta[K]) -> None:
        if delta.old is not None and delta.new is not None:
            old, new = delta.old, delta.new
            if any(ignores(old, new) for ignores in self._ignored):
                return
        self.queue.add(delta.key, _priority(delta))


def _longest_seconds(error: BaseException | None) -> float:
    """For how long a failure may wait: where a right was missing no watch tells that it was granted."""
    while error is not None:
        if isinstance(error, Forbidden):
            return _FORBIDDEN_SECONDS * (1.0 - 0.1 * random.random())
        error = error.__cause__
    return math.inf


def only_status_changed(old: Kind, new: Kind) -> bool:
    """For `ignore_updates`: nothing was asked for anew. Our own status write is such an update."""
    return _asked(old) == _asked(new)


def _asked(obj: Kind) -> tuple[object, ...]:
    metadata = obj.metadata
    return (
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.finalizers,
        metadata.labels,
        metadata.annotations,
        metadata.owner_references,
    )


def _result(answer: Next[S]) -> Result:
    if answer.delay_seconds is None:
        return "success"
    return "requeue_after" if answer.delay_seconds > 0 else "requeue"


def _again(answer: Next[S]) -> After | None:
    return None if answer.delay_seconds is None else After(answer.delay_seconds)


def _priority(delta: Delta[T]) -> Priority:
    return Priority.RESYNC if delta.is_replay else Priority.CHANGE
