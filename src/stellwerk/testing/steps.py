"""What holds for each kind that decides by steps, in worlds of plain values: without a cluster, by the thousand.

A world is an object and what is around it, here and in another cluster. `World.rehearsed` is a pass without an effect;
`World.passed` leaves in the world what the API servers would have after the pass, or after its death behind one of its
effects. `Watched` is a world in the caches of a process: it counts the passes that a change asks for.

    world = a_world(random.Random(7))
    assert_rests(world)
    assert_crashes_converge(world, random.Random(7))
    assert_waits_wake(world)
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar, cast

import msgspec

from stellwerk.api.apiextensions import CustomResourceDefinition
from stellwerk.kube.client.client import Client
from stellwerk.kube.login.config import ClusterConfig
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import JsonObject, Kind, Unreadable, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta, Record
from stellwerk.kube.watch.watch_states import Change, Odd, Removed, Synced
from stellwerk.runtime.cache.informer import Informer
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.control.executor import Course, Deciding, InformerSources, Logic, Maker, next_step, rehearse
from stellwerk.runtime.control.step import Apply, Delete, Released, Step, Write
from stellwerk.runtime.process.manager import Manager
from stellwerk.runtime.reading.loads import Load, LoadSource, PlainLoads, ServedKind
from stellwerk.runtime.reading.questions import Collection, Lookup, PlainSource, Question, Source
from stellwerk.runtime.reading.view import Clusters, NoClusters, Overlay, PlainClusters, PlainSources, View, whole
from stellwerk.testing.clock import FakeClock

K = TypeVar("K", bound=Kind)
S = TypeVar("S", bound=Record)

MOST_PASSES = 20
"""Within so many passes each world rests."""
MOST_CRASHES = 3
"""At so many places of a pass a process dies, in a world of its own each."""
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(kw_only=True)
class World(Generic[K, S]):
    """An object of a kind that decides by steps, and what is around it."""

    logic: Logic[K, S]
    obj: K
    objects: dict[Collection[Any], list[Any]] = field(default_factory=dict)
    """Without the object itself, which each view shows."""
    there: dict[Collection[Any], list[Any]] = field(default_factory=dict)
    """The objects of the other cluster, if it has one: their collections are none of those here."""
    login: Kubeconfig | None = None
    """What opens the other cluster."""
    trouble: str = ""
    """Why the other cluster is of no use."""
    hidden: dict[Collection[Any], list[Unreadable]] = field(default_factory=dict)
    """Objects that cannot be read, of both clusters."""
    settings: tuple[object, ...] = ()
    loads: LoadSource = field(default_factory=PlainLoads)
    clock: FakeClock = field(default_factory=lambda: FakeClock(NOW))
    is_released: bool = False
    """Whether the finalizer of the object is removed."""
    made: int = 0
    """How many objects have got a uid here."""
    ends_at_once: bool = False
    """Whether an object that is deleted and has no finalizer is gone; otherwise it stays as one that leaves."""
    split: Callable[[Write], Iterable[Write]] = lambda write: (write,)
    """The parts of a write of many objects, between which a process may die."""

    def all_of(self, collection: Collection[Any]) -> Sequence[Any]:
        """The objects of a collection."""
        around = [*self.objects.get(collection, ()), *self.there.get(collection, ())]
        if collection is not self.logic.collection:
            return [*around]
        return [*(each for each in around if each.key != self.obj.key), self.obj]

    def sources(self) -> PlainSources:
        """What a view reads."""
        return self._sources(collection for collection in self.declared if collection not in self.there)

    @property
    def declared(self) -> Sequence[Collection[Any]]:
        """The collections of both clusters that have objects."""
        return [*{**self.objects, **self.there, **self.hidden, self.logic.collection: None}]

    def _sources(self, collections: Iterable[Collection[Any]], trouble: str = "") -> PlainSources:
        found = PlainSources(trouble)
        for collection in collections:
            found.add(collection, PlainSource(self.all_of(collection), self.hidden.get(collection, ())))
        return found

    def _clusters(self) -> Clusters:
        if self.login is None:
            return NoClusters()
        return PlainClusters({self.login: self._sources(self.there, self.trouble)})

    def view(self, overlay: Overlay | None = None) -> View:
        """What a step of the object sees."""
        return View(
            sources=self.sources(),
            now=self.clock.now(),
            settings=self.settings,
            overlay=overlay or Overlay(),
            loads=self.loads,
            clusters=self._clusters(),
        )

    def rehearsed(self) -> Course[S]:
        """What a pass would do. Raises Uncovered."""
        return rehearse(self.logic, self.obj, self.view)

    def passed(self, effects: int | None = None) -> Course[S]:
        """A pass, of which the API server has the first so many effects: each write is one, and each status that is
        saved, which is before a later step writes and at the end."""
        course, done = self.rehearsed(), 0
        draft: Record | None = None

        def save() -> bool:
            """Whether the process is still alive."""
            nonlocal done, draft
            if draft is not None:
                if done == effects:
                    return False
                self.obj = _with_status(self.obj, draft)
                draft, done = None, done + 1
            return True

        for step in course.steps:
            if step.failure is not None:
                draft = course.status if course.status != _status(self.obj) else None
                break
            if step.writes and not save():
                return course
            for part in self.parts(step):
                if done == effects:
                    return course
                self._do(part)
                done += 1
            if step.status is not None and step.status != (draft or _status(self.obj)):
                draft = step.status
        if not self.is_released:
            save()
        return course

    def parts(self, step: Step[S]) -> Sequence[Write]:
        """The writes of a step, each of one object if possible."""
        return [part for write in step.writes for part in self.split(write)]

    def settled(self) -> Sequence[Step[S]]:
        """Passes until one changes nothing, and their steps. Raises AssertionError: the object does not rest."""
        steps: list[Step[S]] = []
        for _ in range(MOST_PASSES):
            before = self.shown()
            steps += self.passed().steps
            if self.is_released or self.shown() == before:
                return steps
        raise AssertionError(f"{self.obj.ref} does not rest in {MOST_PASSES} passes")

    def shown(self) -> Mapping[str, object]:
        """All objects, without what the API server makes up."""
        found: dict[str, object] = {"the object": None if self.is_released else _plain(self.obj)}
        for collection in (*self.objects, *self.there):
            for each in self.all_of(collection):
                where = " there" if collection in self.there else ""
                found[f"{collection.resource.kind} {each.key}{where}"] = _plain(each)
        return found

    def copied(self) -> World[K, S]:
        """The same world, which may become another one."""
        other = copy.copy(self)
        other.objects = {each: [*found] for each, found in self.objects.items()}
        other.there = {each: [*found] for each, found in self.there.items()}
        return other

    def _do(self, write: Any) -> None:
        """Have an object be as a write leaves it."""
        if isinstance(write, Apply | Delete):  # what was seen of it may be a part, or nothing
            kind = write.collection.resource.kind
            live = (each for each in self.all_of(write.collection) if f"{kind} {each.key}" == write.about)
            write = replace(write, seen=next(live, write.seen))
        overlay = Overlay()
        try:
            write.rehearse(overlay, self.clock.now())
        except Released:
            self.is_released = True
            return
        for objects, written in ((self.objects, overlay), *((self.there, each) for each in overlay.clusters.values())):
            for collection in written.answers:
                for key, found in written.of(collection).items():
                    self._put(objects, collection, key, found)

    def _put(
        self, objects: dict[Collection[Any], list[Any]], collection: Collection[Any], key: ObjectKey, found: Any
    ) -> None:
        is_gone = found is None or (self.ends_at_once and _is_over(found.metadata))
        if collection is self.logic.collection and key == self.obj.key:
            self.obj = _with_status(found, _status(self.obj))
            self.is_released = is_gone
            return
        kept = [each for each in objects.get(collection, ()) if each.key != key]
        objects[collection] = kept if is_gone else [*kept, self._stored(found)]

    def _stored(self, obj: Any) -> Any:
        """The object as a watch delivers it."""
        if not isinstance(obj, Unstructured):
            obj = msgspec.json.decode(msgspec.json.encode(obj), type=type(obj))
        elif obj.body.get("kind") == CustomResourceDefinition.resource.kind:
            established: JsonObject = {"type": "Established", "status": "True"}
            served: JsonObject = {"conditions": [established]}
            obj = Unstructured({**obj.body, "status": served}, obj.metadata)
        if obj.metadata.uid:
            return obj
        self.made += 1
        metadata = msgspec.structs.replace(
            obj.metadata, uid=f"made-{self.made}", resource_version=str(1000 + self.made)
        )
        return _with_metadata(obj, metadata)


def _is_over(metadata: ObjectMeta) -> bool:
    return metadata.is_terminating and not metadata.finalizers


def _with_metadata(obj: Any, metadata: ObjectMeta) -> Any:
    if isinstance(obj, Unstructured):
        return Unstructured(obj.body, metadata)
    return msgspec.structs.replace(obj, metadata=metadata)


def _status(obj: Any) -> Record | None:
    """None: the kind has none."""
    return cast("Record | None", getattr(obj, "status", None))


def _with_status(obj: Any, status: Record | None) -> Any:
    return obj if status is None else msgspec.structs.replace(obj, status=status)


_MADE_UP = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "managedFields")


def _plain(obj: Any) -> object:
    body = {**obj.body, "metadata": msgspec.to_builtins(obj.metadata)} if isinstance(obj, Unstructured) else obj
    plain: Any = msgspec.to_builtins(body)
    metadata = {name: value for name, value in plain["metadata"].items() if name not in _MADE_UP}
    metadata["leaves"] = obj.metadata.is_terminating
    return _lasting({**plain, "metadata": metadata})


def _lasting(value: object) -> object:
    """Without times, and without the words of conditions, which show how an object came to where it is."""
    if isinstance(value, dict):
        is_condition = "type" in value and "status" in value
        left_out = ("reason", "message") if is_condition else ()
        kept = {name: each for name, each in value.items() if not name.lower().endswith("time")}
        return {name: _lasting(each) for name, each in kept.items() if name not in left_out}
    return [_lasting(each) for each in value] if isinstance(value, list | tuple) else value


# ---- caches


@dataclass(slots=True)
class HandFed(Maker):
    """Makes caches that show what a test gives them."""

    manager: Manager = field(
        default_factory=lambda: Manager(Client.connect(ClusterConfig(server="https://127.0.0.1:1")))
    )

    def informer(self, target: Any, *, labels: str = "", fields: str = "", optional: bool = False) -> Informer[Any]:
        """As `Maker.informer`."""
        return self.manager.informer(target, labels=labels, fields=fields, optional=optional)


class OtherCaches:
    """Caches of another cluster that show what a test gives them."""

    def __init__(self, declared: Sequence[Collection[Any]], trouble: str = "") -> None:
        self.declared = declared
        self.sources = InformerSources(HandFed(), declared)
        self.state = Question(self)
        self.trouble = trouble

    def of(self, collection: Collection[Any]) -> Source[Any]:
        """As `Sources.of`. What was not given has no objects."""
        return self.sources.of(collection) if collection in self.declared else PlainSource()

    def kind(self, gvk: GroupVersionKind, *, any_version: bool = False) -> Load[Resource]:
        """As `OtherSources.kind`."""
        return ServedKind("", gvk, any_version=any_version)

    def become(self, trouble: str) -> None:
        """Have the cluster be of no use, or of use again (an empty text)."""
        self.trouble = trouble
        self.sources.wakes.wake(self.state)

    def drop(self, question: Question) -> None:
        """As `Answering.drop`: there is nothing to do."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Noting(Deciding[K, S]):
    """Notes for which objects a pass is asked for."""

    woken: list[str] = field(default_factory=list)
    others_by_login: Mapping[Kubeconfig, OtherCaches] = field(default_factory=dict)

    def view(self, key: ObjectKey, overlay: Overlay) -> View:
        """As `Deciding.view`."""
        return replace(Deciding.view(self, key, overlay), clusters=PlainClusters(self.others_by_login))

    def wake(self, key: ObjectKey, after_seconds: float = 0.0) -> None:
        """As `Deciding.wake`."""
        self.woken.append(key.name)


