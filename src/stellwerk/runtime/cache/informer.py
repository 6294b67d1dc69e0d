"""Keeps a store equal to the cluster, and reports changes to handlers.

The watch itself (resume, re-list, back-off, silent connections) is `kube.watch.watch.Watcher`; here its changes become
an indexed store and a stream of deltas. Four decisions:

- A delta carries both sides. An object that was deleted and made again under its name is two deltas, so nothing that
  is remembered about the old one is taken for the new one.
- After a re-list only differences are reported, marked as a replay: handlers may treat it as less urgent.
- Now and then the cache is compared with the server; see `cache_audit`. What was missed is listed again.
- Own writes are waited for; see `read_your_writes`. So are other caches, where history runs backwards; see
  `common_history`.
- Where the definition of a kind is watched, its deletion ends the watch of the kind (`suspend`). To find out by asking
  the API server takes requests for as long as its discovery still lists the kind, which may be seconds.
- An object for which there is no room (`cache_budget`) is one that cannot be decoded, until there is.
- An object that cannot be decoded stays in the store as it was when it last could be, and is listed as `unreadable`.
  Whether to act on the former content is for readers to decide: for a dependency it is the best answer there is; for
  the object itself it may be the wrong one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

from stellwerk.kube.client.client import Client, Target, view_of
from stellwerk.kube.types.errors import ApiError
from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, Unreadable, metadata_of
from stellwerk.kube.types.object_meta import version_number
from stellwerk.kube.watch.watch import SILENCE_SECONDS, Watcher
from stellwerk.kube.watch.watch_states import Bookmark, Change, Changed, Odd, Removed, Synced, WatchSuspended
from stellwerk.runtime.cache.cache_audit import CacheAudit
from stellwerk.runtime.cache.cache_budget import CacheBudget, weight
from stellwerk.runtime.cache.common_history import CommonHistory
from stellwerk.runtime.cache.read_your_writes import CacheProgress, OwnChange
from stellwerk.runtime.cache.store import Store
from stellwerk.runtime.clock import Clock, SystemClock
from stellwerk.runtime.supervision.tasks import background, surprise
from stellwerk.runtime.telemetry import logs
from stellwerk.runtime.telemetry.metrics import Metrics

T = TypeVar("T", bound=HasMetadata)

_log = logging.getLogger(__name__)

_SLICE_SECONDS = 0.01
"""For how long a list is taken over at a time."""

MOST_COMPLAINTS = 10
"""How many objects that cannot be decoded are named in log lines, in `COMPLAINTS_SECONDS`."""
COMPLAINTS_SECONDS = 600.0

_READ_AGAIN_SECONDS = 1.0
"""The pause between two looks for objects that fit now."""
_READ_LATER_SECONDS = 30.0
"""The further pause where such an object could not be read."""
_SMALL_METADATA = 8 << 10

MOST_REMOVED = 1_000
"""Of how many objects that went last the end is remembered."""

VERIFY_SECONDS = 600.0
"""How often a cache is compared with the server."""


@dataclass(frozen=True, slots=True)
class Delta(Generic[T]):
    """One object's change. `old` is None when it is new to the cache, `new` is None when it is gone.

    `is_replay`: found by a list, at start or after a gap, rather than by a watch. `is_first`: the cache or the
    handler is new, so that each object is reported.
    """

    old: T | None
    new: T | None
    is_replay: bool = False
    is_first: bool = False

    @property
    def latest(self) -> T:
        """The object as last seen."""
        return cast(T, self.new if self.new is not None else self.old)

    @property
    def key(self) -> ObjectKey:
        """Namespace and name."""
        return self.latest.key


Handler: TypeAlias = Callable[[Delta[T]], None]
UnreadableHandler: TypeAlias = Callable[[ObjectKey, Unreadable | None], None]
"""Is called with the key of an object that cannot be decoded, and with None when that is over."""


class Selection(NamedTuple):
    """The objects of a kind that a cache holds: of a namespace, or of all, and by label and field selectors."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""


