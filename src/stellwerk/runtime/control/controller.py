"""The worker loop of one kind, and the one `match` on what a pass came to.

A pass ends in one of five ways (`Outcome`). What follows from each is decided in one place, `_verdict`: status, Event,
metric and the answer to the queue. A reconciler knows none of these.

Whatever a pass raises, the worker goes on with other keys. A pass that goes on although it was cancelled keeps its key,
because it may still write; nothing waits for it.

After a pass that wrote something the key stays *running* in the queue until the caches show the writes; the worker goes
on with other keys meanwhile. So a pass never sees the cluster as it was before the last one, and the queue's promise
(one worker on a key) is all that this takes.

Where keys belong to tenants, a slow pass holds no worker: after a quarter of a second another worker takes its seat,
and the worker of the slow pass ends with it. Whatever a pass waits for (a source, another cluster, a rendering), it
delays other tenants by that much at most; the queue bounds how many keys of one tenant are under way.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import traceback
import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import CoroutineType, FrameType
from typing import Any, Generic, Protocol, TypeVar

from stellwerk.kube.nested import Foreign
from stellwerk.kube.types.errors import ApiError, Forbidden, causes
from stellwerk.kube.types.identifiers import ObjectKey, ObjectRef
from stellwerk.kube.types.model import HasMetadata, JsonObject, Kind, Unreadable
from stellwerk.kube.types.object_meta import Record
from stellwerk.runtime.cache.informer import Delta, Informer, noting_own_writes, own_version
from stellwerk.runtime.cache.read_your_writes import OwnChange, OwnEnd
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.control import status_writer as statuses
from stellwerk.runtime.control.memo import Memos
from stellwerk.runtime.control.outcome import (
    After,
    Answered,
    ApiFailure,
    BackedOff,
    Bug,
    Conflicted,
    Outcome,
    PassTimedOut,
    Unexpected,
    UserError,
    Verdict,
    outcome_of,
    unreported,
)
from stellwerk.runtime.control.outcome import LeadershipLost as LeadershipLost
from stellwerk.runtime.control.queue import Priority, QueueClosed, WorkQueue, one_tenant
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.control.status_writer import StatusWriter
from stellwerk.runtime.reconciler import Next, Notice, Pass, ReconcileError, Reconciler, Retry, Severity
from stellwerk.runtime.supervision.backoff import Backoff
from stellwerk.runtime.supervision.tasks import Background, Border, ProcessEnds, background, surprise
from stellwerk.runtime.telemetry import logs, traces
from stellwerk.runtime.telemetry.metrics import Metrics, Result

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)
T = TypeVar("T", bound=HasMetadata)

_log = logging.getLogger(__name__)

_VISIBLE_WITHIN_SECONDS = 120.0
_LEVELS = {Severity.NORMAL: logging.INFO, Severity.WARNING: logging.WARNING}
"""The log level of an Event's message."""
_MAX_IMMEDIATE_REQUEUES = 50
_RECHECK_SECONDS = 600.0
"""How often a failure that only a user can fix is retried without a change: watches can miss things."""
_FORBIDDEN_SECONDS = 60.0
"""The longest back-off of a failure for want of a right."""
_SEAT_SECONDS = 0.25
"""For how long a pass has a worker for itself. A pass that finds nothing slow takes a tenth of it."""
_STUCK_SECONDS = 30.0
"""How long a pass may go on after its timeout, for what its end has to write, before its worker is replaced."""
_DISMISSAL_SECONDS = 2.0
"""How long cancelled workers are waited for at the end."""
_TRY_AGAIN_SECONDS = 1.0
_LOGGED_AGAIN_SECONDS = 60.0
_LOGGED_LINES = 1_024
"""A moment for the caches that could not be filled either."""