class Watched(Generic[K, S]):
    """Objects of a kind that a process decides about by its caches. Notes the keys for which a pass is asked for."""

    def __init__(
        self,
        logic: Logic[K, S],
        sources: InformerSources,
        *,
        settings: tuple[object, ...] = (),
        loads: LoadSource | None = None,
        clock: FakeClock | None = None,
        others: Mapping[Kubeconfig, OtherCaches] | None = None,
    ) -> None:
        self.sources = sources
        self.others = others or {}
        self.deciding: _Noting[K, S] = _Noting(
            logic=logic,
            sources=sources,
            client=cast("Any", None),
            clock=clock or FakeClock(NOW),
            settings=settings,
            loads=loads or PlainLoads(),
            others_by_login=self.others,
        )

    @property
    def woken(self) -> list[str]:
        """The names of the objects for which a pass was asked for since the last decision."""
        return self.deciding.woken

    @staticmethod
    def of(world: World[K, S]) -> Watched[K, S]:
        """A process whose caches show a world, and that has decided about its object."""
        declared = world.declared
        sources = InformerSources(HandFed(), [each for each in declared if each not in world.there])
        others = {world.login: OtherCaches([*world.there], world.trouble)} if world.login is not None else {}
        watched = Watched(
            world.logic, sources, settings=world.settings, loads=world.loads, clock=world.clock, others=others
        )
        for collection in declared:
            watched.take(collection, Synced(tuple(world.all_of(collection)), "1"))
            for each in world.hidden.get(collection, ()):
                watched.take(collection, Odd(each))
        watched.decide(world.obj)
        return watched

    def take(self, collection: Collection[Any], change: Change[Any]) -> None:
        """Have the cache of a collection see a change."""
        others = (each.sources for each in self.others.values() if collection in each.declared)
        next(others, self.sources).informer(collection).take(change)

    def decide(self, *objects: K) -> Sequence[Step[S]]:
        """The first step of a pass on each object. What it asks for wakes the object from now on."""
        steps = [self.deciding.step(each, Overlay())[0] for each in objects]
        self.woken.clear()
        return steps

    def passes_after(self, collection: Collection[Any], change: Change[Any]) -> list[str]:
        """The names of the objects for which a change asks for a pass."""
        self.woken.clear()
        self.take(collection, change)
        return sorted(self.woken)


