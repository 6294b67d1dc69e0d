"""Values kept in memory while they are used, up to a weight.

What was used longest ago goes first, and what was not used for a while goes too: content that is not used any more
may have been decrypted for a tenant, and memory is for new content. A tenant may have a part of the weight only, or
one value: what it keeps beyond that costs its own older values, not those of others.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

LIFE_SECONDS = 3600.0


@dataclass(slots=True)
class _Entry(Generic[V]):
    value: V
    weight: int
    used_at: float
    tenant: str


@dataclass(slots=True)
class _Share(Generic[K]):
    """What one tenant keeps, the key used longest ago first."""

    keys: OrderedDict[K, None] = field(default_factory=OrderedDict)
    weight: int = 0


class Kept(Generic[K, V]):
    """A bounded mapping. A value heavier than `largest` (by default a quarter of all) is not taken."""

    def __init__(
        self,
        capacity: int,
        *,
        now: Callable[[], float],
        life_seconds: float = LIFE_SECONDS,
        largest: int | None = None,
        tenant_capacity: int | None = None,
        on_drop: Callable[[K], None] = lambda key: None,
    ) -> None:
        """`tenant_capacity`: of the values of one tenant, where it has several; by default all.

        `on_drop` gets the keys of values that are kept no longer, whatever the reason.
        """
        self._capacity = capacity
        self._tenant_capacity = capacity if tenant_capacity is None else tenant_capacity
        self._on_drop = on_drop
        self._largest = capacity // 4 if largest is None else largest
        self._life = life_seconds
        self._now = now
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._tenants: dict[str, _Share[K]] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self.weight = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """The value, which counts as used now."""
        self.sweep()
        entry = self._entries.get(key)
        if entry is None:
            return None
        entry.used_at = self._now()
        self._entries.move_to_end(key)
        self._tenants[entry.tenant].keys.move_to_end(key)
        return entry.value

    def put(self, key: K, value: V, weight: int, tenant: str = "") -> None:
        """Keep a value, at the expense of those used longest ago: the tenant's own first."""
        known = self._remove(key)
        if weight > self._largest:
            if known:
                self._on_drop(key)
            return
        self._entries[key] = _Entry(value, weight, self._now(), tenant)
        share = self._tenants.setdefault(tenant, _Share())
        share.keys[key] = None
        share.weight += weight
        self.weight += weight
        while share.weight > self._tenant_capacity and len(share.keys) > 1:
            self.drop(next(iter(share.keys)))
        while self.weight > self._capacity:
            self.drop(next(iter(self._entries)))
        self._watch()

    def drop(self, key: K) -> None:
        """Forget a value, if it is there."""
        if self._remove(key):
            self._on_drop(key)

    def _remove(self, key: K) -> bool:
        entry = self._entries.pop(key, None)
        if entry is None:
            return False
        share = self._tenants[entry.tenant]
        self.weight -= entry.weight
        share.weight -= entry.weight
        del share.keys[key]
        if not share.keys:
            del self._tenants[entry.tenant]
        return True

    def sweep(self) -> None:
        """Forget what was not used for its life."""
        oldest = self._now() - self._life
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if entry.used_at > oldest:
                return
            self.drop(key)

    def clear(self) -> None:
        """Forget everything."""
        for key in [*self._entries]:
            self.drop(key)
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _watch(self) -> None:
        """See to it that an idle process forgets too."""
        if self._alarm is None and self._entries:
            self._alarm = asyncio.get_running_loop().call_later(self._life, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.sweep()
        self._watch()
