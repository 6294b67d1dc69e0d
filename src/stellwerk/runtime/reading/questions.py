"""From a change of an object to the passes that asked for it.

A source answers questions about one collection. A question is an index, a value and an aspect; all passes that ask the
same share it. A change compares the aspect of its two sides once for each question, not once for each pass.

Models: istio's `krt`, where a collection is computed again when a result of its `Fetch` changes, and build systems that
track reads, such as Shake.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

import msgspec

from stellwerk.kube.client.client import Target, view_of
from stellwerk.kube.types.identifiers import ObjectKey, Resource
from stellwerk.kube.types.model import HasMetadata, JsonObject, Unreadable, Unstructured
from stellwerk.kube.types.object_meta import ObjectMeta
from stellwerk.runtime.cache.informer import Delta, Informer
from stellwerk.runtime.reading.known import ABSENT, Known, Listing, Present, Unknown

T = TypeVar("T", bound=HasMetadata)

NOT_LISTED = "the objects are not listed yet"
"""Why nothing is known of a collection whose watch has only just begun."""

AT_ONCE = 500
"""How many askers one change wakes before others have the event loop: about two milliseconds of work."""


class Collection(Generic[T]):
    """Objects of a kind in one shape and selection. An operator declares each collection that it reads or writes."""

    def __init__(self, target: Target[T], *, labels: str = "", fields: str = "", optional: bool = False) -> None:
        """`labels`, `fields`: selectors, such as `metadata.name=a`. `optional`: the cluster may not serve the kind."""
        self.target = target
        self.labels = labels
        self.fields = fields
        self.optional = optional
        self.by_key: Index[T] = Index(self, "key", lambda obj: (str(obj.key),), lambda metadata: (_key_of(metadata),))

    @property
    def resource(self) -> Resource:
        """Where the objects are served."""
        return view_of(self.target).resource

    def shaped(self, body: JsonObject) -> T:
        """An object from its fields."""
        shape = view_of(self.target).shape
        if issubclass(shape, Unstructured):
            return cast("T", Unstructured(body, msgspec.convert(body["metadata"], ObjectMeta)))
        return msgspec.convert(body, shape)


@dataclass(frozen=True, eq=False)
class Index(Generic[T]):
    """How objects of a collection are found.

    `maybe` returns the values under which an object may be found of which only the metadata can be read; None: any.
    """

    collection: Collection[T]
    name: str
    of: Callable[[T], Iterable[str]]
    maybe: Callable[[ObjectMeta], Iterable[str] | None] = lambda _: None


class Answering(Protocol):
    """Who answers a question."""

    def drop(self, question: Question) -> None: ...


@dataclass(slots=True, eq=False)
class Question:
    """One question, and who asked it."""

    source: Answering
    _askers: Asker | dict[Asker, None] | None = field(default=None, init=False)
    """Most questions have one asker, which needs no dictionary."""

    @property
    def askers(self) -> Iterable[Asker]:
        """Who asked, in order."""
        askers = self._askers
        return () if askers is None else (askers,) if isinstance(askers, Asker) else askers

    def has(self, asker: Asker) -> bool:
        """Whether the asker still asks this."""
        askers = self._askers
        return asker in askers if isinstance(askers, dict) else asker is askers

    def add(self, asker: Asker) -> None:
        """Wake the asker from now on."""
        if self._askers is None:
            self._askers = asker
        elif isinstance(self._askers, dict):
            self._askers[asker] = None
        elif self._askers is not asker:
            self._askers = {self._askers: None, asker: None}

    def discard(self, asker: Asker) -> None:
        """Wake the asker no longer. A question that no asker has any more leaves its source."""
        if isinstance(self._askers, dict):
            self._askers.pop(asker, None)
        elif self._askers is asker:
            self._askers = None
        if not self._askers:
            self.source.drop(self)


@dataclass(slots=True, eq=False)
class Lookup(Question):
    """A question about a collection."""

    index: Index[Any]
    value: str
    aspect: Callable[[Any], Any] | None
    """None: the question is whether the kind is served."""
    _known: dict[int, tuple[object, object]] | None = field(default=None, init=False)
    """The aspects of objects that are in the source, by the identity of the object, which is kept with its aspect."""

    def of(self, obj: HasMetadata) -> object:
        """The aspect of an object of the source, computed once for all who ask."""
        if self._known is not None and (known := self._known.get(id(obj))) is not None:
            return known[1]
        assert self.aspect is not None, "whether a kind is served is no question about an object"
        value: object = self.aspect(obj)
        if value is not obj:
            self._known = self._known if self._known is not None else {}
            self._known[id(obj)] = (obj, value)
        return value

    def is_changed(self, old: HasMetadata | None, new: HasMetadata | None) -> bool:
        """Whether the aspect of an object differs, which the source has replaced. Its former aspect is forgotten."""
        if self.aspect is None:
            return False
        former = self.of(old) if old is not None else None
        if old is not None and self._known is not None:
            self._known.pop(id(old), None)
        return old is None or new is None or bool(former != self.of(new))


class Asker:
    """An object whose last pass asked questions."""

    __slots__ = ("_wake", "collection", "key", "questions")

    def __init__(self, key: ObjectKey, collection: Collection[Any], wake: Callable[[ObjectKey], None]) -> None:
        """`wake` is called with the key when an answer has changed."""
        self.key = key
        self.collection = collection
        self._wake = wake
        self.questions: tuple[Question, ...] = ()

    def wake(self) -> None:
        """Ask for a pass."""
        self._wake(self.key)

    def keep(self, asked: Iterable[Question], *, is_complete: bool = True) -> None:
        """From now on a changed answer to these questions wakes.

        A pass that did not come to its end keeps the former questions as well: it may not have asked all of its own.
        """
        former = self.questions
        new = tuple(dict.fromkeys(asked if is_complete else (*asked, *former)))
        if new == former:
            return
        self.questions = new
        for question in new:
            question.add(self)
        kept = {*new}
        for question in former:
            if question not in kept:
                question.discard(self)


class Wakes:
    """Asks for the passes that a change is due to, a slice at a time.

    A specification of an application wakes thousands of tenants. The first slice is awakened at once, so that a small
    number needs no turn of the event loop.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Question, Asker]] = deque()
        self._turn: asyncio.Handle | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no object waits to be awakened."""
        return not self._waiting

    def wake(self, question: Question, changed: tuple[Collection[Any], ObjectKey] | None = None) -> None:
        """Wake all who asked. `changed`: the object that has changed, whose own changes wake it in any case."""
        for asker in question.askers:
            if changed is None or (asker.collection, asker.key) != changed:
                self._waiting.append((question, asker))
        if self._turn is None:
            self._slice()

    def _slice(self) -> None:
        self._turn = None
        for _ in range(min(AT_ONCE, len(self._waiting))):
            question, asker = self._waiting.popleft()
            if question.has(asker):  # its later pass may ask otherwise
                asker.wake()
        if self._waiting:
            self._turn = asyncio.get_running_loop().call_soon(self._slice)


class Source(Protocol[T]):
    """Answers questions about one collection."""

    def get(self, key: ObjectKey) -> Known[T]: ...
    def by(self, index: Index[T], value: str) -> Listing[T]: ...
    def serves(self) -> bool: ...
    def question(self, index: Index[T], value: str, aspect: Callable[[Any], Any] | None) -> Lookup: ...
    def drop(self, question: Question) -> None: ...


class InformerSource(Generic[T]):
    """Answers from the store of an informer."""

    def __init__(
        self,
        collection: Collection[T],
        informer: Informer[T],
        wakes: Wakes,
        on_unasked: Callable[[Collection[Any]], None] = lambda _: None,
    ) -> None:
        """`wakes` is shared by the sources of a cluster. `on_unasked` is called when no pass asks anything any more."""
        self._on_unasked = on_unasked
        self.collection = collection
        self.informer = informer
        self._wakes = wakes
        self._questions: dict[Index[T], dict[str, tuple[Lookup, ...]]] = {}
        """By index and value; those of a tuple differ in their aspect."""
        self._unreadable: dict[ObjectKey, Unreadable] = {}
        informer.on_change(self._on_change)
        informer.on_unreadable(self._on_unreadable)
        informer.on_state(self._on_state)

    def get(self, key: ObjectKey) -> Known[T]:
        """The object under a key."""
        informer = self.informer
        why = "" if self._shows_all else self._doubt() or NOT_LISTED
        found = _known(informer.store.get(key), informer.unreadable.get(key), self._doubt(), why)
        return replace(found, is_refused=informer.is_forbidden) if isinstance(found, Unknown) else found

    def by(self, index: Index[T], value: str) -> Listing[T]:
        """The objects that an index has under a value. The index must be that of a question that was asked."""
        informer = self.informer
        why = "" if self._shows_all else self._doubt() or NOT_LISTED
        unknown = _perhaps(index, value, informer.unreadable, informer.store.get)
        return Listing(tuple(informer.store.by(index.name, value)), unknown, why)

    def serves(self) -> bool:
        """Whether the kind is served, as far as is known."""
        parked = self.informer.parked
        return parked is None or not parked.is_not_served

    def question(self, index: Index[T], value: str, aspect: Callable[[Any], Any] | None) -> Lookup:
        """The question that all share who ask this."""
        if index not in self._questions:
            if index is not self.collection.by_key:
                self.informer.store.add_index(index.name, index.of)
            self._questions[index] = {}
        by_value = self._questions[index]
        asked = by_value.get(value, ())
        for question in asked:
            if question.aspect is aspect:
                return question
        question = Lookup(self, index, value, aspect)
        by_value[value] = (*asked, question)
        return question

    def drop(self, question: Question) -> None:
        """No pass asks this any more."""
        assert isinstance(question, Lookup)
        by_value = self._questions[question.index]
        left = tuple(each for each in by_value[question.value] if each is not question)
        if left:
            by_value[question.value] = left
            return
        del by_value[question.value]
        if not by_value:
            del self._questions[question.index]
        if not self._questions:
            self._on_unasked(self.collection)

    @property
    def _shows_all(self) -> bool:
        return self.informer.shows_all and not self.informer.is_forbidden

    def _doubt(self) -> str:
        return self.informer.parked.why if self.informer.parked is not None else ""

    def _on_change(self, delta: Delta[T]) -> None:
        old, new, changed = delta.old, delta.new, (self.collection, delta.key)
        for index, by_value in self._questions.items():
            was = {*index.of(old)} if old is not None else set[str]()
            now = {*index.of(new)} if new is not None else set[str]()
            for value in was | now:
                for question in by_value.get(value, ()):
                    if question.is_changed(old if value in was else None, new if value in now else None):
                        self._wakes.wake(question, changed)

    def _on_unreadable(self, key: ObjectKey, unreadable: Unreadable | None) -> None:
        former = self._unreadable.pop(key, None)
        if unreadable is not None:
            self._unreadable[key] = unreadable
        known = [each.metadata for each in (former, unreadable) if each is not None]
        for index, by_value in self._questions.items():
            maybe = [index.maybe(metadata) for metadata in known]
            values = by_value if None in maybe else {value for each in maybe for value in each or ()}
            for question in (each for value in values for each in by_value.get(value, ())):
                self._wakes.wake(question, (self.collection, key))

    def _on_state(self) -> None:
        for by_value in self._questions.values():
            for question in (each for asked in by_value.values() for each in asked):
                self._wakes.wake(question)


class NamespacedSource(Generic[T]):
    """Answers from informers of one namespace each. Objects are asked for by key.

    The informer of a namespace may be replaced by another one: later questions go to that one.
    """

    def __init__(self, collection: Collection[T], informer_of: Callable[[str], Informer[T]], wakes: Wakes) -> None:
        """`informer_of` returns the informer of a namespace as it is now."""
        self._collection, self._informer_of, self._wakes = collection, informer_of, wakes
        # An informer keeps its source, so the source of a watch that has ended goes with it.
        self._sources: WeakValueDictionary[str, InformerSource[T]] = WeakValueDictionary()

    def get(self, key: ObjectKey) -> Known[T]:
        """As `InformerSource.get`."""
        return self._of(key.namespace).get(key)

    def by(self, index: Index[T], value: str) -> Listing[T]:
        """As `InformerSource.by`, for the index of keys."""
        return self._of(_namespace_of(value)).by(index, value)

    def serves(self) -> bool:
        """As `InformerSource.serves`: no namespace is watched for that alone."""
        return True

    def question(self, index: Index[T], value: str, aspect: Callable[[Any], Any] | None) -> Lookup:
        """As `InformerSource.question`."""
        assert index is self._collection.by_key, "a namespace is known by the key alone"
        return self._of(_namespace_of(value)).question(index, value, aspect)

    def drop(self, question: Question) -> None:
        """As `InformerSource.drop`: each question belongs to the source of its namespace."""
        question.source.drop(question)

    def _of(self, namespace: str) -> InformerSource[T]:
        informer, source = self._informer_of(namespace), self._sources.get(namespace)
        if source is None or source.informer is not informer:
            source = self._sources[namespace] = InformerSource(self._collection, informer, self._wakes)
        return source


class PlainSource(Generic[T]):
    """Answers from plain values: for tests, and for what was read with the rights of a user."""

    def __init__(
        self,
        objects: Iterable[T] = (),
        unreadable: Iterable[Unreadable] = (),
        *,
        is_served: bool = True,
        why: str = "",
    ) -> None:
        """`why` the objects are not known; empty if they are."""
        self.objects: Mapping[ObjectKey, T] = {each.key: each for each in objects}
        self.unreadable = {each.key: each for each in unreadable}
        self.is_served = is_served
        self.why = why

    def get(self, key: ObjectKey) -> Known[T]:
        """As `InformerSource.get`."""
        return _known(self.objects.get(key), self.unreadable.get(key), "", self.why)

    def by(self, index: Index[T], value: str) -> Listing[T]:
        """As `InformerSource.by`."""
        found = tuple(each for each in self.objects.values() if value in index.of(each))
        return Listing(found, _perhaps(index, value, self.unreadable, self.objects.get), self.why)

    def serves(self) -> bool:
        """Whether the kind is served."""
        return self.is_served

    def question(self, index: Index[T], value: str, aspect: Callable[[Any], Any] | None) -> Lookup:
        """A question that is not shared, because nothing changes here."""
        return Lookup(self, index, value, aspect)

    def drop(self, question: Question) -> None:
        """As `InformerSource.drop`: there is nothing to do."""


def _known(obj: T | None, unreadable: Unreadable | None, doubt: str, why: str) -> Known[T]:
    """What is known of an object. `why` there may be one although none is shown; empty if there cannot."""
    if obj is not None:
        return Present(obj, unreadable.why if unreadable is not None else doubt)
    if unreadable is not None:
        return Unknown(f"it cannot be read: {unreadable.why}")
    return Unknown(why) if why else ABSENT


def _perhaps(
    index: Index[T],
    value: str,
    unreadable: Mapping[ObjectKey, Unreadable],
    readable: Callable[[ObjectKey], object | None],
) -> tuple[Unreadable, ...]:
    """The objects that cannot be read, have no former content, and may be found under a value."""
    return tuple(
        each
        for key, each in unreadable.items()
        if readable(key) is None and ((values := index.maybe(each.metadata)) is None or value in values)
    )


def _namespace_of(value: str) -> str:
    """The namespace of a value of the index of keys."""
    return value.partition("/")[0]


def _key_of(metadata: ObjectMeta) -> str:
    return str(ObjectKey(metadata.namespace, metadata.name))
