"""An indexed cache of objects: pure, synchronous, always consistent.

Everything runs on the event loop's thread and nothing here awaits, so a reader never sees half a change and no lock is
needed. An index is a function from an object to the values it can be found by; its answer is computed again when an
object leaves, not remembered: objects are immutable, and a remembered answer would cost more memory than the object's
own key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Generic, TypeVar, cast

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata
from stellwerk.runtime.cache.shared_strings import share
from stellwerk.runtime.supervision.tasks import surprise
from stellwerk.runtime.telemetry import logs

T = TypeVar("T", bound=HasMetadata)

_log = logging.getLogger(__name__)


class Store(Generic[T]):
    """The objects of one watch, by key and by the indices that were asked for.

    Readers get the objects themselves; they are immutable. Only the informer that owns the store writes.
    """

    def __init__(self) -> None:
        self._objects: dict[ObjectKey, T] = {}
        self._indices: dict[str, _Index[T]] = {}

    def get(self, key: ObjectKey) -> T | None:
        """The object under a key, or None."""
        return self._objects.get(key)

    def all(self) -> tuple[T, ...]:
        """All objects as of now. What changes while the caller awaits is not in it: no caller has to copy."""
        return tuple(self._objects.values())

    def by(self, index: str, value: str) -> Sequence[T]:
        """The objects that an index knows under a value, in order of arrival. Raises KeyError: no such index."""
        return self._indices[index].find(value)

    def counts(self, index: str) -> Mapping[str, int]:
        """How many objects an index knows under each value. Takes as long as there are values, however many objects.

        Raises KeyError: no such index.
        """
        return self._indices[index].counts()

    def add_index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """Make objects findable by `values_of(object)`; those already here are included.

        Adding the same function again changes nothing. Raises ValueError when the name belongs to another function.
        """
        known = self._indices.get(name)
        if known is not None:
            if known.values_of is not values_of:
                raise ValueError(f"index {name!r} already names another function")
            return
        index = self._indices[name] = _Index(name, values_of)
        for obj in self._objects.values():
            index.add(obj)

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._objects

    def replace(self, objects: Iterable[T]) -> Mapping[ObjectKey, T]:
        """Hold exactly these objects from now on. Returns what was held before."""
        steps = self.replacing({obj.key: obj for obj in objects})
        while True:
            try:
                next(steps)
            except StopIteration as done:
                return cast(Mapping[ObjectKey, T], done.value)

    def replacing(self, objects: dict[ObjectKey, T]) -> Generator[None, None, Mapping[ObjectKey, T]]:
        """As `replace`, step by step; readers see what was held before until the last step."""
        indices = {name: _Index(name, index.values_of) for name, index in self._indices.items()}
        for obj in objects.values():
            share(obj)
            for index in indices.values():
                index.add(obj)
            yield
        added = {name: index.values_of for name, index in self._indices.items() if name not in indices}
        before, self._objects, self._indices = self._objects, objects, indices
        for name, values_of in added.items():
            self.add_index(name, values_of)
        return before

    def put(self, obj: T) -> T | None:
        """Hold an object in place of the one with its key. Returns that one."""
        share(obj)
        old = self.remove(obj.key) if self._indices else self._objects.get(obj.key)
        self._objects[obj.key] = obj
        for index in self._indices.values():
            index.add(obj)
        return old

    def remove(self, key: ObjectKey) -> T | None:
        """Let an object go. Returns it, or None when it was not here."""
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indices.values():
                index.discard(old)
        return old


class _Index(Generic[T]):
    """One index: from a value to the objects that have it."""

    def __init__(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        self.name = name
        self.values_of = values_of
        self._found: dict[str, dict[ObjectKey, T]] = {}

    def find(self, value: str) -> Sequence[T]:
        return tuple(self._found.get(value, {}).values())

    def counts(self) -> Mapping[str, int]:
        return {value: len(holders) for value, holders in self._found.items()}

    def add(self, obj: T) -> None:
        key = obj.key  # made at each access: of an object with a thousand values one is enough
        for value in self._values(obj):
            self._found.setdefault(value, {})[key] = obj

    def discard(self, obj: T) -> None:
        for value in self._values(obj):
            holders = self._found.get(value)
            if holders is not None:
                holders.pop(obj.key, None)
                if not holders:
                    del self._found[value]

    def _values(self, obj: T) -> Iterable[str]:
        try:
            return set(self.values_of(obj))
        except BaseException as raised:  # one odd object must not stop the cache for all others
            error = surprise(raised)
            _log.error(
                "index %s cannot read %s; the object is not found by it",
                *(self.name, obj.key),
                exc_info=error,
                extra=logs.STACK,
            )
            return ()
