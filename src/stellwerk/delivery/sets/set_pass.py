"""One pass over an object that keeps a set of objects: what all kinds with an inventory do in the same order.

    apply    content of the kind -> saved inventory -> objects in order -> readiness -> status
    delete   may it go -> is it still there -> objects -> finalizer

A kind derives from `SetPass` and gives what differs: its content and target (`SetWork`), whether it may be deleted
(`leaving`), its reasons (`words`), and its pauses. The draft of the status grows with the pass, and a failure is
reported on top of it. Before an object is touched for the first time the inventory is saved, at a
checkpoint; so no crash leaves an object that no inventory knows.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import ClassVar, Generic, TypeVar

from stellwerk.apply.set.model.desired_set import DesiredObject
from stellwerk.apply.set.model.inventory import Inventory
from stellwerk.apply.set.model.owner import Owner
from stellwerk.apply.set.model.policy import Policies
from stellwerk.apply.set.object_set import ObjectSet, ObservedState, SetProgress
from stellwerk.apply.set.plan.plan_delete_hooks import DeleteHookPlan
from stellwerk.apply.set.plan.plan_input import ApplyOptions, Proof
from stellwerk.delivery.sets import set_reports, set_status, workload_causes
from stellwerk.delivery.sets.inventory_status import InventoryStatus
from stellwerk.delivery.sets.pass_report import SetCause, SetReason, SetReport
from stellwerk.delivery.sets.set_view import SetView, covered
from stellwerk.delivery.sets.workload_causes import WorkloadCauses
from stellwerk.delivery.watched_objects import OwnedObjects
from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.model import Kind, Unreadable
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import finalizer
from stellwerk.runtime.control.status_checkpoint import Checkpoints
from stellwerk.runtime.insight.diagnosis import ClusterReader
from stellwerk.runtime.reconciler import Next, Notice

SHORTEST_LOOK_SECONDS, LONGEST_LOOK_SECONDS = 1.0, 10.0
"""How often it is asked whether others still use what is to be deleted. Their objects are not watched."""

FIRST_SEEN_SECONDS = 1.0
"""After how long a new object whose content is not there yet is shown as seen."""

OUTDATED_SECONDS = 10.0
"""When to look again at an object that only an outdated view shows, unless a watch shows its end earlier."""

_SOON_SECONDS = 0.05

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=InventoryStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetEngine(Generic[K, S]):
    """What all passes on a kind share."""

    client: Client
    checkpoints: Checkpoints[K, S]
    finalizer: str
    clock: Clock


@dataclass(slots=True)
class SetMemory:
    """What is remembered about an object from pass to pass. Losing it costs requests and nothing else."""

    observed: ObservedState = field(default_factory=ObservedState)
    """What is known of its objects beyond the caches."""
    workload_causes: WorkloadCauses = field(default_factory=WorkloadCauses)
    deleting_since: float | None = None
    """On the clock's seconds."""
    confirmed_uid: str = ""
    """The UID that a successful write of this process confirmed, so that the object is no outdated view."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetWork:
    """What is to be applied or deleted, where, with which identity, and how."""

    client: Client
    owned: OwnedObjects
    owner: Owner
    policies: Policies
    known: Inventory
    """What the set holds."""
    wanted: tuple[DesiredObject, ...] = ()
    """What it is to hold; nothing in a deletion."""
    options: ApplyOptions = field(default_factory=ApplyOptions)
    tenant: str = ""
    """Whose calls the writes are, so that slow ones delay no other tenant."""
    proof: Proof | None = None
    witness: Client | None = None
    is_large: bool = False
    only_unused: bool = False
    """Whether a deletion asks again, right before something goes, if others use the kinds of the set."""
    hooks: Callable[[], Awaitable[DeleteHookPlan | None]] | None = None
    """Asked in a deletion for what is to be done before the objects are gone."""


@dataclass(slots=True)
class SetPass(ABC, Generic[K, S]):
    """One pass. `subject` is the object as it is now: a checkpoint and the finalizer replace it."""

    engine: SetEngine[K, S]
    memory: SetMemory
    subject: K
    draft: S = field(init=False)
    """The status as far as the pass has come."""
    words: ClassVar[type[SetReport]]
    """A report by the table of reasons of the kind."""

    def __post_init__(self) -> None:
        self.draft = self.status

    # ---- what a kind gives

    @property
    @abstractmethod
    def status(self) -> S:
        """The status of the subject."""

    @abstractmethod
    def refused(self, progress: SetProgress) -> Exception:
        """What it means that objects could not be written or deleted."""

    @abstractmethod
    async def leaving(self) -> SetWork | Next[S]:
        """What is to be deleted; or the answer if nothing may be, or need be. Nothing has been deleted yet."""

    @property
    @abstractmethod
    def timeout(self) -> timedelta:
        """How long objects may take to become ready."""

    @property
    @abstractmethod
    def requeue_seconds(self) -> float:
        """When to look again though nothing changes."""

    def polling_pause(self, elapsed_seconds: float) -> float:
        """Seconds until the next look at objects that cannot be watched, after so long a wait."""
        del elapsed_seconds
        return LONGEST_LOOK_SECONDS

    def with_objects(self, inventory: Inventory) -> S:
        """The draft with the objects as they are now."""
        return set_status.with_inventory(self.draft, inventory)

    async def check_fits(self, inventory: Inventory) -> None:
        """Raise if an inventory cannot be saved."""

    def noted(self, progress: SetProgress, unreadable: list[Unreadable]) -> None:
        """Objects were applied or deleted. `unreadable`: those of the set that cannot be decoded."""

    def with_events(self, answer: Next[S], progress: SetProgress) -> Next[S]:
        """The answer with Events about what was done."""
        del progress
        return answer

    def first_wait(self, report: SetReport) -> Iterable[Notice]:
        """Events about a wait for objects."""
        del report
        return ()

    # ---- status

    def reported(self, reason: StrEnum, message: str = "", cause: StrEnum | None = None) -> SetReport:
        """A report in the words of the kind."""
        return self.words(reason=reason, message=message, cause=cause)

    def show(self, report: SetReport) -> S:
        """The status with the report of the pass."""
        now = self.engine.clock.now()
        return set_status.with_report(self.status, self.draft, report, self.subject.metadata.generation, now)

    def answer(self, after: Next[S], report: SetReport) -> Next[S]:
        """The answer of a pass with this report."""
        return replace(after, status=self.show(report), severity=report.severity)

    def is_late(self, now: datetime) -> bool:
        """Whether objects have been waited for longer than they may take."""
        return set_status.is_late(self.draft, self.timeout, now)

    async def save(self, status: S) -> bool:
        """A checkpoint: write the status now, and go on with the subject as it is then. False: the pass has to end."""
        saved = await self.engine.checkpoints.save(self.subject, status)
        if saved is None:
            return False
        self.subject = saved
        self.draft = self.status
        return True

    async def save_inventory(self, reason: SetReason, inventory: Inventory) -> bool:
        """Save the inventory before its objects are touched. False: the pass has to end for that."""
        await self.check_fits(inventory)
        self.draft = self.with_objects(inventory)
        return await self.save(self.show(self.reported(reason)))

    @asynccontextmanager
    async def shown_if_slow(self) -> AsyncIterator[None]:
        """Show that a new subject was seen if what is awaited here takes long. Nothing here may change the draft.

        Not before: each status costs the API server as much as all objects of a small set together.
        """
        if self.status.observed_generation > 0:
            yield
            return
        shown = asyncio.create_task(self._show_first(), name=f"show {self.subject.key} as seen")
        try:
            yield
        finally:
            shown.cancel()  # if the answer to a write is lost with it, the next checkpoint shows that
            await asyncio.wait((shown,))
        if not shown.cancelled():
            shown.result()

    async def _show_first(self) -> None:
        await self.engine.clock.sleep(FIRST_SEEN_SECONDS)
        with suppress(ApiError):
            await self.save(self.show(self.reported(SetReason.FirstSeen)))

    # ---- apply

    async def add_finalizer(self) -> None:
        """Have our finalizer on the subject."""
        held = await finalizer.add(self.engine.client, self.subject, self.engine.finalizer)
        if held is not self.subject:
            self.subject, self.memory.confirmed_uid = held, held.metadata.uid

    async def bring(self, work: SetWork, reason: SetReason, *, announces: bool) -> tuple[SetProgress, tuple[str, ...]]:
        """Bring the objects towards what is wanted, as far as it goes now, and return why some are read one by one.

        With `announces` the status is saved before the first write: a client that waits for Ready must not take the one
        of the content before for it. Raises ApplyError, ApiError, Unwatchable.
        """
        view = await self._seen(work, work.wanted)
        progress = await self._object_set(work, view).apply(
            work.wanted,
            work.known,
            view.of(work.owner),
            view.resources,
            announces=announces,
            save=partial(self.save_inventory, reason),
        )
        self._carried(work, progress)
        return self._paced(progress, view), view.unwatched

    async def progressed(self, work: SetWork, progress: SetProgress, reason: SetReason) -> Next[S]:
        """The answer to how far the objects have come. Raises what the kind raises about those that were refused."""
        # Each step takes its time if the inventory has thousands of objects, and the event loop has others to serve.
        await asyncio.sleep(0)
        self.draft = self.with_objects(progress.inventory)
        await asyncio.sleep(0)
        if progress.failures:
            raise self.refused(progress)
        if progress.done:
            self.memory.workload_causes.forget()
            answer = self.ready(progress)
        elif progress.must_be_saved:
            # No Event reports that objects are about to be written: the next one names what is waited for, or Ready.
            answer = self.answer(Next.now(), self.reported(reason)).without_event()
        else:
            answer = await self._waiting(progress, work.client)
        return self.with_events(answer, progress)

    def ready(self, progress: SetProgress) -> Next[S]:
        """The answer when everything is applied and ready."""
        now = self.engine.clock.now()
        self.draft = set_status.finished(self.draft, self.subject.metadata.generation, now)
        seconds = self.until(progress, now)
        return self.answer(Next.after(seconds), self.reported(SetReason.Ready))

    async def _waiting(self, progress: SetProgress, client: Client) -> Next[S]:
        clock = self.engine.clock
        now = clock.now()
        self.draft = set_status.waiting(self.draft, now)
        late = self.is_late(now)
        waits, pause_seconds = await self.memory.workload_causes.explained(
            self.draft.processing_digest,
            progress.waits,
            workload_causes.reading(ClusterReader(client)),
            now=clock.monotonic(),
            waited_seconds=(now - (self.draft.processing_since or now)).total_seconds(),
            is_late=late,
        )
        reason = SetReason.Timeout if late else SetReason.Processing
        report = self.reported(reason, set_reports.unready(waits, late=late), SetCause.ObjectsNotReady)
        seconds = min(self.until(progress, now), pause_seconds or math.inf)
        return self.answer(Next.after(max(seconds, _SOON_SECONDS)), report).with_events(*self.first_wait(report))

    def until(self, progress: SetProgress, now: datetime) -> float:
        """When to look again though nothing changes: when an object is due, when the time is over, or now and then."""
        moments = [self.requeue_seconds]
        if progress.again_at is not None:
            moments.append(progress.again_at - self.engine.clock.monotonic())
        if self.draft.processing_since is not None and not self.is_late(now):
            moments.append((self.draft.processing_since + self.timeout - now).total_seconds())
        return max(min(moments), _SOON_SECONDS)

    # ---- delete

    async def delete(self) -> Next[S]:
        """Delete the objects and then release the subject, as far as possible now."""
        engine = self.engine
        if not finalizer.present(self.subject, engine.finalizer):
            return Next.done()
        self.draft = set_status.start_deletion(self.status)
        work = await self.leaving()
        if isinstance(work, Next):
            return work
        if not await self._is_of_the_present():
            return Next.after(OUTDATED_SECONDS)
        hooks = await work.hooks() if work.hooks is not None else None
        view = await self._seen(work, hooks.hooks if hooks is not None else ())
        progress = await self._object_set(work, view).delete(
            work.known, view.of(work.owner), view.resources, hooks, only_unused=work.only_unused
        )
        self._carried(work, progress)
        if progress.done:
            return self.with_events(await self.release(), progress)
        self.draft = self.with_objects(progress.inventory)
        if progress.failures:
            raise self.refused(progress)
        report = self.reported(SetReason.DeletionProcessing, set_reports.departing(progress.waits))
        again: Next[S] = Next.now() if progress.must_be_saved else Next.after(self._patience())
        return self.with_events(self.answer(again, report), progress)

    async def release(self) -> Next[S]:
        """Take our finalizer off: nothing is left to be done."""
        await finalizer.remove(self.engine.client, self.subject, self.engine.finalizer)
        return Next.done()

    def foreign_finalizers(self) -> str:
        """The finalizers of others on the subject. Nothing is deleted while one holds it."""
        return ", ".join(name for name in self.subject.metadata.finalizers if name != self.engine.finalizer)

    def blocked(self, why: str, cause: StrEnum) -> Next[S]:
        """The answer if something must go before the objects may."""
        return self.answer(Next.after(self._patience()), self.reported(SetReason.DeletionBlocked, why, cause))

    async def _is_of_the_present(self) -> bool:
        """Whether what is to be deleted is there at all. Objects are ours by the name of their owner, so one that is
        only shown by an outdated view would take those of its successor with it."""
        uid = self.subject.metadata.uid
        if self.memory.confirmed_uid != uid:
            if not await finalizer.is_of_the_present(self.engine.client, self.subject):
                return False
            self.memory.confirmed_uid = uid
        return True

    def _patience(self) -> float:
        """Short at first, because most obstacles go soon, and longer the longer it takes."""
        now = self.engine.clock.monotonic()
        if self.memory.deleting_since is None:
            self.memory.deleting_since = now
        return min(max(SHORTEST_LOOK_SECONDS, (now - self.memory.deleting_since) / 2), LONGEST_LOOK_SECONDS)

    # ---- objects

    async def _seen(self, work: SetWork, wanted: Iterable[DesiredObject]) -> SetView:
        return await covered(tuple(wanted), work.known, work.owned, work.client, self.engine.clock.now())

    def _object_set(self, work: SetWork, view: SetView) -> ObjectSet:
        clock = self.engine.clock
        return ObjectSet(
            client=work.client.for_tenant(work.tenant) if work.tenant else work.client,
            owner=work.owner,
            policies=work.policies,
            options=work.options,
            memory=self.memory.observed,
            namespace_exists=work.owned.namespace_exists,
            owned=view.find,
            now=clock.now(),
            clock=clock.monotonic(),
            is_large=work.is_large,
            proof=work.proof,
            witness=work.witness,
        )

    def _carried(self, work: SetWork, progress: SetProgress) -> None:
        work.owned.expect(progress.carried)
        self.noted(progress, work.owned.unreadable(work.owner.label_value, progress.inventory.by_identity()))

    def _paced(self, progress: SetProgress, view: SetView) -> SetProgress:
        """The progress with the moment to look again if no watch shows a change."""
        if progress.done or not view.unwatched:
            return progress
        clock, since = self.engine.clock, self.draft.processing_since
        elapsed = (clock.now() - since).total_seconds() if since is not None else 0.0
        moment = clock.monotonic() + self.polling_pause(elapsed)
        return replace(progress, again_at=moment if progress.again_at is None else min(moment, progress.again_at))