class Informer(Generic[T]):
    """One watch, its store, and its handlers. Made by a `Cluster`, which shares and runs it."""

    def __init__(
        self,
        client: Client,
        target: Target[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        verify_seconds: float = VERIFY_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        name: str = "",
        on_repair: Callable[[], None] = lambda: None,
        history: CommonHistory | None = None,
        budget: CacheBudget | None = None,
    ) -> None:
        """`on_repair` is called when the store is full again after `broke`, which no delta shows.

        `history` and `budget` are shared by the caches of a cluster.
        """
        self._client = client
        self._budget = budget or CacheBudget()
        self._refused: dict[ObjectKey, int] = {}
        """The weight of objects for which there was no room. They are unreadable, too."""
        self._listed: Counter[str] = Counter()
        """What a list under way was charged, by namespace, and the objects of it for which there was no room."""
        self._listed_refused: dict[ObjectKey, int] = {}
        self._room = asyncio.Event()
        self.view = view_of(target)
        self.name = name or selection_name(self.view.resource.group_resource, namespace, labels, fields)
        self.selection = Selection(namespace, labels, fields)
        self.store: Store[T] = Store()
        self.handler_failures = 0
        """How many exceptions handlers have raised: bugs of the handlers, logged with the stack."""
        self._clock = clock or SystemClock()
        self.history = history or CommonHistory(self._clock)
        self.history.join(self)
        self._metrics = metrics or Metrics()
        self._metrics.cache(self.name, self._watch_age_seconds, lambda: len(self._unreadable))
        self._watcher = Watcher(
            client,
            target,
            namespace,
            labels=labels,
            fields=fields,
            clock=self._clock,
            silence_seconds=silence_seconds,
            on_restart=self._note_restart,
            admission=self if self._budget.most_bytes is not None else None,
        )
        versions = metadata_of(self.view.resource)
        self._comparison = CacheAudit(partial(client.list, versions, namespace, labels=labels, fields=fields))
        self._verify_seconds = verify_seconds
        self._handlers: list[Handler[T]] = []
        self._unreadable: dict[ObjectKey, Unreadable] = {}
        self._removed: OrderedDict[str, float] = OrderedDict()
        """The version up to which events about an object that is not here are late, by its uid."""
        self._unreadable_handlers: list[UnreadableHandler] = []
        self._served_handlers: list[Callable[[], None]] = []
        self._parked_handlers: list[Callable[[], None]] = []
        self._state_handlers: list[Callable[[], None]] = []
        self._told_state: tuple[bool, WatchSuspended | None] = (False, None)
        self._complaints = _Complaints(self.name, self._clock)
        self._parked: WatchSuspended | None = None
        self._synced = False
        self._settled = asyncio.Event()
        self.is_ending = False
        """Whether the definition of the kind is being deleted, so that the end of the watch is expected."""
        self.is_refusal_expected = False
        """Whether the watch is a trial, so that missing rights are no news."""
        self._gone: WatchSuspended | None = None
        self._is_gone_empty = False
        self._suspended, self._resumed, self._outdated = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._is_broken = False
        self._is_closed = False
        self._on_repair = on_repair
        self._full, self._complete = asyncio.Event(), asyncio.Event()
        self._progress = CacheProgress()

    def part(self, namespace: str) -> Informer[T]:
        """The informer that watches a namespace: another one only if this one joins several."""
        return self

    def on_change(self, handler: Handler[T]) -> None:
        """Call the handler for each change from now on, and at once for each object that is here.

        It is called on the event loop and must not block. What it raises is counted and logged, and has no other
        effect.
        """
        self._handlers.append(handler)
        for obj in self.store.all():
            self._call(handler, Delta(None, obj, is_replay=True, is_first=True))

    def on_unreadable(self, handler: UnreadableHandler) -> None:
        """Call the handler whenever an object cannot be decoded or no longer so, and at once for those that are here.

        The same rules as for `on_change` apply.
        """
        self._unreadable_handlers.append(handler)
        for obj in self._unreadable.values():
            self._call_unreadable(handler, obj.key, obj)

    def on_served(self, handler: Callable[[], None]) -> None:
        """Call the handler whenever the store is full after the watch was parked: the kind is served now, or may be
        watched now. No delta shows that where there are no objects."""
        self._served_handlers.append(handler)

    def on_parked(self, handler: Callable[[], None]) -> None:
        """Call the handler when a full store is watched no longer: no delta shows from now on what becomes of it."""
        self._parked_handlers.append(handler)

    def on_state(self, handler: Callable[[], None]) -> None:
        """Call the handler whenever `shows_all` or `parked` changes, which no delta shows: what is not in the store may
        be absent now, or unknown."""
        self._state_handlers.append(handler)

    @property
    def unreadable(self) -> Mapping[ObjectKey, Unreadable]:
        """The objects that exist and cannot be decoded. The store may hold a former version of each."""
        return self._unreadable

    @property
    def hidden(self) -> list[ObjectKey]:
        """The objects that exist and could not be decoded so far, so that the store has no former content of them."""
        return [key for key in self._unreadable if key not in self.store]

    async def run(self) -> None:
        """Follow the cluster until cancelled."""
        while True:
            await self._while_gone()
            async with background() as tasks:
                tasks.start(self._follow(), f"follow {self.name}")
                missed = tasks.start(self._until_something_was_missed(), f"compare {self.name}")
                suspended = tasks.start(self._suspended.wait(), f"suspension of {self.name}")
                outdated = tasks.start(self._outdated.wait(), f"another history of {self.name}")
                tasks.start(self._read_what_fits(), f"objects of {self.name} that did not fit")
                await asyncio.wait((missed, suspended, outdated), return_when=asyncio.FIRST_COMPLETED)
            self._outdated.clear()

    async def _while_gone(self) -> None:
        """Return when the kind is not known to be gone. The store is emptied here, when no list is being taken over."""
        if self._gone is None:
            return
        if self._synced or self._is_gone_empty:
            self.take(Synced((), ""))
        self._park(self._gone, expected=True)
        while self._gone is not None:
            await self._resumed.wait()

    def broke(self, error: Exception) -> None:
        """`run` ended by an unexpected exception: parked until it is called again."""
        self._is_broken = True
        self._park(WatchSuspended(f"the operator failed to read it: unexpected {type(error).__name__}, see its log"))

    def close(self) -> None:
        """`run` was cancelled for ever: end all waiting, and leave nothing behind in what caches share.

        What `run` does on its way out has no effect: no handler is called, and no series of metrics comes back.
        """
        self._is_closed = True
        told = (self._served_handlers, self._parked_handlers, self._state_handlers)
        for handlers in (self._handlers, self._unreadable_handlers, *told):
            handlers.clear()
        if self._parked is None:  # those who wait for it get the cause why it was not needed any more
            self._park(WatchSuspended("it is not watched any more"), expected=True)
        self._complete.set()
        self.expect_nothing()
        self._give_back_all()
        self.history.leave(self)
        self._metrics.forget_cache(self.name, self._watch_age_seconds)

    async def _follow(self) -> None:
        async with aclosing(self._watcher.changes(was_listed=self.has_synced)) as changes:
            async for change in changes:
                await self._take_in_slices(change)

    async def _take_in_slices(self, change: Change[T]) -> None:
        """As `take`, and the loop serves others meanwhile: a list may be long, and each object costs its handlers."""
        steps = self._steps(change)
        began = time.perf_counter()
        try:
            for _ in steps:
                if self._is_closed:
                    break
                if time.perf_counter() - began > _SLICE_SECONDS:
                    await asyncio.sleep(0)
                    began = time.perf_counter()
        finally:
            if self._is_closed:
                steps.close()
            deque(steps, maxlen=0)  # a handler that is not called now is never called

    async def _until_something_was_missed(self) -> None:
        while True:
            await self._clock.sleep(self._verify_seconds * random.uniform(0.75, 1.25))
            if self.has_synced and (missed := await self._missed()):
                _log.warning("the watch of %s has missed changes of %s", self.name, ", ".join(map(str, missed[:3])))
                return

    async def _missed(self) -> Sequence[ObjectKey]:
        try:
            return await self._comparison.missed(self.seen)
        except ApiError as error:
            _log.debug("the cache of %s cannot be compared: %s", self.name, error)
            return ()

    def seen(self) -> Iterator[HasMetadata]:
        """Every object in the version that the watch has shown last."""
        yield from (obj for obj in self.store.all() if obj.key not in self._unreadable)
        yield from self._unreadable.values()

    def take(self, change: Change[T]) -> None:
        """Apply one change to the store and call the handlers: the synchronous heart of `run`."""
        deque(self._steps(change), maxlen=0)

    def _note_restart(self, _: str) -> None:
        if not self._is_closed:
            self._metrics.watch_restarted(self.name)

    def _steps(self, change: Change[T]) -> Generator[None]:
        """Take over a change, step by step."""
        if self._is_closed:
            return
        match change:
            case Synced(objects=objects, resource_version=version, unreadable=unreadable):
                yield from self._replace({obj.key: obj for obj in objects}, version, unreadable)
            case Changed(obj=obj):
                self._put(obj)
            case Removed(obj=obj):
                self._remove(obj)
            case Odd(obj=odd):
                if self._is_news(odd):
                    self._forget_refused(odd.key)
                    self._put_unreadable(odd)
            case Bookmark(resource_version=version):
                self._progress.advance(version_number(version))
            case WatchSuspended() as parked:
                is_end, is_refusal = self.is_ending and parked.is_not_served, parked.is_forbidden
                self._park(parked, expected=is_end or (self.is_refusal_expected and is_refusal))

    @property
    def has_synced(self) -> bool:
        """Whether the store has held the whole list once, and the kind is served now."""
        return self._synced and self._parked is None

    @property
    def is_filled(self) -> bool:
        """Whether the store has held the whole list once. What it holds may be outdated where the watch is parked."""
        return self._synced

    @property
    def shows_all(self) -> bool:
        """Whether the store has held the whole list once, or holds it by being empty: the kind is not served."""
        return self._synced or (self._parked is not None and self._parked.is_not_served)

    @property
    def parked(self) -> WatchSuspended | None:
        """Why there is no watch at the moment: the kind is not served, or we may not watch it. None while there is."""
        return self._parked

    @property
    def is_forbidden(self) -> bool:
        """Whether we may not look there: what the store does not hold may be there all the same."""
        return self.parked is not None and self.parked.is_forbidden

    @property
    def is_outdated(self) -> bool:
        """Whether the store shows what there was when the right to watch was taken away, or when this version of the
        kind was served last: the objects may be gone, or be watched in another version."""
        return self.parked is not None and (self.parked.is_forbidden or self.parked.is_not_served)

    async def wait_synced(self) -> None:
        """Return when the store holds the whole list; waits as long as the kind is parked."""
        await self._full.wait()

    async def wait_complete(self) -> None:
        """Return when the store shows all objects, or when the informer is closed."""
        await self._complete.wait()

    async def wait_settled(self) -> None:
        """Return when the store is full, or when it is known why it cannot be: enough for an operator to start."""
        await self._settled.wait()

    def suspend(self, why: str, *, is_empty: bool = False) -> None:
        """Watch nothing until `resume`, and forget all objects: the definition of the kind has been deleted.

        `why` is a sentence. Nothing is asked of the API server, which may list the kind for seconds. `is_empty`: this
        counts as a list without objects.
        """
        self._is_gone_empty = is_empty
        self._gone = WatchSuspended(why, is_not_served=True)
        self._resumed.clear()
        self._suspended.set()

    def resume(self) -> None:
        """End a suspension, and try a parked watch at once: the definition of the kind is established."""
        self._gone = None
        self._suspended.clear()
        self._resumed.set()
        self.wake()

    def wake(self) -> None:
        """Try a parked watch at once: the kind may be served now. A suspended one stays suspended."""
        self._watcher.wake()

    def list_again(self) -> None:
        """Replace all that the store holds by a new list, as soon as possible."""
        self._outdated.set()

    def stale_seconds(self) -> float:
        """The seconds since the last message of the server."""
        return max(0.0, self._clock.monotonic() - self._watcher.last_contact)

    def silent_seconds(self) -> float:
        """The seconds since the last message of the server, counting a refusal that is about this kind."""
        return max(0.0, self._clock.monotonic() - self._watcher.last_answer)

    def _watch_age_seconds(self) -> float | None:
        """As `stale_seconds`; None while there is no watch because the kind, or a right, is missing."""
        return None if self.parked is not None else self.stale_seconds()

    def expect(self, key: ObjectKey, resource_version: str) -> None:
        """Note an own write: a controller does not look at the key again before the cache shows it.

        Inside a pass the note also holds back the key of that pass, whatever object was written: not where the cache
        is outdated and of another kind, because no watch may ever show the write.
        """
        write = self._progress.expect(key, version_number(resource_version))
        notes = _notes.get()
        if notes is None:
            return
        is_primary = notes.primary.part(key.namespace) is self
        if is_primary:
            notes.versions[key] = resource_version
        if write is not None and (is_primary or not self.is_outdated):
            notes.writes.append(write)

    def expect_end(self, obj: HasMetadata) -> None:
        """Note that an own write was the end of this object. As `expect`."""
        known, notes = self.store.get(obj.key), _notes.get()
        if known is None or known.metadata.uid != obj.metadata.uid:
            return
        end = self._progress.expect_end(obj.key, obj.metadata.uid)
        if notes is not None:
            notes.writes.append(end)

    def expected(self, key: ObjectKey) -> OwnChange | None:
        """The write to this key that the cache does not show yet, or None."""
        return self._progress.expected(key)

    def expect_nothing(self) -> None:
        """No key is held back any more by an own write: no watch will show it."""
        self._progress.give_up()

    async def wait_for(self, key: ObjectKey, resource_version: str, timeout: float) -> None:
        """Return when the cache shows at least this version. Raises TimeoutError after `timeout` seconds."""
        try:
            async with asyncio.timeout(timeout):
                await self._progress.reach(version_number(resource_version))
        except TimeoutError:
            raise TimeoutError(f"the cache of {self.name} does not show {key} at {resource_version} yet") from None

    def _replace(self, objects: dict[ObjectKey, T], version: str, unreadable: Iterable[Unreadable]) -> Iterator[None]:
        reached = version_number(version)
        runs_back = reached > 0 and not self._progress.is_at_most(reached)
        if runs_back or (yield from self._any_is_older(objects)):
            self.history.set_back(self, self.name)
            self._progress.give_up()
            self._removed.clear()  # they may be there again
        odd = {obj.key: obj for obj in unreadable}
        for obj in odd.values():
            known = self.store.get(obj.key)
            if known is not None and _is_same(obj, known):
                objects[obj.key] = known
        present: tuple[HasMetadata, ...] = (*objects.values(), *odd.values())
        for each in present:
            self._removed.pop(each.metadata.uid, None)  # it is here, also where a restore went unnoticed
            yield
        before = yield from self.store.replacing(objects)
        was_parked = self._parked is not None
        is_first, self._synced, self._parked = not self._synced, True, None
        readable = self._unreadable.keys() - odd.keys()
        for key in readable:
            former, listed = self._unreadable.pop(key), objects.get(key)
            if listed is None or not _is_same(former, listed):
                self._note_removed(former, reached)
        self._progress.restart(reached)
        self.history.caught_up(self)
        self._listed.clear()  # the store has them now
        for key in [*self._refused]:
            self._forget_refused(key)
        for key in self._listed_refused.keys() & odd.keys():
            self._note_refused(key, self._listed_refused[key])
        self._listed_refused.clear()
        self._give_back(obj for key, obj in before.items() if objects.get(key) is not obj)
        for delta in _differences(before, objects, is_first=is_first):
            if delta.new is None:
                self._note_removed(delta.latest, reached)
            self._notify(delta)
            yield
        for key in readable:
            self._tell_readable(key)
            yield
        for obj in odd.values():
            self._put_unreadable(obj)
            yield
        self._full.set()
        self._complete.set()
        self._settled.set()
        self._tell_state()
        if was_parked and self._gone is None:  # otherwise the store was emptied, because the kind is gone
            for handler in self._served_handlers:
                handler()
        if self._is_broken:
            self._is_broken = False
            self._on_repair()

    def _any_is_older(self, objects: Mapping[ObjectKey, T]) -> Generator[None, None, bool]:
        """Whether a list shows an object as it was before the version that is shown here.

        A restored etcd may count on from far ahead, so that the version of the list does not show the restore.
        """
        for key, obj in objects.items():
            known = self.store.get(key)
            if known is not None and _is_same(obj, known) and _is_older(obj, known):
                return True
            yield
        return False

    def _is_news(self, obj: HasMetadata) -> bool:
        """Whether an event about an object is new, and neither repeated nor late. The cache has come so far then.

        What is not here, under its uid, is new unless it was here and is gone. Its version is not compared with those
        of other objects: an aggregated API server may count for each object.
        """
        version = version_number(obj.metadata.resource_version)
        same = [version_number(each.metadata.resource_version) for each in self._shown(obj)]
        is_news = version == 0 or version > max([*same, self._removed.get(obj.metadata.uid, 0)])
        self._progress.advance(version)
        return is_news

    def _shown(self, obj: HasMetadata) -> Sequence[HasMetadata]:
        """The versions of this very object that are here: readable, unreadable, or one of each."""
        here = (self.store.get(obj.key), self._unreadable.get(obj.key))
        return [each for each in here if each is not None and _is_same(obj, each)]

    def _put(self, obj: T) -> None:
        if self._is_news(obj):
            self._put_news(obj)

    def _put_news(self, obj: T) -> None:
        known = self._without_former(obj)
        if not self._fits(obj, known):
            self._put_unreadable(self._budget.refusal(self.view.resource, obj))
            return
        was_unreadable = self._unreadable.pop(obj.key, None) is not None
        self._forget_refused(obj.key)
        self.store.put(obj)
        self._notify(Delta(known, obj))
        if was_unreadable:
            self._tell_readable(obj.key)

    def _without_former(self, obj: HasMetadata) -> T | None:
        """The object as it is here, after another one of its name has gone."""
        known = self.store.get(obj.key)
        if known is not None and not _is_same(obj, known):
            self._drop(known)
            self._note_removed(known, math.inf)  # another object has its name
            self._notify(Delta(known, None))
            return None
        return known

    def _note_removed(self, obj: HasMetadata, until: float) -> None:
        self._removed[obj.metadata.uid] = max(until, self._removed.get(obj.metadata.uid, 0))
        self._removed.move_to_end(obj.metadata.uid)
        if len(self._removed) > MOST_REMOVED:
            self._removed.popitem(last=False)

    # ---- the memory that objects take

    def begin(self) -> None:
        """A list begins; see `kube.client.reads.Admission`."""
        for namespace, size in self._listed.items():
            self._budget.add(namespace, -size)
        self._listed.clear()
        self._listed_refused.clear()

    def admit(self, obj: HasMetadata) -> HasMetadata:
        """What a list keeps of an object: the one that is here if it is the same, or its metadata if it does not fit.

        What is here and what is listed are in memory together until the list replaces the store, and both count.
        """
        known = self.store.get(obj.key)
        if known is not None and _is_same(obj, known) and _has_same_version(obj, known):
            return known
        size, namespace = weight(obj), obj.metadata.namespace
        if not self._charge(namespace, size):
            self._listed_refused[obj.key] = size
            return self._budget.refusal(self.view.resource, obj)
        self._listed[namespace] += size
        return obj

    def _fits(self, obj: T, known: T | None) -> bool:
        """Count an object in place of the version that is here. Returns whether there is room."""
        if self._budget.most_bytes is None:
            return True
        size, former = weight(obj), weight(known) if known is not None else 0
        if self._charge(obj.metadata.namespace, size, former):
            return True
        self._note_refused(obj.key, size)
        return False

    def _charge(self, namespace: str, size: int, former: int = 0) -> bool:
        """Count an object if it fits. Metadata that were asked for alone are as small as what is kept without room."""
        if self.view.metadata_only and size <= _SMALL_METADATA:
            self._budget.add(namespace, size - former)
            return True
        return self._budget.charge(namespace, size, former=former)

    def _drop(self, obj: T) -> None:
        self.store.remove(obj.key)
        self._give_back((obj,))

    def _give_back(self, objects: Iterable[HasMetadata]) -> None:
        if self._budget.most_bytes is not None:
            for obj in objects:
                self._budget.add(obj.metadata.namespace, -weight(obj))

    def _give_back_all(self) -> None:
        self.begin()
        self._give_back(self.store.all())
        self._budget.wait_no_more(self._room.set)

    def _note_refused(self, key: ObjectKey, size: int) -> None:
        self._refused[key] = size
        self._budget.wait(self._room.set)

    def _forget_refused(self, key: ObjectKey) -> None:
        if self._refused.pop(key, None) is not None and not self._refused:
            self._budget.wait_no_more(self._room.set)

    async def _read_what_fits(self) -> None:
        """Read the objects for which there was no room, as soon as there is."""
        while True:
            await self._room.wait()
            self._room.clear()
            try:
                for key, size in [*self._refused.items()]:
                    if key in self._refused and self._budget.has_room(key.namespace, size):
                        await self._read(key)
            except ApiError as error:
                _log.info("objects of %s cannot be read although there is room for them: %s", self.name, error)
                self._room.set()
                await self._clock.sleep(_READ_LATER_SECONDS)
            await self._clock.sleep(_READ_AGAIN_SECONDS)

    async def _read(self, key: ObjectKey) -> None:
        obj, refused = await self._client.find(self.view, key.name, key.namespace), self._unreadable.get(key)
        if obj is None or refused is None or key not in self._refused:
            return  # the watch reports what became of it
        if _is_same(obj, refused) and not _is_older(obj, refused):
            self._put_news(obj)

    def _put_unreadable(self, obj: Unreadable) -> None:
        before = self._unreadable.get(obj.key)
        self._without_former(obj)
        self._unreadable[obj.key] = obj
        if before is not None and before.metadata.resource_version == obj.metadata.resource_version:
            return
        self._metrics.unreadable(self.name)
        # A tenant may change it as often as it likes: the same again is not worth another line.
        self._complaints.report(obj, is_news=before is None or before.why != obj.why)
        for handler in self._unreadable_handlers:
            self._call_unreadable(handler, obj.key, obj)

    def _tell_readable(self, key: ObjectKey) -> None:
        """The object can be decoded again, or is gone."""
        for handler in self._unreadable_handlers:
            self._call_unreadable(handler, key, None)

    def _remove(self, obj: T | Unreadable) -> None:
        version = version_number(obj.metadata.resource_version)
        self._progress.advance(version)
        if any(_is_older(obj, each) for each in self._shown(obj)):
            return  # it has left a selection, and come back
        known, odd = self.store.get(obj.key), self._unreadable.get(obj.key)
        self._note_removed(obj, version)  # also when it was never here: events about it may still come
        was_unreadable = odd is not None and _is_same(obj, odd)
        if was_unreadable:
            del self._unreadable[obj.key]
            self._forget_refused(obj.key)
        # A late goodbye to an object whose successor is here already is not the successor's.
        if known is not None and _is_same(obj, known):
            self._drop(known)
            self._notify(Delta(known, None))
        if was_unreadable:
            self._tell_readable(obj.key)

    def _park(self, parked: WatchSuspended, *, expected: bool = False) -> None:
        is_news = self._parked is None
        if is_news:
            level = logging.INFO if expected else logging.WARNING
            _log.log(level, "the watch of %s is parked: %s", self.name, parked.why)
        self._parked = parked
        if parked.is_not_served:
            self.history.caught_up(self)
        if self.shows_all:
            self._complete.set()
        else:
            self._complete.clear()  # a kind that was absent is served now, and not listed yet
        self._settled.set()
        if is_news and self._synced:
            for handler in self._parked_handlers:
                handler()
        self._tell_state()

    def _tell_state(self) -> None:
        state = (self.shows_all, self._parked)
        if state != self._told_state:
            self._told_state = state
            for handler in self._state_handlers:
                handler()

    def _notify(self, delta: Delta[T]) -> None:
        if delta.old is not None and delta.new is None:
            self._progress.ended(delta.key, delta.old.metadata.uid)
        for handler in self._handlers:
            self._call(handler, delta)

    def _call(self, handler: Handler[T], delta: Delta[T]) -> None:
        try:
            handler(delta)
        except BaseException as raised:
            self._on_failure(delta.key, surprise(raised))

    def _call_unreadable(self, handler: UnreadableHandler, key: ObjectKey, obj: Unreadable | None) -> None:
        try:
            handler(key, obj)
        except BaseException as raised:
            self._on_failure(key, surprise(raised))

    def _on_failure(self, key: ObjectKey, error: Exception) -> None:
        self.handler_failures += 1
        self._metrics.task_failed("handler")
        _log.error("a handler of %s failed on %s", self.name, key, exc_info=error, extra=logs.STACK)


class _Complaints:
    """Log lines about objects that cannot be decoded: the first ones by name, of many more their number.

    A tenant may store ten thousand of them, and change them all the time.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name = name
        self._clock = clock
        self._since = float("-inf")
        self._count = 0

    def report(self, obj: Unreadable, *, is_news: bool) -> None:
        """Log that this object cannot be decoded. What is no news is for debugging."""
        now = self._clock.monotonic()
        if now - self._since >= COMPLAINTS_SECONDS:
            self._since, self._count = now, 0
        self._count += is_news
        level = logging.WARNING if is_news and self._count <= MOST_COMPLAINTS else logging.DEBUG
        _log.log(level, "%s; it is skipped, and its last readable version is kept", obj)
        if is_news and self._count > MOST_COMPLAINTS and _is_round(self._count):
            _log.warning("%s: %d times in 10 minutes, an object could not be read", self._name, self._count)


def _is_round(number: int) -> bool:
    """Whether it is 10, 20, 50, 100, 200, 500 and so on."""
    return number % 10 == 0 and str(number).rstrip("0") in ("1", "2", "5")


@contextmanager
def noting_own_writes(primary: Informer[T]) -> Iterator[list[OwnChange]]:
    """A pass on an object of `primary`: collect what is expected of any informer, also by tasks started inside."""
    notes = _Notes(primary)
    token = _notes.set(notes)
    try:
        yield notes.writes
    finally:
        _notes.reset(token)


def wrote_own_object(obj: HasMetadata) -> None:
    """The pass under way has changed the object that it is about; outside of a pass this has no effect.

    An object that is being deleted and has no finalizer is gone.
    """
    notes = _notes.get()
    if notes is None or notes.primary.view.shape is not type(obj):
        return
    if obj.metadata.is_terminating and not obj.metadata.finalizers:
        notes.primary.expect_end(obj)
    else:
        notes.primary.expect(obj.key, obj.metadata.resource_version)


def own_version(key: ObjectKey) -> str:
    """The resourceVersion of the last write of the pass under way to this object of its kind; empty without one."""
    notes = _notes.get()
    return notes.versions.get(key, "") if notes is not None else ""


class _Notes:
    """What a pass has written so far."""

    def __init__(self, primary: Informer[T]) -> None:
        self.primary = primary
        self.writes: list[OwnChange] = []
        self.versions: dict[ObjectKey, str] = {}
        """Of objects of the primary kind, also where its cache shows them already."""


_notes: ContextVar[_Notes | None] = ContextVar("own writes of the current pass", default=None)


def _differences(before: Mapping[ObjectKey, T], after: Mapping[ObjectKey, T], *, is_first: bool) -> Iterator[Delta[T]]:
    """What a re-list found: departures first, then arrivals and changes."""
    for key, old in before.items():
        new = after.get(key)
        if new is None or new.metadata.uid != old.metadata.uid:
            yield Delta(old, None, is_replay=True)
    for key, new in after.items():
        known = before.get(key)
        if known is None or known.metadata.uid != new.metadata.uid:
            yield Delta(None, new, is_replay=True, is_first=is_first)
        elif known.metadata.resource_version != new.metadata.resource_version:
            yield Delta(known, new, is_replay=True)


def _is_same(obj: HasMetadata, known: HasMetadata) -> bool:
    """Whether it is that object, and not another one of the same name."""
    return obj.metadata.uid == known.metadata.uid


def _has_same_version(obj: HasMetadata, known: HasMetadata) -> bool:
    return obj.metadata.resource_version == known.metadata.resource_version


def _is_older(obj: HasMetadata, known: HasMetadata) -> bool:
    """Whether it is known to be an older version of an object."""
    return 0 < version_number(obj.metadata.resource_version) < version_number(known.metadata.resource_version)


def selection_name(resource: str, namespace: str, labels: str, fields: str) -> str:
    """How logs and metrics name a cache of these objects."""
    limits = [part for part in (f"in {namespace}" if namespace else "", labels, fields) if part]
    return f"{resource} ({', '.join(limits)})" if limits else resource
