"""What a pass may ask. Each question wakes the object when its answer changes; nothing else does.

An answer is the aspect that was asked for, not the object: a pass cannot see what it did not ask for, so it cannot
depend on what does not wake it. Within a view the same question has the same answer. What the pass itself has written
is laid over the sources (`Overlay`). `on` asks the same questions about another cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar, cast, overload

import msgspec

from stellwerk.kube.client import discovery
from stellwerk.kube.types.identifiers import GroupVersionKind, ObjectKey, Resource
from stellwerk.kube.types.model import HasMetadata, Kind
from stellwerk.kube.types.object_meta import Record
from stellwerk.runtime.cache.remote_clusters import Kubeconfig
from stellwerk.runtime.reading.known import ABSENT, Known, Listing, NotKnown, Present, Unknown
from stellwerk.runtime.reading.loads import Confidential, Load, LoadSource, PlainLoads, ServedKind
from stellwerk.runtime.reading.questions import Collection, Index, PlainSource, Question, Source

T = TypeVar("T", bound=HasMetadata)
K = TypeVar("K", bound=Kind)
A = TypeVar("A")

REOPENED_AFTER = timedelta(seconds=60)
"""When a cluster that could not be opened is tried again."""


def whole(obj: T) -> T:
    """The aspect that is all of an object. Ask for it only if the object is written: each change of it wakes."""
    return obj


def exists(_: HasMetadata) -> bool:
    """The aspect that is the presence of an object alone."""
    return True


def with_status(obj: K, status: Record) -> K:
    """An aspect: the object with this of its status, and without its resourceVersion, which every change replaces."""
    metadata = msgspec.structs.replace(obj.metadata, resource_version="")
    return msgspec.structs.replace(obj, metadata=metadata, status=status)


class Sources(Protocol):
    """The source of each collection. Raises KeyError for one that the operator has not declared."""

    def of(self, collection: Collection[T]) -> Source[T]: ...


class OtherSources(Sources, Protocol):
    """The sources of another cluster than that of the operator."""

    @property
    def state(self) -> Question:
        """Whether the cluster is of use."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing can be asked of the cluster now; empty: it answers."""
        ...

    def kind(self, gvk: GroupVersionKind, *, any_version: bool = False) -> Load[Resource]:
        """What finds out where objects of a kind are served; with `any_version` in another one if need be."""
        ...


class Clusters(Protocol):
    """Other clusters than that of the operator."""

    def on(self, cluster: Kubeconfig) -> OtherSources:
        """The sources of a cluster. Raises NotKnown: it cannot be opened."""
        ...


class NoClusters:
    """There is no other cluster to look at."""

    def on(self, cluster: Kubeconfig) -> OtherSources:
        """As `Clusters.on`: raises NotKnown."""
        raise NotKnown(f"the cluster of Secret {cluster.secret}", "no other cluster is looked at here")


@dataclass(slots=True)
class Overlay:
    """What the API server has answered to the writes of this pass; None: the object is gone."""

    answers: dict[Collection[Any], dict[ObjectKey, Any]] = field(default_factory=dict)
    clusters: dict[Kubeconfig, Overlay] = field(default_factory=dict)
    """The same of other clusters."""

    def on(self, cluster: Kubeconfig | None) -> Overlay:
        """The part of a cluster; None: that of the operator."""
        return self if cluster is None else self.clusters.setdefault(cluster, Overlay())

    def put(self, collection: Collection[T], obj: T) -> None:
        """There is this object."""
        self.answers.setdefault(collection, {})[obj.key] = obj

    def remove(self, collection: Collection[T], key: ObjectKey) -> None:
        """There is no such object."""
        self.answers.setdefault(collection, {})[key] = None

    def of(self, collection: Collection[T]) -> Mapping[ObjectKey, T | None]:
        """What was put and removed."""
        return self.answers.get(collection, {})


