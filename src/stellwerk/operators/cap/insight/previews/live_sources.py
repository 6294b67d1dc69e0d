"""What a pass asks, read with the rights of a user: `diff` runs the very `decide` of the operator on it."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from stellwerk.kube.client.client import Client
from stellwerk.kube.types.errors import Forbidden, NotServed
from stellwerk.kube.types.model import HasMetadata
from stellwerk.runtime.reading.questions import Collection, PlainSource, Source

T = TypeVar("T", bound=HasMetadata)


class LiveSources:
    """Sources that note what is asked for, and list it: in one namespace, or everywhere if the kind has none.

    `decide` is synchronous, and reading is not. So it runs, what it asked for is loaded, and it runs again.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client, self._namespace = client, namespace
        self._loaded: dict[Collection[Any], PlainSource[Any]] = {}
        self._missing: set[Collection[Any]] = set()

    def of(self, collection: Collection[T]) -> Source[T]:
        """As `Sources.of`."""
        if collection not in self._loaded:
            self._missing.add(collection)
            return PlainSource[T](why="it is not loaded yet")
        return cast("Source[T]", self._loaded[collection])

    async def load(self) -> bool:
        """Load what was asked for since the last call. Returns whether that was anything. Raises ApiError."""
        missing, self._missing = self._missing, set()
        for each in missing:
            namespace = self._namespace if each.resource.namespaced else ""
            try:
                found = await self._client.list(each.target, namespace, labels=each.labels, skip_unreadable=True)
            except NotServed:
                self._loaded[each] = PlainSource[Any](is_served=False)
            except Forbidden as error:
                self._loaded[each] = PlainSource[Any](why=str(error))
            else:
                self._loaded[each] = PlainSource(found.items, found.unreadable)
        return bool(missing)