PASS_STUCK = "PassStuck"  # noqa: S105  # a reason
"""The reason of the Event on an object whose pass does not end."""


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
        memos: Memos[Any] | None = None,
        workers: int = 1,
        pass_timeout_seconds: float = 300.0,
        stuck_seconds: float = _STUCK_SECONDS,
        backoff: Backoff | None = None,
        tenant_of: Callable[[ObjectKey], str] = one_tenant,
        seat_seconds: float = _SEAT_SECONDS,
        recorder: EventSink | None = None,
        explain_unreadable: Callable[[Unreadable], JsonObject] | None = None,
        on_failure: Callable[[K, bool], None] = lambda _, is_bug: None,
        log_fields: Callable[[K], Mapping[str, logs.Detail]] | None = None,
        metrics: Metrics | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`explain_unreadable` returns the fields of the status that report an object that cannot be decoded.

        `on_failure` is called for each pass that failed, with whether that was a bug.
        `log_fields` returns what log lines about an object show besides its kind and name. It must not fail.
        `memos`: what the reconciler remembers; the memo of an object that is gone is dropped.
        """
        self.name = name
        self.primary = primary
        self._reconciler = reconciler
        self._write_status = write_status
        self.checkpoints: Checkpoints[K, S] = checkpoints or Checkpoints(primary, write_status)
        self._memos = memos
        self._workers = workers
        self._seat_seconds = seat_seconds if tenant_of is not one_tenant else math.inf
        self._pass_timeout_seconds = pass_timeout_seconds
        self._recorder = recorder
        self._explain_unreadable = explain_unreadable
        self._on_failure = on_failure
        self._log_fields = log_fields
        self._reported_unreadable: dict[ObjectKey, tuple[str, str]] = {}
        self._metrics = metrics or Metrics()
        self._clock = clock or SystemClock()
        self._border = Border(self._metrics, self._clock)
        self._deadline_seconds = pass_timeout_seconds + stuck_seconds
        self._metrics.objects.show(primary.view.shape, primary.store.all)
        counts = self._metrics.queue(name, running=lambda: self.queue.running_seconds())
        shared = 0 if tenant_of is one_tenant else workers
        self.queue = WorkQueue(clock=self._clock, backoff=backoff, tenant_of=tenant_of, observer=counts, workers=shared)
        self._ignored: list[Callable[[K, K], bool]] = []
        self._wired: list[Callable[[], None]] = []
        self._uids: dict[ObjectKey, str] = {}
        self._immediate_requeues: dict[ObjectKey, int] = {}
        self._failing: set[ObjectKey] = set()
        self._logged: OrderedDict[tuple[str, str, int], float] = OrderedDict()
        """When the same was last logged about an object."""
        self._landing: Background | None = None
        self._is_wired = False
        self._ending = False
        self._seats: set[asyncio.Task[None]] = set()
        """The workers that take keys; one whose pass is slow is no longer here."""
        self._under_way: set[asyncio.Task[None]] = set()
        """All that is waited for at the end: the workers, and slow passes, but no stuck ones."""
        self._left = asyncio.Event()
        self._end: ProcessEnds | None = None

    def watches(self, informer: Informer[T], wakes: Callable[[Delta[T]], Iterable[ObjectKey]]) -> None:
        """A change of `informer` wakes these keys of our kind. The function is pure and quick."""

        def on_change(delta: Delta[T]) -> None:
            for key in wakes(delta):
                self.queue.add(key, _priority(delta))

        self._wired.append(lambda: informer.on_change(on_change))

    def ignore_updates(self, predicate: Callable[[K, K], bool]) -> None:
        """Updates of our own objects (old, new) for which this holds wake no object. Several predicates add up."""
        self._ignored.append(predicate)

    async def run(self) -> None:
        """Listen and work until `stop` or cancelled. Raises LeadershipLost."""
        if not self._is_wired:
            self._is_wired = True
            self.primary.on_change(self._on_primary)
            self.primary.on_unreadable(lambda key, _: self.queue.add(key))
            for wire in self._wired:
                wire()
            self._metrics.controller(self.name, self._workers)
        async with background() as self._landing:
            timers = self._border.keep("timers", f"{self.name} timers", self.queue.run)
            self._landing.start(timers, f"{self.name} timers")
            await self._run_workers()
        if self._end is not None:
            raise self._end

    def try_again(self) -> None:
        """Look in a moment at every object whose last pass failed: what they failed for may be mended."""
        for key in self._failing:
            self.queue.add_after(key, _TRY_AGAIN_SECONDS, Priority.CHANGE)

    def stop(self) -> None:
        """Take no further key. `run` returns when the passes under way have ended."""
        self.queue.close()

    async def _run_workers(self) -> None:
        """Return when the queue is closed and its passes have ended, or when the process has to end."""
        self._ending, self._end = False, None
        for _ in range(self._workers):
            self._seat_worker()
        try:
            while self._under_way and self._end is None:
                self._left.clear()
                await self._left.wait()
        finally:
            self._ending = True
            for worker in self._under_way:
                worker.cancel()
            if self._under_way:
                await asyncio.wait([*self._under_way], timeout=_DISMISSAL_SECONDS)

    def _seat_worker(self) -> None:
        worker = asyncio.create_task(self._work(), name=f"{self.name} worker")
        self._seats.add(worker)
        self._under_way.add(worker)
        worker.add_done_callback(self._on_worker_end)

    def _on_worker_end(self, worker: asyncio.Task[None]) -> None:
        self._seats.discard(worker)
        self._under_way.discard(worker)
        error = None if worker.cancelled() else worker.exception()
        if isinstance(error, ProcessEnds):
            self._end = error
        elif not self._ending and not self.queue.is_closed and len(self._seats) < self._workers:
            self._border.report("worker", f"{self.name} worker", Foreign("it has ended"), "another one starts")
            self._seat_worker()
        self._left.set()

    async def _work(self) -> None:
        worker = asyncio.current_task()
        assert worker is not None
        while worker in self._seats and not self._ending:  # its pass may have swallowed the cancellation
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            with self._seated(worker, key):
                await self._serve(key)
            # A pass that finds all in order never waits, nor does a queue that has keys: without this, ten thousand
            # of them would keep the loop from leases, probes and watches for half a second.
            await asyncio.sleep(0)

    @contextmanager
    def _seated(self, worker: asyncio.Task[None], key: ObjectKey) -> Iterator[None]:
        """A worker's seat for the pass on a key. Another worker takes it from a pass that is slow.

        A pass that goes on after its deadline, although it was cancelled, is reported; nothing waits for it any more.
        """
        loop = asyncio.get_running_loop()

        def leave() -> None:
            if worker in self._seats and not self._ending:
                self._seats.discard(worker)
                self.queue.leave(key)
                self._metrics.busy_workers(self.name, -1)
                self._seat_worker()

        def cut_off() -> None:
            alarms.append(loop.call_later(self._deadline_seconds, cut_off))
            leave()
            if worker in self._under_way:
                self._under_way.discard(worker)
                self._metrics.stuck_passes(self.name, 1)
                self._tell_stuck(worker, key)
                self._left.set()
            worker.cancel()

        self._metrics.busy_workers(self.name, 1)
        alarms = [loop.call_later(self._deadline_seconds, cut_off)]
        if self._seat_seconds < math.inf:
            alarms.append(loop.call_later(self._seat_seconds, leave))
        try:
            yield
        finally:
            for alarm in alarms:
                alarm.cancel()
            if worker in self._seats:
                self._metrics.busy_workers(self.name, -1)
            if worker not in self._under_way:
                self._metrics.stuck_passes(self.name, -1)

    async def _serve(self, key: ObjectKey) -> None:
        """One turn of a worker: a pass on the key's object, or the end of its memory, or neither yet."""
        writes: Sequence[OwnChange] = ()
        try:
            await self.primary.history.common()
            unseen = self.primary.expected(key)
            if unseen is not None:
                self.queue.add(key)
                writes = [unseen]
                return
            with noting_own_writes(self.primary) as writes:
                await self._look_at(key)
        except BaseException as raised:
            self._border.report("pass", f"a pass of {self.name} on {key}", self._surprise(raised))
            self._metrics.surprised(self.name)
            self.queue.add_backed_off(key)
        finally:
            self.checkpoints.forget(key)
            if self._ending:
                self.queue.add(key)  # where `run` is called again, what was cut short begins again
            self._done_when_visible(key, writes)

    def _surprise(self, raised: BaseException) -> Exception:
        """As `tasks.surprise`. Only the controller cancels a worker: before its end, code of the pass did."""
        worker = asyncio.current_task()
        while not self._ending and worker is not None and worker.uncancel():
            continue
        return surprise(raised)

    def _tell_stuck(self, worker: asyncio.Task[None], key: ObjectKey) -> None:
        """Report that a pass continues although it was cancelled, and where."""
        self._metrics.surprised(self.name)
        self._metrics.task_failed("stuck pass")
        stack = "".join(traceback.format_list(_frames(worker)))
        _log.error(
            "the pass of %s on %s does not end although it was cancelled; its worker is replaced, and the object waits",
            *(self.name, key),
            extra=logs.fields(stack=stack),
        )
        obj = self.primary.store.get(key)
        if obj is not None and self._recorder is not None:
            said = "the operator is stuck in its work on this object and cannot go on with it; its log has the details"
            self._recorder.send(obj, Notice(PASS_STUCK, f"{said}. Restart the operator", Severity.WARNING))

    async def _look_at(self, key: ObjectKey) -> None:
        obj, unreadable = self.primary.store.get(key), self.primary.unreadable.get(key)
        known, there = self._uids.get(key), unreadable or obj
        if known is not None and (there is None or there.metadata.uid != known) and not await self._forget(key):
            return
        if unreadable is not None:
            await self._report_unreadable(unreadable)
            return
        self._reported_unreadable.pop(key, None)
        if obj is not None:
            self._uids[key] = obj.metadata.uid
            await self._pass(obj)

    async def _forget(self, key: ObjectKey) -> bool:
        """Let the reconciler drop what it knows of an object that is gone. Returns whether it could."""
        try:
            async with asyncio.timeout(self._pass_timeout_seconds):
                await self._reconciler.forget(key)
        except BaseException as raised:
            self._border.report("pass", f"{self.name} cannot forget {key}", self._surprise(raised))
            self._metrics.surprised(self.name)
            self.queue.add_backed_off(key)
            return False
        if self._memos is not None:
            self._memos.forget(key)
        self._write_status.forget(self._uids.pop(key))
        self._immediate_requeues.pop(key, None)
        self._failing.discard(key)
        self.queue.forget(key)
        return True

    async def _report_unreadable(self, obj: Unreadable) -> None:
        """No pass for an object that cannot be decoded: its former content is not what it asks for now."""
        said = obj.metadata.uid, obj.why
        if self._explain_unreadable is not None and self._reported_unreadable.get(obj.key) != said:
            try:
                await self._write_status.merge(obj, self._explain_unreadable(obj))
            except ApiError as error:
                _log.warning("%s: the status of %s cannot report that it is unreadable: %s", self.name, obj.ref, error)
                self.queue.add_backed_off(obj.key)
                return
            self._reported_unreadable[obj.key] = said
        self.queue.forget(obj.key)

    async def _pass(self, obj: K) -> None:
        started = self._clock.monotonic()
        kind, pass_id = obj.resource.kind, str(uuid.uuid4())
        details = partial(self._log_fields, obj) if self._log_fields is not None else dict
        with (
            logs.reconciling(kind, obj.key, pass_id, details),
            traces.reconciling(kind, obj.key, pass_id) as span,
            secrecy.reading(),
        ):
            current = self._reconciler.begin(obj)
            outcome = await self._attempt(obj, current)
            try:
                if isinstance(outcome, UserError):
                    await secrecy.mask_failure(outcome.failure)
                verdict = self._verdict(obj, current, outcome)
                await self._publish(obj, verdict)
            except BaseException as raised:  # what cannot be reported has not succeeded, whatever was done
                verdict = await self._unreported(obj, current, self._surprise(raised))
            span.record(result=verdict.result)
        if verdict.result == "error":
            self._on_failure(obj, isinstance(outcome, Bug))
        self._schedule(obj.key, verdict)
        self._metrics.reconciled(self.name, verdict.result, self._clock.monotonic() - started)

    async def _unreported(self, obj: K, current: Pass[S], error: Exception) -> Verdict[S]:
        """What follows from a report that failed. A bug in it is reported instead."""
        outcome = unreported(error)
        verdict = self._verdict(obj, current, outcome)
        if isinstance(outcome, Bug):
            try:
                await self._publish(obj, verdict)
            except BaseException as raised:
                self._border.report("pass", f"{self.name} cannot report about {obj.ref}", self._surprise(raised))
        return verdict

    async def _attempt(self, obj: K, current: Pass[S]) -> Outcome[S]:
        limit = asyncio.timeout(self._pass_timeout_seconds)
        try:
            async with limit:
                return Answered(await current.run())
        except BaseException as raised:
            error = self._surprise(raised)
            if limit.expired():
                return Bug(PassTimedOut(f"{obj.ref} took longer than {self._pass_timeout_seconds:g} s"))
            return outcome_of(error)

    def _verdict(self, obj: K, current: Pass[S], outcome: Outcome[S]) -> Verdict[S]:
        """What follows from an outcome."""
        match outcome:
            case Answered(answer):
                return Verdict(
                    _result(answer), _again(answer), answer.status, answer.severity, answer.notices, answer.quiet
                )
            case UserError(failure):
                status = current.report(failure)
                again = self._retry(failure)
                return Verdict("error", again, status, Severity.WARNING, notices=failure.notices, failure=failure)
            case Conflicted(error):
                _log.debug("%s: %s has changed meanwhile: %s", self.name, obj.ref, error)
                return Verdict("requeue", BackedOff())
            case ApiFailure(error):
                _log.error("%s: %s waits: %s", self.name, obj.ref, error)
                return Verdict("error", BackedOff(statuses.wanted_delay_seconds(error), _longest_seconds(error)))
            case Bug(error):
                self._border.report("pass", f"a pass of {self.name} on {obj.ref}", error)
                self._metrics.surprised(self.name)
                unexpected = Unexpected(error)
                status = self._report_bug(obj, current, unexpected)
                return Verdict("error", BackedOff(), status, Severity.WARNING, failure=unexpected)

    def _report_bug(self, obj: K, current: Pass[S], failure: Unexpected) -> S | None:
        """The status that reports an unexpected exception; None where that raises another one."""
        try:
            return current.report(failure)
        except BaseException as raised:
            self._border.report("pass", f"{self.name} cannot report a bug on {obj.ref}", self._surprise(raised))
            return None

    def _retry(self, failure: ReconcileError) -> After | BackedOff:
        wanted = statuses.wanted_delay_seconds(failure)
        if failure.retry_after_seconds is not None:
            return After(max(failure.retry_after_seconds, wanted))
        if failure.retry is Retry.BACKOFF:
            return BackedOff(wanted, _longest_seconds(failure))
        self._metrics.failed_for_good(self.name)
        return After(max(_RECHECK_SECONDS * (1.0 + 0.1 * random.random()), wanted))

    async def _publish(self, obj: K, verdict: Verdict[S]) -> None:
        """Write the status where it differs, and send the Events."""
        obj, status = self.checkpoints.shown(obj), verdict.status
        if status is not None:
            status = await secrecy.masked_status(status, statuses.status_of(obj))
        version = await self._write_status.write(obj, status, self._version_of(obj)) if status is not None else None
        if status is not None and version is not None:
            self.primary.expect(obj.key, version)
            transition = statuses.transition(obj, status, verdict.severity, failure=verdict.failure)
            if transition is not None and not verdict.quiet:
                is_error = verdict.failure is not None
                failed = is_error and statuses.is_failure(status)
                level = logging.INFO if is_error else _LEVELS[verdict.severity]
                await self._announce(obj, transition, logging.ERROR if failed else level)
        await self.announce(obj, verdict.notices)

    async def announce(self, obj: K, notices: Iterable[Notice]) -> None:
        """Send Events about an object. One that was logged a moment ago is not logged again."""
        for notice in notices:
            level = logging.DEBUG if self._was_logged(obj, notice) else _LEVELS[notice.severity]
            await self._announce(obj, notice, level)

    def _version_of(self, obj: K) -> str:
        """The resourceVersion of the object whose status is replaced; empty for the one that the pass has seen.

        The first status of a process may only follow what the pass has seen and written. The cache may show more by
        the end of the pass: the last status of a former leader.
        """
        if not self._write_status.has_written(obj):
            return own_version(obj.key)
        written = self.primary.expected(obj.key)
        if isinstance(written, OwnEnd):
            return ""
        if written is not None:
            return str(written.version)
        current = self.primary.store.get(obj.key)
        return current.metadata.resource_version if current and current.metadata.uid == obj.metadata.uid else ""

    async def _announce(self, obj: K, notice: Notice, level: int) -> None:
        _log.log(level, "%s: %s", notice.reason, await secrecy.current().masked(notice.message))
        if self._recorder is not None:
            self._recorder.send(obj, notice)

    def _was_logged(self, obj: K, notice: Notice) -> bool:
        """Whether this was logged a moment ago: what goes on is reported by each pass, and an Event counts them."""
        now, line = self._clock.monotonic(), (obj.metadata.uid, notice.reason, hash(notice.message))
        former = self._logged.get(line)
        if former is not None and now - former < _LOGGED_AGAIN_SECONDS:
            return True
        self._logged[line] = now
        self._logged.move_to_end(line)
        if len(self._logged) > _LOGGED_LINES:
            self._logged.popitem(last=False)
        return False

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
            self._immediate_requeues.pop(key, None)

    def _may_hurry(self, key: ObjectKey) -> bool:
        """Whether a key that asks for another pass at once gets it: a chain of steps does, an endless one does not."""
        self._immediate_requeues[key] = self._immediate_requeues.get(key, 0) + 1
        if self._immediate_requeues[key] == _MAX_IMMEDIATE_REQUEUES + 1:
            _log.warning("%s: %s asks again and again for another pass at once", self.name, key)
        return self._immediate_requeues[key] <= _MAX_IMMEDIATE_REQUEUES

    def _done_when_visible(self, key: ObjectKey, writes: Sequence[OwnChange]) -> None:
        """Give the key back to the queue once the caches show what was written."""
        pending = [write for write in writes if not write.is_visible]
        if pending and self._landing is not None and not self._ending:
            self.queue.land(key)
            self._landing.start(self._land(key, pending), f"{self.name} {key} becomes visible")
        else:
            self.queue.done(key)

    async def _land(self, key: ObjectKey, writes: Sequence[OwnChange]) -> None:
        try:
            async with asyncio.timeout(_VISIBLE_WITHIN_SECONDS):
                for write in writes:
                    await write.visible()
        except TimeoutError:
            waits = self.primary.expected(key) is not None
            what = "still waiting" if waits else "going on without"
            _log.warning("%s: the caches do not show what was written for %s; %s", self.name, key, what)
        except BaseException as raised:
            self._border.report("landing", f"{self.name} {key}", surprise(raised))
        finally:
            self.queue.done(key, landed=True)

    def _on_primary(self, delta: Delta[K]) -> None:
        if delta.old is not None and delta.new is not None and self._is_ignored(delta.old, delta.new):
            return
        self.queue.add(delta.key, _priority(delta))

    def _is_ignored(self, old: K, new: K) -> bool:
        try:
            return any(ignores(old, new) for ignores in self._ignored)
        except BaseException as raised:  # an update too many is harmless, one that is missed is not
            self._border.report("handler", f"{self.name} cannot compare {new.ref}", surprise(raised))
            return False