@dataclass(slots=True, kw_only=True)
class View:
    """The questions of one step."""

    sources: Sources
    now: datetime
    """For what is written down. It wakes no object: to depend on the time, ask `is_past`."""
    settings: tuple[object, ...] = ()
    """What the process was started with. It never changes, so it wakes no object."""
    overlay: Overlay = field(default_factory=Overlay)
    asked: list[Question] = field(default_factory=list)
    due: datetime | None = None
    """When the next of the asked deadlines passes."""
    seen: set[tuple[Kubeconfig | None, Collection[Any], ObjectKey]] = field(default_factory=set)
    """The objects that were asked for or found: what may be waited for."""
    loads: LoadSource = field(default_factory=PlainLoads)
    """Values that need a request."""
    confidential: dict[str, Callable[[], Iterable[str]]] = field(default_factory=dict)
    """The secret words that were read, by what they were loaded from."""
    clusters: Clusters = field(default_factory=NoClusters)
    home: View | None = None
    """Of a view of another cluster: the view of the pass, which has its deadlines and loads."""
    cluster: Kubeconfig | None = None
    """The other cluster that is looked at; None: that of the operator."""
    others: OtherSources | None = None
    """Its sources."""
    other: View | None = None
    """The view of the other cluster that was asked for."""
    is_abroad: bool = False
    """Whether another cluster was asked for."""
    is_unknown: bool = False
    """Whether the decision ended for something that is not known."""
    _answers: dict[object, Any] = field(default_factory=dict)

    @overload
    def get(self, collection: Collection[T], key: ObjectKey) -> Known[T]: ...
    @overload
    def get(self, collection: Collection[T], key: ObjectKey, aspect: Callable[[T], A]) -> Known[A]: ...
    def get(self, collection: Collection[T], key: ObjectKey, aspect: Callable[[T], Any] = whole) -> Known[Any]:
        """An aspect of the object under a key."""
        asked = (collection.by_key, str(key), aspect)
        if asked not in self._answers:
            source = self.sources.of(collection)
            question = source.question(*asked)
            self.asked.append(question)
            self.seen.add((self.cluster, collection, key))
            written = self.overlay.of(collection)
            if key in written:
                own = written[key]
                answer: Known[Any] = ABSENT if own is None else Present(aspect(own))
            else:
                found = source.get(key)
                answer = Present(question.of(found.value), found.doubt) if isinstance(found, Present) else found
            self._answers[asked] = answer
        return cast("Known[Any]", self._answers[asked])

    @overload
    def find(self, collection: Collection[T], key: ObjectKey) -> T | None: ...
    @overload
    def find(self, collection: Collection[T], key: ObjectKey, aspect: Callable[[T], A]) -> A | None: ...
    def find(self, collection: Collection[T], key: ObjectKey, aspect: Callable[[T], Any] = whole) -> Any:
        """As `get`; None if there is no object. Raises NotKnown."""
        match self.get(collection, key, aspect):
            case Present(value):
                return value
            case Unknown(why):
                raise self._missing(f"{collection.resource.kind} {key}", why)
            case _:
                return None

    @overload
    def by(self, index: Index[T], value: str) -> Listing[T]: ...
    @overload
    def by(self, index: Index[T], value: str, aspect: Callable[[T], A]) -> Listing[A]: ...
    def by(self, index: Index[T], value: str, aspect: Callable[[T], Any] = whole) -> Listing[Any]:
        """An aspect of each object that an index has under a value, in the order of their keys.

        Raises NotKnown if the objects are not listed.
        """
        asked = (index, value, aspect)
        if asked not in self._answers:
            source = self.sources.of(index.collection)
            question = source.question(*asked)
            self.asked.append(question)
            listing, written = source.by(index, value), self.overlay.of(index.collection)
            found = {each.key: question.of(each) for each in listing.values if each.key not in written}
            own = (each for each in written.values() if each is not None and value in index.of(each))
            found.update((each.key, aspect(each)) for each in own)
            unknown = {each.key: each for each in listing.unknown if each.key not in written}
            self.seen.update((self.cluster, index.collection, key) for key in (*found, *unknown))
            ordered = tuple(found[key] for key in sorted(found))  # the order of a cache is that of its events
            self._answers[asked] = Listing(ordered, tuple(unknown[key] for key in sorted(unknown)), listing.why)
        listed = cast("Listing[Any]", self._answers[asked])
        if listed.why:
            raise self._missing(f"objects of kind {index.collection.resource.kind}", listed.why)
        return listed

    @overload
    def all(self, index: Index[T], value: str) -> tuple[T, ...]: ...
    @overload
    def all(self, index: Index[T], value: str, aspect: Callable[[T], A]) -> tuple[A, ...]: ...
    def all(self, index: Index[T], value: str, aspect: Callable[[T], Any] = whole) -> tuple[Any, ...]:
        """As `by`, if there can be no others. Raises NotKnown."""
        listing = self.by(index, value, aspect)
        if listing.unknown:
            unknown = listing.unknown[0]
            raise self._missing(str(unknown.ref), f"it cannot be read: {unknown.why}")
        return listing.values

    def _missing(self, what: str, why: str) -> NotKnown:
        if self.cluster is None:
            return NotKnown(what, why)
        return NotKnown(f"{what} in the cluster of Secret {self.cluster.secret}", why, is_abroad=True)

    def setting(self, kind: type[A]) -> A:
        """The settings of this class. Raises StopIteration if the process has none: a bug."""
        return next(each for each in self.settings if isinstance(each, kind))

    def load(self, load: Load[A]) -> Known[A]:
        """A value that needs a request: Unknown until it is loaded, which wakes the object."""
        if self.home is not None:
            return self.home.load(load)
        if load not in self._answers:
            self.asked.append(self.loads.question(load))
            found = self._answers[load] = self.loads.get(load)
            if isinstance(found, Present) and isinstance(load, Confidential):
                self.confidential[load.about] = partial(load.words, found.value)
        return cast("Known[A]", self._answers[load])

    def kind(self, gvk: GroupVersionKind, *, any_version: bool = False) -> Known[Resource]:
        """Where another cluster serves objects of a kind. Unknown, and refused, while it serves none.

        With `any_version` in another version, if the cluster does not serve this one: for objects that are to go.
        """
        assert self.others is not None, "an operator knows the kinds of its own cluster"
        built_in = discovery.built_in(gvk)
        return Present(built_in) if built_in is not None else self.load(self.others.kind(gvk, any_version=any_version))

    def serves(self, collection: Collection[T]) -> bool:
        """Whether the kind is served."""
        source = self.sources.of(collection)
        self.asked.append(source.question(collection.by_key, "", None))
        return source.serves()

    def is_past(self, moment: datetime) -> bool:
        """Whether a moment is over; the object is awakened when it is."""
        if self.home is not None:
            return self.home.is_past(moment)
        if moment <= self.now:
            return True
        self.due = moment if self.due is None else min(self.due, moment)
        return False

    def on(self, cluster: Kubeconfig) -> View:
        """The same questions about another cluster: one for each object, which leaves a former one.

        While the cluster does not answer, what is not in its caches is Unknown. Raises NotKnown if it cannot be opened,
        because its login is invalid or it showed too much, and the object is awakened after a minute to try again; and
        if it does not answer or refuses the login, and the object is awakened when that is over.
        """
        if self.other is not None and self.other.cluster == cluster:
            return self.other
        assert self.home is None, "this is another cluster"
        assert self.other is None, "an object has one other cluster"
        self.is_abroad = True
        try:
            sources = self.clusters.on(cluster)
        except NotKnown:
            self.is_past(self.now + REOPENED_AFTER)
            raise
        self.asked.append(sources.state)
        if sources.trouble:
            raise NotKnown(f"the cluster of Secret {cluster.secret}", sources.trouble)
        self.other = View(
            sources=sources,
            others=sources,
            now=self.now,
            settings=self.settings,
            overlay=self.overlay.on(cluster),
            asked=self.asked,
            seen=self.seen,
            home=self,
            cluster=cluster,
        )
        return self.other


