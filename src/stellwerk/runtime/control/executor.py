"""Performs steps until one changes nothing; the only writer of a kind that decides by steps.

    decide -> save a status that the writes rely on -> perform the writes -> put both over object and view -> decide ...

An object moves as far as it can in one pass, without an event of a watch in between. A status that is not saved yet is
saved before the next step writes, so a crash between any two writes finds what the writes relied on.

Conflicts end here: the object is read again and laid over the view, and the pass decides again. `decide` never sees
which of its writes succeeded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, NoReturn, Protocol, TypeVar, cast

import msgspec

from stellwerk.kube.client.client import Client
from stellwerk.kube.concurrency import together
from stellwerk.kube.types.errors import Busy, LoginFailed, Status
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import HasMetadata, Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.runtime.cache.clusters import Cluster
from stellwerk.runtime.cache.informer import Informer, wrote_own_object
from stellwerk.runtime.cache.remote_clusters import (
    Kubeconfig,
    RemoteClusterClosed,
    RemoteClusters,
    TooManyRemoteClusters,
)
from stellwerk.runtime.clock import Clock
from stellwerk.runtime.control import secrecy
from stellwerk.runtime.control.controller import Controller
from stellwerk.runtime.control.queue import Priority
from stellwerk.runtime.control.step import Again, Delete, Failure, Gone, Patch, Place, Released, Step, Wait, Write
from stellwerk.runtime.reading.known import NotKnown
from stellwerk.runtime.reading.loads import Load, LoadSource, PlainLoads, ServedKind
from stellwerk.runtime.reading.questions import (
    Asker,
    Collection,
    InformerSource,
    NamespacedSource,
    Question,
    Source,
    Wakes,
)
from stellwerk.runtime.reading.view import NoClusters, OtherSources, Overlay, View
from stellwerk.runtime.reconciler import Next, Notice, Pass, ReconcileError

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)
T = TypeVar("T", bound=HasMetadata)
K_contra = TypeVar("K_contra", bound=Kind, contravariant=True)

MOST_STEPS = 12
"""Of one pass; a longer chain goes on in the next pass."""
MOST_CONFLICTS = 5
"""How many concurrent changes one pass tolerates."""


OVERTAKEN_SECONDS = 1.0
"""When an object is looked at again if it has changed before a status was saved. Its change mostly wakes it at once;
one that the controller does not look at, such as another status, wakes nothing."""


class Uncovered(Exception):
    """A bug: a step waits for an object that it did not ask for, so nothing would wake it."""


class StepFailed(ReconcileError):
    """A pass ended with a failure that `decide`, or the meaning of a refused write, has named."""

    def __init__(self, failure: Failure, status: Record | None, notices: tuple[Notice, ...]) -> None:
        super().__init__(failure.message)
        self.status, self.notices = status, notices
        self.event_reason, self.action, self.retry = failure.event_reason, failure.action, failure.retry


class _Overtaken(Exception):
    """The object of the pass is gone, or has changed before what the next writes rely on was saved."""


class Logic(Protocol[K, S]):
    """What a kind gives: its decision, and what it shows of what keeps it from one."""

    collection: Collection[K]

    def decide(self, obj: K, view: View) -> Step[S]:
        """What the object needs next. Pure and synchronous. Raises NotKnown."""
        ...

    def unknown(self, obj: K, view: View, missing: NotKnown) -> Step[S]:
        """What the object shows and waits for while an answer is not known: neither a write nor a failure."""
        ...

    def failed(self, obj: K, failure: Failure) -> S | None:
        """The status that shows a failure; None leaves the status alone."""
        ...

    def unexpected(self, obj: K, message: str) -> S | None:
        """The status that shows a bug of ours; None leaves the status alone."""
        ...


class Observer(Protocol[K_contra, S]):
    """Counts what passes do. It decides nothing."""

    def stepped(self, obj: K_contra, step: Step[S], *, failed: bool) -> None:
        """A step was done, or failed. A pass that found all as it should be ends with an empty one."""
        ...

    def passed(self, obj: K_contra, seconds: float) -> None:
        """A pass has ended."""
        ...


class Maker(Protocol):
    """Who makes informers; a `Manager` is one."""

    def informer(self, target: Any, *, labels: str = "", fields: str = "", optional: bool = False) -> Informer[Any]: ...


class InformerSources:
    """The collections of one cluster. The watch of a collection begins with its first question."""

    def __init__(
        self,
        maker: Maker,
        declared: Sequence[Collection[Any]],
        *,
        release: Callable[[Informer[Any]], None] | None = None,
        is_declared: Callable[[Collection[Any]], bool] = lambda _: False,
    ) -> None:
        """`declared`: all that the operator reads or writes; `is_declared` knows further ones, whose kinds are found
        out. `release` ends a watch with its last question; without it watches stay."""
        self._release, self._is_declared = release, is_declared
        self._maker = maker
        self._declared = {*declared}
        self._sources: dict[Collection[Any], InformerSource[Any]] = {}
        self._watched_apart: dict[Collection[Any], NamespacedSource[Any]] = {}
        self.wakes = Wakes()

    def by_namespace(self, collection: Collection[T], informer_of: Callable[[str], Informer[T]]) -> None:
        """Each namespace has a watch of its own for this collection, which the caller opens and ends."""
        self._watched_apart[collection] = NamespacedSource(collection, informer_of, self.wakes)

    def of(self, collection: Collection[T]) -> Source[T]:
        """As `Sources.of`."""
        return cast("Source[T]", self._watched_apart.get(collection) or self._source(collection))

    def informer(self, collection: Collection[T]) -> Informer[T]:
        """The cache of a collection."""
        return cast("Informer[T]", self._source(collection).informer)

    def _source(self, collection: Collection[Any]) -> InformerSource[Any]:
        if collection not in self._sources:
            if collection not in self._declared and not self._is_declared(collection):
                raise KeyError(f"{collection.resource.kind} is not declared")
            made = self._maker.informer(
                collection.target, labels=collection.labels, fields=collection.fields, optional=collection.optional
            )
            self._sources[collection] = InformerSource(collection, made, self.wakes, self._end)
        return self._sources[collection]

    def _end(self, collection: Collection[Any]) -> None:
        if self._release is not None:
            self._release(self._sources.pop(collection).informer)


class RemoteSources:
    """The collections of another cluster, for its users. A watch ends with its last question, so that a cluster that is
    left alone becomes idle.

    `RemoteClusters` reports by `note` whether the cluster is of use.
    """

    def __init__(
        self,
        cluster: Cluster,
        declared: Sequence[Collection[Any]],
        is_declared: Callable[[Collection[Any]], bool] = lambda _: False,
    ) -> None:
        """`declared` and `is_declared`: all that the operator reads or writes there."""
        self.cluster = cluster
        self.sources = InformerSources(cluster, declared, release=cluster.release, is_declared=is_declared)
        self.state = Question(self)
        self._trouble = ""

    def of(self, collection: Collection[T]) -> Source[T]:
        """As `Sources.of`."""
        return self.sources.of(collection)

    def kind(self, gvk: GroupVersionKind, *, any_version: bool = False) -> Load[Resource]:
        """As `OtherSources.kind`."""
        client = self.cluster.client
        return ServedKind(client.config.server, gvk, client.mapper, any_version)

    @property
    def trouble(self) -> str:
        """As `OtherSources.trouble`. Without a watch nothing tries the cluster, so what was known may be long over."""
        return self._trouble if self.cluster.informers else ""

    def note(self, trouble: str) -> None:
        """The cluster does not answer, refuses the login, or is of use again (an empty text)."""
        self._trouble = trouble
        self.sources.wakes.wake(self.state)

    def drop(self, question: Question) -> None:
        """As `Answering.drop`: there is nothing to do."""


@dataclass(frozen=True, slots=True)
class _OtherClusters:
    """The other clusters that one object may look at."""

    user: ObjectKey
    clusters: RemoteClusters[RemoteSources]

    def on(self, cluster: Kubeconfig) -> OtherSources:
        """As `Clusters.on`."""
        return self.opened(cluster)

    def opened(self, cluster: Kubeconfig) -> RemoteSources:
        """The cluster. Raises NotKnown: it cannot be opened."""
        try:
            return self.clusters.remote(self.user, cluster)
        except (LoginFailed, RemoteClusterClosed, TooManyRemoteClusters) as error:
            raise NotKnown(f"the cluster of Secret {cluster.secret}", str(error)) from None


def next_step(logic: Logic[K, S], obj: K, view: View) -> Step[S]:
    """The next step of an object. Raises Uncovered."""
    try:
        step = logic.decide(obj, view)
    except NotKnown as missing:
        view.is_unknown = True
        step = logic.unknown(obj, view, missing)
        if step.writes or step.failure is not None:
            raise AssertionError("what is not known is no reason to write, and no failure") from missing
    for wait in step.waits:
        if isinstance(wait.on, tuple) and (wait.cluster, *wait.on) not in view.seen:
            raise Uncovered(f"{obj.ref} waits for {wait.on[0].resource.kind} {wait.on[1]} and did not ask for it")
    return step


@dataclass(slots=True, kw_only=True, eq=False)
class Deciding(Generic[K, S]):
    """A reconciler whose passes are steps. `serve` gives it its controller."""

    logic: Logic[K, S]
    sources: InformerSources
    client: Client
    clock: Clock
    settings: tuple[object, ...] = ()
    loads: LoadSource = field(default_factory=PlainLoads)
    """Of the process: mostly a `Loads`."""
    clusters: RemoteClusters[RemoteSources] | None = None
    """Where the objects of the kind look besides the cluster of the operator."""
    observer: Observer[K, S] | None = None
    _askers: dict[ObjectKey, Asker] = field(default_factory=dict)
    _waits: dict[ObjectKey, tuple[Wait, ...]] = field(default_factory=dict)
    _controller: Controller[K, S] | None = None

    def serve(self, controller: Controller[K, S]) -> None:
        """Wake the objects of this controller, and save and announce by it."""
        self._controller = controller

    @property
    def controller(self) -> Controller[K, S]:
        """The controller of the kind. Raises AssertionError before `serve`."""
        assert self._controller is not None, "no controller is served"
        return self._controller

    def begin(self, obj: K) -> Pass[S]:
        """As `Reconciler.begin`."""
        return _StepPass(self, obj)

    async def forget(self, key: ObjectKey) -> None:
        """As `Reconciler.forget`."""
        self._waits.pop(key, None)
        self.leave(key)
        if (asker := self._askers.pop(key, None)) is not None:
            asker.keep(())

    def waits_of(self, key: ObjectKey) -> tuple[Wait, ...]:
        """What an object waited for at the end of its last pass."""
        return self._waits.get(key, ())

    def asker(self, key: ObjectKey) -> Asker:
        """Who asks in passes on a key."""
        if key not in self._askers:
            self._askers[key] = Asker(key, self.logic.collection, self.wake)
        return self._askers[key]

    def view(self, key: ObjectKey, overlay: Overlay) -> View:
        """A view of the caches, for the object under a key."""
        return View(
            sources=self.sources,
            now=self.clock.now(),
            settings=self.settings,
            overlay=overlay,
            loads=self.loads,
            clusters=self.others(key) or NoClusters(),
        )

    def leave(self, key: ObjectKey) -> None:
        """The object under a key needs no other cluster any more."""
        if self.clusters is not None:
            self.clusters.leave(self._user(key))

    def others(self, key: ObjectKey) -> _OtherClusters | None:
        """The other clusters that the object under a key may look at."""
        return _OtherClusters(self._user(key), self.clusters) if self.clusters is not None else None

    def _user(self, key: ObjectKey) -> ObjectKey:
        """The object as a user of clusters, which those of other controllers use as well."""
        return ObjectKey(key.namespace, f"{self.controller.name}/{key.name}")

    def step(self, obj: K, overlay: Overlay, former: View | None = None) -> tuple[Step[S], View]:
        """The next step, and the view that it was decided by. Its questions wake the object from now on.

        Nothing is awaited in between, so no change is missed. Those of the former steps of the pass stay: an answer
        that the overlay hides now is asked for by the next pass again.
        """
        view = self.view(obj.key, overlay)
        is_complete = False
        try:
            step = next_step(self.logic, obj, view)
            is_complete = not view.is_unknown
        finally:
            asked = [*former.asked, *view.asked] if former is not None else view.asked
            self.asker(obj.key).keep(asked, is_complete=is_complete)
            for source, words in view.confidential.items():
                secrecy.note(source, words)
        view.asked = asked
        self._waits[obj.key] = step.waits
        return step, view

    def wake(self, key: ObjectKey, after_seconds: float = 0.0) -> None:
        """Decide again about the object under a key: an answer, or something outside of all answers, has changed."""
        self.controller.queue.add_after(key, after_seconds, Priority.CHANGE)


@dataclass(slots=True)
class _StepPass(Generic[K, S]):
    """One pass. It is the `Hands` of its writes."""

    engine: Deciding[K, S]
    obj: K
    """The object, with the status of the steps so far."""
    overlay: Overlay = field(default_factory=Overlay)
    notices: tuple[Notice, ...] = ()
    saved: S | None = None
    """The status that the API server has, if that of the object is a draft. None also if it has none so far."""
    is_draft: bool = False
    """Whether the object shows a status that is not saved."""
    is_abroad: bool = False
    """Whether a step has asked about another cluster."""

    @property
    def client(self) -> Client:
        """As `Hands.client`."""
        return self.engine.client

    @property
    def clock(self) -> Clock:
        """As `Hands.clock`."""
        return self.engine.clock

    @property
    def subject(self) -> Kind:
        """As `Hands.subject`."""
        return self.obj

    async def run(self) -> Next[S]:
        """As `Pass.run`."""
        begin = self.clock.monotonic()
        try:
            return await self._run()
        finally:
            if self.engine.observer is not None:
                self.engine.observer.passed(self.obj, self.clock.monotonic() - begin)

    def _observe(self, step: Step[S], *, failed: bool = False) -> None:
        if self.engine.observer is not None:
            self.engine.observer.stepped(self.obj, step, failed=failed)

    async def _run(self) -> Next[S]:
        last: tuple[Write, ...] = ()
        conflicts, view = 0, None
        for _ in range(MOST_STEPS):
            step, view = self.engine.step(self.obj, self.overlay, view)
            self.is_abroad = self.is_abroad or view.is_abroad
            if step.failure is not None:
                self._observe(step, failed=True)
                self._fail(step.failure, step.status, step.events)
            if step.writes and step.writes == last:
                what = ", ".join(each.about for each in step.writes)
                self.fail(
                    Failure(
                        message=f"{what} does not stay as the operator writes it: a mutating webhook of the cluster "
                        "changes it; see kubectl get mutatingwebhookconfigurations"
                    )
                )
            is_new = step.status is not None and step.status != self._shown
            if not step.writes and not is_new:
                self._observe(step)
                self.notices += step.events
                return self._rested(step, view)
            try:
                if step.writes and self.is_draft:
                    await self._save()
                    if any(self._is_about_subject(each) for each in step.writes):
                        continue  # it has another version now
                await self._perform(step)
            except Again:
                last, conflicts = (), conflicts + 1
                if conflicts >= MOST_CONFLICTS:
                    fight = Status(code=409, reason="Conflict", message="other clients keep changing what is written")
                    raise Busy(fight, f"write {', '.join(each.about for each in step.writes)}") from None
                continue
            except StepFailed:
                self._observe(step, failed=True)
                raise
            except Released:
                self._observe(step)
                await self._announce(step.events)
                return Next[S].done()
            except _Overtaken:
                return Next[S].after(OVERTAKEN_SECONDS)
            except Gone:
                return Next[S].done()
            self._observe(step)
            last = step.writes
            if step.writes:
                await self._announce(step.events)
            else:
                self.notices += step.events
            if is_new:
                self._show(step.status)
        return self._next(0.0)

    async def _perform(self, step: Step[S]) -> None:
        """Perform the writes of a step. Raises what they raise; of several failures, one that a user should read."""
        if not step.is_independent:
            for write in step.writes:
                await write.perform(self)
            return

        async def attempt(write: Write) -> Exception | None:
            try:
                await write.perform(self)
            except Exception as error:  # raised below, when all are through
                return error
            return None

        failures = [each for each in await together(step.writes, attempt) if each is not None]
        if failures:
            raise next((each for each in failures if isinstance(each, StepFailed)), failures[0])

    def report(self, failure: ReconcileError) -> S | None:
        """As `Pass.report`."""
        if isinstance(failure, StepFailed):
            return cast("S | None", failure.status)
        return self.engine.logic.unexpected(self.obj, str(failure))

    # ---- for writes

    def at(self, cluster: Kubeconfig | None) -> Place:
        """As `Hands.at`."""
        if cluster is None:
            return self
        others = self.engine.others(self.obj.key)
        try:
            opened = others.opened(cluster) if others is not None else None
        except NotKnown:
            raise Again from None
        assert opened is not None, "the kind looks at no other cluster"
        return _RemotePlace(opened, self.overlay.on(cluster))

    def learn(self, collection: Collection[T], written: T) -> None:
        """As `Hands.learn`."""
        self.see(collection, written.key, written)
        if self._is_own(collection, written.key):
            wrote_own_object(written)
        else:
            self.engine.sources.informer(collection).expect(written.key, written.metadata.resource_version)

    def see(self, collection: Collection[T], key: ObjectKey, found: T | None) -> None:
        """As `Hands.see`."""
        if found is None:
            self.overlay.remove(collection, key)
        else:
            self.overlay.put(collection, found)
        if not self._is_own(collection, key):
            return
        if found is None or found.metadata.uid != self.obj.metadata.uid:
            raise Gone
        if self.is_draft:
            found = msgspec.structs.replace(cast("K", found), status=self._shown)  # type: ignore[assignment]
        self.obj = cast("K", found)

    def fail(self, failure: Failure) -> NoReturn:
        """As `Hands.fail`."""
        self._fail(failure, None, ())

    # ---- the status

    @property
    def _shown(self) -> S:
        return cast("S", _status(self.obj))

    def _show(self, status: S | None) -> None:
        if not self.is_draft:
            self.saved, self.is_draft = self._shown, True
        self.obj = msgspec.structs.replace(self.obj, status=status)

    async def _save(self) -> None:
        """Save what the next writes rely on. Raises _Overtaken, ApiError."""
        shown = self._shown
        saved = await self.engine.controller.checkpoints.save(
            msgspec.structs.replace(self.obj, status=self.saved), shown
        )
        if saved is None:
            raise _Overtaken
        self.obj, self.saved, self.is_draft = saved, None, False
        await self._announce(())

    async def _announce(self, events: Sequence[Notice]) -> None:
        """Send the Events of what is written: whatever fails later, it has happened."""
        due, self.notices = (*self.notices, *events), ()
        await self.engine.controller.announce(self.obj, due)

    # ---- the end

    def _rested(self, step: Step[S], view: View) -> Next[S]:
        if not self.is_abroad and not view.is_unknown:
            self.engine.leave(self.obj.key)
        seconds = [each.seconds for each in step.waits if each.seconds]
        if view.due is not None:
            seconds.append(max((view.due - view.now).total_seconds(), 0.001))
        return self._next(min(seconds, default=None))

    def _next(self, delay: float | None) -> Next[S]:
        status = self._shown if self.is_draft else None
        return Next(status, delay).without_event().with_events(*self.notices)

    def _fail(self, failure: Failure, status: S | None, events: tuple[Notice, ...]) -> NoReturn:
        shown = status or failure.status or self.engine.logic.failed(self.obj, failure)
        raise StepFailed(failure, shown, (*self.notices, *events))

    def _is_about_subject(self, write: Write) -> bool:
        return isinstance(write, Patch | Delete) and self._is_own(write.collection, write.seen.key)

    def _is_own(self, collection: Collection[Any], key: ObjectKey) -> bool:
        return collection is self.engine.logic.collection and key == self.obj.key


@dataclass(frozen=True, slots=True)
class _RemotePlace:
    """Another cluster, for writes."""

    opened: RemoteSources
    overlay: Overlay

    @property
    def client(self) -> Client:
        """As `Place.client`."""
        return self.opened.cluster.client

    def learn(self, collection: Collection[T], written: T) -> None:
        """As `Place.learn`."""
        self.overlay.put(collection, written)
        self.opened.sources.informer(collection).expect(written.key, written.metadata.resource_version)

    def see(self, collection: Collection[T], key: ObjectKey, found: T | None) -> None:
        """As `Place.see`."""
        if found is None:
            self.overlay.remove(collection, key)
        else:
            self.overlay.put(collection, found)


def _status(obj: Kind) -> Record | None:
    """None: the kind has no status, so its steps show none."""
    status: Record | None = getattr(obj, "status", None)
    return status


# ---- what would be done


@dataclass(slots=True)
class Course(Generic[S]):
    """What a pass would do."""

    status: S
    steps: list[Step[S]] = field(default_factory=list)
    is_unknown: bool = False
    """Whether the last step lacks an answer."""

    @property
    def writes(self) -> list[Write]:
        """All writes, in order."""
        return [write for step in self.steps for write in step.writes]


def rehearse(logic: Logic[K, S], obj: K, view: Callable[[Overlay], View], overlay: Overlay | None = None) -> Course[S]:
    """The steps of a pass on an object, without a request. `view` returns a view with an overlay, which may have
    something from the beginning."""
    overlay, found = overlay if overlay is not None else Overlay(), Course[S](cast("S", _status(obj)))
    for _ in range(MOST_STEPS):
        seen = view(overlay)
        step = next_step(logic, obj, seen)
        found.steps.append(step)
        found.is_unknown = seen.is_unknown
        if step.failure is not None:
            shown = step.status or cast("S | None", step.failure.status) or logic.failed(obj, step.failure)
            found.status = shown or found.status
            return found
        is_new = step.status is not None and step.status != found.status
        if not step.writes and not is_new:
            return found
        found.status = step.status if step.status is not None else found.status
        try:
            for write in step.writes:
                write.rehearse(overlay, seen.now)
        except Released:
            return found
        own = overlay.of(logic.collection).get(obj.key, obj)
        obj = own if own is not None else obj
        obj = msgspec.structs.replace(obj, status=found.status) if hasattr(obj, "status") else obj
    return found