def _frames(task: asyncio.Task[None]) -> traceback.StackSummary:
    """Where a task waits: the frames of its coroutine and of those that it awaits."""
    frames: list[tuple[FrameType, int]] = []
    waiting: object = task.get_coro()
    while isinstance(waiting, CoroutineType) and waiting.cr_frame is not None:
        frames.append((waiting.cr_frame, waiting.cr_frame.f_lineno))
        waiting = waiting.cr_await
    return traceback.StackSummary.extract(iter(frames))


def _longest_seconds(error: BaseException | None) -> float:
    """For how long a failure may wait: where a right was missing no watch shows that it was granted."""
    if any(isinstance(each, Forbidden) for each in causes(error)):
        return _FORBIDDEN_SECONDS * (1.0 - 0.1 * random.random())
    return math.inf


def only_status_changed(old: Kind, new: Kind) -> bool:
    """For `ignore_updates`: the spec is the same. Our own status write is such an update."""
    return not asked_changes(old, new)


def asked_changes(old: Kind, new: Kind) -> list[str]:
    """The fields of the metadata that differ, of those that are changed to ask for something."""
    return [name for name in _ASKED if getattr(old.metadata, name) != getattr(new.metadata, name)]


_ASKED = ("generation", "deletion_timestamp", "finalizers", "labels", "annotations", "owner_references")


def _result(answer: Next[S]) -> Result:
    if answer.delay_seconds is None:
        return "success"
    return "requeue_after" if answer.delay_seconds > 0 else "requeue"


def _again(answer: Next[S]) -> After | None:
    return None if answer.delay_seconds is None else After(answer.delay_seconds)


def _priority(delta: Delta[T]) -> Priority:
    return Priority.RESYNC if delta.is_replay else Priority.CHANGE