class PlainSources:
    """Plain values as sources. A collection that was not added has no objects."""

    def __init__(self, trouble: str = "") -> None:
        """`trouble`: of another cluster, why nothing can be asked of it."""
        self.trouble = trouble
        self.state = Question(self)
        self._sources: dict[Collection[Any], PlainSource[Any]] = {}

    def add(self, collection: Collection[T], source: PlainSource[T]) -> PlainSources:
        """Have a source answer for a collection. Returns these sources."""
        self._sources[collection] = source
        return self

    def of(self, collection: Collection[T]) -> Source[T]:
        """As `Sources.of`; each collection counts as declared."""
        return cast("Source[T]", self._sources.setdefault(collection, PlainSource()))

    def kind(self, gvk: GroupVersionKind, *, any_version: bool = False) -> Load[Resource]:
        """As `OtherSources.kind`: the resource is to be among the given loads."""
        return ServedKind("", gvk, any_version=any_version)

    def drop(self, question: Question) -> None:
        """As `Answering.drop`: there is nothing to do."""


class PlainClusters:
    """Other clusters as plain values: for tests. One that was not given cannot be opened."""

    def __init__(self, clusters: Mapping[Kubeconfig, OtherSources]) -> None:
        self._clusters = clusters

    def on(self, cluster: Kubeconfig) -> OtherSources:
        """As `Clusters.on`."""
        if cluster not in self._clusters:
            raise NotKnown(f"the cluster of Secret {cluster.secret}", "its login is invalid")
        return self._clusters[cluster]