# ---- properties


def assert_rests(world: World[Any, Any]) -> None:
    """A world that rests is left alone: another pass has no write, no Event, and the same status."""
    world = world.copied()
    world.settled()
    if world.is_released:
        return
    again, before = world.rehearsed(), _status(world.obj)
    assert not again.writes, f"{world.obj.ref} is written to again: {[each.about for each in again.writes]}"
    assert again.status == before, f"{world.obj.ref} has another status with its own status"
    news = [each for step in again.steps if step.failure is None for each in step.events]
    assert not news, f"{world.obj.ref} sends Events without a change: {news}"


def assert_crashes_converge(world: World[Any, Any], some: random.Random) -> None:
    """Wherever a process dies in its first pass, the next one comes to the same end. Tries `MOST_CRASHES` places."""
    whole = world.copied()
    effects = effects_of(whole, whole.passed())
    whole.settled()
    for count in some.sample(range(effects), min(effects, MOST_CRASHES)):
        cut = world.copied()
        cut.passed(count)
        cut.settled()
        found, expected = cut.shown(), whole.shown()
        other = sorted(each for each in {**found, **expected} if found.get(each) != expected.get(each))
        named = "; ".join(f"{each}: {found.get(each)}, not {expected.get(each)}" for each in other)
        assert not other, f"{world.obj.ref} ends otherwise after a crash behind {count} effects: {named}"


