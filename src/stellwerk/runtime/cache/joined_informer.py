"""One cache over several namespaces: an informer in each, shown to readers as one.

For an operator whose rights end at some namespaces: a watch of all namespaces is forbidden to it. Each part lists,
resumes, audits and parks for itself, and knows its own writes; so nothing in it depends on the others. We refused one
store that several watches fill: the versions of two streams cannot be compared, so a pass could go on before the store
shows its own write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TypeVar

from stellwerk.kube.types.identifiers import ObjectKey
from stellwerk.kube.types.model import HasMetadata, Unreadable, View
from stellwerk.kube.watch.watch_states import WatchSuspended
from stellwerk.runtime.cache.common_history import CommonHistory
from stellwerk.runtime.cache.informer import Handler, Informer, Selection, UnreadableHandler, selection_name
from stellwerk.runtime.cache.read_your_writes import OwnChange
from stellwerk.runtime.cache.store import Store

T = TypeVar("T", bound=HasMetadata)


class JoinedStore(Store[T]):
    """The stores of the parts as one, for readers. What is in none of the namespaces is not there."""

    def __init__(self, stores: Mapping[str, Store[T]]) -> None:
        """`stores`: by namespace."""
        super().__init__()
        self._stores = stores

    def get(self, key: ObjectKey) -> T | None:
        """The object under a key, or None."""
        store = self._stores.get(key.namespace)
        return store.get(key) if store is not None else None

    def all(self) -> tuple[T, ...]:
        """All objects as of now."""
        return tuple(chain.from_iterable(store.all() for store in self._stores.values()))

    def by(self, index: str, value: str) -> Sequence[T]:
        """The objects that an index knows under a value. Raises KeyError: no such index."""
        return tuple(chain.from_iterable(store.by(index, value) for store in self._stores.values()))

    def add_index(self, name: str, values_of: Callable[[T], Iterable[str]]) -> None:
        """Make objects findable by `values_of(object)`. Raises ValueError when the name belongs to another function."""
        for store in self._stores.values():
            store.add_index(name, values_of)

    def __len__(self) -> int:
        return sum(map(len, self._stores.values()))

    def __contains__(self, key: ObjectKey) -> bool:
        return self.get(key) is not None


class JoinedInformer(Informer[T]):
    """The informers of some namespaces as one. Made by a `Cluster`, which runs the parts; it has no watch itself."""

    def __init__(
        self,
        view: View[T],
        parts: Mapping[str, Informer[T]],
        history: CommonHistory,
        is_ending: Callable[[str], bool] = lambda namespace: False,
    ) -> None:
        """`parts`: by namespace, all with the same selectors. `is_ending`: whether a namespace is absent, or is being
        deleted: a part that is parked there hides nothing.
        """
        self._is_ending = is_ending
        selectors = next((part.selection for part in parts.values()), Selection())
        self.view = view
        self.parts = parts
        self.history = history
        self.selection = selectors._replace(namespace="")
        self.name = selection_name(view.resource.group_resource, *self.selection)
        self.store = JoinedStore({namespace: part.store for namespace, part in parts.items()})

    def part(self, namespace: str) -> Informer[T]:
        """The informer of a namespace; this one for a namespace that is not watched."""
        return self.parts.get(namespace, self)

    def _counted(self) -> Iterator[Informer[T]]:
        """The parts without those that are parked because their namespace ends."""
        return (part for name, part in self.parts.items() if part.parked is None or not self._is_ending(name))

    def on_change(self, handler: Handler[T]) -> None:
        """As with one informer."""
        for part in self.parts.values():
            part.on_change(handler)

    def on_unreadable(self, handler: UnreadableHandler) -> None:
        """As with one informer."""
        for part in self.parts.values():
            part.on_unreadable(handler)

    def on_served(self, handler: Callable[[], None]) -> None:
        """Call the handler whenever one of the parts is full after it was parked."""
        for part in self.parts.values():
            part.on_served(handler)

    def on_parked(self, handler: Callable[[], None]) -> None:
        """Call the handler when one of the parts is watched no longer."""
        for part in self.parts.values():
            part.on_parked(handler)

    def on_state(self, handler: Callable[[], None]) -> None:
        """Call the handler whenever the state of one of the parts changes."""
        for part in self.parts.values():
            part.on_state(handler)

    @property
    def unreadable(self) -> Mapping[ObjectKey, Unreadable]:
        """The objects that exist and cannot be decoded."""
        return {key: obj for part in self.parts.values() for key, obj in part.unreadable.items()}

    @property
    def hidden(self) -> list[ObjectKey]:
        """The objects that exist and could not be decoded so far."""
        return [key for part in self.parts.values() for key in part.hidden]

    def seen(self) -> Iterator[HasMetadata]:
        """Every object in the version that its watch has shown last."""
        return chain.from_iterable(part.seen() for part in self.parts.values())

    @property
    def has_synced(self) -> bool:
        """Whether each part holds its whole list, and the kind is served now."""
        return all(part.has_synced for part in self._counted())

    @property
    def is_filled(self) -> bool:
        """Whether each part has held its whole list once."""
        return all(part.is_filled for part in self._counted())

    @property
    def shows_all(self) -> bool:
        """Whether each part shows all objects of its namespace."""
        return all(part.shows_all for part in self._counted())

    @property
    def parked(self) -> WatchSuspended | None:
        """Why a part is not watched at the moment; a missing right counts before a kind that is not served."""
        parked = [part.parked for part in self._counted() if part.parked is not None]
        return min(parked, key=lambda each: each.is_not_served, default=None)

    async def wait_synced(self) -> None:
        """Return when each part holds its whole list."""
        for part in self.parts.values():
            await part.wait_synced()

    async def wait_complete(self) -> None:
        """Return when each part shows all objects of its namespace."""
        for part in self.parts.values():
            await part.wait_complete()

    async def wait_settled(self) -> None:
        """Return when each part is full, or when it is known why it cannot be."""
        for part in self.parts.values():
            await part.wait_settled()

    def stale_seconds(self) -> float:
        """The seconds since the last message of the server to the part that is silent for longest."""
        return max((part.stale_seconds() for part in self.parts.values()), default=0.0)

    def silent_seconds(self) -> float:
        """As `stale_seconds`, counting a refusal that is about this kind."""
        return max((part.silent_seconds() for part in self.parts.values()), default=0.0)

    def wake(self) -> None:
        """Try parked parts at once."""
        for part in self.parts.values():
            part.wake()

    def list_again(self) -> None:
        """Replace all that the parts hold by new lists."""
        for part in self.parts.values():
            part.list_again()

    def expect(self, key: ObjectKey, resource_version: str) -> None:
        """Note an own write, in the part that will show it."""
        if (part := self.parts.get(key.namespace)) is not None:
            part.expect(key, resource_version)

    def expect_end(self, obj: HasMetadata) -> None:
        """Note that an own write was the end of this object, in the part that will show it."""
        if (part := self.parts.get(obj.metadata.namespace)) is not None:
            part.expect_end(obj)

    def expected(self, key: ObjectKey) -> OwnChange | None:
        """The write to this key that its part does not show yet, or None."""
        part = self.parts.get(key.namespace)
        return part.expected(key) if part is not None else None

    def expect_nothing(self) -> None:
        """No key is held back any more by an own write."""
        for part in self.parts.values():
            part.expect_nothing()

    async def wait_for(self, key: ObjectKey, resource_version: str, timeout: float) -> None:
        """Return when the part of the key shows at least this version. Raises TimeoutError after `timeout` seconds."""
        if (part := self.parts.get(key.namespace)) is not None:
            await part.wait_for(key, resource_version, timeout)
