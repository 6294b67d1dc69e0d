"""How much the passes on large Components hold in memory at the same time, per tenant and in all (R-411).

A rendering may have 32 MiB, and its objects take ten times as much while a pass applies them. A tenant has a dozen
passes under way, so the bound on one rendering bounds neither the tenant nor the process. Here a tenant has a number of
bytes for its large passes, or one pass, and all tenants together have another number. A Component that finds no room
ends its pass, and is woken when there is room.

How large a rendering is shows when it is there. A Component without room for it drops it, and its next pass waits for
room before it renders. Small renderings are not counted: nearly all are, and to count them would only cost time.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from stellwerk.kube.types.identifiers import ObjectKey

SMALL_BYTES = 2**20
"""A pass that holds less is not counted."""
MOST_BYTES, MOST_BYTES_OF_TENANT = 128 * 2**20, 32 * 2**20
"""As JSON, of renderings and of what they were made from."""


class NoRoom(Exception):
    """Other large Components are at work; the Component is woken when there is room."""


@dataclass(slots=True, kw_only=True)
class Weights:
    """What passes under way hold. `wake` is called with the Components for which there may be room."""

    wake: Callable[[Iterable[ObjectKey]], None]
    most: int = MOST_BYTES
    most_of_tenant: int = MOST_BYTES_OF_TENANT
    _known: dict[ObjectKey, int] = field(default_factory=dict)
    """What the last pass on each large Component held."""
    _held: dict[ObjectKey, int] = field(default_factory=dict)
    _tenants: Counter[str] = field(default_factory=Counter)
    _waiting: OrderedDict[ObjectKey, None] = field(default_factory=OrderedDict)

    @contextmanager
    def passing(self, key: ObjectKey) -> Iterator[None]:
        """A pass on a Component, in which `enter` and `hold` may be called."""
        try:
            yield
        finally:
            self._release(key)

    def enter(self, key: ObjectKey) -> None:
        """Hold what the last pass held. Raises `NoRoom`."""
        self.hold(key, self._known.get(key, 0))

    def hold(self, key: ObjectKey, weight: int) -> None:
        """The pass holds so many bytes. Raises `NoRoom`."""
        self._waiting.pop(key, None)
        self._drop(key)
        if weight < SMALL_BYTES:
            self._known.pop(key, None)
            return
        self._known[key] = weight
        if not self._has_room(key, weight):
            self._waiting[key] = None
            raise NoRoom
        self._held[key] = weight
        self._tenants[key.namespace] += weight

    def weight_of(self, key: ObjectKey) -> int:
        """What the last pass on a Component held; 0 where that was little."""
        return self._known.get(key, 0)

    def forget(self, key: ObjectKey) -> None:
        """The Component is gone."""
        self._known.pop(key, None)
        self._waiting.pop(key, None)
        self._release(key)

    def _has_room(self, key: ObjectKey, weight: int) -> bool:
        of_tenant, of_all = self._tenants[key.namespace], sum(self._tenants.values())
        return (not of_tenant or of_tenant + weight <= self.most_of_tenant) and (
            not of_all or of_all + weight <= self.most
        )

    def _drop(self, key: ObjectKey) -> bool:
        weight = self._held.pop(key, 0)
        self._tenants[key.namespace] -= weight
        if not self._tenants[key.namespace]:
            del self._tenants[key.namespace]
        return bool(weight)

    def _release(self, key: ObjectKey) -> None:
        """The pass has ended: those that fit now, all together, are woken, the longest waiting first."""
        if not self._drop(key):
            return
        tenants, woken = self._tenants.copy(), []
        for one in self._waiting:
            if self._has_room(one, self._known[one]):
                self._tenants[one.namespace] += self._known[one]
                woken.append(one)
        self._tenants = tenants
        self.wake(woken)