def assert_aspects_have_no_version(world: World[Any, Any]) -> None:
    """An object that is as before but for its resourceVersion answers each question as before: it wakes no object."""
    view = world.view()
    next_step(world.logic, world.obj, view)
    for question in view.asked:
        if not isinstance(question, Lookup) or question.aspect in (None, whole):
            continue
        for each in world.all_of(question.index.collection):
            answer = question.aspect(each)
            if answer == each.metadata.resource_version:  # which is what was asked for
                continue
            other = _with_metadata(each, msgspec.structs.replace(each.metadata, resource_version="another"))
            assert question.aspect(other) == answer, f"{question.aspect} has the version of {each.key}"


def effects_of(world: World[Any, Any], course: Course[Any]) -> int:
    """How many effects a pass has at most."""
    return sum(len(world.parts(step)) + (step.status is not None) for step in course.steps)


def assert_waits_wake(world: World[Any, Any]) -> int:
    """What a world at rest waits for is asked for: if it changes, exactly one pass follows. Returns how many waits."""
    world = world.copied()
    world.settled()
    if world.is_released:
        return 0
    awaited = {wait.on for step in world.rehearsed().steps[-1:] for wait in step.waits if isinstance(wait.on, tuple)}
    for collection, key in awaited:
        watched = Watched.of(world)
        present = next((each for each in world.all_of(collection) if each.key == key), None)
        hidden = next((each for each in world.hidden.get(collection, ()) if each.key == key), None)
        gone = present or hidden
        if gone is not None:
            woken = watched.passes_after(collection, Removed(gone))
        else:
            came = Unreadable(
                collection.resource, ObjectMeta(name=key.name, namespace=key.namespace, uid="came"), "odd"
            )
            woken = watched.passes_after(collection, Odd(came))
        assert woken == [world.obj.metadata.name], f"{world.obj.ref} waits for {key}, whose change asks for {woken}"
    return len(awaited)
